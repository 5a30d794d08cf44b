"""Rebalancing on a whole fleet: document 000, without a gap in service."""

import asyncio

import pytest
from move_helpers import Scene, aggregated, divided, dynamic, story

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import ResourceBinding
from trimtab.client.client import resource_of
from trimtab.errors import NotFound
from trimtab.simulate.behaviour import NEVER_READY, Spell

CORDON = "cluster.karmada.io/unschedulable:NoSchedule"


async def crowded(scene: Scene, replicas: int = 4) -> None:
    """Everything is in m1, because m2 was closed when it was placed; now m2 is open again."""
    await scene.taint("m2", CORDON)
    await asyncio.sleep(1)
    await scene.deploy(replicas=replicas)
    await scene.policy(divided(("m1", 1), ("m2", 1)))
    await scene.settled("web", {"m1": replicas})
    await scene.taint("m2")
    await asyncio.sleep(12)
    scene.watch()


def test_replicas_spread_again_and_none_is_missing_at_any_time() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        await scene.rebalance("web")
        await scene.settled("web", {"m1": 2, "m2": 2})
        assert scene.lowest["web"] == 4
        (move,) = await scene.moves()
        assert (move.spec.cause, move.spec.from_, move.spec.replicas) == ("Rebalance", "m1", 2)
        assert [(to.name, to.replicas) for to in move.spec.to] == [("m2", 2)]
        assert move.status.outcome == "Done"
        await asyncio.sleep(15)
        job = await scene.get(WorkloadRebalancer, "again")
        (item,) = job.status.observed_workloads
        assert (item.result, item.phase) == ("Successful", "Done")
        assert {c.type: c.status for c in job.status.conditions} == {
            "Ready": "True",
            "Reconciling": "False",
            "Stalled": "False",
        }

    story(act, pace="typical")


def test_a_replacement_that_never_gets_ready_is_undone_and_nothing_was_lost() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        scene.world["m2"].cast(Spell("broken", NEVER_READY))
        await scene.rebalance("web")
        await asyncio.sleep(300)
        assert await scene.where() == {"m1": 2, "m2": 2}
        assert scene.ready() == {"m1": 4}
        await asyncio.sleep(330)
        assert await scene.where() == {"m1": 4}
        assert scene.lowest["web"] == 4
        (move,) = await scene.moves()
        assert move.status.outcome == "Reverted"
        (item,) = (await scene.get(WorkloadRebalancer, "again")).status.observed_workloads
        assert (item.phase, item.reason) == ("Failed", "MoveReverted")
        await asyncio.sleep(1300)
        assert await scene.where() == {"m1": 4}

    story(act)


def test_a_rate_lets_one_workload_move_after_the_other() -> None:
    async def act(scene: Scene) -> None:
        await scene.taint("m2", CORDON)
        for name in ("a", "b"):
            await scene.deploy(name, replicas=2)
        await scene.policy(divided(("m1", 1), ("m2", 1)))
        await scene.settled("a", {"m1": 2})
        await scene.settled("b", {"m1": 2})
        await scene.budget(rate={"disruptions": 1, "period": "10m"})
        await scene.taint("m2")
        await asyncio.sleep(12)
        await scene.rebalance("a", "b")
        await asyncio.sleep(60)
        places = [await scene.where(name) for name in ("a", "b")]
        assert sorted(map(len, places)) == [1, 2]
        budget = await scene.get(DisruptionBudget, "careful", "default")
        assert (budget.status.allowed_now, budget.status.rate.in_window) == (0, 1)
        assert budget.status.next_allowed_at is not None
        phases = {i.phase for i in (await scene.get(WorkloadRebalancer, "again")).status.observed_workloads}
        assert phases == {"Done", "Blocked"}
        await asyncio.sleep(600)
        assert [await scene.where(name) for name in ("a", "b")] == [{"m1": 1, "m2": 1}] * 2
        first, second = await scene.moves()
        assert (second.status.started - first.status.started).total_seconds() >= 600

    story(act)


def test_a_budget_whose_replicas_are_missing_blocks_until_they_are_back() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        await scene.budget(minAvailable=5)
        await asyncio.sleep(1)
        await scene.rebalance("web")
        await asyncio.sleep(60)
        assert await scene.where() == {"m1": 4}
        binding = await scene.binding()
        assert [c.reason for c in binding.status.conditions if c.type == "Stalled"] == ["MoveBlocked"]
        await scene.edit(DisruptionBudget, "careful", {"spec": {"minAvailable": 4}}, "default")
        await scene.settled("web", {"m1": 2, "m2": 2})
        assert scene.lowest["web"] == 4

    story(act)


@pytest.mark.parametrize("limit", [{"minAvailable": 4}, {"maxUnavailable": 0}])
def test_a_budget_that_cannot_spare_a_replica_lets_a_replacement_come_first(limit: dict[str, int]) -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        await scene.budget(**limit)
        await asyncio.sleep(1)
        await scene.rebalance("web")
        await scene.settled("web", {"m1": 2, "m2": 2})
        assert scene.lowest["web"] == 4

    story(act)


def test_surge_is_bounded() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene, replicas=6)
        most = 0
        await scene.rebalance("web", move={"maxSurge": 1})
        for _ in range(300):
            most = max(most, sum(scene.ready().values()))
            await asyncio.sleep(0.5)
        assert await scene.where() == {"m1": 3, "m2": 3}
        assert most <= 7
        assert scene.lowest["web"] == 6
        (item,) = (await scene.get(WorkloadRebalancer, "again")).status.observed_workloads
        assert item.phase == "Done"

    story(act)


def test_even_a_rebalance_at_once_waits_when_it_would_take_the_last_copy() -> None:
    async def act(scene: Scene) -> None:
        await scene.taint("m1", CORDON)
        await asyncio.sleep(1)
        await scene.deploy(replicas=3)
        await scene.policy(aggregated("m1", "m2"))
        await scene.settled("web", {"m2": 3})
        await scene.taint("m1")
        await scene.taint("m2", CORDON)
        await asyncio.sleep(12)
        scene.watch()
        await scene.rebalance("web", move={"mode": "AtOnce"})
        await scene.settled("web", {"m1": 3})
        assert scene.lowest["web"] == 3

    story(act, pace="typical")


def test_selectors_suspend_and_pace() -> None:
    async def act(scene: Scene) -> None:
        await scene.taint("m2", CORDON)
        for name in ("a", "b", "c"):
            await scene.deploy(name, replicas=2, labels={"team": "blue" if name != "c" else "red"})
        await scene.policy(divided(("m1", 1), ("m2", 1)))
        for name in ("a", "b", "c"):
            await scene.settled(name, {"m1": 2})
        await scene.taint("m2")
        await asyncio.sleep(12)
        selector = {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"team": "blue"}}}
        await scene.rebalance(job="blue", selectors=[selector], maxParallel=1, suspend=True)
        await asyncio.sleep(20)
        job = await scene.get(WorkloadRebalancer, "blue")
        assert [(i.workload.name, i.phase) for i in job.status.observed_workloads] == [
            ("a", "Pending"),
            ("b", "Pending"),
        ]
        await scene.edit(WorkloadRebalancer, "blue", {"spec": {"suspend": False}})
        await asyncio.sleep(0.2)
        job = await scene.get(WorkloadRebalancer, "blue")
        assert sorted(i.phase for i in job.status.observed_workloads) == ["Moving", "Pending"]
        await scene.settled("a", {"m1": 1, "m2": 1})
        await scene.settled("b", {"m1": 1, "m2": 1})
        assert await scene.where("c") == {"m1": 2}

    story(act)


def test_cancelling_leaves_what_is_done_and_begins_nothing_new() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        await scene.budget(minAvailable=5)
        await asyncio.sleep(1)
        await scene.rebalance("web")
        await asyncio.sleep(20)
        await scene.edit(WorkloadRebalancer, "again", {"spec": {"cancel": True}})
        await asyncio.sleep(5)
        (item,) = (await scene.get(WorkloadRebalancer, "again")).status.observed_workloads
        assert item.phase == "Cancelled"
        await scene.edit(DisruptionBudget, "careful", {"spec": {"minAvailable": 1}}, "default")
        await asyncio.sleep(60)
        assert await scene.where() == {"m1": 4}

    story(act)


def test_the_rest_follows_as_soon_as_the_first_part_has_arrived() -> None:
    async def act(scene: Scene) -> None:
        await scene.taint("m3", "closed:NoSchedule")
        await scene.deploy(replicas=6)
        await scene.policy(divided(("m1", 1), ("m2", 1), ("m3", 1)))
        await scene.budget(maxUnavailable=1, rate={"disruptions": 1, "period": "5s"})
        await scene.settled("web", {"m1": 3, "m2": 3})
        await scene.taint("m3")
        await asyncio.sleep(20)
        await scene.rebalance("web")
        await scene.settled("web", {"m1": 2, "m2": 2, "m3": 2})
        first, second = await scene.moves()
        assert 0 <= (second.status.started - first.status.finished).total_seconds() < 1.1

    story(act, pace="typical")


def test_who_deletes_a_rebalancer_wants_no_more_of_it() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        await scene.budget(minAvailable=5)
        await asyncio.sleep(1)
        await scene.rebalance("web")
        await asyncio.sleep(20)
        await scene.client.delete(resource_of(kind_of(WorkloadRebalancer)), "", "again")
        await scene.edit(DisruptionBudget, "careful", {"spec": {"minAvailable": 1}}, "default")
        await asyncio.sleep(60)
        binding = await scene.binding()
        assert await scene.where() == {"m1": 4}
        assert binding.spec.reschedule_triggered_at is None
        assert [c.status for c in binding.status.conditions if c.type == "Stalled"] == ["False"]

    story(act)


def test_available_replicas_stay_where_they_are_when_asked() -> None:
    async def act(scene: Scene) -> None:
        scene.world["m2"].cast(Spell("broken", NEVER_READY))
        await scene.deploy(replicas=4)
        await scene.policy(dynamic("m1", "m2", "m3"))
        await asyncio.sleep(30)
        before = await scene.where()
        assert "m2" in before
        await scene.taint("m2", CORDON)
        await scene.rebalance("web", strategy="PreserveAvailable")
        await asyncio.sleep(30)
        after = await scene.where()
        assert "m2" not in after
        assert all(after[name] >= n for name, n in before.items() if name != "m2")

    story(act)


@pytest.mark.parametrize("ttl", [0, 30])
def test_a_finished_rebalancer_goes_when_its_time_is_over(ttl: int) -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        await scene.rebalance("web", ttlSecondsAfterFinished=ttl)
        await scene.settled("web", {"m1": 2, "m2": 2})
        await asyncio.sleep(12 + ttl)
        with pytest.raises(NotFound):
            await scene.get(WorkloadRebalancer, "again")

    story(act)


def test_a_ttl_edit_counts_from_the_old_end_and_a_new_workload_from_the_new_end() -> None:
    async def act(scene: Scene) -> None:
        await crowded(scene)
        await scene.deploy("late", replicas=2)
        await asyncio.sleep(5)
        await scene.rebalance("web", ttlSecondsAfterFinished=3600)
        await scene.settled("web", {"m1": 2, "m2": 2})
        await asyncio.sleep(15)
        first = (await scene.get(WorkloadRebalancer, "again")).status.finish_time
        await scene.edit(WorkloadRebalancer, "again", {"spec": {"ttlSecondsAfterFinished": 7200}})
        await asyncio.sleep(5)
        job = await scene.get(WorkloadRebalancer, "again")
        assert job.status.finish_time == first
        workloads = [
            {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": n} for n in ("web", "late")
        ]
        await scene.edit(WorkloadRebalancer, "again", {"spec": {"workloads": workloads}})
        await asyncio.sleep(30)
        job = await scene.get(WorkloadRebalancer, "again")
        assert job.status.finish_time > first
        await scene.edit(WorkloadRebalancer, "again", {"spec": {"workloads": workloads[::-1]}})
        await asyncio.sleep(5)
        again = await scene.get(WorkloadRebalancer, "again")
        assert again.status.finish_time == job.status.finish_time
        assert [i.workload.name for i in again.status.observed_workloads] == ["late", "web"]

    story(act)


def test_a_missing_workload_fails_for_good() -> None:
    async def act(scene: Scene) -> None:
        await scene.rebalance("ghost")
        await asyncio.sleep(5)
        (item,) = (await scene.get(WorkloadRebalancer, "again")).status.observed_workloads
        assert (item.result, item.reason, item.phase) == ("Failed", "ReferencedBindingNotFound", "Failed")

    story(act)


def test_an_aggregated_workload_moves_whole_without_a_gap() -> None:
    async def act(scene: Scene) -> None:
        await scene.taint("m1", CORDON)
        await scene.taint("m3", CORDON)
        await asyncio.sleep(1)
        await scene.deploy(replicas=3)
        await scene.policy(aggregated("m1", "m2"))
        await scene.settled("web", {"m2": 3})
        await scene.taint("m1")
        await scene.taint("m2", CORDON)
        await asyncio.sleep(12)
        scene.watch()
        await scene.rebalance("web")
        await scene.settled("web", {"m1": 3})
        assert scene.lowest["web"] == 3
        assert (await scene.get(ResourceBinding, "web-deployment", "default")).status.replacement is None

    story(act)
