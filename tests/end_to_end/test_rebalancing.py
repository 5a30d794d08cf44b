"""WorkloadRebalancers on a whole simulated fleet, without losing ready replicas."""

import asyncio

import pytest
from move_helpers import MoveScenario, aggregated, divided, dynamic, run_scenario

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import ResourceBinding
from trimtab.client.client import resource_of
from trimtab.errors import NotFound
from trimtab.simulate.kubelets.behaviour import NEVER_READY, BehaviourOverride

CORDON = "cluster.karmada.io/unschedulable:NoSchedule"


async def place_all_in_m1(scenario: MoveScenario, replicas: int = 4) -> None:
    """Place all replicas in m1 while m2 is cordoned, then uncordon m2."""
    await scenario.set_taints("m2", CORDON)
    await asyncio.sleep(1)
    await scenario.create_deployment(replicas=replicas)
    await scenario.create_policy(divided(("m1", 1), ("m2", 1)))
    await scenario.wait_until_settled("web", {"m1": replicas})
    await scenario.set_taints("m2")
    await asyncio.sleep(12)
    scenario.record_lowest_ready()


def test_rebalance_spreads_replicas_and_never_loses_a_ready_one() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await place_all_in_m1(scenario)
        await scenario.create_rebalancer("web")
        await scenario.wait_until_settled("web", {"m1": 2, "m2": 2})
        assert scenario.lowest_ready["web"] == 4
        (move,) = await scenario.list_moves()
        assert (move.spec.cause, move.spec.from_, move.spec.replicas) == ("Rebalance", "m1", 2)
        assert [(to.name, to.replicas) for to in move.spec.to] == [("m2", 2)]
        assert move.status.outcome == "Done"
        await asyncio.sleep(15)
        job = await scenario.get(WorkloadRebalancer, "again")
        (item,) = job.status.observed_workloads
        assert (item.result, item.phase) == ("Successful", "Done")
        assert {c.type: c.status for c in job.status.conditions} == {
            "Ready": "True",
            "Reconciling": "False",
            "Stalled": "False",
        }

    run_scenario(steps, pace="typical")


def test_a_replacement_that_never_gets_ready_reverts_the_move_without_loss() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await place_all_in_m1(scenario)
        scenario.world["m2"].kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
        await scenario.create_rebalancer("web")
        await asyncio.sleep(300)
        assert await scenario.placement_of() == {"m1": 2, "m2": 2}
        assert scenario.ready_pods() == {"m1": 4}
        await asyncio.sleep(330)
        assert await scenario.placement_of() == {"m1": 4}
        assert scenario.lowest_ready["web"] == 4
        (move,) = await scenario.list_moves()
        assert move.status.outcome == "Reverted"
        (item,) = (await scenario.get(WorkloadRebalancer, "again")).status.observed_workloads
        assert (item.phase, item.reason) == ("Failed", "MoveReverted")
        await asyncio.sleep(1300)
        assert await scenario.placement_of() == {"m1": 4}

    run_scenario(steps)


def test_a_budget_rate_lets_workloads_move_one_after_the_other() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.set_taints("m2", CORDON)
        for name in ("a", "b"):
            await scenario.create_deployment(name, replicas=2)
        await scenario.create_policy(divided(("m1", 1), ("m2", 1)))
        await scenario.wait_until_settled("a", {"m1": 2})
        await scenario.wait_until_settled("b", {"m1": 2})
        await scenario.create_budget(rate={"disruptions": 1, "period": "10m"})
        await scenario.set_taints("m2")
        await asyncio.sleep(12)
        await scenario.create_rebalancer("a", "b")
        await asyncio.sleep(60)
        places = [await scenario.placement_of(name) for name in ("a", "b")]
        assert sorted(map(len, places)) == [1, 2]
        budget = await scenario.get(DisruptionBudget, "careful", "default")
        assert (budget.status.allowed_now, budget.status.rate.in_window) == (0, 1)
        assert budget.status.next_allowed_at is not None
        phases = {i.phase for i in (await scenario.get(WorkloadRebalancer, "again")).status.observed_workloads}
        assert phases == {"Done", "Blocked"}
        await asyncio.sleep(600)
        assert [await scenario.placement_of(name) for name in ("a", "b")] == [{"m1": 1, "m2": 1}] * 2
        first, second = await scenario.list_moves()
        assert (second.status.started - first.status.started).total_seconds() >= 600

    run_scenario(steps)


def test_a_budget_with_too_few_replicas_blocks_moves_until_it_is_relaxed() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await place_all_in_m1(scenario)
        await scenario.create_budget(minAvailable=5)
        await asyncio.sleep(1)
        await scenario.create_rebalancer("web")
        await asyncio.sleep(60)
        assert await scenario.placement_of() == {"m1": 4}
        binding = await scenario.get_binding()
        assert [c.reason for c in binding.status.conditions if c.type == "Stalled"] == ["MoveBlocked"]
        await scenario.patch(DisruptionBudget, "careful", {"spec": {"minAvailable": 4}}, "default")
        await scenario.wait_until_settled("web", {"m1": 2, "m2": 2})
        assert scenario.lowest_ready["web"] == 4

    run_scenario(steps)


@pytest.mark.parametrize("limit", [{"minAvailable": 4}, {"maxUnavailable": 0}])
def test_a_budget_that_cannot_spare_a_replica_allows_replacement_first(limit: dict[str, int]) -> None:
    async def steps(scenario: MoveScenario) -> None:
        await place_all_in_m1(scenario)
        await scenario.create_budget(**limit)
        await asyncio.sleep(1)
        await scenario.create_rebalancer("web")
        await scenario.wait_until_settled("web", {"m1": 2, "m2": 2})
        assert scenario.lowest_ready["web"] == 4

    run_scenario(steps)


def test_surge_is_bounded() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await place_all_in_m1(scenario, replicas=6)
        most = 0
        await scenario.create_rebalancer("web", move={"maxSurge": 1})
        for _ in range(300):
            most = max(most, sum(scenario.ready_pods().values()))
            await asyncio.sleep(0.5)
        assert await scenario.placement_of() == {"m1": 3, "m2": 3}
        assert most <= 7
        assert scenario.lowest_ready["web"] == 6
        (item,) = (await scenario.get(WorkloadRebalancer, "again")).status.observed_workloads
        assert item.phase == "Done"

    run_scenario(steps)


def test_rebalance_at_once_starts_the_replacement_first_for_the_last_copy() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.set_taints("m1", CORDON)
        await asyncio.sleep(1)
        await scenario.create_deployment(replicas=3)
        await scenario.create_policy(aggregated("m1", "m2"))
        await scenario.wait_until_settled("web", {"m2": 3})
        await scenario.set_taints("m1")
        await scenario.set_taints("m2", CORDON)
        await asyncio.sleep(12)
        scenario.record_lowest_ready()
        await scenario.create_rebalancer("web", move={"mode": "AtOnce"})
        await scenario.wait_until_settled("web", {"m1": 3})
        assert scenario.lowest_ready["web"] == 3

    run_scenario(steps, pace="typical")


def test_selectors_suspend_and_max_parallel_work_together() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.set_taints("m2", CORDON)
        for name in ("a", "b", "c"):
            await scenario.create_deployment(name, replicas=2, labels={"team": "blue" if name != "c" else "red"})
        await scenario.create_policy(divided(("m1", 1), ("m2", 1)))
        for name in ("a", "b", "c"):
            await scenario.wait_until_settled(name, {"m1": 2})
        await scenario.set_taints("m2")
        await asyncio.sleep(12)
        selector = {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"team": "blue"}}}
        await scenario.create_rebalancer(job="blue", selectors=[selector], maxParallel=1, suspend=True)
        await asyncio.sleep(20)
        job = await scenario.get(WorkloadRebalancer, "blue")
        assert [(i.workload.name, i.phase) for i in job.status.observed_workloads] == [
            ("a", "Pending"),
            ("b", "Pending"),
        ]
        await scenario.patch(WorkloadRebalancer, "blue", {"spec": {"suspend": False}})
        await asyncio.sleep(0.2)
        job = await scenario.get(WorkloadRebalancer, "blue")
        assert sorted(i.phase for i in job.status.observed_workloads) == ["Moving", "Pending"]
        await scenario.wait_until_settled("a", {"m1": 1, "m2": 1})
        await scenario.wait_until_settled("b", {"m1": 1, "m2": 1})
        assert await scenario.placement_of("c") == {"m1": 2}

    run_scenario(steps)


def test_a_cancelled_rebalancer_starts_no_more_moves() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await place_all_in_m1(scenario)
        await scenario.create_budget(minAvailable=5)
        await asyncio.sleep(1)
        await scenario.create_rebalancer("web")
        await asyncio.sleep(20)
        await scenario.patch(WorkloadRebalancer, "again", {"spec": {"cancel": True}})
        await asyncio.sleep(5)
        (item,) = (await scenario.get(WorkloadRebalancer, "again")).status.observed_workloads
        assert item.phase == "Cancelled"
        await scenario.patch(DisruptionBudget, "careful", {"spec": {"minAvailable": 1}}, "default")
        await asyncio.sleep(60)
        assert await scenario.placement_of() == {"m1": 4}

    run_scenario(steps)


def test_the_second_transfer_starts_when_the_first_is_done() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.set_taints("m3", "closed:NoSchedule")
        await scenario.create_deployment(replicas=6)
        await scenario.create_policy(divided(("m1", 1), ("m2", 1), ("m3", 1)))
        await scenario.create_budget(maxUnavailable=1, rate={"disruptions": 1, "period": "5s"})
        await scenario.wait_until_settled("web", {"m1": 3, "m2": 3})
        await scenario.set_taints("m3")
        await asyncio.sleep(20)
        await scenario.create_rebalancer("web")
        await scenario.wait_until_settled("web", {"m1": 2, "m2": 2, "m3": 2})
        first, second = await scenario.list_moves()
        assert 0 <= (second.status.started - first.status.finished).total_seconds() < 1.1

    run_scenario(steps, pace="typical")


def test_deleting_a_rebalancer_withdraws_its_pending_requests() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await place_all_in_m1(scenario)
        await scenario.create_budget(minAvailable=5)
        await asyncio.sleep(1)
        await scenario.create_rebalancer("web")
        await asyncio.sleep(20)
        await scenario.client.delete(resource_of(kind_of(WorkloadRebalancer)), "", "again")
        await scenario.patch(DisruptionBudget, "careful", {"spec": {"minAvailable": 1}}, "default")
        await asyncio.sleep(60)
        binding = await scenario.get_binding()
        assert await scenario.placement_of() == {"m1": 4}
        assert binding.spec.reschedule_triggered_at is None
        assert [c.status for c in binding.status.conditions if c.type == "Stalled"] == ["False"]

    run_scenario(steps)


def test_strategy_preserve_available_keeps_available_replicas_in_place() -> None:
    async def steps(scenario: MoveScenario) -> None:
        scenario.world["m2"].kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
        await scenario.create_deployment(replicas=4)
        await scenario.create_policy(dynamic("m1", "m2", "m3"))
        await asyncio.sleep(30)
        before = await scenario.placement_of()
        assert "m2" in before
        await scenario.set_taints("m2", CORDON)
        await scenario.create_rebalancer("web", strategy="PreserveAvailable")
        await asyncio.sleep(30)
        after = await scenario.placement_of()
        assert "m2" not in after
        assert all(after[name] >= n for name, n in before.items() if name != "m2")

    run_scenario(steps)


@pytest.mark.parametrize("ttl", [0, 30])
def test_a_finished_rebalancer_is_deleted_after_its_ttl(ttl: int) -> None:
    async def steps(scenario: MoveScenario) -> None:
        await place_all_in_m1(scenario)
        await scenario.create_rebalancer("web", ttlSecondsAfterFinished=ttl)
        await scenario.wait_until_settled("web", {"m1": 2, "m2": 2})
        await asyncio.sleep(12 + ttl)
        with pytest.raises(NotFound):
            await scenario.get(WorkloadRebalancer, "again")

    run_scenario(steps)


def test_a_ttl_edit_keeps_the_finish_time_and_a_new_workload_changes_it() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await place_all_in_m1(scenario)
        await scenario.create_deployment("late", replicas=2)
        await asyncio.sleep(5)
        await scenario.create_rebalancer("web", ttlSecondsAfterFinished=3600)
        await scenario.wait_until_settled("web", {"m1": 2, "m2": 2})
        await asyncio.sleep(15)
        first = (await scenario.get(WorkloadRebalancer, "again")).status.finish_time
        await scenario.patch(WorkloadRebalancer, "again", {"spec": {"ttlSecondsAfterFinished": 7200}})
        await asyncio.sleep(5)
        job = await scenario.get(WorkloadRebalancer, "again")
        assert job.status.finish_time == first
        workloads = [
            {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": n} for n in ("web", "late")
        ]
        await scenario.patch(WorkloadRebalancer, "again", {"spec": {"workloads": workloads}})
        await asyncio.sleep(30)
        job = await scenario.get(WorkloadRebalancer, "again")
        assert job.status.finish_time > first
        await scenario.patch(WorkloadRebalancer, "again", {"spec": {"workloads": workloads[::-1]}})
        await asyncio.sleep(5)
        unchanged = await scenario.get(WorkloadRebalancer, "again")
        assert unchanged.status.finish_time == job.status.finish_time
        assert [i.workload.name for i in unchanged.status.observed_workloads] == ["late", "web"]

    run_scenario(steps)


def test_rebalance_of_a_missing_workload_fails_permanently() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.create_rebalancer("ghost")
        await asyncio.sleep(5)
        (item,) = (await scenario.get(WorkloadRebalancer, "again")).status.observed_workloads
        assert (item.result, item.reason, item.phase) == ("Failed", "ReferencedBindingNotFound", "Failed")

    run_scenario(steps)


def test_an_aggregated_workload_moves_as_a_whole_without_losing_ready_replicas() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.set_taints("m1", CORDON)
        await scenario.set_taints("m3", CORDON)
        await asyncio.sleep(1)
        await scenario.create_deployment(replicas=3)
        await scenario.create_policy(aggregated("m1", "m2"))
        await scenario.wait_until_settled("web", {"m2": 3})
        await scenario.set_taints("m1")
        await scenario.set_taints("m2", CORDON)
        await asyncio.sleep(12)
        scenario.record_lowest_ready()
        await scenario.create_rebalancer("web")
        await scenario.wait_until_settled("web", {"m1": 3})
        assert scenario.lowest_ready["web"] == 3
        assert (await scenario.get(ResourceBinding, "web-deployment", "default")).status.replacement is None

    run_scenario(steps)
