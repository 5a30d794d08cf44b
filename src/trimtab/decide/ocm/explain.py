"""Explains the decision for a Placement with the steps and messages of the plugins that made it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from trimtab.api.kind import kind_of
from trimtab.api.kinds.ocm_placement import OcmPlacement
from trimtab.api.value import Raw
from trimtab.decide.fleet import Array
from trimtab.decide.framework import Mask, Rejection, filter_mask, first_rejections
from trimtab.decide.ocm.decision import MISCONFIGURED, Misconfigured
from trimtab.decide.ocm.pipeline import (
    UnlistableClusterSet,
    decide,
    eligible_clusters,
    ordered_filters,
    score_clusters,
    search,
)
from trimtab.decide.ocm.request import ADD_ON, OcmRequest, weighted_prioritizers
from trimtab.decide.ocm.snapshot import PlacementSnapshot, score_key


class FilterStage(NamedTuple):
    """The clusters that remain after a filter and those before it."""

    name: str
    mask: Mask


class PrioritizerScores(NamedTuple):
    """The scores of one prioritizer for each feasible cluster."""

    name: str
    weight: int
    scores: dict[str, int]


class ClusterOutcome(NamedTuple):
    """The outcome for one cluster."""

    cluster: str
    outcome: str
    """Selected, NotNeeded, Filtered or NotInSets."""
    total: int | None = None
    plugin: str = ""
    reason: str = ""
    score_parts: tuple[tuple[str, int, int], ...] = ()
    """The parts of the total: each prioritizer, its weight, its score."""
    missing_scores: tuple[str, ...] = ()
    """Scores that are missing or expired and therefore count 0."""


def filter_stages(request: OcmRequest, snapshot: PlacementSnapshot) -> Iterator[FilterStage]:
    """Apply the filters one by one; raises Misconfigured when a filter is invalid."""
    mask, stage_name = eligible_clusters(request, snapshot).mask, ""
    for plugin in ordered_filters():
        stage_name = f"{stage_name},{plugin.name}" if stage_name else plugin.name
        if mask.any() and not (plugin.skips is not None and plugin.skips(request)):
            mask = mask & filter_mask(plugin, request, snapshot.fleet)
        yield FilterStage(stage_name, mask)


def describe_rejections(request: OcmRequest, snapshot: PlacementSnapshot) -> str:
    """How many of the eligible clusters each filter rejected, as text; empty when none did."""
    before = total = int(np.count_nonzero(eligible_clusters(request, snapshot).mask))
    outcomes = []
    for plugin, stage in zip(ordered_filters(), filter_stages(request, snapshot), strict=True):
        after = int(np.count_nonzero(stage.mask))
        outcomes += [f"{plugin.name} {before - after}"] if after < before else []
        before = after
    return f"filters reject {total - before} of {total} clusters: {', '.join(outcomes)}" if outcomes else ""


def prioritizer_scores(request: OcmRequest, snapshot: PlacementSnapshot, feasible: Mask) -> Iterator[PrioritizerScores]:
    columns = np.flatnonzero(feasible)
    names = snapshot.fleet.names_at(columns)
    for one in weighted_prioritizers(request.spec.prioritizer_policy):
        stage_name = score_clusters(one, request, snapshot, feasible)
        scores: list[int] = [] if stage_name is None else stage_name[columns].tolist()
        yield PrioritizerScores(one.name, one.weight, dict(zip(names, scores, strict=False)))


def totals_by_rank(totals: Array | None, names: list[str]) -> list[tuple[str, int]]:
    """Clusters with their totals, best first."""
    if totals is None:
        return []
    return sorted(zip(names, totals.tolist(), strict=True), key=lambda entry: (-entry[1], entry[0]))


def debug_document(placement: OcmPlacement, request: OcmRequest, snapshot: PlacementSnapshot) -> Raw:
    """The body of `/debug/placements/{namespace}/{name}`."""
    answer: Raw = {"placement": _placement_excerpt(placement)}
    left: list[FilterStage] = []
    try:
        left.extend(filter_stages(request, snapshot))
        feasible = left[-1].mask
        scored = list(prioritizer_scores(request, snapshot, feasible))
        found = search(request, snapshot)
    except (Misconfigured, UnlistableClusterSet) as fault:
        return _without_empty(
            {**answer, "filteredPipelineResults": _stage_documents(left, snapshot), "error": str(fault)}
        )
    totals = totals_by_rank(found.totals, snapshot.fleet.names_at(found.feasible))
    return _without_empty(
        {
            **answer,
            "filteredPipelineResults": _stage_documents(left, snapshot),
            "prioritizeResults": [{"name": o.name, "weight": o.weight, "scores": o.scores} for o in scored],
            "aggregatedScores": [{"clusterName": name, "score": total} for name, total in totals],
            "error": found.status.message if found.status.code == MISCONFIGURED else "",
        }
    )


def _stage_documents(left: list[FilterStage], snapshot: PlacementSnapshot) -> list[Raw]:
    return [
        _without_empty({"name": stage.name, "filteredClusters": snapshot.fleet.names_at(np.flatnonzero(stage.mask))})
        for stage in left
    ]


def _placement_excerpt(placement: OcmPlacement) -> Raw:
    raw = kind_of(placement).encode(placement)
    kept = {"name", "namespace", "labels", "annotations"}
    metadata = {field: value for field, value in raw["metadata"].items() if field in kept}
    return {"metadata": metadata, "spec": raw["spec"]}


def _without_empty(raw: dict[str, Any]) -> Raw:
    return {field: value for field, value in raw.items() if value}


def cluster_outcomes(request: OcmRequest, snapshot: PlacementSnapshot) -> list[ClusterOutcome]:
    """The outcome for every cluster of the fleet, in name order; raises UnlistableClusterSet."""
    answer = decide(request, snapshot)
    fleet, found = snapshot.fleet, answer.result
    outcomes = [ClusterOutcome(name, "NotInSets") for name in fleet.names]
    if answer.status.code == MISCONFIGURED:
        for column in np.flatnonzero(eligible_clusters(request, snapshot).mask).tolist():
            outcomes[column] = ClusterOutcome(
                fleet.names[column], "Filtered", None, answer.status.plugin, answer.status.message
            )
        return outcomes
    totals = [] if found.totals is None else found.totals.tolist()
    chosen = set(found.chosen)
    mask = np.zeros(len(fleet.names), dtype=bool)
    mask[found.feasible] = True
    scored = list(prioritizer_scores(request, snapshot, mask))
    for column, total in zip(found.feasible.tolist(), totals, strict=True):
        name = fleet.names[column]
        parts = tuple((one.name, one.weight, one.scores[name]) for one in scored if name in one.scores)
        outcome = "Selected" if column in chosen else "NotNeeded"
        outcomes[column] = ClusterOutcome(
            name,
            outcome,
            total,
            score_parts=parts,
            missing_scores=tuple(dict.fromkeys(missing_score_messages(name, request, snapshot))),
        )
    for column, objection in _rejections(request, snapshot):
        outcomes[column] = ClusterOutcome(
            fleet.names[column], "Filtered", None, objection.plugin, objection.reason.message
        )
    return outcomes


def missing_score_messages(cluster: str, request: OcmRequest, snapshot: PlacementSnapshot) -> Iterator[str]:
    """The add-on scores that the Placement uses and that this cluster does not have, as text."""
    for one in weighted_prioritizers(request.spec.prioritizer_policy):
        add_on = one.coordinate.add_on
        if one.coordinate.type != ADD_ON or add_on is None:
            continue
        note = snapshot.fleet.external_values.get(score_key(add_on.resource_name), {}).get(cluster)
        if note is None:
            yield f"there is no AddOnPlacementScore {add_on.resource_name}"
        elif note.until is not None and note.until < snapshot.now:
            yield f"AddOnPlacementScore {add_on.resource_name} expired at {note.until:%Y-%m-%d %H:%M:%SZ}"
        elif add_on.score_name not in note.value:
            yield f"AddOnPlacementScore {add_on.resource_name} has no score {add_on.score_name}"


def _rejections(request: OcmRequest, snapshot: PlacementSnapshot) -> Iterator[tuple[int, Rejection]]:
    """Filter by filter, so that no filter is evaluated for clusters that did not reach it."""
    before = eligible_clusters(request, snapshot).mask
    for plugin, stage in zip(ordered_filters(), filter_stages(request, snapshot), strict=True):
        refused = np.flatnonzero(before & ~stage.mask).tolist()
        if refused:
            outcomes = first_rejections((plugin,), request, snapshot.fleet, refused)
            yield from ((column, objection) for column, objection in outcomes if objection is not None)
        before = stage.mask
