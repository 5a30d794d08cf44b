"""Whole fleets on virtual time, with random disturbances and control plane restarts.

Budgets are never overspent; no voluntary move removes the last ready copy; evictions end; nothing is placed in a
blocked cluster; and a Move explains every change of a placement.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from move_helpers import MoveScenario, aggregated, divided, dynamic, run_scenario

from properties.fleet_observer import FleetObserver, replicas_by_cluster
from properties.hypothesis_settings import example_settings
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.simulate.kubelets.behaviour import NEVER_READY, BehaviourOverride

JOB_NUMBERS = count()
MEMBERS = ("m1", "m2", "m3")
APPS = ("a", "b")
REPLICAS = 4
BLOCK = timedelta(seconds=300)
FAILOVER = {
    "application": {
        "decisionConditions": {"tolerationSeconds": 20},
        "purgeMode": "Graciously",
        "gracePeriodSeconds": 60,
        "blockPredecessorSeconds": int(BLOCK.total_seconds()),
    }
}
FLEET_SETTINGS = {"evacuate-after-seconds": 60}
MAX_MISSING = {0: 0, 1: 1, "25%": 2}
"""Replicas of both apps together that a budget with this maxUnavailable allows to be missing."""
FEW = example_settings(3, thorough=6, suppress_health_check=list(HealthCheck))


def groups(scheduling: Raw, failback: Raw | None = None) -> Raw:
    terms = [
        {"affinityName": "first", "clusterNames": ["m1"]},
        {"affinityName": "second", "clusterNames": ["m2", "m3"]},
    ]
    placement = {"clusterAffinities": terms, "replicaScheduling": scheduling}
    return placement if failback is None else {**placement, "failback": failback}


AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
PLACEMENTS = {
    "divided": divided(("m1", 1), ("m2", 1), ("m3", 1)),
    "dynamic": dynamic(*MEMBERS),
    "aggregated": aggregated(*MEMBERS),
    "groups": groups(AGGREGATED),
    "groups with failback": groups(AGGREGATED, {"after": "2m"}),
    "duplicated groups": groups({"replicaSchedulingType": "Duplicated"}, {"after": "2m"}),
    "two with failback": {**divided(("m1", 1), ("m2", 1)), "failback": {"after": "2m"}},
}


class FleetScenario(NamedTuple):
    """A fleet and the steps that happen to it."""

    placement: str
    failover: bool
    budget: Raw | None
    at_once: bool
    """Whether rebalances use mode AtOnce."""
    pace: str
    steps: list[tuple[tuple[str, Any], float]]


async def apply_step(harness: MoveScenario, step: tuple[str, Any], *, at_once: bool = False) -> None:
    action, target = step
    if action == "rebalance":
        options = {"move": {"mode": "AtOnce"}} if at_once else {}
        await harness.create_rebalancer(target, job=f"again-{next(JOB_NUMBERS)}", **options)
    elif action in ("drain", "undrain"):
        mark = "now" if action == "drain" else None
        await harness.patch(Cluster, target, {"metadata": {"annotations": {well_known.DRAIN: mark}}})
        await harness.set_taints(target, *(["cluster.karmada.io/unschedulable:NoSchedule"] if mark else []))
    elif action in ("cordon", "evacuate"):
        await harness.set_taints(target, f"maintenance:{'NoSchedule' if action == 'cordon' else 'NoExecute'}")
    elif action == "open":
        await harness.set_taints(target)
    elif action == "restart":
        await harness.fleet.stop_plane()
        await asyncio.sleep(target)
        await harness.fleet.start_plane()
    elif action in ("kill", "cut"):
        (harness.world[target].stop_api if action == "kill" else harness.world[target].partition)()
    elif action == "revive":
        harness.world[target].start_api()
    elif action in ("ill", "well"):
        member, app = target
        selector = LabelSelector(match_labels={"app": app})
        if action == "ill":
            harness.world[member].kubelets.override_behaviour(BehaviourOverride(app, NEVER_READY, "default", selector))
        else:
            harness.world[member].kubelets.remove_override(app)


def check_scenario(scenario: FleetScenario, watch: Callable[[FleetObserver], None]) -> None:
    """Run the scenario, check it after every step, and check that it converges."""

    async def act(harness: MoveScenario) -> None:
        observer = FleetObserver(harness, block=BLOCK)
        observer.start()
        for app in APPS:
            await harness.create_deployment(app, replicas=REPLICAS, labels={"app": app})
        extra = {"failover": FAILOVER} if scenario.failover else {}
        await harness.create_policy(PLACEMENTS[scenario.placement], **extra)
        if scenario.budget is not None:
            await harness.create_budget(**scenario.budget)
        await asyncio.sleep(60)
        assert all(len(observer.ready.get(app, ())) >= REPLICAS for app in APPS), await harness.report()
        observer.reset_minimums()
        for one, pause in scenario.steps:
            await apply_step(harness, one, at_once=scenario.at_once)
            await asyncio.sleep(pause)
            watch(observer)
            await assert_no_violations(harness, observer, scenario)
        await recover_all(harness)
        await asyncio.sleep(4000)
        watch(observer)
        await assert_no_violations(harness, observer, scenario)
        await assert_converged(harness, observer)
        observer.stop()

    run_scenario(act, settings=FLEET_SETTINGS, pace=scenario.pace)


async def assert_no_violations(harness: MoveScenario, observer: FleetObserver, scenario: FleetScenario) -> None:
    complaints = [*observer.violations, *observer.budget_violations(scenario.budget or {})]
    assert complaints == [], "\n".join([*complaints, await harness.report()])


async def recover_all(harness: MoveScenario) -> None:
    if harness.fleet.plane is None:
        await harness.fleet.start_plane()
    for member in MEMBERS:
        harness.world[member].start_api()
        for app in APPS:
            harness.world[member].kubelets.remove_override(app)
        await apply_step(harness, ("undrain", member))


async def assert_converged(harness: MoveScenario, observer: FleetObserver) -> None:
    """No move is in progress, and everything runs exactly where it is placed."""
    for app in APPS:
        binding = observer.bindings[f"/registry/work.karmada.io/resourcebindings/default/{app}-deployment"]
        placed = replicas_by_cluster(binding)
        assert not binding["spec"].get("gracefulEvictionTasks"), await harness.report()
        assert not (binding.get("status") or {}).get("holds"), await harness.report()
        assert sum(placed.values()) >= REPLICAS, await harness.report()
        assert harness.ready_pods(app) == placed, await harness.report()
    open_ones = [move["metadata"]["name"] for move in observer.moves.values() if not move["status"].get("outcome")]
    assert open_ones == [], await harness.report()


on_members = st.sampled_from(MEMBERS)
on_apps = st.sampled_from(APPS)
VOLUNTARY = st.one_of(
    st.tuples(st.just("rebalance"), on_apps),
    st.tuples(st.sampled_from(["drain", "undrain", "cordon", "open"]), on_members),
    st.tuples(st.just("restart"), st.sampled_from([0, 3, 40])),
)
DISRUPTIVE = st.one_of(
    VOLUNTARY,
    st.tuples(st.sampled_from(["kill", "cut", "revive", "evacuate"]), on_members),
    st.tuples(st.sampled_from(["ill", "well"]), st.tuples(on_members, on_apps)),
)
pauses = st.sampled_from([0.0, 0.3, 2.0, 20.0, 100.0, 700.0])
budgets = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "rate": st.builds(
                lambda n, s: {"disruptions": n, "period": f"{s}s"}, st.integers(1, 2), st.sampled_from([60, 600])
            ),
            "maxConcurrent": st.integers(1, 2),
            "maxUnavailable": st.sampled_from([0, 1, "25%"]),
        },
    ),
)


def scenarios(steps: Any) -> Any:
    return st.builds(
        FleetScenario,
        placement=st.sampled_from(sorted(PLACEMENTS)),
        failover=st.booleans(),
        budget=budgets,
        at_once=st.booleans(),
        pace=st.sampled_from(["fast", "typical"]),
        steps=st.lists(st.tuples(steps, pauses), min_size=1, max_size=6),
    )


@FEW
@given(scenarios(VOLUNTARY))
def test_voluntary_moves_never_reduce_ready_replicas(scenario: FleetScenario) -> None:
    spare = MAX_MISSING.get((scenario.budget or {}).get("maxUnavailable"))

    def watch(observer: FleetObserver) -> None:
        if not scenario.at_once:
            assert all(observer.min_ready[app] >= REPLICAS for app in APPS), observer.min_ready
        elif spare is not None:
            assert observer.min_ready_total >= REPLICAS * len(APPS) - spare, observer.min_ready

    check_scenario(scenario, watch)


@FEW
@given(scenarios(DISRUPTIVE))
def test_fleet_converges_within_budgets_after_failures(scenario: FleetScenario) -> None:
    check_scenario(scenario, lambda _: None)
