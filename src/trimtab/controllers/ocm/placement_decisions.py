"""The PlacementDecisions of a Placement: which to create, update and delete, and the events about it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from trimtab.api.cache_by_identity import cache_by_identity
from trimtab.api.duration import parse_duration
from trimtab.api.kind import kind_of
from trimtab.api.kinds.ocm_placement import (
    ClusterDecision,
    GroupStrategy,
    OcmPlacement,
    PlacementDecision,
    PlacementDecisionStatus,
)
from trimtab.api.value import Meta, OwnerReference
from trimtab.controllers.contract import Delete, Effect, RecordEvent, Ref, View
from trimtab.decide.ocm.decision import MISCONFIGURED, WARNING, OcmDecision
from trimtab.decide.ocm.groups import DecisionPage
from trimtab.decide.ocm.snapshot import (
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    PAGE_SIZE,
    PLACEMENT_LABEL,
    PlacementSnapshot,
    StoredDecision,
)
from trimtab.decide.ocm.status import format_totals

SOURCE = "placement-controller"
UNGROUPED = GroupStrategy().clusters_per_decision_group

Scores: TypeAlias = Mapping[str, int] | None
"""The total scores to write with the clusters; `None` if decisions are sorted by name."""


def scores_of(decision: OcmDecision, snapshot: PlacementSnapshot) -> dict[str, int]:
    found = decision.result
    totals = [] if found.totals is None else found.totals.tolist()
    return dict(zip(snapshot.fleet.names_at(found.feasible), totals, strict=False))


def is_up_to_date(placement: OcmPlacement, decision: OcmDecision, snapshot: PlacementSnapshot) -> bool:
    """Whether the stored decisions are current: compares arrays, where no decision groups have to be built for it."""
    strategy = placement.spec.decision_strategy.group_strategy
    if decision.status.code == MISCONFIGURED or strategy.decision_groups:
        return False
    if strategy.clusters_per_decision_group != UNGROUPED:
        return False
    held = snapshot.decisions_of(placement.namespace, placement.name).ordered_columns(placement.name, snapshot.fleet)
    return held == decision.order


def seconds_until_score_update(
    placement: OcmPlacement, wanted: Sequence[DecisionPage], scores: Scores, snapshot: PlacementSnapshot
) -> float:
    """Seconds until a decision that differs only in its order may be written: scores may change every second."""
    last = placement.status.last_score_update_time
    if scores is None or last is None:
        return 0.0
    holding = snapshot.decisions_of(placement.namespace, placement.name)
    if {cluster for page in wanted for cluster in page.clusters} != set(holding.listed_clusters):
        return 0.0
    return max(0.0, (last + parse_duration(placement.spec.score_rate_limit) - snapshot.now).total_seconds())


def decision_effects(
    placement: OcmPlacement,
    decision: OcmDecision,
    wanted: list[DecisionPage],
    scores: Scores,
    snapshot: PlacementSnapshot,
    view: View,
) -> Iterator[Effect]:
    held = snapshot.decisions_of(placement.namespace, placement.name).pages
    totals = ""
    owner, events = owner_reference(placement), DecisionEvents(placement)
    labels_of = GroupLabels(placement)
    for page in gaining_pages_first(wanted, held) if view.profile.decisions_add_before_remove else wanted:
        before = held.get(page.name)
        if before is None:
            yield new_decision(placement, page, scores, owner, labels_of[page.group, page.group_index])
            yield events.record("DecisionCreate", f"Decision {page.name} is created")
        if is_changed(page, before, scores):
            if before is not None:
                yield before.decision.but(status=status_of(page, scores))
            totals = totals or format_totals(decision, snapshot.fleet)
            yield from update_events(events, page, decision, totals)
        elif before is not None and before.decision.metadata.labels != labels_of[page.group, page.group_index]:
            metadata = before.decision.metadata.but(labels=labels_of[page.group, page.group_index])
            yield before.decision.but(metadata=metadata)
    yield from removal_effects(events, held.values(), {page.name for page in wanted})


def gaining_pages_first(wanted: list[DecisionPage], held: Mapping[str, StoredDecision]) -> Iterator[DecisionPage]:
    """The pages in an order in which a cluster that moves to another page is never missing from both."""
    before = {page.name: held[page.name].clusters if page.name in held else [] for page in wanted}
    changed = [page for page in wanted if page.clusters != before[page.name]]
    if len(changed) < 2 or not any(before.values()):
        yield from wanted
        return
    target = {cluster: page for page in changed for cluster in set(page.clusters) - set(before[page.name])}
    done: set[str] = set()

    for first in wanted:
        stack = [] if first.name in done else [first]
        done.add(first.name)
        while stack:
            lost = set(before[stack[-1].name]) - set(stack[-1].clusters)
            takers = (target[cluster] for cluster in sorted(lost) if cluster in target)
            taker = next((page for page in takers if page.name not in done), None)
            if taker is None:
                yield stack.pop()
            else:
                done.add(taker.name)
                stack.append(taker)


def removal_effects(events: "DecisionEvents", held: Iterable[StoredDecision], wanted: set[str]) -> Iterator[Effect]:
    for one in held:
        if one.decision.name not in wanted:
            yield Delete(one.decision)
            yield events.record("DecisionDelete", f"Decision {one.decision.name} is deleted")


class GroupLabels(dict[tuple[str, int], dict[str, str]]):
    """The labels of the PlacementDecisions by name and index of the group, whose pages share them."""

    def __init__(self, placement: OcmPlacement) -> None:
        self._placement = placement.name

    def __missing__(self, group: tuple[str, int]) -> dict[str, str]:
        name, index = group
        labels = self[group] = {
            PLACEMENT_LABEL: self._placement,
            GROUP_NAME_LABEL: name,
            GROUP_INDEX_LABEL: str(index),
        }
        return labels


def is_changed(page: DecisionPage, before: StoredDecision | None, scores: Scores) -> bool:
    if scores is None or before is None:
        return page.clusters != (before.clusters if before else [])
    return status_of(page, scores) != (before.decision.status or PlacementDecisionStatus())


def status_of(page: DecisionPage, scores: Scores) -> PlacementDecisionStatus:
    if scores is None:
        clusters = page.clusters
        return _shared_status(clusters) if len(clusters) == PAGE_SIZE else _status_without_scores(clusters)
    return PlacementDecisionStatus(
        decisions=tuple([ClusterDecision(cluster_name=name, score=scores.get(name)) for name in page.clusters])
    )


def _status_without_scores(clusters: list[str]) -> PlacementDecisionStatus:
    return PlacementDecisionStatus(decisions=tuple([ClusterDecision(cluster_name=name) for name in clusters]))


_shared_status = cache_by_identity(_status_without_scores, max_entries=1024)
"""Placements that have the same clusters share the status of a full page."""


def owner_reference(placement: OcmPlacement) -> OwnerReference:
    return OwnerReference(
        api_version=kind_of(placement).api_version,
        kind="Placement",
        name=placement.name,
        uid=placement.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def new_decision(
    placement: OcmPlacement,
    page: DecisionPage,
    scores: Scores,
    owner: OwnerReference | None = None,
    labels: dict[str, str] | None = None,
) -> PlacementDecision:
    """`owner` (the reference to the Placement) and `labels` are given where other pages share them."""
    metadata = Meta(
        name=page.name,
        namespace=placement.namespace,
        labels=labels or GroupLabels(placement)[page.group, page.group_index],
        owner_references=(owner or owner_reference(placement),),
    )
    return PlacementDecision(metadata=metadata, status=status_of(page, scores) if page.clusters else None)


class DecisionEvents:
    """Events about the decisions of one Placement."""

    def __init__(self, placement: OcmPlacement) -> None:
        self._about = Ref(
            kind_of(placement).api_version, "Placement", placement.namespace, placement.name, placement.metadata.uid
        )
        self._which = f" with placement {placement.name} in namespace {placement.namespace}"

    def record(self, reason: str, what: str, type_: str = "Normal", why: str = "") -> RecordEvent:
        return RecordEvent(self._about, reason, f"{what}{self._which}{why}", SOURCE, type_)

    def record_totals(self, totals: str) -> RecordEvent:
        return RecordEvent(self._about, "ScoreUpdate", totals, SOURCE, "Normal")


def update_events(
    events: DecisionEvents, page: DecisionPage, decision: OcmDecision, totals: str
) -> Iterator[RecordEvent]:
    what = f"Decision {page.name} is updated"
    if decision.status.code == WARNING:
        why = f": {decision.status.message} in plugin {decision.status.plugin}"
        yield events.record("DecisionUpdate", what, "Warning", why)
    else:
        yield events.record("DecisionUpdate", what)
    if totals:
        yield events.record_totals(totals)
