"""Schedules bindings to clusters: a batch of bindings is decided against one fleet.

A decision that removes replicas from a cluster is a move: it passes the disruption gate, charges the budgets, and keeps
the old replicas by holds until their replacements are ready (profile trimtab).
"""

from collections.abc import Iterator, Sequence

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.ocm_placement import PlacementDecision
from trimtab.api.kinds.quota import FederatedResourceQuota
from trimtab.api.kinds.work import Binding
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.contract import (
    CapacityReservation,
    Effect,
    Ref,
    RememberInProcess,
    RequeueAfter,
    ReserveCapacity,
    Topic,
    Trigger,
    View,
    controller,
)
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.freeze import current_freeze, moving_bindings
from trimtab.controllers.movement.gate import SCALE
from trimtab.controllers.movement.move_start import BLOCKED_SECONDS, removes_replicas, seconds_until_move, start_move
from trimtab.controllers.placement_requests import affinity_groups_of
from trimtab.controllers.propagation.scheduling.adjustment import adjust_to_intent
from trimtab.controllers.propagation.scheduling.candidates import current_candidates
from trimtab.controllers.propagation.scheduling.events import decision_events, deletion_events
from trimtab.controllers.propagation.scheduling.intent import LAST_REQUEST, SchedulingIntent, intent_of
from trimtab.controllers.propagation.scheduling.result import (
    is_divided,
    report_stalled,
    seconds_until_retry,
    status_after,
    with_decision,
    without_blocked_condition,
    without_decision_record,
)
from trimtab.controllers.propagation.scheduling.scope import is_scheduled_here
from trimtab.controllers.propagation.scheduling.triggers import (
    affected_bindings,
    bindings_blocked_by,
    bindings_of_placement_decision,
    bindings_refused_by,
    bindings_that_wait_for_approval,
    needs_scheduling,
    scheduling_priority,
)
from trimtab.controllers.quota.quota_usage import QuotaLedger
from trimtab.decide.karmada import BindingDecision, added_replicas, decide_all

BATCH_SIZE = 200
DECISION: Topic[Ref, BindingDecision] = Topic("decision", limit=4_096)
"""A decision holds the fleet snapshot it was made on; the last few thousand are enough for `explain`."""
CAUSES_THAT_KEEP_PLACEMENT = ("Drain", "Failback", "ScoreChange")
"""Causes whose failure leaves the present placement valid: the binding stays Scheduled."""


@controller(
    *well_known.BINDINGS,
    writes=[
        "spec.clusters",
        f"metadata.annotations[{well_known.APPLIED_PLACEMENT}]",
        f"metadata.annotations[{well_known.APPROVED_MOVE}]",
        "status.schedulerObservedGeneration",
        "status.schedulerObservingAffinityName",
        "status.lastScheduledTime",
        "status.placementRefClusters",
        "status.decision",
        "status.holds",
        "status.replacement",
        "status.previousPlacement",
        "status.pendingApproval",
        "status.conditions[Scheduled]",
        "status.conditions[Stalled]",
        "DisruptionBudget.status.inFlight",
        "DisruptionBudget.status.rate",
        "Move",
    ],
    predicate=needs_scheduling,
    triggers=[
        Trigger(Cluster, affected_bindings),
        Trigger(PlacementDecision, bindings_of_placement_decision),
        Trigger(DisruptionBudget, bindings_blocked_by),
        Trigger(DisruptionPolicy, bindings_that_wait_for_approval),
        Trigger(DisruptionPolicy, moving_bindings),
        Trigger(FederatedResourceQuota, bindings_refused_by),
    ],
    batch=BATCH_SIZE,
    priority=scheduling_priority,
    resumes=True,
)
def schedule(bindings: Sequence[Binding], view: View) -> Iterator[tuple[Binding, Effect]]:
    waiting: list[tuple[Binding, SchedulingIntent]] = []
    fleet, gates = view.fleet, feature_gates(view)
    groups: set[str] = set()
    for binding in bindings:
        if not is_scheduled_here(binding):
            continue
        if binding.metadata.deletion_timestamp is not None:
            yield from ((binding, event) for event in deletion_events(binding))
        elif binding.spec.placement is not None:
            intent = intent_of(binding, fleet, gates, view)
            rest = seconds_until_move(binding, intent, view) if intent is not None else None
            if intent is not None and rest is None:
                if groups.isdisjoint(own := set(affinity_groups_of(binding)) if gates.workload_affinity else set()):
                    groups |= own
                    waiting.append((binding, intent))
                else:  # it has to see where the workload of its group goes
                    yield binding, RequeueAfter(0.0)
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
    decisions, _ = decide_all(list(requests.values()), view.fleet_for(requests), view.profile, view.step_observer)
    quotas = QuotaLedger(view)
    allowed = [
        quotas.check(binding, adjust_to_intent(binding, decision, intent))
        for (binding, intent), decision in zip(waiting, decisions, strict=True)
    ]
    if view.profile.reserve_capacity or gates.overcommit_protection:
        reservations = [
            CapacityReservation(key, d.request, added_replicas(d) if a.ok or not d.ok else ())
            for key, d, a in zip(requests, decisions, allowed, strict=True)
        ]
        reserved = ReserveCapacity(view.now, tuple(reservations), until_healthy=gates.overcommit_protection)
        yield waiting[0][0], reserved  # first, so that the next batch sees it
    busy: set[Key] = set()
    for (binding, intent), decision in zip(waiting, allowed, strict=True):
        for effect in effects_of_decision(binding, decision, intent, view, busy):
            yield binding, effect


def effects_of_decision(
    binding: Binding, decision: BindingDecision, intent: SchedulingIntent, view: View, busy: set[Key]
) -> Iterator[Effect]:
    """The effects of a decision: the changed binding and its events, or a move, or a report that it is stalled."""
    yield RememberInProcess(DECISION, well_known.ref_of(binding), decision)
    if not view.profile.replacement_first:
        yield RememberInProcess(LAST_REQUEST, well_known.ref_of(binding), (binding.spec.reschedule_triggered_at,))
    if is_stopped_by_freeze(binding, decision, intent, view):
        yield from start_move(binding, decision, intent, view, busy)
        return
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
        if decision.ok:
            yield from binding_moves.with_actual_targets(binding, decision.clusters, view)
        yield from decision_events(binding, decision)
    if decision.should_retry:
        yield RequeueAfter(seconds_until_retry(decision, view))
    elif repeats and moved and not is_divided(decision):
        yield RequeueAfter(
            0.0
        )  # upstream reconciles after its own write, and schedules these again with a second event


def is_stopped_by_freeze(binding: Binding, decision: BindingDecision, intent: SchedulingIntent, view: View) -> bool:
    """Whether the decision takes replicas away while moves are frozen; the gate then refuses it in every profile."""
    return (
        (decision.ok or decision.should_clear)
        and intent.cause != SCALE
        and removes_replicas(binding, decision)
        and current_freeze(view) is not None
    )
