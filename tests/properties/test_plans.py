"""A plan tells the truth: in random fleets, the moves that happen after a change are those of its plan."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any, NamedTuple

from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from move_helpers import MoveScenario, aggregated, divided, dynamic, run_scenario

from properties.hypothesis_settings import example_settings
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.cli.commands.drain_cluster import start_drain
from trimtab.cli.support.cluster_taints import update_taints
from trimtab.client.lookups import workload_reference
from trimtab.clock import LoopClock
from trimtab.dryrun.change import Change, TaintChange
from trimtab.dryrun.fleet_state import fetch_fleet_state
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_result import LATER, NEVER, NOW, REFUSED, Plan
from trimtab.simulate.kubelets.behaviour import NEVER_READY, BehaviourOverride

CLUSTERS = ("m1", "m2", "m3")
TOLERANCE = timedelta(seconds=1)
"""Times on the wire have no fractions of a second."""
THRESHOLD = 10.0
SETTINGS = {"cluster-failure-threshold": THRESHOLD, "cluster-success-threshold": THRESHOLD}
"""The settings of the fleet; a plan has to know them, too."""
TIMED = (NOW, LATER)
LATEST = {
    "drain": timedelta(seconds=2),
    "rebalance": timedelta(seconds=2),
    "taint": timedelta(seconds=2),
    "lose": timedelta(seconds=12),
}
"""How much later than planned a move may begin when nothing fails; a lost cluster is noticed by a probe every 10 seconds."""
BUDGETS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"maxUnavailable": 1},
    {"rate": {"disruptions": 1, "period": "1m"}},
    {"maxConcurrent": 1},
    {"windows": [{"schedule": "5-59/10 * * * *", "duration": "3m"}]},
)
"""The window is closed while the plans are made: fleets begin at a full hour."""
CHANGES = ("drain", "rebalance", "taint", "lose")
FAILURES = ("", "restart", "partition", "unready")


class FleetCase(NamedTuple):
    """One random fleet and what happens to it."""

    replicas: tuple[int, ...]
    strategy: str
    clusters: tuple[str, ...]
    cordoned: str
    """A cluster that was closed while the workloads were placed, so that a rebalance moves something."""
    budget: dict[str, Any] | None
    change: str
    target: str
    failure: str = ""
    """What fails while the moves are in progress: the control plane, a cluster for a minute, or the pods of a cluster."""
    in_flight: bool = False
    """Whether replicas of an earlier rebalance are held while the plan is made."""


def placement_of(case: FleetCase) -> dict[str, Any]:
    if case.strategy == "Aggregated":
        return aggregated(*case.clusters)
    if case.strategy == "Dynamic":
        return dynamic(*case.clusters)
    if case.strategy == "Duplicated":
        return {"clusterAffinity": {"clusterNames": list(case.clusters)}}
    return divided(*((name, weight) for weight, name in enumerate(case.clusters, 1)))


@st.composite
def fleet_cases(draw: st.DrawFn) -> FleetCase:
    clusters = draw(st.lists(st.sampled_from(CLUSTERS), min_size=2, max_size=3, unique=True).map(sorted))
    return FleetCase(
        tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=2))),
        draw(st.sampled_from(("Weighted", "Dynamic", "Aggregated", "Duplicated"))),
        tuple(clusters),
        draw(st.sampled_from(("", clusters[-1]))),
        draw(st.sampled_from(BUDGETS)),
        draw(st.sampled_from(CHANGES)),
        draw(st.sampled_from(clusters)),
        draw(st.sampled_from(FAILURES)),
        draw(st.booleans()),
    )


async def place(scene: MoveScenario, case: FleetCase) -> list[str]:
    names = [f"app{number}" for number in range(len(case.replicas))]
    if case.cordoned:
        await scene.set_taints(case.cordoned, "closed:NoSchedule")
    for name, replicas in zip(names, case.replicas, strict=True):
        await scene.create_deployment(name, replicas=replicas)
    await scene.create_policy(placement_of(case))
    await asyncio.sleep(30)
    if case.cordoned:
        await scene.set_taints(case.cordoned)
    if case.budget is not None:
        await scene.create_budget(**case.budget)
    await asyncio.sleep(20)
    return names


async def change_of(scene: MoveScenario, case: FleetCase, names: list[str]) -> Change:
    if case.change == "drain":
        return Change(drain=(case.target,))
    if case.change == "taint":
        return Change(taints=(TaintChange(cluster=case.target, key="broken", effect="NoExecute"),))
    if case.change == "lose":
        return Change(lose_clusters=(case.target,))
    refs = [await workload_reference(scene.client, f"deploy/{name}", "default") for name in names]
    return Change(rebalance={"workloads": refs})


async def carry_out(scene: MoveScenario, case: FleetCase, change: Change, names: list[str]) -> None:
    if case.change == "drain":
        await start_drain(scene.client, case.target)
    elif case.change == "taint":
        await update_taints(scene.client, change.taints[0])
    elif case.change == "lose":
        scene.world[case.target].partition()
    else:
        await scene.create_rebalancer(*names)


async def begin_earlier_move(scene: MoveScenario, case: FleetCase, names: list[str]) -> None:
    """Start a rebalance, and return while its replacements are not ready yet."""
    await scene.create_rebalancer(*names, job="earlier")
    await asyncio.sleep(1.5)


async def let_something_fail(scene: MoveScenario, case: FleetCase) -> None:
    """One failure that passes before workloads are evicted because of it."""
    await asyncio.sleep(2)
    other = scene.world[next(name for name in case.clusters if name != case.target)]
    if case.failure == "restart":
        await scene.fleet.stop_plane()
        await asyncio.sleep(20)
        await scene.fleet.start_plane()
    elif case.failure == "partition":
        other.partition()
        await asyncio.sleep(60)
        other.heal()
    elif case.failure == "unready":
        other.kubelets.override_behaviour(BehaviourOverride("slow", NEVER_READY))
        await asyncio.sleep(60)
        other.kubelets.remove_override("slow")


async def settle(scene: MoveScenario) -> None:
    """Wait longer than every window and rate of the budgets, and than the delay before a lost cluster is evacuated."""
    await asyncio.sleep(15 * 60)


def totals(placements: dict[str, dict[str, int]]) -> dict[str, int]:
    return {name: sum(shares.values()) for name, shares in placements.items()}


def clusters_left(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]]) -> dict[str, set[str]]:
    return {name: shares.keys() - after[name].keys() for name, shares in before.items()}


def expected_placements(plan: Plan, before: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    after = dict(before)
    for row in plan.workloads:
        if row.action != REFUSED and row.start != NEVER:
            after[row.workload.rpartition("/")[2]] = {target.name: target.replicas for target in row.after}
    return after


def planned_moves(plan: Plan) -> dict[tuple[str, str], int]:
    """The replicas that leave each cluster, by workload and cluster."""
    found: Counter[tuple[str, str]] = Counter()
    for move in plan.moves:
        if move.start != NEVER:
            found[move.workload.rpartition("/")[2], move.source] += move.replicas
    return dict(found)


def recorded_moves(moves: list[Move]) -> dict[tuple[str, str], int]:
    """The same as the log has it, of the moves that were completed."""
    found: Counter[tuple[str, str]] = Counter()
    for move in moves:
        if move.status.outcome == "Done":
            found[move.spec.object.name, move.spec.from_] += move.spec.replicas
    return dict(found)


def check_starts(plan: Plan, moves: list[Move], latest: timedelta | None, *, has_window: bool) -> None:
    """No move begins before the time that the plan gives, such as that of a window; nor much later where nothing fails."""
    for planned in plan.moves:
        starts = [
            move.status.started
            for move in moves
            if (move.spec.object.name, move.spec.from_) == (planned.workload.rpartition("/")[2], planned.source)
            and move.status.started is not None
        ]
        assert not has_window or planned.start != LATER or planned.starts_at is not None, planned
        first = planned.starts_at or plan.created
        assert all(started >= first - TOLERANCE for started in starts), (planned, moves)
        if latest is not None and planned.start in TIMED and (planned.start == NOW or planned.starts_at is not None):
            assert starts, (planned, moves)
            assert starts[0] <= first + latest, (planned, moves)


@example_settings(3, thorough=6, suppress_health_check=list(HealthCheck))
@given(fleet_cases())
@example(FleetCase((4,), "Weighted", ("m1", "m2"), "m2", BUDGETS[2], "rebalance", "m1", "restart"))
@example(FleetCase((3, 2), "Dynamic", ("m1", "m2", "m3"), "", BUDGETS[4], "drain", "m1"))
@example(FleetCase((4, 4), "Weighted", ("m1", "m2", "m3"), "", None, "lose", "m2", "restart"))
@example(FleetCase((4,), "Weighted", ("m1", "m2", "m3"), "", None, "lose", "m3"))
@example(FleetCase((4,), "Weighted", ("m1", "m2", "m3"), "m3", BUDGETS[1], "drain", "m1", "partition"))
@example(FleetCase((4,), "Weighted", ("m1", "m2", "m3"), "m3", None, "drain", "m1", "", in_flight=True))
@example(FleetCase((4,), "Weighted", ("m1", "m2"), "m2", None, "rebalance", "m1", "unready"))
@example(FleetCase((5, 3), "Weighted", ("m1", "m2", "m3"), "m3", BUDGETS[4], "rebalance", "m1"))
@example(FleetCase((4, 4), "Duplicated", ("m1", "m2"), "", BUDGETS[2], "drain", "m1"))
@example(FleetCase((5, 4), "Weighted", ("m1", "m2", "m3"), "m3", BUDGETS[1], "rebalance", "m1"))
@example(FleetCase((1, 5), "Duplicated", ("m1", "m2"), "m2", BUDGETS[1], "drain", "m1", "", in_flight=True))
def test_moves_that_happen_are_those_of_the_plan(case: FleetCase) -> None:
    async def act(scene: MoveScenario) -> None:
        names = await place(scene, case)
        if case.in_flight and case.cordoned and case.change in ("drain", "taint"):
            await begin_earlier_move(scene, case, names)
        before = {name: await scene.placement_of(name) for name in names}
        change = await change_of(scene, case, names)
        state = await fetch_fleet_state(scene.client, LoopClock().now())
        plan = make_plan(state._replace(settings=SETTINGS), change)
        earlier = {move.name for move in await scene.list_moves()}
        await carry_out(scene, case, change, names)
        await let_something_fail(scene, case)
        await settle(scene)
        happened = {name: await scene.placement_of(name) for name in names}
        expected = expected_placements(plan, before)
        if case.strategy == "Dynamic":
            # Shares follow the free capacity at the moment of each decision: only who leaves and how many stay is certain.
            assert totals(happened) == totals(expected), plan
            assert clusters_left(before, happened) == clusters_left(before, expected), plan
        else:
            assert happened == expected, plan
        moves = [move for move in await scene.list_moves() if move.name not in earlier]
        has_window = "windows" in (case.budget or {})
        check_starts(
            plan, moves, latest=None if case.failure or earlier else LATEST[case.change], has_window=has_window
        )
        if not case.failure and not earlier and case.strategy != "Dynamic":
            assert recorded_moves(moves) == planned_moves(plan), plan
        if case.change == "rebalance":
            assert (await scene.get(WorkloadRebalancer, "again")).status.finish_time is not None

    run_scenario(act, members=len(CLUSTERS), pace="typical", settings=SETTINGS)
