import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import orjson
import pytest
import yaml

from simulate.fixtures import BUDGETS, DEPLOYMENTS, NODES, PODS, deployment, run_in_member, workload
from trimtab.api.profile import TRIMTAB
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import OwnerReference, Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import LoopClock
from trimtab.decide.pods.avoid_list import AVOID_PODS_ANNOTATION, AvoidEntry, PodSignature, encode_entries, entries_of
from trimtab.decide.rescheduling.history import MoveRecord
from trimtab.decide.rescheduling.plan import ReschedulingPlan
from trimtab.errors import NotFound, TooManyRequests
from trimtab.rescheduling.configuration import read_config
from trimtab.rescheduling.rescheduler import Rescheduler
from trimtab.simulate.fleet import FleetPlan
from trimtab.simulate.kubelets.behaviour import CRASH, OUT_OF_MEMORY, BehaviourOverride
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.usage import PodLoad

CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS = Resource("", "v1", "events", "Event")
OURS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")


async def configure(member: SimulatedMember, *objectives: str, preset: str = "aggressive", **more: Any) -> None:
    args: dict[str, Any] = more.pop("args", {})
    settings = {"preset": preset, "objectives": [{"name": one, "args": args} for one in objectives], **more}
    await write_config(member, {"rescheduler.yaml": yaml.safe_dump(settings)})


async def write_config(member: SimulatedMember, data: dict[str, str]) -> None:
    metadata = {"name": "trimtab-rescheduler", "namespace": "kube-system"}
    try:
        await member.client.patch(CONFIGS, "kube-system", "trimtab-rescheduler", {"data": data})
    except NotFound:
        await member.client.create(
            CONFIGS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        )


def ready_pods_by_node(member: SimulatedMember, app: str = "web") -> Counter[str]:
    return Counter(pod.spec.node_name for pod in member.pods if pod.metadata.labels.get("app") == app and pod.is_ready)


async def create_on_one_node(member: SimulatedMember, node: str, **more: Any) -> None:
    """Create a Deployment with all pods on one node, by cordoning the others meanwhile."""
    for other in member.kubelets.machines:
        if other != node:
            await member.cordon(other)
    await member.client.create(DEPLOYMENTS, deployment(**more))
    await asyncio.sleep(10)
    for other in member.kubelets.machines:
        await member.cordon(other, unschedulable=False)


def last_plan(member: SimulatedMember) -> ReschedulingPlan:
    assert member.rescheduler.last_plan is not None
    return member.rescheduler.last_plan


def test_pods_move_from_a_full_node_to_idle_ones_and_then_stay() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_on_one_node(member, "one-node-1", replicas=8, cpu="900m")
        await configure(member, "UnderutilisedNodes")
        await asyncio.sleep(1800)
        spread = ready_pods_by_node(member)
        assert max(spread.values()) < 7
        assert sum(spread.values()) == 8
        moved = member.rescheduler.stored.history.moves
        assert moved
        assert all(move.outcome == "Done" for move in moved)
        await asyncio.sleep(7200)
        assert ready_pods_by_node(member) == spread

    run_in_member(scenario)


def test_conservative_preset_requires_age_and_leaves_a_disruption_in_budgets() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_on_one_node(member, "one-node-1", replicas=8, cpu="900m")
        await configure(member, "UnderutilisedNodes", preset="conservative")
        await asyncio.sleep(1500)
        assert ready_pods_by_node(member) == {"one-node-1": 8}
        assert {one.reason for one in last_plan(member).rejected} == {"it is younger than 30m"}
        body = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "web", body, "policy/v1"))
        await asyncio.sleep(3600)
        assert ready_pods_by_node(member) == {"one-node-1": 8}
        assert any("would have 0 disruptions left, 1 must be" in one.reason for one in last_plan(member).rejected)
        await member.client.patch(BUDGETS, "default", "web", {"spec": {"maxUnavailable": 2}})
        await asyncio.sleep(3600)
        assert len(ready_pods_by_node(member)) > 1

    run_in_member(scenario)


def test_pod_moves_to_a_newly_preferred_node() -> None:
    async def scenario(member: SimulatedMember) -> None:
        preference = {
            "weight": 100,
            "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
        }
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
        await member.client.create(DEPLOYMENTS, deployment(replicas=2, affinity=affinity))
        await asyncio.sleep(10)
        target = next(node for node in member.kubelets.machines if node not in ready_pods_by_node(member))
        await configure(member, "BetterAffinity")
        await asyncio.sleep(600)
        await member.client.patch(NODES, "", target, {"metadata": {"labels": {"disk": "ssd"}}})
        await asyncio.sleep(1800)
        assert ready_pods_by_node(member) == {target: 2}

    run_in_member(scenario)


def test_pod_moves_off_a_node_that_violates_its_affinity() -> None:
    async def scenario(member: SimulatedMember) -> None:
        selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
        for node in ("one-node-1", "one-node-2"):
            await member.client.patch(NODES, "", node, {"metadata": {"labels": {"zone": "a"}}})
        await member.client.create(DEPLOYMENTS, deployment(replicas=2, affinity=affinity))
        await asyncio.sleep(10)
        await configure(member, "HardViolation")
        await member.client.patch(NODES, "", "one-node-1", {"metadata": {"labels": {"zone": "b"}}})
        await asyncio.sleep(300)
        assert ready_pods_by_node(member) == {"one-node-2": 2}

    run_in_member(scenario)


def test_pod_that_crashes_on_one_node_only_is_moved_and_avoids_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        member.kubelets.override_behaviour(BehaviourOverride("bad", CRASH, node="one-node-1"))
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await configure(member, "PoorService")
        await asyncio.sleep(1800)
        assert "one-node-1" not in ready_pods_by_node(member)
        assert sum(ready_pods_by_node(member).values()) == 3

    run_in_member(scenario)


def test_pods_that_crash_on_all_nodes_are_not_moved() -> None:
    async def scenario(member: SimulatedMember) -> None:
        member.kubelets.override_behaviour(BehaviourOverride("bad", CRASH))
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await configure(member, "PoorService")
        await asyncio.sleep(100)
        before = sorted(pod.metadata.uid for pod in member.pods)
        await asyncio.sleep(3600)
        assert sorted(pod.metadata.uid for pod in member.pods) == before

    run_in_member(scenario)


def test_pod_that_is_oom_killed_on_one_node_only_is_moved() -> None:
    async def scenario(member: SimulatedMember) -> None:
        member.kubelets.override_behaviour(BehaviourOverride("bad", OUT_OF_MEMORY, node="one-node-2"))
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await configure(member, "PoorService")
        await asyncio.sleep(1800)
        assert "one-node-2" not in ready_pods_by_node(member)
        assert sum(ready_pods_by_node(member).values()) == 3

    run_in_member(scenario)


def test_pod_that_exceeds_its_requests_is_moved_off_a_node_under_pressure() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("greedy", replicas=1, cpu="500m"))
        await member.client.create(DEPLOYMENTS, deployment("calm", replicas=6, cpu="500m"))
        await asyncio.sleep(10)
        (before,) = ready_pods_by_node(member, "greedy")
        await configure(member, "PoorService")
        member.usage.set(
            PodLoad("greedy", selector=LabelSelector(match_labels={"app": "greedy"}), amounts={"cpu": 20000})
        )
        await asyncio.sleep(300)
        assert list(ready_pods_by_node(member, "greedy")) == [before]
        await asyncio.sleep(600)
        member.usage.clear("greedy")
        await asyncio.sleep(60)
        assert list(ready_pods_by_node(member, "greedy")) != [before]

    run_in_member(scenario)


def test_small_pods_are_moved_to_make_capacity_for_a_large_pending_pod() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("small", replicas=6, cpu="1500m"))
        await asyncio.sleep(200)
        await configure(member, "Defragment")
        await member.client.create(DEPLOYMENTS, deployment("large", replicas=1, cpu="6"))
        await asyncio.sleep(600)
        assert sum(ready_pods_by_node(member, "large").values()) == 1
        assert sum(ready_pods_by_node(member, "small").values()) == 6

    run_in_member(scenario)


def test_underutilised_node_is_emptied_when_the_others_have_capacity() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("base", replicas=3, cpu="2"))
        await member.client.create(DEPLOYMENTS, deployment("web", replicas=2, cpu="500m"))
        await asyncio.sleep(10)
        await member.client.patch(DEPLOYMENTS, "default", "base", {"spec": {"replicas": 2}})
        await asyncio.sleep(400)
        await configure(member, "Consolidate", args={"low": {"cpu": 20.0}}, ownerInFlight="100%")
        await asyncio.sleep(600)
        used = {pod.spec.node_name for pod in member.pods if pod.is_ready}
        assert len(used) == 2

    run_in_member(scenario)


def test_invalid_configuration_keeps_the_previous_one_and_is_reported() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await configure(member, "HardViolation")
        await asyncio.sleep(120)
        await write_config(member, {"rescheduler.yaml": "preset: reckless"})
        await asyncio.sleep(120)
        assert "no preset 'reckless'" in member.rescheduler.configuration.error
        assert member.rescheduler.configuration.current is not None
        events = (await member.client.list(EVENTS, "kube-system")).items
        assert any(one["reason"] == "InvalidConfiguration" and one["type"] == "Warning" for one in events)
        await configure(member, "BetterAffinity")
        await asyncio.sleep(120)
        assert member.rescheduler.configuration.error == ""

    run_in_member(scenario)


def test_descheduler_policy_is_followed() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_on_one_node(member, "one-node-1", replicas=6)
        policy = {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "profiles": [{"name": "p", "plugins": {"balance": {"enabled": ["RemoveDuplicates"]}}}],
        }
        await write_config(member, {"policy.yaml": yaml.safe_dump(policy)})
        await asyncio.sleep(600)
        assert ready_pods_by_node(member) == {"one-node-1": 2, "one-node-2": 2, "one-node-3": 2}

    run_in_member(scenario)


def test_pods_of_a_rollout_and_of_a_cordoned_node_are_not_moved() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_on_one_node(member, "one-node-1", replicas=8, cpu="900m")
        await member.cordon("one-node-1")
        await configure(member, "UnderutilisedNodes")
        await asyncio.sleep(900)
        assert ready_pods_by_node(member) == {"one-node-1": 8}
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"paused": True}})
        await member.cordon("one-node-1", unschedulable=False)
        template = {"metadata": {"annotations": {"new": "true"}}}
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"template": template}})
        await asyncio.sleep(900)
        assert ready_pods_by_node(member) == {"one-node-1": 8}
        assert any("is being rolled out" in one.reason for one in last_plan(member).rejected)

    run_in_member(scenario)


async def state_of(member: SimulatedMember) -> dict[str, Any]:
    """The persisted state: moves and conditions."""
    data = (await member.client.get(CONFIGS, "kube-system", "trimtab-rescheduler-state"))["data"]
    return {
        "moves": orjson.loads(data["history.json"]).get("moves", []),
        "conditions": orjson.loads(data["conditions.json"]),
    }


class FailingEvictionClient:
    """A client whose connection fails on eviction."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._client, verb)

    async def submit(self, *words: Any) -> None:
        raise OSError("the process is killed here")


def test_move_is_recorded_before_eviction_and_dropped_if_it_never_happened() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_on_one_node(member, "one-node-1", replicas=8, cpu="900m")
        await asyncio.sleep(200)
        await member.rescheduler.stop()
        settings = read_config({"rescheduler.yaml": "{preset: aggressive, objectives: [{name: UnderutilisedNodes}]}"})

        def another(client: Any) -> Rescheduler:
            return Rescheduler(client, clock=LoopClock(), profile=TRIMTAB, embedded=True, fixed_config=settings)

        with pytest.raises(OSError, match="killed here"):
            await another(FailingEvictionClient(member.internal_client)).run_round()
        (written,) = (await state_of(member))["moves"]
        assert written["source"] == "one-node-1"
        after = another(member.internal_client)
        assert (await after.run_round()).moves == ()  # the pod may still be moving
        await asyncio.sleep(150)
        done = await after.run_round()
        assert [move.source for move in done.moves] == ["one-node-1"]
        (moved,) = (await state_of(member))["moves"]
        assert moved["pod"] == done.moves[0].pod.pod.metadata.uid

    run_in_member(scenario)


def test_state_reports_invalid_configuration_and_frozen_owners() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await configure(member, "HardViolation")
        await asyncio.sleep(130)
        await write_config(member, {"rescheduler.yaml": "preset: reckless"})
        await asyncio.sleep(130)
        accepted, frozen, _ = (await state_of(member))["conditions"]
        assert (accepted["status"], "reckless" in accepted["message"]) == ("False", True)
        assert frozen["status"] == "False"
        (owner,) = {pod.metadata.owner_references[0].uid for pod in member.pods}
        top = (await member.client.get(DEPLOYMENTS, "default", "web"))["metadata"]["uid"]
        assert owner != top
        wasted = {"owner": top, "source": "one-node-1", "outcome": "ReturnedToSameNode", "at": "2026-01-01T00:00:00Z"}
        now = LoopClock().now().isoformat()
        history = orjson.dumps({"moves": [{**wasted, "at": now, "pod": str(n)} for n in range(3)]}).decode()
        body = {"data": {"history.json": history}}
        await member.client.patch(CONFIGS, "kube-system", "trimtab-rescheduler-state", body)
        await member.rescheduler.stop()
        member.rescheduler = Rescheduler(member.internal_client, clock=LoopClock(), profile=TRIMTAB, embedded=True)
        await configure(member, "HardViolation")
        await member.rescheduler.run_round()
        accepted, frozen, _ = (await state_of(member))["conditions"]
        assert accepted["status"] == "True"
        assert (frozen["status"], frozen["message"]) == ("True", top)
        events = [
            one
            for one in (await member.client.list(EVENTS, "default")).items
            if one["reason"] == "ReschedulingSuspended"
        ]
        assert [one["involvedObject"]["name"] for one in events] == ["web"]

    run_in_member(scenario)


def usage_policy(**metrics: Any) -> dict[str, str]:
    """A policy that counts usage instead of requests."""
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, "metricsUtilization": metrics}
    policy = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "metricsProviders": [{"source": "KubernetesMetrics"}],
        "profiles": [
            {
                "name": "p",
                "pluginConfig": [{"name": "LowNodeUtilization", "args": args}],
                "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
            }
        ],
    }
    return {"policy.yaml": yaml.safe_dump(policy)}


def test_policy_by_usage_moves_pods_but_not_on_a_short_peak() -> None:
    """One application uses four times its requests, first for a short time, then permanently."""

    async def scenario(member: SimulatedMember) -> None:
        await create_on_one_node(member, "one-node-1", replicas=3, cpu="500m")
        await asyncio.sleep(120)
        await write_config(member, usage_policy(source="KubernetesMetrics"))
        await asyncio.sleep(61)
        busy = PodLoad("busy", selector=LabelSelector(match_labels={"app": "web"}), amounts={"cpu": 2000})
        member.usage.set(busy)
        await asyncio.sleep(20)
        member.usage.clear("busy")
        await asyncio.sleep(300)
        assert ready_pods_by_node(member) == {"one-node-1": 3}
        member.usage.set(busy)
        await asyncio.sleep(900)
        assert ready_pods_by_node(member)["one-node-1"] == 2  # 4 of 8 CPUs do not exceed the threshold
        assert last_plan(member).notes == ()
        moved = [one for one in (await member.client.list(EVENTS, "default")).items if one["reason"] == "Rescheduled"]
        assert any("measured usage" in one["message"] for one in moved)

    run_in_member(scenario)


def test_policy_by_usage_is_off_without_metrics_and_reports_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await write_config(member, usage_policy(metricsServer=True))
        member.metrics_server = None
        await asyncio.sleep(61)
        message = "LowNodeUtilization is skipped: it uses metrics, and there are none of node one-node-1"
        assert last_plan(member).notes == (message,)
        limited = (await state_of(member))["conditions"][2]
        assert (limited["status"], limited["message"]) == ("True", message)

    run_in_member(scenario)


async def cordon_small_pool(member: SimulatedMember, *, closed: bool) -> None:
    for node in ("one-small-node-1", "one-small-node-2"):
        await member.cordon(node, unschedulable=closed)


def test_capacity_freed_by_one_step_of_a_plan_is_reserved_for_the_next() -> None:
    """The large pod needs the whole big node; the pod there fits on a small node after another pod has left."""

    async def scenario(member: SimulatedMember) -> None:
        await cordon_small_pool(member, closed=True)
        await member.client.create(DEPLOYMENTS, deployment("middle", 1, cpu="3"))
        await asyncio.sleep(5)
        await cordon_small_pool(member, closed=False)
        await member.client.create(DEPLOYMENTS, deployment("small", 2, cpu="2", nodeSelector={"size": "small"}))
        await asyncio.sleep(300)
        await configure(member, "Defragment")
        await member.client.create(DEPLOYMENTS, deployment("large", 1, cpu="7"))
        promised, lists = set(), set()
        for _ in range(6000):
            await asyncio.sleep(0.1)
            promised |= {(pod.metadata.labels["app"], pod.status.nominated_node_name) for pod in member.pods}
            for node in (await member.client.list(NODES)).items if ready_pods_by_node(member, "large") == {} else ():
                for entry in entries_of(node["metadata"].get("annotations") or {}):
                    lists.add((node["metadata"]["name"], entry.until_pod_scheduled))
        assert ready_pods_by_node(member, "large") == {"one-big-node-1": 1}
        (goal,) = [pod.metadata.uid for pod in member.pods if pod.metadata.labels["app"] == "large"]
        (vacated,) = ready_pods_by_node(member, "middle")
        assert ("middle", vacated) in promised
        assert (vacated, goal) in lists  # the evicted pod avoids the node until the large pod is scheduled
        messages = [
            one["message"] for one in (await member.client.list(EVENTS, "default")).items if one["reason"] == "Evicted"
        ]
        assert sum("plan Defragment-" in one for one in messages) == 2
        await asyncio.sleep(60)
        for node in (await member.client.list(NODES)).items:
            assert entries_of(node["metadata"].get("annotations") or {}) == ()

    pools = (
        {"name": "big", "nodes": 1, "cpu": "8"},
        {"name": "small", "nodes": 2, "cpu": "4", "labels": {"size": "small"}},
    )
    run_in_member(scenario, msgspec.convert({"members": [{"name": "one", "pools": pools}], "pace": "fast"}, FleetPlan))


def test_new_configuration_is_loaded_within_a_minute_whatever_the_interval() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_on_one_node(member, "one-node-1", replicas=8, cpu="900m")
        await configure(member, "HardViolation", interval="12h")
        await asyncio.sleep(200)
        await configure(member, "UnderutilisedNodes", interval="60s")
        await asyncio.sleep(61)
        assert member.rescheduler.configuration.goals == "UnderutilisedNodes: aggressive"
        assert len(ready_pods_by_node(member)) > 1

    run_in_member(scenario)


class DenyingWebhookClient:
    """A client of an API server whose webhook moves some pods itself."""

    def __init__(self, client: Client) -> None:
        self._client, self.requested = client, []

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._client, verb)

    async def submit(self, *words: Any) -> None:
        self.requested.append(words[2])
        raise TooManyRequests("admission webhook denied the request: Eviction triggered evacuation of the pod")


def test_pod_that_a_webhook_moves_on_request_counts_as_moving() -> None:
    async def scenario(member: SimulatedMember, *, announced: bool) -> tuple[int, str]:
        await create_on_one_node(member, "one-node-1", replicas=8, cpu="900m")
        for pod in member.pods if announced else ():
            note = {"metadata": {"annotations": {"descheduler.alpha.kubernetes.io/request-evict-only": ""}}}
            await member.client.patch(PODS, "default", pod.name, note)
        await asyncio.sleep(300)
        config = read_config({"rescheduler.yaml": "{preset: aggressive, objectives: [{name: UnderutilisedNodes}]}"})
        webhook = DenyingWebhookClient(member.internal_client)
        rescheduler = Rescheduler(webhook, clock=LoopClock(), profile=TRIMTAB, embedded=True, fixed_config=config)
        for _ in range(9):
            await rescheduler.run_round()
            await asyncio.sleep(60)
        return len(webhook.requested), next(one.reason for one in rescheduler.last_plan.rejected)

    asked, why = run_in_member(lambda member: scenario(member, announced=True))
    assert (asked, why) == (1, "1 of Deployment/web is being moved")
    asked, why = run_in_member(lambda member: scenario(member, announced=False))
    assert asked == 9


def test_full_avoid_list_of_a_foreign_cluster_drops_the_earliest_expiry_and_reports_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_on_one_node(member, "one-node-1", replicas=8, cpu="900m")
        await asyncio.sleep(200)
        now = LoopClock().now()
        entries = [
            AvoidEntry(
                pod_signature=PodSignature(pod_controller=OwnerReference(kind="Job", name=f"job-{n}", uid=f"u{n}")),
                expiry=now + timedelta(hours=2 + n),
            )
            for n in range(32)
        ]
        note = {"metadata": {"annotations": {AVOID_PODS_ANNOTATION: encode_entries(entries)}}}
        await member.client.patch(NODES, "", "one-node-1", note)
        config = read_config({"rescheduler.yaml": "{preset: aggressive, objectives: [{name: UnderutilisedNodes}]}"})
        client = AvoidanceIgnoringClient(member.internal_client)
        found = await Rescheduler(client, clock=LoopClock(), profile=TRIMTAB, fixed_config=config).run_round()
        assert found is not None
        assert len(found.moves) == 1
        (noted,) = client.patched  # the member drops entries of owners that do not exist at its next check
        kept = {one.pod_signature.pod_controller.name for one in entries_of(noted["metadata"]["annotations"])}
        assert len(kept) == 32
        assert "job-0" not in kept
        assert "job-1" in kept
        (event,) = [
            one for one in (await member.client.list(EVENTS, "default")).items if one["reason"] == "AvoidListFull"
        ]
        assert event["message"] == "32 owners avoid this node; Job job-0 was removed from the list"

    run_in_member(scenario)


class AvoidanceIgnoringClient:
    """A client of an API server whose evictions ignore avoid lists; it records patches."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.patched: list[Raw] = []

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._client, verb)

    async def submit(self, *words: Any) -> Any:
        *where, body = words
        del body["metadata"]["annotations"]["trimtab.dev/prefer-avoid"]
        return await self._client.submit(*where, body)

    async def patch(self, *words: Any, **more: Any) -> Raw:
        answer = await self._client.patch(*words, **more)
        self.patched.append(answer)
        return answer


def test_metrics_count_moves_and_wasted_moves() -> None:
    async def scenario(member: SimulatedMember) -> dict[tuple[str, str], float]:
        await create_on_one_node(member, "one-node-1", replicas=8, cpu="900m")
        await configure(member, "UnderutilisedNodes")
        await asyncio.sleep(900)
        wasted = MoveRecord(owner="x", source="a", target="a", outcome="ReturnedToSameNode", at=LoopClock().now())
        member.rescheduler.stored.history = member.rescheduler.stored.history.with_moves(
            [wasted] * 3, LoopClock().now()
        )
        return {(one.name, one.labels.get("outcome", "")): one.value for one in member.rescheduler.samples()}

    metrics = run_in_member(scenario)
    assert metrics["trimtab_rescheduler_moves", "Done"] == 2
    assert metrics["trimtab_rescheduler_moves", "ReturnedToSameNode"] == 3
    assert metrics["trimtab_rescheduler_moves_wasted", ""] == 3
    assert metrics["trimtab_rescheduler_owners_frozen", ""] == 1
    assert metrics["trimtab_rescheduler_rounds_total", ""] >= 14
    assert metrics["trimtab_rescheduler_configuration_refused", ""] == 0
