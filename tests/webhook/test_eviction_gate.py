"""The eviction gate charges budgets exactly once, refuses with 429, and charges nothing for what is only tried."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.client.client import resource_of
from trimtab.decide.pods.budgets.pod_budgets import RATE_ANNOTATION, RECENT_ANNOTATION
from trimtab.errors import Conflict
from trimtab.webhook.eviction_gate import MAX_RETRY_SECONDS, EvictionGate
from trimtab.webhook.review import ALLOWED, Refused, Review
from webhook.webhook_helpers import Cluster, run_in_cluster

BUDGETS, POD_BUDGETS, PODS, POLICIES = (
    resource_of(kind_of(type_)) for type_ in (DisruptionBudget, PodDisruptionBudget, Pod, DisruptionPolicy)
)


def pod(name: str) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def budget(name: str = "web", *, allowed: int = 1, healthy: int = 3, **spec: Any) -> Raw:
    spec = {"target": "Pods", "selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1, **spec}
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": healthy - allowed,
        "expectedPods": healthy,
    }
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "DisruptionBudget",
        "metadata": {"namespace": "default", "name": name},
        "spec": spec,
        "status": status,
    }


def eviction(name: str = "web-1", *, dry_run: bool = False, options: Raw | None = None, **annotations: str) -> Review:
    obj = {"metadata": {"name": name, "annotations": annotations}, "deleteOptions": options}
    return Review(
        "r1", "pods", "CREATE", namespace="default", name=name, subresource="eviction", object=obj, dry_run=dry_run
    )


def run(*objects: Raw, scenario: Callable[[Cluster, EvictionGate], Awaitable[None]]) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.add(pod("web-1"), pod("web-2"), pod("web-3"), *objects)
        await scenario(cluster, EvictionGate(cluster.client, cluster.clock))

    run_in_cluster(body)


async def status_of(cluster: Cluster, name: str = "web") -> Raw:
    return dict((await cluster.client.get(BUDGETS, "default", name))["status"])


def test_allowed_eviction_is_charged_to_the_budget() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        assert await gate.admit(eviction()) is ALLOWED
        status = await status_of(cluster)
        assert (status.get("disruptionsAllowed", 0), list(status["disruptedPods"])) == (0, ["web-1"])
        assert gate.charged == 1

    run(budget(), scenario=scenario)


def test_second_eviction_is_refused_with_429() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        await gate.admit(eviction("web-1"))
        with pytest.raises(Refused) as refused:
            await gate.admit(eviction("web-2"))
        fault = refused.value.fault
        assert (fault.code, fault.reason) == (429, "TooManyRequests")
        assert "needs 2 healthy pods and has 2 currently" in fault.message
        assert fault.retry_after is not None

    run(budget(), scenario=scenario)


def test_simultaneous_evictions_do_not_share_the_last_place() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        tries = [gate.admit(eviction(f"web-{n}")) for n in (1, 2, 3)]
        answers = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(answer is ALLOWED for answer in answers) == 1
        assert len((await status_of(cluster))["disruptedPods"]) == 1

    run(budget(), scenario=scenario)


@pytest.mark.parametrize(
    "tried", [eviction(dry_run=True), eviction(options={"dryRun": ["All"]})], ids=["in the review", "in the options"]
)
def test_eviction_that_is_only_tried_is_charged_nothing(tried: Review) -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        before = await status_of(cluster)
        assert await gate.admit(tried) is ALLOWED
        assert await status_of(cluster) == before

    run(budget(), scenario=scenario)


def test_used_up_rate_names_the_time_and_limits_the_sleep_of_clients() -> None:
    rate = {"disruptions": 1, "period": "1h"}

    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        await gate.admit(eviction("web-1"))
        with pytest.raises(Refused, match="the next is allowed in 3600 s") as refused:
            await gate.admit(eviction("web-2"))
        assert refused.value.fault.retry_after == MAX_RETRY_SECONDS

    run(budget(allowed=3, maxUnavailable=3, rate=rate), scenario=scenario)


def test_all_budgets_must_agree_and_none_is_charged_otherwise() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        before = await status_of(cluster, "a")
        with pytest.raises(Refused, match="disruption budget b"):
            await gate.admit(eviction())
        assert await status_of(cluster, "a") == before

    run(budget("a"), budget("b", allowed=0), scenario=scenario)


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (Conflict("always"), Refused),
        (TimeoutError("the API server does not answer"), TimeoutError),
        (asyncio.CancelledError(), asyncio.CancelledError),
    ],
    ids=["conflict", "timeout", "cancelled"],
)
def test_charge_is_given_back_when_a_later_budget_cannot_be_written(
    failure: BaseException, raised: type[BaseException]
) -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        before = await status_of(cluster, "a")
        replace = cluster.client.replace

        async def fail_for_b(resource: Any, obj: Raw, **more: Any) -> Raw:
            if obj["metadata"]["name"] == "b":
                raise failure
            return await replace(resource, obj, **more)

        cluster.client.replace = fail_for_b  # type: ignore[method-assign]
        with pytest.raises(raised):
            await gate.admit(eviction())
        assert await status_of(cluster, "a") == before

    run(budget("a"), budget("b"), scenario=scenario)


def rated_pdb() -> Raw:
    """A PodDisruptionBudget that allows one eviction an hour."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "default", "name": "pdb", "annotations": {RATE_ANNOTATION: "1/1h"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 3},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": 3,
            "currentHealthy": 3,
            "desiredHealthy": 0,
            "expectedPods": 3,
        },
    }


def test_rate_of_a_pod_disruption_budget_is_recorded_and_obeyed() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        await gate.admit(eviction("web-1"))
        found = await cluster.client.get(POD_BUDGETS, "default", "pdb")
        assert found["metadata"]["annotations"][RECENT_ANNOTATION].count("T") == 1
        with pytest.raises(Refused, match="is used up"):
            await gate.admit(eviction("web-2"))

    run(rated_pdb(), scenario=scenario)


def test_simultaneous_evictions_do_not_share_the_rate_of_a_pod_disruption_budget() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        list_objects = cluster.client.list

        async def list_slowly(resource: Any, namespace: str = "") -> Any:
            found = await list_objects(resource, namespace)
            await asyncio.sleep(1)  # the others read the same version meanwhile
            return found

        cluster.client.list = list_slowly  # type: ignore[method-assign]
        answers = await asyncio.gather(*(gate.admit(eviction(f"web-{n}")) for n in (1, 2)), return_exceptions=True)
        assert sum(answer is ALLOWED for answer in answers) == 1

    run(rated_pdb(), scenario=scenario)


def test_a_terminating_pod_is_not_counted_as_healthy() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        await cluster.client.delete(PODS, "default", "web-3")
        assert (await cluster.client.get(PODS, "default", "web-3"))["metadata"]["deletionTimestamp"]
        with pytest.raises(Refused, match="needs 2 healthy pods and has 2 currently"):
            await gate.admit(eviction("web-1"))

    run(budget(), scenario=scenario)


def test_component_has_a_quota() -> None:
    quotas = [{"component": "drain", "rate": {"disruptions": 1, "period": "1h"}}]
    policy = {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "DisruptionPolicy",
        "metadata": {"name": "default"},
        "spec": {"componentQuotas": quotas},
    }

    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        by = {"trimtab.dev/requested-by": "drain"}
        await gate.admit(eviction("web-1", **by))
        with pytest.raises(Refused, match="its evictor has used up its quota") as refused:
            await gate.admit(eviction("web-2", **by))
        assert refused.value.fault.code == 429
        assert await gate.admit(eviction("web-3")) is ALLOWED

    run(policy, scenario=scenario)


def component_policy(**quota: Any) -> Raw:
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "DisruptionPolicy",
        "metadata": {"name": "default"},
        "spec": {"componentQuotas": [{"component": "drain", **quota}]},
    }


def test_component_gets_back_what_the_api_server_did_not_evict() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        by = {"trimtab.dev/requested-by": "drain"}
        await gate.admit(eviction("web-1", **by))  # the API server refuses it afterwards
        await asyncio.sleep(60)
        with pytest.raises(Refused, match="its evictor has used up its quota"):
            await gate.admit(eviction("web-2", **by))
        await asyncio.sleep(90)
        assert await gate.admit(eviction("web-2", **by)) is ALLOWED
        await cluster.client.delete(PODS, "default", "web-2")
        await asyncio.sleep(600)
        with pytest.raises(Refused, match="its evictor has used up its quota"):
            await gate.admit(eviction("web-3", **by))

    run(component_policy(rate={"disruptions": 1, "period": "1h"}), scenario=scenario)


def test_admitted_eviction_counts_before_its_pod_terminates() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        by = {"trimtab.dev/requested-by": "drain"}
        await gate.admit(eviction("web-1", **by))
        with pytest.raises(Refused, match="its evictor has used up its quota"):
            await gate.admit(eviction("web-2", **by))
        await cluster.client.delete(PODS, "default", "web-1", grace_seconds=0)
        assert await gate.admit(eviction("web-2", **by)) is ALLOWED

    run(component_policy(maxInFlight=1), scenario=scenario)


def test_pods_that_end_or_do_not_exist_are_not_charged() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        done = pod("done")
        await cluster.add({**done, "status": {"phase": "Succeeded"}})
        assert await gate.admit(eviction("done")) is ALLOWED
        assert await gate.admit(eviction("missing")) is ALLOWED
        assert gate.charged == 0

    run(budget(), scenario=scenario)


def test_eviction_of_another_pod_of_that_name_is_a_conflict() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        with pytest.raises(Refused) as refused:
            await gate.admit(eviction(options={"preconditions": {"uid": "other"}}))
        assert refused.value.fault.code == 409
        assert (await status_of(cluster))["disruptionsAllowed"] == 1

    run(budget(), scenario=scenario)


def test_nothing_is_evicted_or_charged_while_moves_are_frozen() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        with pytest.raises(Refused) as refused:
            await gate.admit(eviction())
        fault = refused.value.fault
        assert fault.code == 429
        assert "all moves are frozen (rehearsal)" in fault.message
        assert "disruptedPods" not in await status_of(cluster)
        assert (gate.charged, gate.refused) == (0, 1)
        await cluster.client.patch(POLICIES, "", "default", {"spec": {"freeze": None}})
        assert await gate.admit(eviction()) is ALLOWED

    policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
    run(budget(), {**policy, "spec": {"freeze": {"reason": "rehearsal"}}}, scenario=scenario)


def test_pods_of_other_workloads_are_not_counted_as_healthy() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        other = pod("db-1")
        other["metadata"]["labels"] = {"app": "db"}
        await cluster.add(other)
        await cluster.client.delete(PODS, "default", "web-3", grace_seconds=0)
        with pytest.raises(Refused, match="needs 2 healthy pods and has 2 currently"):
            await gate.admit(eviction("web-1"))

    run(budget(), scenario=scenario)


def test_a_new_pod_of_the_same_name_does_not_give_the_charge_of_the_evicted_one_back() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        by = {"trimtab.dev/requested-by": "drain"}
        await gate.admit(eviction("web-1", **by))
        await cluster.client.delete(PODS, "default", "web-1", grace_seconds=0)
        await asyncio.sleep(10)
        await cluster.add(pod("web-1"))
        await asyncio.sleep(600)
        with pytest.raises(Refused, match="its evictor has used up its quota"):
            await gate.admit(eviction("web-2", **by))

    run(component_policy(rate={"disruptions": 1, "period": "1h"}), scenario=scenario)


def test_all_charges_are_given_back_although_one_budget_has_changed_meanwhile() -> None:
    async def scenario(cluster: Cluster, gate: EvictionGate) -> None:
        before = await status_of(cluster, "b")
        replace = cluster.client.replace

        async def fail_for_c(resource: Any, obj: Raw, **more: Any) -> Raw:
            if obj["metadata"]["name"] == "c":
                changed = await cluster.client.get(BUDGETS, "default", "a")
                await replace(resource, changed | {"status": changed["status"] | {"conditions": []}}, **more)
                await cluster.client.patch(BUDGETS, "default", "a", {"metadata": {"labels": {"a": "b"}}})
                raise TimeoutError
            return await replace(resource, obj, **more)

        cluster.client.replace = fail_for_c  # type: ignore[method-assign]
        with pytest.raises(TimeoutError):
            await gate.admit(eviction())
        assert await status_of(cluster, "b") == before

    run(budget("a"), budget("b"), budget("c"), scenario=scenario)
