"""Whole fleets on virtual time, whatever happens to them and however often the control plane dies meanwhile.

A budget is never overspent; nothing deliberate takes the last copy that works; evictions end; nobody is sent to a
cluster that is blocked; and the log explains every change of a placement.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from move_helpers import Scene, aggregated, divided, dynamic, story

from properties.witness import Witness, shares
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.simulate.behaviour import NEVER_READY, Spell

NUMBERS = count()
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
QUICK = {"evacuate-after-seconds": 60}
SPARED = {0: 0, 1: 1, "25%": 2}
"""What a budget over all replicas of both apps lets be missing."""
FEW = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


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
    "groups with a way home": groups(AGGREGATED, {"after": "2m"}),
    "duplicated groups": groups({"replicaSchedulingType": "Duplicated"}, {"after": "2m"}),
    "two with a way home": {**divided(("m1", 1), ("m2", 1)), "failback": {"after": "2m"}},
}


class Plot(NamedTuple):
    """What a fleet lives through."""

    placement: str
    failover: bool
    budget: Raw | None
    at_once: bool
    """Whether rebalances do without replacements first."""
    pace: str
    acts: list[tuple[tuple[str, Any], float]]


async def perform(scene: Scene, act: tuple[str, Any], *, at_once: bool = False) -> None:
    what, whom = act
    if what == "rebalance":
        options = {"move": {"mode": "AtOnce"}} if at_once else {}
        await scene.rebalance(whom, job=f"again-{next(NUMBERS)}", **options)
    elif what in ("drain", "undrain"):
        mark = "now" if what == "drain" else None
        await scene.edit(Cluster, whom, {"metadata": {"annotations": {well_known.DRAIN: mark}}})
        await scene.taint(whom, *(["cluster.karmada.io/unschedulable:NoSchedule"] if mark else []))
    elif what in ("cordon", "evacuate"):
        await scene.taint(whom, f"maintenance:{'NoSchedule' if what == 'cordon' else 'NoExecute'}")
    elif what == "open":
        await scene.taint(whom)
    elif what == "restart":
        await scene.fleet.stop_plane()
        await asyncio.sleep(whom)
        await scene.fleet.start_plane()
    elif what in ("kill", "cut"):
        (scene.world[whom].stop_api if what == "kill" else scene.world[whom].partition)()
    elif what == "revive":
        scene.world[whom].start_api()
    elif what in ("ill", "well"):
        member, app = whom
        selector = LabelSelector(match_labels={"app": app})
        if what == "ill":
            scene.world[member].cast(Spell(app, NEVER_READY, "default", selector))
        else:
            scene.world[member].lift(app)


def lived(plot: Plot, watch: Callable[[Witness], None]) -> None:
    """Live through the plot, look at it after every act, and see that it all ends well."""

    async def act(scene: Scene) -> None:
        witness = Witness(scene, block=BLOCK)
        witness.start()
        for app in APPS:
            await scene.deploy(app, replicas=REPLICAS, labels={"app": app})
        extra = {"failover": FAILOVER} if plot.failover else {}
        await scene.policy(PLACEMENTS[plot.placement], **extra)
        if plot.budget is not None:
            await scene.budget(**plot.budget)
        await asyncio.sleep(60)
        assert all(len(witness.ready.get(app, ())) >= REPLICAS for app in APPS), await scene.report()
        witness.count_anew()
        for one, pause in plot.acts:
            await perform(scene, one, at_once=plot.at_once)
            await asyncio.sleep(pause)
            watch(witness)
            await said(scene, witness, plot)
        await healed(scene)
        await asyncio.sleep(4000)
        watch(witness)
        await said(scene, witness, plot)
        await ended(scene, witness)
        witness.stop()

    story(act, settings=QUICK, pace=plot.pace)


async def said(scene: Scene, witness: Witness, plot: Plot) -> None:
    complaints = [*witness.complaints, *witness.overspent(plot.budget or {})]
    assert complaints == [], "\n".join([*complaints, await scene.report()])


async def healed(scene: Scene) -> None:
    if scene.fleet.plane is None:
        await scene.fleet.start_plane()
    for member in MEMBERS:
        scene.world[member].start_api()
        for app in APPS:
            scene.world[member].lift(app)
        await perform(scene, ("undrain", member))


async def ended(scene: Scene, witness: Witness) -> None:
    """Nothing is on its way any more, and everything runs where it is placed and nowhere else."""
    for app in APPS:
        binding = witness.bindings[f"/registry/work.karmada.io/resourcebindings/default/{app}-deployment"]
        placed = shares(binding)
        assert not binding["spec"].get("gracefulEvictionTasks"), await scene.report()
        assert not (binding.get("status") or {}).get("holds"), await scene.report()
        assert sum(placed.values()) >= REPLICAS, await scene.report()
        assert scene.ready(app) == placed, await scene.report()
    open_ones = [move["metadata"]["name"] for move in witness.moves.values() if not move["status"].get("outcome")]
    assert open_ones == [], await scene.report()


on_members = st.sampled_from(MEMBERS)
on_apps = st.sampled_from(APPS)
GENTLE = st.one_of(
    st.tuples(st.just("rebalance"), on_apps),
    st.tuples(st.sampled_from(["drain", "undrain", "cordon", "open"]), on_members),
    st.tuples(st.just("restart"), st.sampled_from([0, 3, 40])),
)
ROUGH = st.one_of(
    GENTLE,
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


def plots(acts: Any) -> Any:
    return st.builds(
        Plot,
        placement=st.sampled_from(sorted(PLACEMENTS)),
        failover=st.booleans(),
        budget=budgets,
        at_once=st.booleans(),
        pace=st.sampled_from(["fast", "typical"]),
        acts=st.lists(st.tuples(acts, pauses), min_size=1, max_size=6),
    )


@FEW
@given(plots(GENTLE))
def test_nothing_voluntary_is_ever_noticed(plot: Plot) -> None:
    spare = SPARED.get((plot.budget or {}).get("maxUnavailable"))

    def watch(witness: Witness) -> None:
        if not plot.at_once:
            assert all(witness.lowest[app] >= REPLICAS for app in APPS), witness.lowest
        elif spare is not None:
            assert witness.lowest_of_all >= REPLICAS * len(APPS) - spare, witness.lowest

    lived(plot, watch)


@FEW
@given(plots(ROUGH))
def test_whatever_breaks_ends_well_within_its_budget(plot: Plot) -> None:
    lived(plot, lambda _: None)
