"""A simulated fleet starts from a saved one: same clusters, same placements, nothing is decided again."""

import asyncio

import pytest
from move_helpers import MoveScenario, divided, run_scenario

from trimtab.api.kinds.cluster import Cluster, ClusterStatus, EqualNodes, FreeNodes, NodeSummary, ResourceSummary
from trimtab.api.kinds.cluster import NodePool as ReportedPool
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Meta
from trimtab.clock import EPOCH, LoopClock, run_virtually
from trimtab.dryrun.fleet_state import FleetState, fetch_fleet_state
from trimtab.errors import InputError
from trimtab.stories.runner import new_fleet
from trimtab.stories.saved_fleet import (
    configures_server,
    fleet_plan_of,
    load_saved_state,
    member_plan_of,
    other_load_of,
)
from trimtab.stories.story import Story

CUSTOM = {"apiVersion": "shop.example/v1", "kind": "Shop", "metadata": {"name": "books", "namespace": "default"}}

OWNERS = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "owners"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}],
}


async def saved_state(scene: MoveScenario) -> FleetState:
    await scene.create_deployment("web", replicas=6)
    await scene.create_policy(divided(("m1", 2), ("m2", 1)))
    await scene.create_budget(maxUnavailable=1)
    await scene.wait_until_settled("web", {"m1": 4, "m2": 2})
    await scene.set_taints("m3", "closed:NoSchedule")
    return await fetch_fleet_state(scene.client, LoopClock().now())


def run_from(state: FleetState, check):
    async def run() -> None:
        clock = LoopClock(state.now)
        fleet = new_fleet(Story(name="saved"), clock, state)
        await fleet.host.start()
        try:
            await fleet.start()
            loaded = await load_saved_state(fleet, state)
            await asyncio.sleep(60)
            await check(MoveScenario(fleet), loaded)
        finally:
            await fleet.stop()
            await fleet.host.stop()

    run_virtually(run())


def test_workloads_run_where_they_ran_and_nothing_is_decided_again() -> None:
    state = run_scenario(saved_state)
    before = state.bindings[0]

    async def check(scene: MoveScenario, loaded) -> None:
        binding = await scene.get(ResourceBinding, "web-deployment", "default")
        assert binding.spec.clusters == before.spec.clusters
        assert binding.metadata.uid == before.metadata.uid
        assert binding.status.last_scheduled_time == before.status.last_scheduled_time
        assert scene.ready_pods("web") == {"m1": 4, "m2": 2}
        assert [t.key for t in (await scene.get(Cluster, "m3")).spec.taints] == ["closed"]
        assert await scene.list_moves() == []
        assert loaded.skipped == ()

    run_from(state, check)


def test_clusters_that_were_not_ready_stay_unreachable() -> None:
    async def with_failure(scene: MoveScenario) -> FleetState:
        await saved_state(scene)
        scene.world["m2"].partition()
        await asyncio.sleep(40)
        return await fetch_fleet_state(scene.client, LoopClock().now())

    async def check(scene: MoveScenario, loaded) -> None:
        assert not scene.world["m2"].is_reachable
        assert scene.world["m1"].is_reachable

    run_from(run_scenario(with_failure), check)


def test_templates_of_unknown_kinds_and_those_that_configure_the_server_are_left_out_and_named() -> None:
    state = run_scenario(saved_state).with_templates([CUSTOM, OWNERS])

    async def check(scene: MoveScenario, loaded) -> None:
        assert loaded.skipped == ("Shop default/books", "ClusterRoleBinding /owners")

    run_from(state, check)


def cluster(**status) -> Cluster:
    found = Cluster(metadata=Meta(name="m1"))
    return found.but(status=found.status.but(**status))


def test_member_has_the_nodes_pools_and_size_of_the_cluster() -> None:
    pool = ReportedPool(labels={"disk": "ssd"}, nodes=(EqualNodes(count=2, free={"cpu": "1"}),))
    plan = member_plan_of(
        cluster(
            node_summary=NodeSummary(total_num=3, ready_num=3),
            resource_summary=ResourceSummary(allocatable={"cpu": "12", "memory": "48Gi", "pods": "330"}),
            free_nodes=FreeNodes(pools=(pool,)),
        )
    )
    assert [(p.nodes, p.cpu, p.pods, p.labels) for p in plan.pools] == [
        (2, "4", 110, {"disk": "ssd"}),
        (1, "4", 110, {}),
    ]
    assert len({node.name for node in plan.node_plans()}) == 3


def test_load_of_others_is_what_the_saved_workloads_do_not_explain() -> None:
    state = run_scenario(saved_state)
    loads = other_load_of(state)
    assert loads["m1"]["cpu"] == 0  # all requests are those of web
    busy = cluster(resource_summary=ResourceSummary(allocatable={"cpu": "8"}, allocated={"cpu": "3"}))
    assert other_load_of(FleetState.of([busy], [], EPOCH))["m1"]["cpu"] == 3000
    assert fleet_plan_of(state).members[0].name == "m1"


def test_objects_that_configure_a_server_are_left_out() -> None:
    """A snapshot may be a stranger's: loading it gives nobody rights and lets the server call nobody."""
    groups = ("rbac.authorization.k8s.io/v1", "apiregistration.k8s.io/v1", "admissionregistration.k8s.io/v1")
    assert all(configures_server({"apiVersion": group, "kind": "Any"}) for group in groups)
    assert configures_server({"apiVersion": "v1", "kind": "Secret"})
    assert not configures_server({"apiVersion": "apps/v1", "kind": "Deployment"})


@pytest.mark.parametrize("amount", ["x", "1e400", "NaN", "", "0x1"])
def test_amounts_that_are_no_quantities_are_refused(amount: str) -> None:
    status = ClusterStatus(resource_summary=ResourceSummary(allocatable={"cpu": amount}))
    state = FleetState.of([Cluster(metadata=Meta(name="m1"), status=status)], (), EPOCH)
    with pytest.raises(InputError, match="invalid amount"):
        fleet_plan_of(state)


def test_more_nodes_than_can_be_simulated_are_refused() -> None:
    status = ClusterStatus(node_summary=NodeSummary(total_num=10**12))
    with pytest.raises(InputError, match="at most"):
        fleet_plan_of(FleetState.of([Cluster(metadata=Meta(name="m1"), status=status)], (), EPOCH))
