"""Why here and why not there: clusters against filters and scores, from the last decision or one that is made now."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Binding
from trimtab.console.facts import NOWHERE, STUCK, Facts, WorkloadFacts
from trimtab.console.page import PageContext
from trimtab.console.text import plural
from trimtab.decide.explain import ClusterExplanation, Explanation, explain
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import decide
from trimtab.decide.ocm.snapshot import external_value_of, score_key
from trimtab.decide.request import placement_request_of

MAX_CLUSTERS = 60
"""Rows of the why matrix; the selected ones come first."""


class WhyRow(Facts):
    """One cluster in the why matrix."""

    name: str
    replicas: int | None
    before: int
    fits: int | None
    rejections: dict[str, str]
    """What each filter that rejects it says."""
    selected: bool
    scores: dict[str, int]
    total: int
    verdict: str
    is_last_of_kind: bool = False
    """Whether a line follows: below the chosen ones, and below those that fit."""


class WhyMatrix(Facts):
    """Clusters against filters and scores."""

    rows: tuple[WhyRow, ...]
    filters: tuple[str, ...]
    scores: tuple[str, ...]
    has_total: bool
    feasible: int
    clusters: int
    omitted: int
    mode: str
    rule: str
    message: str
    groups: tuple[tuple[str, str], ...]
    tie_break: str
    valid_until: datetime | None
    is_remembered: bool
    """Whether it explains the last decision; else the one that would be made now."""


def fleet_of(context: PageContext, without: Collection[str] = ()) -> Fleet[Cluster]:
    """The clusters of the model but some, with the published scores."""
    clusters = [one for name, one in context.model.typed_clusters.items() if name not in without]
    fleet = Fleet.of(clusters, now=context.now)
    for score in context.model.scores.values():
        fleet = fleet.with_external_value_changes(score_key(score.name), {score.namespace: external_value_of(score)})
    return fleet


def explanation_of(context: PageContext, binding: Binding) -> tuple[Explanation, bool]:
    """The last decision; when nobody remembers it, the one that would be made now."""
    remembered = context.services.last_decision(binding)
    if remembered is not None:
        return remembered, True
    request = placement_request_of(binding, candidates=candidates_of(context, binding))
    return explain(decide(request, fleet_of(context), context.services.profile)), False


def candidates_of(context: PageContext, binding: Binding) -> list[str] | None:
    """The clusters of the Placement that the policy refers to; None when it refers to none."""
    reference = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
    if reference is None:
        return None
    label = "cluster.open-cluster-management.io/placement"
    return [
        decision.cluster_name
        for one in context.model.decisions.values()
        if one.namespace == (reference.namespace or binding.namespace)
        and one.metadata.labels.get(label) == reference.name
        and one.status is not None
        for decision in one.status.decisions
    ]


def verdict_of(one: ClusterExplanation) -> str:
    if one.refused is not None:
        return one.refused.message
    if one.replicas is not None:
        return "selected" + (f", overflow {one.overflow}" if one.overflow else "")
    return "fits, but got no replicas" if one.selected else "fits, but not selected by the spread constraints"


def why_matrix(explanation: Explanation, *, is_remembered: bool) -> WhyMatrix:
    ordered = sorted(
        explanation.clusters,
        key=lambda one: (one.refused is not None, one.replicas is None, not one.selected, -one.total, one.name),
    )
    names = dict.fromkeys(name for one in ordered for name in (*one.scores, *one.prioritizers))
    shown = ordered[:MAX_CLUSTERS]
    rows = []
    for number, one in enumerate(shown):
        kind = (one.refused is not None, one.replicas is None)
        following = shown[number + 1] if number + 1 < len(shown) else None
        ends = following is not None and (following.refused is not None, following.replicas is None) != kind
        rows.append(
            WhyRow(
                name=one.name,
                replicas=one.replicas,
                before=one.before,
                fits=one.fits,
                rejections={rejection.plugin: rejection.message for rejection in one.rejections},
                selected=one.selected,
                scores={**one.scores, **one.prioritizers},
                total=one.total,
                verdict=verdict_of(one),
                is_last_of_kind=ends,
            )
        )
    return WhyMatrix(
        rows=tuple(rows),
        filters=explanation.filters,
        scores=tuple(names),
        has_total=any(one.prioritizers for one in ordered),
        feasible=sum(one.refused is None for one in ordered),
        clusters=len(ordered),
        omitted=len(ordered) - len(shown),
        mode=explanation.mode,
        rule=explanation.rule,
        message=explanation.message if not explanation.ok else "",
        groups=tuple((group.name, group.message or "selected") for group in explanation.groups if group.name),
        tie_break=explanation.tie_break,
        valid_until=explanation.valid_until,
        is_remembered=is_remembered,
    )


def help_for(workload: WorkloadFacts, why: WhyMatrix) -> str:
    """What would help a workload that is stuck: the filter that keeps most clusters away."""
    return help_by(row.rejections for row in why.rows) if workload.state in (NOWHERE, STUCK) else ""


def help_by(rejections: Iterable[Mapping[str, str]]) -> str:
    """The filter that alone keeps most clusters away."""
    counts = Counter(name for one in rejections if len(one) == 1 for name in one)
    if not counts:
        return ""
    name, count = max(sorted(counts.items()), key=lambda item: item[1])
    return f"Without the filter {name}, {plural(count, 'more cluster')} would fit."


def filters_that_would_help(binding: Binding, context: PageContext, without: Collection[str]) -> str:
    """What would give a workload a place when some clusters are gone."""
    request = placement_request_of(binding, candidates=candidates_of(context, binding))
    found = explain(decide(request, fleet_of(context, without), context.services.profile))
    return help_by({one.plugin: one.message for one in row.rejections} for row in found.clusters)
