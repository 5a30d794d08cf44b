"""Plans of changes on a fleet in memory, compared with what the control plane then does."""

import asyncio
from datetime import UTC, datetime

from builders import placement
from move_helpers import MoveScenario, divided, dynamic, run_scenario

from cli.scenarios import place_four_replicas_in_m1, place_in_m1_and_m2
from trimtab.api.kind import kind_of
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.cli.commands.drain_cluster import start_drain
from trimtab.client.lookups import list_typed, workload_reference
from trimtab.clock import LoopClock
from trimtab.dryrun.change import Change, TaintChange
from trimtab.dryrun.fleet_state import FleetState, fetch_fleet_state
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_result import Plan, PlannedWorkload
from trimtab.simulate.fleet import MemberPlan

WEB = "Deployment/default/web"
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "api", "namespace": "default", "uid": "u1"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "api"}},
        "template": {
            "metadata": {"labels": {"app": "api"}},
            "spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}]},
        },
    },
}


async def state_of(scene: MoveScenario) -> FleetState:
    return await fetch_fleet_state(scene.client, LoopClock().now())


async def plan_of(scene: MoveScenario, **change: object) -> Plan:
    return make_plan(await state_of(scene), Change(**change))


def row_of(plan: Plan, name: str = WEB) -> PlannedWorkload:
    return next(row for row in plan.workloads if row.workload == name)


def shares(row: PlannedWorkload) -> tuple[dict[str, int], dict[str, int]]:
    return {t.name: t.replicas for t in row.before}, {t.name: t.replicas for t in row.after}


async def rebalance_of(scene: MoveScenario, *names: str) -> dict[str, object]:
    return {"workloads": [await workload_reference(scene.client, name, "default") for name in names]}


def test_without_a_change_nothing_is_planned() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        plan = await plan_of(scene)
        assert (plan.workloads, plan.exit_code, plan.unchanged) == ((), 0, 1)
        assert plan.verdict.message == "Nothing would change."

    run_scenario(act)


def test_a_rebalance_is_planned_as_it_then_happens() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        plan = await plan_of(scene, rebalance=await rebalance_of(scene, "deploy/web"))
        assert shares(row_of(plan)) == ({"m1": 4}, {"m1": 2, "m2": 2})
        (move,) = plan.moves
        assert (move.source, move.replicas, move.mode, move.start) == ("m1", 2, "ReplacementFirst", "Now")
        assert plan.exit_code == 2
        await scene.create_rebalancer("web")
        await scene.wait_until_settled("web", {"m1": 2, "m2": 2})

    run_scenario(act)


def test_a_rebalance_of_an_unknown_workload_is_refused() -> None:
    async def act(scene: MoveScenario) -> None:
        plan = await plan_of(scene, rebalance=await rebalance_of(scene, "deploy/ghost"))
        row = row_of(plan, "Deployment/default/ghost")
        assert row.refusal is not None
        assert (row.action, row.refusal.code, plan.exit_code) == ("Refused", "NotFound", 3)

    run_scenario(act)


def test_a_lost_cluster_is_planned_as_it_then_fails_over() -> None:
    async def act(scene: MoveScenario) -> None:
        await scene.create_deployment(replicas=4)
        await scene.create_policy(dynamic("m1", "m2", "m3"))
        await scene.wait_until(lambda: is_ready(scene, 4))
        before = await scene.placement_of()
        victim = max(before, key=lambda name: before[name])
        plan = await plan_of(scene, lose_clusters=(victim,))
        planned = shares(row_of(plan))[1]
        assert victim not in planned
        assert sum(planned.values()) == 4
        assert row_of(plan).lost_replicas == before[victim]
        assert plan.evacuation_starts_after is not None
        scene.world[victim].partition()

        async def has_failed_over() -> bool:
            return victim not in await scene.placement_of()

        await scene.wait_until(has_failed_over, 900)
        await asyncio.sleep(5)
        assert await scene.placement_of() == planned

    run_scenario(act)


async def is_ready(scene: MoveScenario, n: int) -> bool:
    await asyncio.sleep(0)
    return sum(scene.ready_pods().values()) == n


def test_a_lost_cluster_without_a_substitute_is_a_violation() -> None:
    async def act(scene: MoveScenario) -> None:
        await scene.create_deployment(replicas=2)
        await scene.create_policy(divided(("m1", 1)))
        await scene.wait_until_settled("web", {"m1": 2})
        plan = await plan_of(scene, lose_clusters=("m1",))
        row = row_of(plan)
        assert row.refusal is not None
        assert (row.action, row.refusal.code, row.lost_replicas) == ("Refused", "NoFeasibleCluster", 2)
        assert plan.exit_code == 3
        assert plan.verdict.message == "One workload is refused. 2 replicas stay down."

    run_scenario(act)


def test_losing_most_clusters_stops_evictions() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        plan = await plan_of(scene, lose_clusters=("m1", "m2", "m3", "m4"))
        row = row_of(plan)
        assert row.refusal is not None
        assert row.refusal.code == "EvictionStopped"
        assert row.refusal.message.startswith("stays in m1, m2: ")

    run_scenario(act, members=5)


def test_losing_a_region_loses_its_clusters() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        plan = await plan_of(scene, lose_regions=("eu",))
        assert {load.cluster for load in plan.load if load.is_lost} == {"m1"}
        assert shares(row_of(plan))[1] == {"m2": 4}

    run_scenario(act, plans=(MemberPlan(name="m1", region="eu"), MemberPlan(name="m2", region="us")))


def test_a_drain_within_a_budget_starts_in_steps_as_it_then_does() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        await scene.create_budget(rate={"disruptions": 1, "period": "1h"}, selector={})
        plan = await plan_of(scene, drain=("m1",))
        assert shares(row_of(plan)) == ({"m1": 2, "m2": 2}, {"m2": 4})
        assert row_of(plan).cause == "Drain"
        (cost,) = plan.budgets
        assert (cost.budget, cost.moves, cost.started, cost.replicas) == ("default/careful", 1, 1, 2)

    run_scenario(act)


def test_a_workload_that_fits_nowhere_already_is_refused_only_where_the_plan_is_about_it() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        nowhere = {"clusterAffinity": {"clusterNames": ["m9"]}}
        selector = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "lonely"}
        await scene.create_policy(nowhere, "lonely", resourceSelectors=[selector])
        await scene.create_deployment("lonely")
        await asyncio.sleep(20)
        drain = await plan_of(scene, drain=("m1",))
        assert [row.workload for row in drain.workloads] == [WEB]
        assert drain.exit_code == 2
        asked = await plan_of(scene, rebalance=await rebalance_of(scene, "deploy/lonely"))
        assert [(row.workload, row.action) for row in asked.workloads] == [("Deployment/default/lonely", "Refused")]
        assert asked.exit_code == 3

    run_scenario(act)


def test_a_second_workload_sees_the_budget_that_the_first_one_used() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web", "api")
        await scene.create_budget(rate={"disruptions": 1, "period": "1h"}, selector={})
        plan = await plan_of(scene, drain=("m1",))
        starts = {row.workload: (row.start, row.starts_at is not None) for row in plan.workloads}
        assert starts == {"Deployment/default/api": ("Now", False), WEB: ("Later", True)}
        assert plan.exit_code == 2
        (cost,) = plan.budgets
        assert (cost.moves, cost.started) == (2, 1)

    run_scenario(act)


def test_replicas_that_the_first_workload_holds_are_not_missing_for_the_second() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web", "api")
        await scene.create_budget(maxUnavailable=0, selector={})
        plan = await plan_of(scene, drain=("m1",))
        assert {row.workload: row.start for row in plan.workloads} == {"Deployment/default/api": "Now", WEB: "Now"}

    run_scenario(act)


def test_plan_counts_the_workloads_that_it_does_not_list() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web", "api")
        plan = await plan_of(scene, rebalance=await rebalance_of(scene, "deploy/web"))
        assert (row_of(plan).action, plan.unchanged) == ("Unchanged", 1)
        nowhere = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "nope"}
        plan = await plan_of(scene, rebalance={"workloads": [nowhere]})
        assert (row_of(plan, "Deployment/default/nope").action, plan.unchanged) == ("Refused", 2)

    run_scenario(act)


def test_a_quota_without_room_refuses_the_growth() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        quota = {"metadata": {"name": "small", "namespace": "default"}, "spec": {"overall": {"cpu": "400m"}}}
        await scene.create({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota", **quota})
        state = await state_of(scene)
        template = {**DEPLOYMENT, "metadata": {"name": "web", "namespace": "default"}}
        body = {**template, "spec": {**template["spec"], "replicas": 9}}
        for enforced, code in ((True, "QuotaExceeded"), (False, None)):
            plan = make_plan(state._replace(settings={"quota-enforcement": enforced}), Change(objects=(body,)))
            refusal = row_of(plan).refusal
            assert (refusal.code if refusal is not None else None) == code

    run_scenario(act)


def test_a_budget_that_never_allows_a_move_is_a_violation() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        await scene.create_budget(minAvailable=5)
        plan = await plan_of(scene, rebalance=await rebalance_of(scene, "deploy/web"))
        row = row_of(plan)
        assert row.refusal is not None
        assert (row.start, row.refusal.code, plan.exit_code) == ("Never", "NotEnoughAvailable", 3)

    run_scenario(act)


def test_a_closed_window_delays_a_move_until_it_opens() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        await scene.create_budget(windows=[{"schedule": "0 3 * * *", "duration": "1h"}])
        plan = await plan_of(scene, rebalance=await rebalance_of(scene, "deploy/web"))
        assert row_of(plan).start == "Later"
        assert row_of(plan).starts_at == datetime(2030, 1, 1, 3, tzinfo=UTC)
        assert plan.exit_code == 2

    run_scenario(act)


def test_a_taint_moves_what_does_not_tolerate_it() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        taint = TaintChange(cluster="m1", key="gpu", value="broken", effect="NoExecute")
        plan = await plan_of(scene, taints=(taint,))
        assert shares(row_of(plan))[1] == {"m2": 4}
        assert (await plan_of(scene, taints=(taint.but(effect="NoSchedule"),))).workloads == ()

    run_scenario(act)


def test_mixed_objects_show_what_is_created_and_moved() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        policy = (await list_typed(scene.client, PropagationPolicy))[0]
        edited = policy.but(spec=policy.spec.but(placement=placement(**divided(("m2", 1)))))
        raw = kind_of(PropagationPolicy).encode(edited)
        plan = await plan_of(scene, objects=(DEPLOYMENT, raw))
        assert shares(row_of(plan)) == ({"m1": 4}, {"m2": 4})
        created = row_of(plan, "Deployment/default/api")
        assert (created.action, shares(created)) == ("Create", ({}, {"m2": 3}))
        assert plan.objects == ("Deployment/default/api created", "PropagationPolicy/default/pp configured")
        assert await scene.placement_of() == {"m1": 4}

    run_scenario(act)


def test_a_policy_that_no_longer_selects_a_workload_releases_it() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        policy = (await list_typed(scene.client, PropagationPolicy))[0]
        selector = policy.spec.resource_selectors[0].but(name="other")
        raw = kind_of(PropagationPolicy).encode(policy.but(spec=policy.spec.but(resource_selectors=(selector,))))
        plan = await plan_of(scene, objects=(raw,))
        assert row_of(plan).action == "Release"

    run_scenario(act)


def test_a_scaled_workload_is_planned_as_it_is_then_scaled() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        template = (await state_of(scene)).templates["apps/v1", "Deployment"]["default", "web"]
        plan = await plan_of(scene, objects=({**template, "spec": {**template["spec"], "replicas": 6}},))
        assert (row_of(plan).action, shares(row_of(plan))[1]) == ("Scale", {"m1": 3, "m2": 3})

    run_scenario(act)


def test_weights_that_exceed_the_room_of_a_cluster_are_a_warning() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        huge = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 400}}  # type: ignore[dict-item]
        plan = await plan_of(scene, objects=(huge,))
        assert any("has room for" in warning for warning in plan.warnings)

    run_scenario(act)


def test_a_failure_that_breaks_a_budget_is_a_warning() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        await scene.create_budget(minAvailable=3)
        plan = await plan_of(scene, lose_clusters=("m1",))
        (cost,) = plan.budgets
        assert (cost.lost, cost.missing) == (2, 1)
        assert any("budget default/careful" in warning for warning in plan.warnings)

    run_scenario(act)


def test_a_drain_in_progress_is_part_of_the_plan_and_marked() -> None:
    """A rebalance planned during a drain does not send replicas to the drained cluster, and says what moves anyway."""

    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web", "api")
        await scene.create_budget(windows=[{"schedule": "0 3 * * *", "duration": "1h"}])
        await start_drain(scene.client, "m1")
        await asyncio.sleep(5)
        plan = await plan_of(scene, rebalance=await rebalance_of(scene, "deploy/web"))
        assert {row.workload: shares(row)[1] for row in plan.workloads} == {
            WEB: {"m2": 4},
            "Deployment/default/api": {"m2": 4},
        }
        assert row_of(plan, "Deployment/default/api").is_pending
        assert plan.verdict.message == "2 move without this change as well."
        assert plan.exit_code == 0

    run_scenario(act)


def test_equal_plans_have_equal_hashes_at_different_times() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        first = await plan_of(scene, drain=("m1",))
        await asyncio.sleep(30)
        second = await plan_of(scene, drain=("m1",))
        assert first.created != second.created
        assert first.hash == second.hash
        assert first.hash != (await plan_of(scene, drain=("m2",))).hash

    run_scenario(act)
