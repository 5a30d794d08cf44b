"""Cluster failover, application failover, failback and drain on a whole simulated fleet."""

import asyncio
from typing import Any

from move_helpers import PODS, MoveScenario, aggregated, divided, run_scenario

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Work
from trimtab.simulate.fleet import MemberPlan
from trimtab.simulate.kubelets.behaviour import NEVER_READY, BehaviourOverride

FAST_EVACUATION = {"evacuate-after-seconds": 60}


def groups(*names: tuple[str, ...], failback: Any = None) -> dict[str, Any]:
    terms = [{"affinityName": "-".join(group), "clusterNames": list(group)} for group in names]
    placement: dict[str, Any] = {"clusterAffinities": terms}
    return placement if failback is None else {**placement, "failback": failback}


def application(**rules: Any) -> dict[str, Any]:
    return {"application": {"decisionConditions": {"tolerationSeconds": 20}, **rules}}


async def stalled_reason(scenario: MoveScenario) -> str:
    binding = await scenario.get_binding()
    return next((c.reason for c in binding.status.conditions if c.type == "Stalled" and c.status == "True"), "")


def test_a_cluster_that_stays_unreachable_is_evacuated() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.create_deployment(replicas=4)
        await scenario.create_policy(divided(("m1", 1), ("m2", 1)))
        await scenario.wait_until_settled("web", {"m1": 2, "m2": 2})
        scenario.world["m1"].partition()
        await asyncio.sleep(50)
        assert await scenario.placement_of() == {"m1": 2, "m2": 2}
        await asyncio.sleep(120)
        assert await scenario.placement_of() == {"m2": 4}
        (move,) = await scenario.list_moves()
        assert (move.spec.cause, move.spec.from_, move.spec.replicas) == ("ClusterFailover", "m1", 2)
        assert [(to.name, to.replicas) for to in move.spec.to] == [("m2", 2)]
        scenario.world["m1"].heal()
        await scenario.wait_until_settled("web", {"m2": 4})

    run_scenario(steps, members=4, settings=FAST_EVACUATION)


def test_a_workload_with_nowhere_to_go_stays_and_reports_why() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.create_deployment(replicas=2)
        await scenario.create_policy({"clusterAffinity": {"clusterNames": ["m1"]}})
        await scenario.wait_until_settled("web", {"m1": 2})
        await scenario.set_taints("m1", "maintenance:NoExecute")
        await asyncio.sleep(900)
        assert await scenario.placement_of() == {"m1": 2}
        assert scenario.ready_pods() == {"m1": 2}
        assert await stalled_reason(scenario) == "EvictionBlocked"

    run_scenario(steps)


def test_nothing_is_evicted_when_thirty_of_forty_clusters_are_unreachable_at_once() -> None:
    async def steps(scenario: MoveScenario) -> None:
        names = [f"m{n}" for n in range(1, 41)]
        for number in range(20):
            await scenario.create_deployment(f"app{number}", replicas=2)
        await scenario.create_policy({**aggregated(*names), "clusterAffinity": {"clusterNames": names}})
        await asyncio.sleep(30)
        before = [await scenario.placement_of(f"app{number}") for number in range(20)]
        used = sorted({name for placement in before for name in placement})
        unreachable = (used + [name for name in names if name not in used])[:30]
        for name in unreachable:
            scenario.world[name].partition()
        await asyncio.sleep(400)
        assert [await scenario.placement_of(f"app{number}") for number in range(20)] == before
        for name in unreachable:
            scenario.world[name].heal()
        await asyncio.sleep(120)
        assert [await scenario.placement_of(f"app{number}") for number in range(20)] == before
        assert await scenario.list_moves() == []
        scenario.world[used[0]].partition()
        await asyncio.sleep(200)
        after = [await scenario.placement_of(f"app{number}") for number in range(20)]
        assert all(used[0] not in placement for placement in after)
        assert all(sum(placement.values()) == 2 for placement in after)

    plans = tuple(MemberPlan(name=f"m{n}", nodes=1) for n in range(1, 41))
    run_scenario(steps, plans=plans, settings=FAST_EVACUATION, pace="instant")


def test_a_cluster_that_recovers_before_the_replacement_is_ready_keeps_its_copy() -> None:
    async def steps(scenario: MoveScenario) -> None:
        scenario.world["m2"].kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
        await scenario.create_deployment(replicas=2)
        await scenario.create_policy(aggregated("m1"))
        await scenario.wait_until_settled("web", {"m1": 2})
        await scenario.set_placement(aggregated("m1", "m2"))
        await asyncio.sleep(2)
        await scenario.set_taints("m1", "maintenance:NoExecute")
        await asyncio.sleep(30)
        assert await scenario.placement_of() == {"m2": 2}
        assert scenario.ready_pods() == {"m1": 2}
        await scenario.set_taints("m1")
        await scenario.wait_until_settled("web", {"m1": 2})
        (move,) = await scenario.list_moves()
        assert move.status.outcome == "Cancelled"

    run_scenario(steps)


def test_the_last_healthy_copy_survives_the_eviction_deadline() -> None:
    async def steps(scenario: MoveScenario) -> None:
        scenario.world["m2"].kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
        await scenario.create_deployment(replicas=2)
        await scenario.create_policy(aggregated("m1"))
        await scenario.wait_until_settled("web", {"m1": 2})
        await scenario.set_placement(aggregated("m1", "m2"))
        await asyncio.sleep(2)
        await scenario.set_taints("m1", "maintenance:NoExecute")
        await asyncio.sleep(1500)
        assert scenario.ready_pods() == {"m1": 2}
        scenario.world["m2"].kubelets.remove_override("broken")
        await scenario.wait_until_settled("web", {"m2": 2}, seconds=300)

    run_scenario(steps)


def test_affinity_groups_fall_back_in_order_and_return_after_a_healthy_window() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.create_deployment(replicas=2)
        await scenario.create_policy(groups(("m1",), ("m2",), failback={"after": "5m"}))
        await scenario.wait_until_settled("web", {"m1": 2})
        await scenario.set_taints("m1", "broken:NoExecute")
        await scenario.wait_until_settled("web", {"m2": 2})
        binding = await scenario.get_binding()
        assert binding.status.scheduler_observing_affinity_name == "m2"
        assert [t.name for t in binding.status.previous_placement.clusters] == ["m1"]
        scenario.record_lowest_ready()
        await scenario.set_taints("m1")
        await asyncio.sleep(200)
        await scenario.set_taints("m1", "broken:NoSchedule")  # a flap restarts the window
        await asyncio.sleep(5)
        await scenario.set_taints("m1")
        await asyncio.sleep(200)
        assert await scenario.placement_of() == {"m2": 2}
        await asyncio.sleep(110)
        await scenario.wait_until_settled("web", {"m1": 2})
        assert scenario.lowest_ready["web"] == 2
        assert (await scenario.list_moves())[-1].spec.cause == "Failback"
        binding = await scenario.get_binding()
        assert binding.status.scheduler_observing_affinity_name == "m1"
        assert binding.status.previous_placement is None

    run_scenario(steps)


def test_without_affinity_groups_failback_returns_to_the_previous_clusters() -> None:
    async def steps(scenario: MoveScenario) -> None:
        placement = {**divided(("m1", 1), ("m2", 1)), "failback": {"after": "2m", "to": "Previous"}}
        await scenario.create_deployment(replicas=4)
        await scenario.create_policy(placement)
        await scenario.wait_until_settled("web", {"m1": 2, "m2": 2})
        await scenario.set_taints("m1", "broken:NoExecute")
        await scenario.wait_until_settled("web", {"m2": 4})
        await scenario.set_taints("m1")
        await asyncio.sleep(60)
        assert await scenario.placement_of() == {"m2": 4}
        scenario.record_lowest_ready()
        await asyncio.sleep(70)
        await scenario.wait_until_settled("web", {"m1": 2, "m2": 2})
        assert scenario.lowest_ready["web"] == 4

    run_scenario(steps)


def test_when_a_later_affinity_group_fails_an_earlier_one_is_tried_again() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.create_deployment(replicas=2)
        await scenario.create_policy(groups(("m1",), ("m2",)))
        await scenario.wait_until_settled("web", {"m1": 2})
        await scenario.set_taints("m1", "broken:NoExecute")
        await scenario.wait_until_settled("web", {"m2": 2})
        await scenario.set_taints("m1")
        await scenario.set_taints("m2", "broken:NoExecute")
        await scenario.wait_until_settled("web", {"m1": 2})

    run_scenario(steps)


def test_an_unhealthy_workload_moves_and_does_not_return_while_blocked() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.create_deployment(replicas=2)
        policy = aggregated("m1", "m2", "m3")
        await scenario.create_policy(policy, failover=application(blockPredecessorSeconds=300))
        await asyncio.sleep(20)
        (first,) = await scenario.placement_of()
        scenario.world[first].kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
        for name in [p.metadata.name for p in scenario.world[first].pods]:
            await scenario.world[first].internal_client.delete(PODS, "default", name)
        await asyncio.sleep(60)
        (second,) = await scenario.placement_of()
        assert second != first
        await scenario.wait_until_settled("web", {second: 2})
        binding = await scenario.get_binding()
        assert [e.cluster_name for e in binding.spec.active_eviction_history] == [first]
        assert (await scenario.list_moves())[0].spec.cause == "ApplicationFailover"
        await scenario.create_rebalancer("web")
        await asyncio.sleep(60)
        assert first not in await scenario.placement_of()
        await asyncio.sleep(300)
        assert (await scenario.get_binding()).spec.active_eviction_history == ()

    run_scenario(steps)


def test_an_unhealthy_workload_with_nowhere_to_go_stays() -> None:
    async def steps(scenario: MoveScenario) -> None:
        scenario.world["m1"].kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
        await scenario.create_deployment(replicas=2)
        await scenario.create_policy({"clusterAffinity": {"clusterNames": ["m1"]}}, failover=application())
        await asyncio.sleep(300)
        assert await scenario.placement_of() == {"m1": 2}
        assert await stalled_reason(scenario) == "FailoverBlocked"
        assert await scenario.list_moves() == []

    run_scenario(steps)


def test_a_drained_cluster_empties_without_losing_ready_replicas() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.create_deployment(replicas=4)
        await scenario.create_policy(divided(("m1", 1), ("m2", 1)))
        await scenario.wait_until_settled("web", {"m1": 2, "m2": 2})
        scenario.record_lowest_ready()
        await scenario.patch(
            Cluster, "m1", {"metadata": {"annotations": {"trimtab.dev/drain": "2030-01-01T00:00:00Z"}}}
        )
        await scenario.set_taints("m1", "cluster.karmada.io/unschedulable:NoSchedule")
        await scenario.wait_until_settled("web", {"m2": 4})
        assert scenario.lowest_ready["web"] == 4
        assert [(m.spec.cause, m.status.outcome) for m in await scenario.list_moves()] == [("Drain", "Done")]
        assert not [w for w in await scenario.list_all(Work) if w.namespace == "karmada-es-m1"]

    run_scenario(steps, pace="typical")


def test_a_drain_without_another_cluster_moves_nothing() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.create_deployment(replicas=2)
        await scenario.create_policy({"clusterAffinity": {"clusterNames": ["m1"]}})
        await scenario.wait_until_settled("web", {"m1": 2})
        await scenario.patch(
            Cluster, "m1", {"metadata": {"annotations": {"trimtab.dev/drain": "2030-01-01T00:00:00Z"}}}
        )
        await asyncio.sleep(60)
        assert await scenario.placement_of() == {"m1": 2}
        assert await stalled_reason(scenario) == "NoFeasibleCluster"
        await scenario.patch(Cluster, "m1", {"metadata": {"annotations": {"trimtab.dev/drain": None}}})
        await asyncio.sleep(60)
        assert await stalled_reason(scenario) == ""

    run_scenario(steps)
