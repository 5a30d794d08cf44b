import asyncio
from typing import Any

import pytest

from simulate.fixtures import (
    BUDGETS,
    CLASSES,
    CRDS,
    DEPLOYMENTS,
    GAMES,
    NODES,
    PODS,
    create_game,
    deployment,
    fleet,
    game_crd,
    run_in_member,
    status,
    template,
    workload,
)
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.decide.pods.avoid_list import entries_of
from trimtab.errors import TooManyRequests
from trimtab.simulate.member import SimulatedMember

OURS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
POLICIES = Resource("trimtab.dev", "v1alpha1", "disruptionpolicies", "DisruptionPolicy", namespaced=False)
SELECTOR = {"matchLabels": {"app": "web"}}


def policy(**spec: Any) -> Raw:
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "DisruptionPolicy",
        "metadata": {"name": "default"},
        "spec": spec,
    }


async def evict(member: SimulatedMember, name: str, **annotations: str) -> None:
    prefixed = {f"trimtab.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": name, "namespace": "default", "annotations": prefixed}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    await member.client.submit(PODS, "default", name, "eviction", body)


def budget(name: str = "web", **spec: Any) -> Raw:
    return workload("DisruptionBudget", name, {"target": "Pods", "selector": SELECTOR, **spec}, "trimtab.dev/v1alpha1")


def test_budget_inside_a_cluster_targets_pods_by_default() -> None:
    async def scenario(member: SimulatedMember) -> None:
        body = workload("DisruptionBudget", "web", {"maxUnavailable": 1, "selector": SELECTOR}, "trimtab.dev/v1alpha1")
        assert (await member.client.create(OURS, body))["spec"]["target"] == "Pods"

    run_in_member(scenario)


def test_policy_floors_cap_pod_disruption_budgets_and_set_a_condition() -> None:
    async def scenario(member: SimulatedMember) -> None:
        rate = {"disruptions": 2, "period": "1h"}
        await member.client.create(POLICIES, policy(floors=[{"minMaxUnavailable": 2, "minRate": rate}]))
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        strict = workload("PodDisruptionBudget", "web", {"maxUnavailable": 0, "selector": SELECTOR}, "policy/v1")
        strict["metadata"]["annotations"] = {"trimtab.dev/disruption-rate": "1/1h"}
        await member.client.create(BUDGETS, strict)
        await asyncio.sleep(5)
        (capped,) = [
            one
            for one in (await status(member.client, BUDGETS, "web"))["conditions"]
            if one["type"] == "CappedByPolicy"
        ]
        assert capped["status"] == "True"
        assert capped["message"].endswith("maxUnavailable 2, 2 in 1h")
        for _ in range(2):
            await evict(member, member.pods[0].name)
            await asyncio.sleep(5)
        with pytest.raises(TooManyRequests):
            await evict(member, member.pods[0].name)
        await member.client.delete(POLICIES, "", "default")
        await asyncio.sleep(5)
        after = await member.client.get(BUDGETS, "default", "web")
        assert "trimtab.dev/effective-rate" not in after["metadata"]["annotations"]
        assert all(one["type"] != "CappedByPolicy" for one in after["status"]["conditions"])

    run_in_member(scenario)


def test_budget_distinguishes_voluntary_from_involuntary_disruptions() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await member.client.create(OURS, budget(maxUnavailable=3, rate={"disruptions": 1, "period": "1h"}))
        await asyncio.sleep(5)
        seen = await status(member.client, OURS, "web")
        assert (seen["allowedNow"], seen["desired"], seen["available"]) == (1, 6, 6)
        victim = member.pods[0]
        node = next(one.spec.node_name for one in member.pods if one.spec.node_name != victim.spec.node_name)
        await evict(member, victim.name, requested_by="drain")
        member.kubelets.fail(node)
        await asyncio.sleep(60)
        seen = await status(member.client, OURS, "web")
        assert seen["unavailable"]["involuntary"] == 2
        assert seen["rate"]["inWindow"] == 1
        assert seen.get("allowedNow", 0) == 0
        assert seen["nextAllowedAt"]
        with pytest.raises(TooManyRequests) as refused:
            await evict(member, next(one.name for one in member.pods if one.is_ready), requested_by="drain")
        assert 3500 < (refused.value.retry_after or 0) < 3600

    run_in_member(scenario, fleet(nodes=3))


def test_policy_floor_caps_a_budget_of_zero() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(POLICIES, policy(floors=[{"minMaxUnavailable": 1}]))
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await member.client.create(OURS, budget(maxUnavailable=0))
        body = {"maxUnavailable": 0, "selector": SELECTOR}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "web", body, "policy/v1"))
        await asyncio.sleep(5)
        seen = await status(member.client, OURS, "web")
        assert seen["effective"] == {"maxUnavailable": 1, "source": "DisruptionPolicy/default"}
        assert any(one["type"] == "CappedByPolicy" and one["status"] == "True" for one in seen["conditions"])
        assert (await status(member.client, BUDGETS, "web"))["disruptionsAllowed"] == 1
        await evict(member, member.pods[0].name)
        with pytest.raises(TooManyRequests):
            await evict(member, member.pods[1].name)

    run_in_member(scenario)


def test_default_budgets_follow_priority_until_the_user_creates_one() -> None:
    async def scenario(member: SimulatedMember) -> None:
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
        await member.client.create(CLASSES, high)
        defaults = [{"priorityClassName": "high", "maxUnavailable": 1}, {"maxUnavailable": "50%"}]
        await member.client.create(POLICIES, policy(defaultBudgets=defaults))
        await member.client.create(DEPLOYMENTS, deployment(replicas=4, priorityClassName="high"))
        await member.client.create(DEPLOYMENTS, deployment("batch", replicas=4))
        await member.client.create(DEPLOYMENTS, deployment("single", replicas=1))
        await asyncio.sleep(5)
        made = {one["metadata"]["name"]: one for one in (await member.client.list(OURS)).items}
        limits = {name: one["spec"]["maxUnavailable"] for name, one in made.items()}
        assert limits == {"web-deployment": 1, "batch-deployment": "50%", "single-deployment": 1}
        await member.client.create(OURS, budget("own", maxUnavailable=2))
        await asyncio.sleep(5)
        for pod in [one for one in member.pods if one.name.startswith("web")][:2]:
            await evict(member, pod.name)
        await member.client.delete(DEPLOYMENTS, "default", "batch")
        await asyncio.sleep(60)
        assert "batch-deployment" not in {one["metadata"]["name"] for one in (await member.client.list(OURS)).items}

    run_in_member(scenario)


def test_avoid_list_entry_expires() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(5)
        (pod,) = member.pods
        bad = pod.spec.node_name
        await evict(member, pod.name, prefer_avoid="true", prefer_avoid_ttl="10m")
        await asyncio.sleep(60)
        (entry,) = entries_of((await member.client.get(NODES, "", bad))["metadata"]["annotations"])
        assert len(entry.uids) == 2
        (moved,) = [one for one in member.pods if one.metadata.deletion_timestamp is None]
        assert moved.spec.node_name != bad
        other = next(name for name in member.kubelets.machines if name not in (bad, moved.spec.node_name))
        for name in (other, moved.spec.node_name):
            await member.cordon(name)
        await evict(member, moved.name)
        await asyncio.sleep(60)
        assert [one.spec.node_name for one in member.pods] == [bad]
        await asyncio.sleep(600)
        assert not entries_of((await member.client.get(NODES, "", bad))["metadata"].get("annotations") or {})

    run_in_member(scenario)


def test_avoid_list_entry_ends_when_the_waiting_pod_is_scheduled() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1, cpu="1"))
        await asyncio.sleep(5)
        (small,) = member.pods
        body = {"metadata": {"name": "large", "namespace": "default"}, "spec": template("large", cpu="2")["spec"]}
        large = await member.client.create(
            PODS, {"apiVersion": "v1", "kind": "Pod", **body, "spec": GATED | body["spec"]}
        )
        until = f"scheduled:{large['metadata']['uid']}"
        await evict(member, small.name, prefer_avoid="true", prefer_avoid_until=until, prefer_avoid_ttl="5h")
        node = await member.client.get(NODES, "", small.spec.node_name)
        (entry,) = entries_of(node["metadata"]["annotations"])
        assert entry.seconds == 600
        await asyncio.sleep(120)
        assert entries_of((await member.client.get(NODES, "", node["metadata"]["name"]))["metadata"]["annotations"])
        await member.client.patch(PODS, "default", "large", {"spec": {"schedulingGates": None}})
        await asyncio.sleep(40)
        (placed,) = [one for one in member.pods if one.name == "large"]
        assert placed.spec.node_name == node["metadata"]["name"]
        assert not entries_of(
            (await member.client.get(NODES, "", node["metadata"]["name"]))["metadata"].get("annotations") or {}
        )

    run_in_member(scenario, fleet(nodes=2, cpu="2"))


GATED = {"schedulingGates": [{"name": "later"}]}


def test_avoid_list_entry_of_an_unknown_owner_kind_lasts_until_its_expiry() -> None:
    async def scenario(member: SimulatedMember) -> None:
        owner = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "r", "uid": "r-uid", "controller": True}
        body = template("web")
        body["metadata"] |= {"name": "web-0", "namespace": "default", "ownerReferences": [owner]}
        await member.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **body})
        await asyncio.sleep(5)
        (pod,) = member.pods
        await evict(member, "web-0", prefer_avoid="true", prefer_avoid_ttl="10m")
        await asyncio.sleep(300)
        (entry,) = entries_of((await member.client.get(NODES, "", pod.spec.node_name))["metadata"]["annotations"])
        assert entry.uids == {"r-uid"}
        await asyncio.sleep(340)
        assert not entries_of(
            (await member.client.get(NODES, "", pod.spec.node_name))["metadata"].get("annotations") or {}
        )

    run_in_member(scenario)


def test_pods_of_a_scalable_custom_kind_get_a_default_budget() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(POLICIES, policy(defaultBudgets=[{"maxUnavailable": "25%"}]))
        await member.client.create(CRDS, game_crd())
        await asyncio.sleep(10)
        await create_game(member, 8)
        await asyncio.sleep(60)
        seen = await status(member.client, OURS, "chess-game")
        assert (seen["expectedPods"], seen["desiredHealthy"], seen["allowedNow"]) == (8, 6, 2)
        await evict(member, "chess-0")
        await evict(member, "chess-1")
        with pytest.raises(TooManyRequests):
            await evict(member, "chess-2")
        await member.client.delete(GAMES, "default", "chess")
        await asyncio.sleep(60)
        assert (await member.client.list(OURS)).items == []  # it is deleted with its owner

    run_in_member(scenario)
