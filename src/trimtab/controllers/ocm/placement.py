"""Selects clusters for each Placement, and keeps its PlacementDecisions and status current."""

from collections.abc import Iterable, Iterator

import msgspec

from trimtab.api.kind import kind_of
from trimtab.api.kinds.ocm_clusters import CLUSTER_GROUP, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, OcmPlacement, PlacementDecision, PlacementStatus
from trimtab.api.value import Condition, Key
from trimtab.controllers.contract import Effect, Index, RequeueAfter, Trigger, View, controller
from trimtab.controllers.ocm.placement_decisions import (
    decision_effects,
    is_up_to_date,
    scores_of,
    seconds_until_score_update,
)
from trimtab.decide.ocm.decision import MISCONFIGURED, Misconfigured, OcmDecision
from trimtab.decide.ocm.explain import describe_rejections
from trimtab.decide.ocm.groups import decision_pages
from trimtab.decide.ocm.pipeline import UnlistableClusterSet, decide
from trimtab.decide.ocm.request import CelCompiler, OcmRequest, ocm_request_of
from trimtab.decide.ocm.selectors import set_matcher
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL, PlacementSnapshot
from trimtab.decide.ocm.status import (
    SATISFIED,
    WELL_CONFIGURED,
    group_statuses,
    misconfigured_condition,
    one_group_status,
    satisfied_condition,
)

DISABLED = f"{CLUSTER_GROUP}/experimental-scheduling-disable"
RESYNC_SECONDS = 300.0
"""Seconds after which every Placement is decided again, whether anything changed or not."""
BINDINGS_OF_SET = Index("bindings of a cluster set", ManagedClusterSetBinding, lambda b: [b.spec.cluster_set])


def placements_using(view: View, namespace: str, cluster_set: str) -> Iterator[OcmPlacement]:
    """The Placements of a namespace that name this set, or no set at all."""
    for placement in view.all(OcmPlacement, namespace):
        if not placement.spec.cluster_sets or cluster_set in placement.spec.cluster_sets:
            yield placement


def placement_key(namespace: str, name: str) -> Key:
    return Key(kind_of(OcmPlacement).id, namespace, name)


def placements_of_set(view: View, cluster_set: str) -> Iterator[OcmPlacement]:
    for binding in view.by_index(BINDINGS_OF_SET, cluster_set):
        yield from placements_using(view, binding.namespace, cluster_set)


def set_names_of(view: View, *clusters: ManagedCluster | None) -> Iterator[str]:
    """The sets that any of these clusters belongs to."""
    for cluster_set in view.all(ManagedClusterSet):
        try:
            contains = set_matcher(cluster_set)
        except Misconfigured:
            continue
        if any(cluster is not None and contains(cluster) for cluster in clusters):
            yield cluster_set.name


def has_expressions(placement: OcmPlacement) -> bool:
    """Whether the Placement has CEL expressions, which may read every field of a cluster and every score."""
    return any(predicate.required_cluster_selector.cel_selector for predicate in placement.spec.predicates)


def is_same_without_expressions(old: ManagedCluster | None, new: ManagedCluster | None) -> bool:
    """Whether nothing changed that Placements without CEL expressions read: most changes are heartbeats."""
    if old is None or new is None:
        return False
    return (
        old.metadata.labels == new.metadata.labels
        and (old.metadata.deletion_timestamp is None) == (new.metadata.deletion_timestamp is None)
        and old.spec.taints == new.spec.taints
        and old.status.allocatable == new.status.allocatable
        and old.status.capacity == new.status.capacity
        and old.status.cluster_claims == new.status.cluster_claims
    )


PLACEMENTS_WITH_EXPRESSIONS = Index(
    "placements with expressions", OcmPlacement, lambda p: ["yes"] if has_expressions(p) else []
)


def keys_for_cluster(old: ManagedCluster | None, new: ManagedCluster | None, view: View) -> Iterable[Key]:
    unchanged = is_same_without_expressions(old, new)
    if unchanged and not view.by_index(PLACEMENTS_WITH_EXPRESSIONS, "yes"):
        return
    for cluster_set in set_names_of(view, old, new):
        for placement in placements_of_set(view, cluster_set):
            if not unchanged or has_expressions(placement):
                yield placement_key(placement.namespace, placement.name)


def keys_for_set(old: ManagedClusterSet | None, new: ManagedClusterSet | None, view: View) -> Iterable[Key]:
    if old is not None and new is not None and old.spec == new.spec:
        return []
    name = (new or old or ManagedClusterSet()).name
    return [placement_key(placement.namespace, placement.name) for placement in placements_of_set(view, name)]


def keys_for_binding(
    old: ManagedClusterSetBinding | None, new: ManagedClusterSetBinding | None, view: View
) -> Iterable[Key]:
    if old is not None and new is not None and old.spec == new.spec:
        return []
    binding = new or old or ManagedClusterSetBinding()
    using = placements_using(view, binding.namespace, binding.spec.cluster_set)
    return [placement_key(placement.namespace, placement.name) for placement in using]


def keys_for_decision(old: PlacementDecision | None, new: PlacementDecision | None, view: View) -> Iterable[Key]:
    for decision in (old, new):
        if decision is not None and (name := decision.metadata.labels.get(PLACEMENT_LABEL)):
            yield placement_key(decision.namespace, name)


def keys_for_score(old: AddOnPlacementScore | None, new: AddOnPlacementScore | None, view: View) -> Iterable[Key]:
    score = new or old or AddOnPlacementScore()
    cluster = view.get(ManagedCluster, "", score.namespace)
    for cluster_set in set_names_of(view, cluster):
        for placement in placements_of_set(view, cluster_set):
            if is_using_score(placement, score.name) or has_expressions(placement):
                yield placement_key(placement.namespace, placement.name)


def is_using_score(placement: OcmPlacement, resource: str) -> bool:
    return any(
        config.score_coordinate is not None
        and config.score_coordinate.add_on is not None
        and config.score_coordinate.add_on.resource_name == resource
        for config in placement.spec.prioritizer_policy.configurations
    )


@controller(
    OcmPlacement,
    writes=["status", "PlacementDecision"],
    triggers=[
        Trigger(ManagedCluster, keys_for_cluster),
        Trigger(ManagedClusterSet, keys_for_set),
        Trigger(ManagedClusterSetBinding, keys_for_binding),
        Trigger(PlacementDecision, keys_for_decision),
        Trigger(AddOnPlacementScore, keys_for_score),
    ],
    serial=True,  # Placements read each other's decisions: two at once would avoid each other for ever
)
def placement(placement: OcmPlacement, view: View) -> Iterator[Effect]:
    if placement.metadata.deletion_timestamp is not None or placement.metadata.annotations.get(DISABLED) == "true":
        return
    snapshot = view.placement_snapshot
    request = placement_request(placement, snapshot, view.cel, view)
    try:
        decision = decide(request, snapshot)
    except UnlistableClusterSet:
        yield RequeueAfter(RESYNC_SECONDS)  # a change of the invalid cluster set queues this Placement
        return
    if is_up_to_date(placement, decision, snapshot) and not is_sorted_by_score(placement, view):
        groups = (one_group_status(placement.name, decision.chosen_count),)
        status = placement.status.but(number_of_selected_clusters=decision.chosen_count, decision_groups=groups)
        yield from status_update(
            placement, status, [explained_satisfied_condition(decision, request, snapshot, view), WELL_CONFIGURED], view
        )
    elif should_keep_decisions(placement, decision, view):
        conditions = [misconfigured_condition(decision)]
        if not any(condition.type == SATISFIED for condition in placement.status.conditions):
            conditions.insert(
                0, satisfied_condition(decision, placement.spec)
            )  # no earlier condition to keep: report the current state
        yield from status_update(placement, placement.status, conditions, view)
    else:
        yield from decisions_and_status(placement, decision, request, snapshot, view)
    yield RequeueAfter(seconds_until_resync(decision, view))


def explained_satisfied_condition(
    decision: OcmDecision, request: OcmRequest, snapshot: PlacementSnapshot, view: View
) -> Condition:
    """The PlacementSatisfied condition; if it is not satisfied, its message names what rejected the other clusters."""
    condition = satisfied_condition(decision, request.spec)
    if (
        condition.status == "True"
        or not view.profile.unsatisfied_reports_filters
        or decision.status.code == MISCONFIGURED
    ):
        return condition
    why = describe_rejections(request, snapshot)
    return msgspec.structs.replace(condition, message=f"{condition.message}; {why}") if why else condition


def decisions_and_status(
    placement: OcmPlacement, decision: OcmDecision, request: OcmRequest, snapshot: PlacementSnapshot, view: View
) -> Iterator[Effect]:
    """The effects that write the decisions, and then the status."""
    wanted = list(decision_pages(placement.name, decision.groups))
    scores = scores_of(decision, snapshot) if is_sorted_by_score(placement, view) else None
    delay = seconds_until_score_update(placement, wanted, scores, snapshot)
    effects = [] if delay else list(decision_effects(placement, decision, wanted, scores, snapshot, view))
    yield from effects
    status = placement.status.but(
        number_of_selected_clusters=decision.chosen_count,
        decision_groups=tuple(group_statuses(decision.groups, wanted)),
    )
    if scores is not None and effects:
        status = status.but(last_score_update_time=view.now.replace(microsecond=0))
    yield from status_update(
        placement,
        status,
        [explained_satisfied_condition(decision, request, snapshot, view), misconfigured_condition(decision)],
        view,
    )
    if delay:
        yield RequeueAfter(delay)


def placement_request(
    placement: OcmPlacement, snapshot: PlacementSnapshot, cel: CelCompiler | None, view: View
) -> OcmRequest:
    """The decision request of a Placement under the current profile."""
    spreads = view.profile.placements_obey_spread_policy
    return ocm_request_of(
        placement, snapshot, cel, by_score=is_sorted_by_score(placement, view), uses_spread_policy=spreads
    )


def is_sorted_by_score(placement: OcmPlacement, view: View) -> bool:
    return placement.spec.sort_by == "Score" and view.profile.decisions_sorted_by_score


def should_keep_decisions(placement: OcmPlacement, decision: OcmDecision, view: View) -> bool:
    """Whether existing decisions stay: an invalid Placement must not remove workloads from clusters."""
    is_invalid = decision.status.code == MISCONFIGURED or bool(decision.group_error)
    negative = (placement.spec.number_of_clusters or 0) < 0 and decision.status.code == MISCONFIGURED
    return negative or (is_invalid and view.profile.keep_decisions_when_misconfigured)


def seconds_until_resync(decision: OcmDecision, view: View) -> float:
    times = [decision.result.recheck_at]
    if view.profile.expired_scores_requeue:
        times.append(decision.result.scores_until)
    return min([RESYNC_SECONDS, *((at - view.now).total_seconds() + 0.001 for at in times if at is not None)])


def status_update(
    placement: OcmPlacement, wanted: PlacementStatus, conditions: Iterable[Condition], view: View
) -> Iterator[OcmPlacement]:
    """The Placement with the new status, if it differs."""
    after = {condition.type: condition for condition in placement.status.conditions}
    for condition in conditions:
        before = after.get(condition.type)
        now = view.now.replace(microsecond=0)
        since = now if before is None or before.status != condition.status else before.last_transition_time
        after[condition.type] = msgspec.structs.replace(condition, last_transition_time=since)
    wanted = wanted.but(conditions=tuple(after.values()))
    if wanted != placement.status:
        yield placement.but(status=wanted)
