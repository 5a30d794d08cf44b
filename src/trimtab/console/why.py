"""Why here and why not there: clusters against filters and scores, from the last decision or one that is made now."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from trimtab.api.kinds.work import Binding, ResourceBinding
from trimtab.api.value import Object
from trimtab.api.wording import plural
from trimtab.console.facts import Facts
from trimtab.console.page import PageContext
from trimtab.console.text import one_decimal, reason_text, without_command
from trimtab.console.workload_facts import NOWHERE, STUCK, WorkloadFacts
from trimtab.decide.explain import explain
from trimtab.decide.explanation import ClusterExplanation, Explanation
from trimtab.dryrun.current_decision import decide_now
from trimtab.dryrun.static_view import StaticView

MAX_NAMES = 8
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
    """The clusters that no filter rejects."""
    without_room: int
    """Those of them that have no room for a replica."""
    clusters: int
    omitted: int
    mode: str
    rule: str
    message: str
    groups: tuple[tuple[str, str], ...]
    tie_break: str
    valid_until: datetime | None
    decided_at: datetime | None
    """When the decision was made that it explains; None for the one that would be made now."""


def affinity_text(binding: Binding) -> str:
    """What the policy asks of clusters, as what they must have; empty if it asks nothing, or has groups to try in turn."""
    affinity = binding.spec.placement.cluster_affinity if binding.spec.placement is not None else None
    if affinity is None:
        return ""
    parts = []
    labels = affinity.label_selector
    if labels is not None:
        words = [f"{key}={value}" for key, value in sorted(labels.match_labels.items())]
        words += [requirement_text(one.key, one.operator, one.values) for one in labels.match_expressions]
        if words:
            parts.append(f"the label{'s' if len(words) > 1 else ''} {', '.join(words)}")
    fields = affinity.field_selector
    parts += [
        requirement_text(one.key, one.operator, one.values) for one in (fields.match_expressions if fields else ())
    ]
    if affinity.cluster_names:
        names = ", ".join(affinity.cluster_names[:MAX_NAMES])
        more = f" and {len(affinity.cluster_names) - MAX_NAMES} more" if len(affinity.cluster_names) > MAX_NAMES else ""
        parts.append(f"the name {names}" if len(affinity.cluster_names) == 1 else f"one of the names {names}{more}")
    return ", and ".join(parts)


def unmet_affinity(binding: Binding) -> str:
    """What the policy asks of clusters, if that alone is why none fits; else empty."""
    record = binding.status.decision
    if record is None or {one.filter for one in record.rejected} != {"ClusterAffinity"}:
        return ""
    asked = affinity_text(binding)
    return f"no cluster of {record.total_clusters} has {asked}, as its policy asks." if asked else ""


def short_reason(workload: WorkloadFacts, context: PageContext) -> str:
    """Why a workload is not where it should be, for a line: what no cluster has, or what it waits for."""
    binding = context.model.bindings.get(workload.key) if workload.state == NOWHERE else None
    unmet = unmet_affinity(binding) if binding is not None else ""
    return unmet or reason_text(without_command(workload.why), context.now)


def requirement_text(key: str, operator: str, values: Collection[str]) -> str:
    """A requirement in the words of a label selector."""
    among = f" ({', '.join(values)})" if values else ""
    return f"{key} {operator}{among}" if operator != "In" or len(values) != 1 else f"{key}={next(iter(values))}"


def view_of(context: PageContext, binding: Binding, without: Collection[str] = ()) -> StaticView:
    """What a decision about the binding reads: the clusters of the model but some, scores, and bindings of its groups."""
    model = context.model
    clusters = [one for name, one in model.typed_clusters.items() if name not in without]
    more: list[Object] = [*clusters, *model.scores.values(), *model.decisions.values(), binding]
    if binding.spec.workload_affinity_groups is not None:
        more += [one for one in model.bindings.values() if isinstance(one, ResourceBinding)]
    services = context.services
    return StaticView([], now=context.now, profile=services.profile, more=more, settings=services.settings)


def explanation_of(context: PageContext, binding: Binding) -> tuple[Explanation, bool]:
    """The last decision; when nobody remembers it, the one that would be made now."""
    remembered = context.services.last_decision(binding)
    if remembered is not None:
        return remembered, True
    return explain(decide_now(binding, view_of(context, binding))), False


def verdict_of(one: ClusterExplanation) -> str:
    if one.refused is not None:
        return one.refused.message.removeprefix("cluster(s) ")
    if one.limited is not None:
        return f"keeps its replicas and gets no more: {one.limited.message.removeprefix('cluster(s) ')}"
    if one.replicas is not None:
        return "selected" + (f", overflow {one.overflow}" if one.overflow else "")
    if one.fits == 0:
        return "passes the filters, but has no room for a replica"
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
        without_room=sum(one.refused is None and one.fits == 0 for one in ordered),
        clusters=len(ordered),
        omitted=len(ordered) - len(shown),
        mode=explanation.mode,
        rule=explanation.rule,
        message=explanation.message if not explanation.ok else "",
        groups=tuple((group.name, group.message or "selected") for group in explanation.groups if group.name),
        tie_break=explanation.tie_break,
        valid_until=explanation.valid_until,
        decided_at=explanation.decided_at if is_remembered else None,
    )


def help_for(workload: WorkloadFacts, why: WhyMatrix) -> str:
    """What would help a workload that is stuck: room, or another filter than the one that keeps most clusters away."""
    if workload.state not in (NOWHERE, STUCK):
        return ""
    if why.feasible and why.without_room == why.feasible:
        request = f": one requests {one_decimal(workload.cpu_request)} cpu" if workload.cpu_request else ""
        return f"Clusters with more free capacity would help, or replicas that request less{request}."
    return help_by(row.rejections for row in why.rows)


def help_by(rejections: Iterable[Mapping[str, str]]) -> str:
    """The filter that alone keeps most clusters away."""
    counts = Counter(name for one in rejections if len(one) == 1 for name in one)
    if not counts:
        return ""
    name, count = max(sorted(counts.items()), key=lambda item: item[1])
    return f"Without the filter {name}, {plural(count, 'more cluster')} would fit."


def filters_that_would_help(binding: Binding, context: PageContext, without: Collection[str]) -> str:
    """What would give a workload a place when some clusters are gone."""
    found = explain(decide_now(binding, view_of(context, binding, without)))
    return help_by({one.plugin: one.message for one in row.rejections} for row in found.clusters)
