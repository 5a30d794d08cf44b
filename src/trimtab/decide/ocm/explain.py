"""Why a Placement was answered as it was: the same plugins, asked for their steps and their sentences."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from trimtab.api.kind import kind_of
from trimtab.api.kinds.ocm import OcmPlacement
from trimtab.api.value import Raw
from trimtab.decide.fleet import Array
from trimtab.decide.framework import Mask, Objection, objections, verdicts
from trimtab.decide.ocm.decision import MISCONFIGURED, Misconfigured
from trimtab.decide.ocm.pipeline import Unlistable, decide, eligibility, graded, in_order, search
from trimtab.decide.ocm.request import ADD_ON, PlacementAsk, weighed
from trimtab.decide.ocm.snapshot import Scene, score_note


class Stage(NamedTuple):
    """What is left after a filter and those before it."""

    name: str
    mask: Mask


class Opinion(NamedTuple):
    """What one prioritizer says of each feasible cluster."""

    name: str
    weight: int
    scores: dict[str, int]


class Fate(NamedTuple):
    """What became of one cluster."""

    cluster: str
    outcome: str
    """Selected, NotNeeded, Filtered or NotInSets."""
    total: int | None = None
    plugin: str = ""
    reason: str = ""
    parts: tuple[tuple[str, int, int], ...] = ()
    """What the total is made of: each prioritizer, its weight, its score."""
    gaps: tuple[str, ...] = ()
    """Scores that are missing or have expired, and so count 0."""


def stages(ask: PlacementAsk, scene: Scene) -> Iterator[Stage]:
    """Filter by filter; raises Misconfigured where a filter cannot be understood."""
    mask, said = eligibility(ask, scene).mask, ""
    for plugin in in_order():
        said = f"{said},{plugin.name}" if said else plugin.name
        if mask.any() and not (plugin.skips is not None and plugin.skips(ask)):
            mask = mask & verdicts(plugin, ask, scene.fleet)
        yield Stage(said, mask)


def turned_down(ask: PlacementAsk, scene: Scene) -> str:
    """How many of the clusters at hand each filter turned down, in words; empty when none did."""
    before = total = int(np.count_nonzero(eligibility(ask, scene).mask))
    told = []
    for plugin, stage in zip(in_order(), stages(ask, scene), strict=True):
        after = int(np.count_nonzero(stage.mask))
        told += [f"{plugin.name} {before - after}"] if after < before else []
        before = after
    return f"of {total} clusters were turned down: {', '.join(told)}" if told else ""


def opinions(ask: PlacementAsk, scene: Scene, feasible: Mask) -> Iterator[Opinion]:
    columns = np.flatnonzero(feasible)
    names = scene.fleet.called(columns)
    for one in weighed(ask.spec.prioritizer_policy):
        said = graded(one, ask, scene, feasible)
        scores: list[int] = [] if said is None else said[columns].tolist()
        yield Opinion(one.name, one.weight, dict(zip(names, scores, strict=False)))


def aggregated(totals: Array | None, names: list[str]) -> list[tuple[str, int]]:
    """Clusters with their totals, best first."""
    if totals is None:
        return []
    return sorted(zip(names, totals.tolist(), strict=True), key=lambda entry: (-entry[1], entry[0]))


def shown(placement: OcmPlacement, ask: PlacementAsk, scene: Scene) -> Raw:
    """What `/debug/placements/{namespace}/{name}` answers."""
    answer: Raw = {"placement": _excerpt(placement)}
    left: list[Stage] = []
    try:
        left.extend(stages(ask, scene))
        feasible = left[-1].mask
        heard = list(opinions(ask, scene, feasible))
        found = search(ask, scene, eligibility(ask, scene).mask)
    except (Misconfigured, Unlistable) as fault:
        return _without_empty({**answer, "filteredPipelineResults": _left(left, scene), "error": str(fault)})
    totals = aggregated(found.totals, scene.fleet.called(found.feasible))
    return _without_empty(
        {
            **answer,
            "filteredPipelineResults": _left(left, scene),
            "prioritizeResults": [{"name": o.name, "weight": o.weight, "scores": o.scores} for o in heard],
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
    """What became of every cluster of the fleet, in the order of names; raises Unlistable."""
    answer = decide(ask, scene)
    fleet, found = scene.fleet, answer.found
    told = [Fate(name, "NotInSets") for name in fleet.names]
    if answer.status.code == MISCONFIGURED:
        for column in np.flatnonzero(eligibility(ask, scene).mask).tolist():
            told[column] = Fate(fleet.names[column], "Filtered", None, answer.status.plugin, answer.status.message)
        return told
    totals = [] if found.totals is None else found.totals.tolist()
    chosen = set(found.chosen.tolist())
    mask = np.zeros(len(fleet.names), dtype=bool)
    mask[found.feasible] = True
    heard = list(opinions(ask, scene, mask))
    for column, total in zip(found.feasible.tolist(), totals, strict=True):
        name = fleet.names[column]
        parts = tuple((one.name, one.weight, one.scores[name]) for one in heard if name in one.scores)
        outcome = "Selected" if column in chosen else "NotNeeded"
        told[column] = Fate(name, outcome, total, parts=parts, gaps=tuple(dict.fromkeys(gaps(name, ask, scene))))
    for column, objection in _objections(ask, scene):
        told[column] = Fate(fleet.names[column], "Filtered", None, objection.plugin, objection.reason.message)
    return told


def gaps(cluster: str, ask: PlacementAsk, scene: Scene) -> Iterator[str]:
    """The scores of others that the Placement asks for and that this cluster does not have, in words."""
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
    """Filter by filter, so that none is asked about clusters that never reached it."""
    before = eligibility(ask, scene).mask
    for plugin, stage in zip(in_order(), stages(ask, scene), strict=True):
        refused = np.flatnonzero(before & ~stage.mask).tolist()
        if refused:
            told = objections((plugin,), ask, scene.fleet, refused)
            yield from ((column, objection) for column, objection in told if objection is not None)
        before = stage.mask
