"""Explains the decision for a Placement with the steps and messages of the plugins that made it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from trimtab.api.kind import kind_of
from trimtab.api.kinds.ocm_placement import OcmPlacement
from trimtab.api.value import Raw
from trimtab.decide.fleet import Array
from trimtab.decide.framework import Mask, Objection, objections, verdicts
from trimtab.decide.ocm.decision import MISCONFIGURED, Misconfigured
from trimtab.decide.ocm.pipeline import Unlistable, decide, eligibility, graded, in_order, search
from trimtab.decide.ocm.request import ADD_ON, PlacementAsk, weighed
from trimtab.decide.ocm.snapshot import Scene, score_note


class Stage(NamedTuple):
    """The clusters that remain after a filter and those before it."""

    name: str
    mask: Mask


class Opinion(NamedTuple):
    """The scores of one prioritizer for each feasible cluster."""

    name: str
    weight: int
    scores: dict[str, int]


class Fate(NamedTuple):
    """The outcome for one cluster."""

    cluster: str
    outcome: str
    """Selected, NotNeeded, Filtered or NotInSets."""
    total: int | None = None
    plugin: str = ""
    reason: str = ""
    parts: tuple[tuple[str, int, int], ...] = ()
    """The parts of the total: each prioritizer, its weight, its score."""
    gaps: tuple[str, ...] = ()
    """Scores that are missing or expired and therefore count 0."""


def stages(ask: PlacementAsk, scene: Scene) -> Iterator[Stage]:
    """Apply the filters one by one; raises Misconfigured when a filter is invalid."""
    mask, stage_name = eligibility(ask, scene).mask, ""
    for plugin in in_order():
        stage_name = f"{stage_name},{plugin.name}" if stage_name else plugin.name
        if mask.any() and not (plugin.skips is not None and plugin.skips(ask)):
            mask = mask & verdicts(plugin, ask, scene.fleet)
        yield Stage(stage_name, mask)


def turned_down(ask: PlacementAsk, scene: Scene) -> str:
    """How many of the eligible clusters each filter rejected, as text; empty when none did."""
    before = total = int(np.count_nonzero(eligibility(ask, scene).mask))
    outcomes = []
    for plugin, stage in zip(in_order(), stages(ask, scene), strict=True):
        after = int(np.count_nonzero(stage.mask))
        outcomes += [f"{plugin.name} {before - after}"] if after < before else []
        before = after
    return f"of {total} clusters were turned down: {', '.join(outcomes)}" if outcomes else ""


def opinions(ask: PlacementAsk, scene: Scene, feasible: Mask) -> Iterator[Opinion]:
    columns = np.flatnonzero(feasible)
    names = scene.fleet.called(columns)
    for one in weighed(ask.spec.prioritizer_policy):
        stage_name = graded(one, ask, scene, feasible)
        scores: list[int] = [] if stage_name is None else stage_name[columns].tolist()
        yield Opinion(one.name, one.weight, dict(zip(names, scores, strict=False)))


def aggregated(totals: Array | None, names: list[str]) -> list[tuple[str, int]]:
    """Clusters with their totals, best first."""
    if totals is None:
        return []
    return sorted(zip(names, totals.tolist(), strict=True), key=lambda entry: (-entry[1], entry[0]))


def shown(placement: OcmPlacement, ask: PlacementAsk, scene: Scene) -> Raw:
    """The body of `/debug/placements/{namespace}/{name}`."""
    answer: Raw = {"placement": _excerpt(placement)}
    left: list[Stage] = []
    try:
        left.extend(stages(ask, scene))
        feasible = left[-1].mask
        scored = list(opinions(ask, scene, feasible))
        found = search(ask, scene, eligibility(ask, scene).mask)
    except (Misconfigured, Unlistable) as fault:
        return _without_empty({**answer, "filteredPipelineResults": _left(left, scene), "error": str(fault)})
    totals = aggregated(found.totals, scene.fleet.called(found.feasible))
    return _without_empty(
        {
            **answer,
            "filteredPipelineResults": _left(left, scene),
            "prioritizeResults": [{"name": o.name, "weight": o.weight, "scores": o.scores} for o in scored],
            "aggregatedScores": [{"clusterName": name, "score": total} for name, total in totals],
            "error": found.status.message if found.status.code == MISCONFIGURED else "",
        }
    )


def _left(left: list[Stage], scene: Scene) -> list[Raw]:
    return [
        _without_empty({"name": stage.name, "filteredClusters": scene.fleet.called(np.flatnonzero(stage.mask))})
        for stage in left
    ]


def _excerpt(placement: OcmPlacement) -> Raw:
    raw = kind_of(placement).encode(placement)
    kept = {"name", "namespace", "labels", "annotations"}
    metadata = {field: value for field, value in raw["metadata"].items() if field in kept}
    return {"metadata": metadata, "spec": raw["spec"]}


def _without_empty(raw: dict[str, Any]) -> Raw:
    return {field: value for field, value in raw.items() if value}


def fates(ask: PlacementAsk, scene: Scene) -> list[Fate]:
    """The outcome for every cluster of the fleet, in name order; raises UnlistableClusterSet."""
    answer = decide(ask, scene)
    fleet, found = scene.fleet, answer.found
    outcomes = [Fate(name, "NotInSets") for name in fleet.names]
    if answer.status.code == MISCONFIGURED:
        for column in np.flatnonzero(eligibility(ask, scene).mask).tolist():
            outcomes[column] = Fate(fleet.names[column], "Filtered", None, answer.status.plugin, answer.status.message)
        return outcomes
    totals = [] if found.totals is None else found.totals.tolist()
    chosen = set(found.chosen.tolist())
    mask = np.zeros(len(fleet.names), dtype=bool)
    mask[found.feasible] = True
    scored = list(opinions(ask, scene, mask))
    for column, total in zip(found.feasible.tolist(), totals, strict=True):
        name = fleet.names[column]
        parts = tuple((one.name, one.weight, one.scores[name]) for one in scored if name in one.scores)
        outcome = "Selected" if column in chosen else "NotNeeded"
        outcomes[column] = Fate(name, outcome, total, parts=parts, gaps=tuple(dict.fromkeys(gaps(name, ask, scene))))
    for column, objection in _objections(ask, scene):
        outcomes[column] = Fate(fleet.names[column], "Filtered", None, objection.plugin, objection.reason.message)
    return outcomes


def gaps(cluster: str, ask: PlacementAsk, scene: Scene) -> Iterator[str]:
    """The add-on scores that the Placement uses and that this cluster does not have, as text."""
    for one in weighed(ask.spec.prioritizer_policy):
        add_on = one.coordinate.add_on
        if one.coordinate.type != ADD_ON or add_on is None:
            continue
        note = scene.fleet.notes.get(score_note(add_on.resource_name), {}).get(cluster)
        if note is None:
            yield f"there is no AddOnPlacementScore {add_on.resource_name}"
        elif note.until is not None and note.until < scene.now:
            yield f"AddOnPlacementScore {add_on.resource_name} expired at {note.until:%Y-%m-%d %H:%M:%SZ}"
        elif add_on.score_name not in note.value:
            yield f"AddOnPlacementScore {add_on.resource_name} has no score {add_on.score_name}"


def _objections(ask: PlacementAsk, scene: Scene) -> Iterator[tuple[int, Objection]]:
    """Filter by filter, so that no filter is evaluated for clusters that did not reach it."""
    before = eligibility(ask, scene).mask
    for plugin, stage in zip(in_order(), stages(ask, scene), strict=True):
        refused = np.flatnonzero(before & ~stage.mask).tolist()
        if refused:
            outcomes = objections((plugin,), ask, scene.fleet, refused)
            yield from ((column, objection) for column, objection in outcomes if objection is not None)
        before = stage.mask
