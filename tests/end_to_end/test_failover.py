"""Clusters that fail, workloads that fail, and the way home: documents 001 and 002 on a whole fleet."""

import asyncio
from typing import Any

from move_helpers import PODS, Scene, aggregated, divided, story

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Work
from trimtab.simulate.behaviour import NEVER_READY, Spell
from trimtab.simulate.fleet import MemberPlan

QUICK = {"evacuate-after-seconds": 60}


def groups(*names: tuple[str, ...], failback: Any = None) -> dict[str, Any]:
    terms = [{"affinityName": "-".join(group), "clusterNames": list(group)} for group in names]
    placement: dict[str, Any] = {"clusterAffinities": terms}
    return placement if failback is None else {**placement, "failback": failback}


def application(**rules: Any) -> dict[str, Any]:
    return {"application": {"decisionConditions": {"tolerationSeconds": 20}, **rules}}


async def stalled(scene: Scene) -> str:
    binding = await scene.binding()
    return next((c.reason for c in binding.status.conditions if c.type == "Stalled" and c.status == "True"), "")


def test_a_dark_cluster_is_evacuated_after_a_while() -> None:
    async def act(scene: Scene) -> None:
        await scene.deploy(replicas=4)
        await scene.policy(divided(("m1", 1), ("m2", 1)))
        await scene.settled("web", {"m1": 2, "m2": 2})
        scene.world["m1"].partition()
        await asyncio.sleep(50)
        assert await scene.where() == {"m1": 2, "m2": 2}
        await asyncio.sleep(120)
        assert await scene.where() == {"m2": 4}
        (move,) = await scene.moves()
        assert (move.spec.cause, move.spec.from_, move.spec.replicas) == ("ClusterFailover", "m1", 2)
        assert [(to.name, to.replicas) for to in move.spec.to] == [("m2", 2)]
        scene.world["m1"].heal()
        await scene.settled("web", {"m2": 4})

    story(act, members=4, settings=QUICK)


def test_a_workload_with_nowhere_to_go_stays_and_says_why() -> None:
    async def act(scene: Scene) -> None:
        await scene.deploy(replicas=2)
        await scene.policy({"clusterAffinity": {"clusterNames": ["m1"]}})
        await scene.settled("web", {"m1": 2})
        await scene.taint("m1", "maintenance:NoExecute")
        await asyncio.sleep(900)
        assert await scene.where() == {"m1": 2}
        assert scene.ready() == {"m1": 2}
        assert await stalled(scene) == "EvictionBlocked"

    story(act)


def test_thirty_of_forty_clusters_going_dark_at_once_evict_nothing() -> None:
    async def act(scene: Scene) -> None:
        names = [f"m{n}" for n in range(1, 41)]
        for number in range(20):
            await scene.deploy(f"app{number}", replicas=2)
        await scene.policy({**aggregated(*names), "clusterAffinity": {"clusterNames": names}})
        await asyncio.sleep(30)
        before = [await scene.where(f"app{number}") for number in range(20)]
        homes = sorted({name for place in before for name in place})
        dark = (homes + [name for name in names if name not in homes])[:30]
        for name in dark:
            scene.world[name].partition()
        await asyncio.sleep(400)
        assert [await scene.where(f"app{number}") for number in range(20)] == before
        for name in dark:
            scene.world[name].heal()
        await asyncio.sleep(120)
        assert [await scene.where(f"app{number}") for number in range(20)] == before
        assert await scene.moves() == []
        scene.world[homes[0]].partition()
        await asyncio.sleep(200)
        after = [await scene.where(f"app{number}") for number in range(20)]
        assert all(homes[0] not in place for place in after)
        assert all(sum(place.values()) == 2 for place in after)

    plans = tuple(MemberPlan(name=f"m{n}", nodes=1) for n in range(1, 41))
    story(act, plans=plans, settings=QUICK, pace="instant")


def test_a_cluster_that_recovers_before_the_replacement_is_ready_keeps_its_copy() -> None:
    async def act(scene: Scene) -> None:
        scene.world["m2"].cast(Spell("broken", NEVER_READY))
        await scene.deploy(replicas=2)
        await scene.policy(aggregated("m1"))
        await scene.settled("web", {"m1": 2})
        await scene.place(aggregated("m1", "m2"))
        await asyncio.sleep(2)
        await scene.taint("m1", "maintenance:NoExecute")
        await asyncio.sleep(30)
        assert await scene.where() == {"m2": 2}
        assert scene.ready() == {"m1": 2}
        await scene.taint("m1")
        await scene.settled("web", {"m1": 2})
        (move,) = await scene.moves()
        assert move.status.outcome == "Cancelled"

    story(act)


def test_the_last_healthy_copy_survives_the_time_out() -> None:
    async def act(scene: Scene) -> None:
        scene.world["m2"].cast(Spell("broken", NEVER_READY))
        await scene.deploy(replicas=2)
        await scene.policy(aggregated("m1"))
        await scene.settled("web", {"m1": 2})
        await scene.place(aggregated("m1", "m2"))
        await asyncio.sleep(2)
        await scene.taint("m1", "maintenance:NoExecute")
        await asyncio.sleep(1500)
        assert scene.ready() == {"m1": 2}
        scene.world["m2"].lift("broken")
        await scene.settled("web", {"m2": 2}, seconds=300)

    story(act)


def test_groups_fall_back_in_order_and_come_home_after_a_healthy_window() -> None:
    async def act(scene: Scene) -> None:
        await scene.deploy(replicas=2)
        await scene.policy(groups(("m1",), ("m2",), failback={"after": "5m"}))
        await scene.settled("web", {"m1": 2})
        await scene.taint("m1", "broken:NoExecute")
        await scene.settled("web", {"m2": 2})
        binding = await scene.binding()
        assert binding.status.scheduler_observing_affinity_name == "m2"
        assert [t.name for t in binding.status.previous_placement.clusters] == ["m1"]
        scene.watch()
        await scene.taint("m1")
        await asyncio.sleep(200)
        await scene.taint("m1", "broken:NoSchedule")  # a flap: the window begins anew
        await asyncio.sleep(5)
        await scene.taint("m1")
        await asyncio.sleep(200)
        assert await scene.where() == {"m2": 2}
        await asyncio.sleep(110)
        await scene.settled("web", {"m1": 2})
        assert scene.lowest["web"] == 2
        assert (await scene.moves())[-1].spec.cause == "Failback"
        binding = await scene.binding()
        assert binding.status.scheduler_observing_affinity_name == "m1"
        assert binding.status.previous_placement is None

    story(act)


def test_without_groups_the_way_home_leads_to_the_clusters_that_were_left() -> None:
    async def act(scene: Scene) -> None:
        placement = {**divided(("m1", 1), ("m2", 1)), "failback": {"after": "2m", "to": "Previous"}}
        await scene.deploy(replicas=4)
        await scene.policy(placement)
        await scene.settled("web", {"m1": 2, "m2": 2})
        await scene.taint("m1", "broken:NoExecute")
        await scene.settled("web", {"m2": 4})
        await scene.taint("m1")
        await asyncio.sleep(60)
        assert await scene.where() == {"m2": 4}
        scene.watch()
        await asyncio.sleep(70)
        await scene.settled("web", {"m1": 2, "m2": 2})
        assert scene.lowest["web"] == 4

    story(act)


def test_when_the_later_group_fails_the_earlier_one_is_tried_again() -> None:
    async def act(scene: Scene) -> None:
        await scene.deploy(replicas=2)
        await scene.policy(groups(("m1",), ("m2",)))
        await scene.settled("web", {"m1": 2})
        await scene.taint("m1", "broken:NoExecute")
        await scene.settled("web", {"m2": 2})
        await scene.taint("m1")
        await scene.taint("m2", "broken:NoExecute")
        await scene.settled("web", {"m1": 2})

    story(act)


def test_an_unhealthy_workload_moves_and_does_not_come_back_while_blocked() -> None:
    async def act(scene: Scene) -> None:
        await scene.deploy(replicas=2)
        policy = aggregated("m1", "m2", "m3")
        await scene.policy(policy, failover=application(blockPredecessorSeconds=300))
        await asyncio.sleep(20)
        (first,) = await scene.where()
        scene.world[first].cast(Spell("broken", NEVER_READY))
        for name in [p.metadata.name for p in scene.world[first].pods]:
            await scene.world[first].inside.delete(PODS, "default", name)
        await asyncio.sleep(60)
        (second,) = await scene.where()
        assert second != first
        await scene.settled("web", {second: 2})
        binding = await scene.binding()
        assert [e.cluster_name for e in binding.spec.active_eviction_history] == [first]
        assert (await scene.moves())[0].spec.cause == "ApplicationFailover"
        await scene.rebalance("web")
        await asyncio.sleep(60)
        assert first not in await scene.where()
        await asyncio.sleep(300)
        assert (await scene.binding()).spec.active_eviction_history == ()

    story(act)


def test_an_unhealthy_workload_with_nowhere_to_go_stays() -> None:
    async def act(scene: Scene) -> None:
        scene.world["m1"].cast(Spell("broken", NEVER_READY))
        await scene.deploy(replicas=2)
        await scene.policy({"clusterAffinity": {"clusterNames": ["m1"]}}, failover=application())
        await asyncio.sleep(300)
        assert await scene.where() == {"m1": 2}
        assert await stalled(scene) == "FailoverBlocked"
        assert await scene.moves() == []

    story(act)


def test_a_drained_cluster_empties_without_a_gap_and_takes_nothing_new() -> None:
    async def act(scene: Scene) -> None:
        await scene.deploy(replicas=4)
        await scene.policy(divided(("m1", 1), ("m2", 1)))
        await scene.settled("web", {"m1": 2, "m2": 2})
        scene.watch()
        await scene.edit(Cluster, "m1", {"metadata": {"annotations": {"trimtab.dev/drain": "2030-01-01T00:00:00Z"}}})
        await scene.taint("m1", "cluster.karmada.io/unschedulable:NoSchedule")
        await scene.settled("web", {"m2": 4})
        assert scene.lowest["web"] == 4
        assert [(m.spec.cause, m.status.outcome) for m in await scene.moves()] == [("Drain", "Done")]
        assert not [w for w in await scene.all(Work) if w.namespace == "karmada-es-m1"]

    story(act, pace="typical")


def test_a_drain_without_another_place_leaves_everything_where_it_is() -> None:
    async def act(scene: Scene) -> None:
        await scene.deploy(replicas=2)
        await scene.policy({"clusterAffinity": {"clusterNames": ["m1"]}})
        await scene.settled("web", {"m1": 2})
        await scene.edit(Cluster, "m1", {"metadata": {"annotations": {"trimtab.dev/drain": "2030-01-01T00:00:00Z"}}})
        await asyncio.sleep(60)
        assert await scene.where() == {"m1": 2}
        assert await stalled(scene) == "NoFeasibleCluster"
        await scene.edit(Cluster, "m1", {"metadata": {"annotations": {"trimtab.dev/drain": None}}})
        await asyncio.sleep(60)
        assert await stalled(scene) == ""

    story(act)
