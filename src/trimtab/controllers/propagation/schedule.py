"""Schedules bindings to clusters: a batch of bindings is decided against one fleet.

A decision that removes replicas from a cluster is a move: it passes the disruption gate, charges the budgets, and keeps
the old replicas by holds until their replacements are ready (profile trimtab).
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.ocm_placement import PlacementDecision
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import Binding, BindingStatus, PreviousPlacement, TargetCluster
from trimtab.api.value import Condition, Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import is_drained, is_drained_to_leave
from trimtab.controllers.conditions import is_condition_true, with_condition
from trimtab.controllers.contract import (
    Effect,
    RecordEvent,
    RememberInProcess,
    RequeueAfter,
    Trigger,
    View,
    WriteSequence,
    controller,
)
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.gate import (
    MOVE_BLOCKED,
    VOLUNTARY_CAUSES,
    BudgetBusy,
    apply_gate,
    move_started_events,
    options_for,
)
from trimtab.controllers.movement.taint_eviction import task_for, with_eviction_task
from trimtab.controllers.propagation.schedule_events import decision_events, deletion_events
from trimtab.decide.explain import decision_record, explain
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import RESERVATION_TTL, BindingDecision, decide_all
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL
from trimtab.decide.pipeline import ReplicaShares
from trimtab.decide.request import AGGREGATED, DUPLICATED, FeatureGates, PlacementRequest, placement_request_of
from trimtab.decide.reschedule_trigger import reschedule_reason

SCHEDULER_NAMES = ("", "default-scheduler")
UNSCHEDULABLE_SECONDS = 300.0
MAX_BACKOFF_SECONDS = 10.0
BLOCKED_SECONDS = 15.0
FIRST_RETRY_SECONDS = 1.0
"""The delay of the first retry after a budget refused a move."""
PAUSE_AFTER_REVERT = timedelta(seconds=600)
BATCH_SIZE = 200
CAUSE_OF_TRIGGER = {
    "PlacementChanged": "PolicyChange",
    "ReplicasChanged": "Scale",
    "DuplicatedOrNonWorkload": "Reschedule",
    "TargetClusterTerminating": "ClusterFailover",
}
CAUSES_THAT_KEEP_PLACEMENT = ("Drain", "Failback", "ScoreChange")
"""Causes whose failure leaves the present placement valid: the binding stays Scheduled."""


def is_scheduled_here(binding: Binding) -> bool:
    """Whether the binding has a policy, names this scheduler, and scheduling is not suspended."""
    suspended = binding.spec.suspension is not None and binding.spec.suspension.scheduling
    claimed = any(binding.metadata.labels.get(label) for label in well_known.POLICY_ID_LABELS)
    return claimed and not suspended and binding.spec.scheduler_name in SCHEDULER_NAMES


def needs_scheduling(old: Binding | None, new: Binding) -> bool:
    return (
        old is None
        or (old.metadata.generation != new.metadata.generation and not is_own_write(old, new))
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or (is_scheduled_here(new) and not is_scheduled_here(old))
        or bool(old.status.holds and not new.status.holds)
    )


def is_own_write(old: Binding, new: Binding) -> bool:
    """Whether the scheduler itself changed the spec and set schedulerObservedGeneration in the same write."""
    observed = new.status.scheduler_observed_generation
    return observed == new.metadata.generation and observed != old.status.scheduler_observed_generation


def affected_bindings(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """The bindings whose decision a change of this cluster may affect."""
    if new is None:
        return
    eager = view.profile.retry_on_fleet_change
    if old is None and not eager:
        return
    redefined = old is None or (
        (old.metadata.labels, old.metadata.generation) != (new.metadata.labels, new.metadata.generation)
        or (old.metadata.deletion_timestamp is None and new.metadata.deletion_timestamp is not None)
        or is_drained(old, view.profile) != is_drained(new, view.profile)
        # A cluster that has just joined has no API enablements before its first status.
        or (eager and old.status.api_enablements != new.status.api_enablements)
    )
    capacity_changed = (
        eager
        and old is not None
        and (old.status.resource_summary, old.status.free_nodes) != (new.status.resource_summary, new.status.free_nodes)
    )
    if not redefined and not capacity_changed:
        return
    for binding in well_known.all_bindings(view):
        if not is_scheduled_here(binding) or binding.spec.placement is None:
            continue
        pending = not is_condition_true(binding.status.conditions, "Scheduled")
        pending |= is_drained(new, view.profile) and new.name in binding_moves.current_placement(binding)
        if (eager and pending) or (redefined and any(may_select(binding, c) for c in (old, new) if c is not None)):
            yield key_of(binding)


def may_select(binding: Binding, cluster: Cluster) -> bool:
    """Whether the affinity group in use selects the cluster; True before a group has been chosen."""
    placement = binding.spec.placement or Placement()
    if placement.cluster_affinities:
        if binding.status.scheduler_observed_generation != binding.metadata.generation:
            return True
        observed = binding.status.scheduler_observing_affinity_name
        terms = placement.cluster_affinities
        term = next((t for t in terms if t.affinity_name == observed), terms[0])
        return affinity_matcher(term)(cluster)
    return affinity_matcher(placement.cluster_affinity)(cluster)


def bindings_of_placement_decision(
    old: PlacementDecision | None, new: PlacementDecision | None, view: View
) -> Iterable[Key]:
    """A Placement has a new decision: the bindings that take their candidates from it."""
    page = new or old
    if page is None or (old is not None and new is not None and old.status == new.status):
        return
    name = page.metadata.labels.get(PLACEMENT_LABEL, "")
    for binding in well_known.all_bindings(view):
        ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
        if ref is not None and ref.name == name and (ref.namespace or binding.namespace) == page.namespace:
            yield key_of(binding)


def bindings_blocked_by(old: DisruptionBudget | None, new: DisruptionBudget | None, view: View) -> Iterable[Key]:
    """A budget changed: the blocked bindings of its namespace."""
    budget = new or old
    for binding in well_known.all_bindings(view):
        if is_blocked(binding) and budget is not None and binding.namespace == budget.namespace:
            yield key_of(binding)


def is_blocked(binding: Binding) -> bool:
    condition = binding_moves.stalled_condition_of(binding)
    return condition is not None and condition.reason == MOVE_BLOCKED


def scheduling_priority(binding: Binding) -> int:
    return binding.spec.schedule_priority.priority if binding.spec.schedule_priority is not None else 0


@controller(
    *well_known.BINDINGS,
    writes=["spec.clusters", "metadata.annotations", "status", "DisruptionBudget.status", "Move"],
    predicate=needs_scheduling,
    triggers=[
        Trigger(Cluster, affected_bindings),
        Trigger(PlacementDecision, bindings_of_placement_decision),
        Trigger(DisruptionBudget, bindings_blocked_by),
    ],
    batch=BATCH_SIZE,
    priority=scheduling_priority,
)
def schedule(bindings: Sequence[Binding], view: View) -> Iterator[tuple[Binding, Effect]]:
    waiting: list[tuple[Binding, SchedulingIntent]] = []
    fleet, gates = view.part("fleet").at(view.now), feature_gates(view)
    for binding in bindings:
        if not is_scheduled_here(binding):
            continue
        if binding.metadata.deletion_timestamp is not None:
            yield from ((binding, event) for event in deletion_events(binding))
        elif binding.spec.placement is not None:
            intent = intent_of(binding, fleet, gates, view)
            rest = seconds_until_move(binding, intent.cause, view) if intent is not None else None
            if intent is not None and rest is None:
                waiting.append((binding, intent))
                continue
            seen = without_blocked_condition(binding, view) if intent is None else binding
            status = seen.status.but(scheduler_observed_generation=binding.metadata.generation)
            seen = seen.but(
                status=status
                if intent is not None
                else status.but(placement_ref_clusters=current_candidates(binding, view))
            )
            if seen != binding:
                yield binding, seen
            if rest:
                yield binding, RequeueAfter(rest)
    if not waiting:
        return
    requests = {key_of(binding): intent.request for binding, intent in waiting}
    fleet = view.part("fleet").at(view.now, requests)
    decisions, fleet = decide_all(list(requests.values()), fleet, view.profile)
    if view.profile.reserve_capacity:
        gains = tuple((key, d.request, added_replicas(d)) for key, d in zip(requests, decisions, strict=True))
        yield (
            waiting[0][0],
            RememberInProcess("fleet", "given away", (fleet, gains)),
        )  # first, so that the next batch sees it
    busy: set[Key] = set()
    for (binding, intent), decision in zip(waiting, decisions, strict=True):
        for effect in effects_of_decision(binding, adjust_to_intent(binding, decision, intent), intent, view, busy):
            yield binding, effect


class SchedulingIntent(NamedTuple):
    """Why a binding is scheduled now, and the request for it."""

    cause: str
    request: PlacementRequest
    restore: tuple[TargetCluster, ...] = ()
    """The shares to restore, if the clusters have capacity for them."""
    only_if_fewer_clusters: bool = False
    """Move only when the new decision needs fewer clusters."""
    keep: tuple[TargetCluster, ...] = ()
    """The shares to keep in clusters that are still feasible."""


def intent_of(binding: Binding, fleet: Fleet[Cluster], gates: FeatureGates, view: View) -> SchedulingIntent | None:
    """Why and how this binding is scheduled now; None when nothing is to be decided."""
    reason = reschedule_reason(binding, fleet, gates)
    replacement_first = view.profile.replacement_first
    offered = placement_candidates(binding, view)
    leaves = any(
        is_drained_to_leave(view.get(Cluster, "", target.name), view.profile) for target in binding.spec.clusters
    )
    if leaves and reason == "TargetClusterTerminating":
        reason = "None"
    unchanged = reason in ("None", "DuplicatedOrNonWorkload")
    if replacement_first and unchanged and (rest := without_draining_clusters(binding, view)) is not binding:
        return SchedulingIntent("Drain", placement_request_of(rest, feature_gates=gates, candidates=offered))
    if unchanged and offered is not None and (intent := intent_of_new_candidates(binding, offered, gates)) is not None:
        return intent
    if reason == "None":
        return None
    request = placement_request_of(binding, feature_gates=gates, candidates=offered)
    if not replacement_first or not request.fresh:
        # No decision selects a cluster that leaves, so every decision takes its replicas away: that is its drain.
        return SchedulingIntent("Drain" if leaves else CAUSE_OF_TRIGGER.get(reason, ""), request)
    return intent_of_reschedule(binding, request, gates, view)


def without_draining_clusters(binding: Binding, view: View) -> Binding:
    """The binding without the clusters that are being drained."""
    for target in binding.spec.clusters:
        if is_drained(view.get(Cluster, "", target.name), view.profile):
            binding = with_eviction_task(binding, target.name, task_for(binding, view))
    return binding


def intent_of_new_candidates(
    binding: Binding, candidates: Sequence[str], gates: FeatureGates
) -> SchedulingIntent | None:
    """The intent after a change in the decisions of the binding's Placement; None when the binding keeps its clusters.

    The binding leaves the clusters that are no longer selected. When more clusters were added than removed, all
    replicas are divided again: otherwise the new clusters would get none until the workload is scaled.
    """
    kept = tuple(target for target in binding.spec.clusters if target.name in candidates)
    lost = len(binding.spec.clusters) - len(kept)
    joined = (
        set(candidates).difference(binding.status.placement_ref_clusters)
        if binding.status.placement_ref_clusters
        else ()
    )
    request = placement_request_of(binding, feature_gates=gates, candidates=candidates)
    if request.is_workload and request.placement.strategy != DUPLICATED and len(joined) > lost:
        aggregate = request.placement.strategy == AGGREGATED and not lost
        return SchedulingIntent(
            "ScoreChange", msgspec.structs.replace(request, fresh=True), only_if_fewer_clusters=aggregate
        )
    if not lost:
        return None
    rest = binding.but(spec=binding.spec.but(clusters=kept))
    return SchedulingIntent("ScoreChange", placement_request_of(rest, feature_gates=gates, candidates=candidates))


def intent_of_reschedule(
    binding: Binding, request: PlacementRequest, gates: FeatureGates, view: View
) -> SchedulingIntent:
    """The intent of a reschedule request: all replicas, only the unavailable ones, or the way back of a failback."""
    asked = binding_moves.reschedule_request_of(binding)
    previous = binding.status.previous_placement
    failback = binding.spec.placement.failback if binding.spec.placement is not None else None
    if asked.reason == "Failback" and previous is not None and failback is not None and returns_to_previous(binding):
        clusters = frozenset(target.name for target in previous.clusters)
        return SchedulingIntent("Failback", msgspec.structs.replace(request, candidates=clusters), previous.clusters)
    job = view.get(WorkloadRebalancer, "", asked.rebalancer) if asked.rebalancer else None
    if job is not None and job.spec.strategy == "PreserveAvailable":
        kept = binding_moves.targets_of(available_shares(binding, view))
        partial = placement_request_of(
            binding.but(spec=binding.spec.but(clusters=kept)), feature_gates=gates, candidates=request.candidates
        )
        return SchedulingIntent(asked.reason, msgspec.structs.replace(partial, fresh=False), keep=kept)
    return SchedulingIntent(asked.reason, request)


def returns_to_previous(binding: Binding) -> bool:
    """Whether failback restores the previous clusters: by the policy, or because there are no affinity groups."""
    placement = binding.spec.placement or Placement()
    return placement.failback is not None and (placement.failback.to == "Previous" or not placement.cluster_affinities)


def available_shares(binding: Binding, view: View) -> dict[str, int]:
    """The replicas of each cluster that are ready."""
    shares = {
        name: min(n, binding_moves.ready_replicas_in(binding, name, view))
        for name, n in binding_moves.current_placement(binding).items()
    }
    return {name: n for name, n in shares.items() if n > 0}


def adjust_to_intent(binding: Binding, decision: BindingDecision, intent: SchedulingIntent) -> BindingDecision:
    """The decision with the shares that the intent keeps or restores, where the decision allows them."""
    if intent.only_if_fewer_clusters and decision.ok and len(decision.clusters) >= len(binding.spec.clusters):
        return with_shares(decision, binding.spec.clusters)
    if intent.keep and decision.ok and decision.request.placement.strategy != DUPLICATED:
        return with_kept_shares(decision, intent.keep)
    wanted = [(target.name, target.replicas) for target in intent.restore]
    fits = decision.ok and sum(n for _, n in wanted) == sum(n for _, n in decision.clusters)
    if not wanted or not fits or {name for name, _ in wanted} != {name for name, _ in decision.clusters}:
        return decision
    return with_shares(decision, intent.restore)


def with_kept_shares(decision: BindingDecision, keep: Iterable[TargetCluster]) -> BindingDecision:
    """The decision with at least these shares in feasible clusters; otherwise the weights alone would move replicas."""
    allowed = {one.name for one in explain(decision).clusters if one.refused is None}
    kept = {target.name: target.replicas for target in keep if target.name in allowed}
    shares = {name: max(n, kept.get(name, 0)) for name, n in (kept | dict(decision.clusters)).items()}
    surplus = sum(shares.values()) - sum(n for _, n in decision.clusters)
    for name in sorted(shares, key=lambda name: (kept.get(name, 0) - shares[name], name)):
        excess = min(surplus, shares[name] - kept.get(name, 0))
        shares[name] -= excess
        surplus -= excess
    return (
        decision if surplus else with_shares(decision, binding_moves.targets_of({k: n for k, n in shares.items() if n}))
    )


def with_shares(decision: BindingDecision, targets: Iterable[TargetCluster]) -> BindingDecision:
    wanted = sorted((target.name, target.replicas) for target in targets)
    columns, replicas = zip(*((decision.fleet.index[name], n) for name, n in wanted), strict=True)
    return msgspec.structs.replace(decision, shares=ReplicaShares(columns, replicas))


def seconds_until_move(binding: Binding, cause: str, view: View) -> float | None:
    """Seconds until a voluntary move may start: 0 while another move is in progress, more after a reverted one."""
    if cause not in VOLUNTARY_CAUSES or cause == "PolicyChange":
        return None
    if binding.status.holds:
        return 0.0
    condition = binding_moves.stalled_condition_of(binding)
    if condition is None or condition.reason != "MoveReverted" or condition.last_transition_time is None:
        return None
    remaining = (condition.last_transition_time + PAUSE_AFTER_REVERT - view.now).total_seconds()
    requested = binding.spec.reschedule_triggered_at
    newer = requested is not None and requested > condition.last_transition_time
    return remaining if remaining > 0 and not newer else None


def added_replicas(decision: BindingDecision) -> tuple[tuple[str, int], ...]:
    """The replicas that the decision adds, by cluster."""
    before = dict(decision.request.placed)
    return tuple((name, n - before.get(name, 0)) for name, n in decision.clusters if n > before.get(name, 0))


def placement_candidates(binding: Binding, view: View) -> list[str] | None:
    """The clusters of the Placement that this placement refers to; None when it refers to none."""
    ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
    if ref is None:
        return None
    pages = view.all(PlacementDecision, ref.namespace or binding.namespace)
    statuses = [page.status for page in pages if page.metadata.labels.get(PLACEMENT_LABEL) == ref.name]
    return [decision.cluster_name for status in statuses if status is not None for decision in status.decisions]


def current_candidates(binding: Binding, view: View) -> tuple[str, ...]:
    """The candidates that the present decision considered."""
    return tuple(sorted(set(placement_candidates(binding, view) or ())))


def effects_of_decision(
    binding: Binding, decision: BindingDecision, intent: SchedulingIntent, view: View, busy: set[Key]
) -> Iterator[Effect]:
    """The effects of a decision: the changed binding and its events, or a move, or a report that it is stalled."""
    yield RememberInProcess("decision", well_known.ref_of(binding), decision)
    if view.profile.replacement_first:
        if decision.ok and removes_replicas(binding, decision):
            yield from start_move(binding, decision, intent, view, busy)
            return
        if not decision.ok and intent.cause in CAUSES_THAT_KEEP_PLACEMENT:
            why = f"cannot continue {intent.cause}: {decision.condition[2]}"
            yield from report_stalled(binding, "NoFeasibleCluster", why, view)
            yield RequeueAfter(BLOCKED_SECONDS * 2)
            return
    placed = with_decision(without_blocked_condition(binding, view) if decision.ok else binding, decision)
    moved = placed.spec != binding.spec
    status = status_after(placed, decision, view, moved=moved)
    repeats = view.profile.name == "upstream"
    changed = (
        moved
        or placed.metadata != binding.metadata
        or without_decision_record(status) != without_decision_record(binding.status)
    )
    if changed or repeats:
        yield placed.but(status=status)
        yield from decision_events(binding, decision)
    if decision.should_retry:
        yield RequeueAfter(seconds_until_retry(decision, view))
    elif repeats and moved and not is_divided(decision):
        yield RequeueAfter(
            0.0
        )  # upstream reconciles after its own write, and schedules these again with a second event


def is_divided(decision: BindingDecision) -> bool:
    return decision.request.is_workload and decision.request.placement.strategy != DUPLICATED


def without_blocked_condition(binding: Binding, view: View) -> Binding:
    """The binding without a Stalled condition about a blocked move: there is nothing left to move."""
    return next(binding_moves.clear_stalled(binding, (MOVE_BLOCKED, "NoFeasibleCluster"), view.now), binding)


def removes_replicas(binding: Binding, decision: BindingDecision) -> bool:
    after = dict(decision.clusters)
    return bool(binding.status.holds) or any(
        n > after.get(name, 0) or name not in after for name, n in binding_moves.placement_before_moves(binding).items()
    )


def start_move(
    binding: Binding, decision: BindingDecision, intent: SchedulingIntent, view: View, busy: set[Key]
) -> Iterator[Effect]:
    """Start a move: charge the budget first, then write the Move object, then change the binding."""
    begun = apply_gate(binding, decision, intent.cause, options_for(binding, view), view, busy)
    if isinstance(begun, BudgetBusy):
        yield RequeueAfter(0.05)
        return
    yield from begun.charged_budgets
    yield from begun.log_entries
    held = binding.but(status=binding.status.but(holds=begun.holds, replacement=begun.replacement))
    placed = with_decision(held, decision) if begun.is_complete else held
    placed = placed.but(spec=placed.spec.but(clusters=begun.clusters))
    moved = placed.spec != binding.spec
    status = status_after(placed, decision, view, moved=moved)
    if not begun.is_complete:
        # The reschedule request, the old group and the old placement stay: the rest is scheduled again.
        status = held.status.but(scheduler_observed_generation=binding.metadata.generation + (1 if moved else 0))
    placed = placed.but(
        status=with_previous_placement(binding, status, intent.cause, decision, begun.is_complete, view)
    )
    refusal = begun.refusal
    if refusal is not None and not moved:
        yield from report_stalled(binding, MOVE_BLOCKED, f"{begun.cause}: {refusal.message}", view)
    else:
        placed = binding_moves.with_stalled_condition(placed, "", "", view.now)
        yield WriteSequence((held, placed)) if held.status != binding.status else placed
        yield from move_started_events(binding, begun)
        if begun.is_complete:
            yield from decision_events(binding, decision)
    if refusal is not None and moved:
        yield RequeueAfter(0.0)  # the next reconcile reports why the remaining replicas may not move
    elif refusal is not None and not begun.holds:
        # A binding becomes blocked only with this write, so a budget change before it triggers nothing: retry soon.
        delay = BLOCKED_SECONDS if is_blocked(binding) else FIRST_RETRY_SECONDS
        seconds = (refusal.until - view.now).total_seconds() if refusal.until is not None else delay
        yield RequeueAfter(max(0.0, seconds) + 0.001)


def with_previous_placement(
    binding: Binding, status: BindingStatus, cause: str, decision: BindingDecision, complete: bool, view: View
) -> BindingStatus:
    """Record the placement before a fallback to a later affinity group; a rebalance or policy change clears it."""
    if cause in ("Rebalance", "PolicyChange") and complete:
        return status.but(previous_placement=None)
    groups = [term.affinity_name for term in decision.request.placement.groups]
    old, new = binding.status.scheduler_observing_affinity_name, decision.affinity_name
    fell_back = old in groups and new in groups and groups.index(new) > groups.index(old)
    if not fell_back or status.previous_placement is not None:
        return status
    return status.but(
        previous_placement=PreviousPlacement(clusters=binding.spec.clusters, affinity_name=old, since=view.now)
    )


def report_stalled(binding: Binding, reason: str, message: str, view: View) -> Iterator[Effect]:
    """Report once why a move cannot start; the placement does not change."""
    status = binding.status.but(scheduler_observed_generation=binding.metadata.generation)
    after = binding_moves.with_stalled_condition(binding.but(status=status), reason, message, view.now)
    if after != binding:
        yield after
    before = binding_moves.stalled_condition_of(binding)
    if before is None or (before.reason, before.message) != (reason, message):
        yield RecordEvent(well_known.ref_of(binding), reason, message, "trimtab-mover", "Warning")


def with_decision(binding: Binding, decision: BindingDecision) -> Binding:
    """The binding with the result of the decision; a decision that failed for lack of capacity changes nothing."""
    if not decision.ok and not decision.should_clear:
        return binding
    annotation = {well_known.APPLIED_PLACEMENT: msgspec.json.encode(binding.spec.placement).decode()}
    return binding.but(
        metadata=binding.metadata.but(annotations=binding.metadata.annotations | annotation),
        spec=binding.spec.but(clusters=decision.targets),
    )


def status_after(binding: Binding, decision: BindingDecision, view: View, *, moved: bool) -> BindingStatus:
    now = view.now.replace(microsecond=0)
    value, reason, message = decision.condition
    scheduled = Condition(type="Scheduled", status=value, reason=reason, message=message, last_transition_time=now)
    status = binding.status.but(conditions=with_condition(binding.status.conditions, scheduled))
    if view.profile.always_write_own_fields:
        status = status.but(decision=decision_record(decision, view.now))
    if not decision.ok:
        return status
    requested = binding.spec.reschedule_triggered_at
    return status.but(
        # The write of spec.clusters raises the generation by one, and needs no reconcile of its own.
        scheduler_observed_generation=binding.metadata.generation + (1 if moved else 0),
        scheduler_observing_affinity_name=decision.affinity_name,
        last_scheduled_time=max(now, requested) if requested is not None else now,
        placement_ref_clusters=current_candidates(binding, view),
    )


def without_decision_record(status: BindingStatus) -> BindingStatus:
    """The status without the time and the record of the decision: a decision that confirms the last is not written."""
    return status.but(last_scheduled_time=None, decision=None)


def seconds_until_retry(decision: BindingDecision, view: View) -> float:
    reason = decision.condition[1]
    if reason not in ("Unschedulable", "NoClusterFit"):
        return MAX_BACKOFF_SECONDS
    if not decision.fleet.reserved:
        return UNSCHEDULABLE_SECONDS
    # Capacity is reserved for other bindings; what they do not use is free again when the reservation expires.
    lapse: datetime = view.recall("fleet", "next lapse") or view.now + RESERVATION_TTL
    return max(0.0, (lapse - view.now).total_seconds()) + 0.001
