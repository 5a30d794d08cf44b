"""Records the result of a decision in its binding: placement, Scheduled condition, and when it is tried again."""

from collections.abc import Iterator

from trimtab.api.kinds.work import Binding, BindingStatus
from trimtab.api.shared_parts import shared_parts
from trimtab.api.value import Condition
from trimtab.controllers import well_known
from trimtab.controllers.conditions import with_condition
from trimtab.controllers.contract import (
    Effect,
    RecordEvent,
    View,
)
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.gate import (
    MOVE_BLOCKED,
)
from trimtab.controllers.propagation.scheduling.candidates import current_candidates
from trimtab.decide.explain import decision_record
from trimtab.decide.karmada import RESERVATION_TTL, BindingDecision
from trimtab.decide.request import DUPLICATED

UNSCHEDULABLE_SECONDS = 300.0
MAX_BACKOFF_SECONDS = 10.0


def is_divided(decision: BindingDecision) -> bool:
    return decision.request.is_workload and decision.request.placement.strategy != DUPLICATED


def without_blocked_condition(binding: Binding, view: View) -> Binding:
    """The binding without a Stalled condition about a blocked move: there is nothing left to move."""
    cleared = next(binding_moves.clear_stalled(binding, (MOVE_BLOCKED, "NoFeasibleCluster"), view.now), binding)
    if cleared.status.pending_approval is None:
        return cleared
    return cleared.but(status=cleared.status.but(pending_approval=None))


def report_stalled(
    binding: Binding, reason: str, message: str, view: View, seen: Binding | None = None
) -> Iterator[Effect]:
    """Report once why a move cannot start; the placement does not change. `seen` is the binding as it was read."""
    status = binding.status.but(scheduler_observed_generation=binding.metadata.generation)
    after = binding_moves.with_stalled_condition(binding.but(status=status), reason, message, view.now)
    if after != (seen or binding):
        yield after
    before = binding_moves.stalled_condition_of(binding)
    if before is None or (before.reason, before.message) != (reason, message):
        yield RecordEvent(well_known.ref_of(binding), reason, message, "trimtab-mover", "Warning")


def with_decision(binding: Binding, decision: BindingDecision) -> Binding:
    """The binding with the result of the decision; a decision that failed for lack of capacity changes nothing."""
    if not decision.ok and not decision.should_clear:
        return binding
    annotation = {well_known.APPLIED_PLACEMENT: shared_parts.json_text(binding.spec.placement)}
    metadata = binding.metadata.but(annotations=binding.metadata.annotations | annotation)
    return state.place(binding.but(metadata=metadata), decision.targets)


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
    if reason == "QuotaExceeded":
        return UNSCHEDULABLE_SECONDS  # a change of the quota or of its use is a trigger
    if reason not in ("Unschedulable", "NoClusterFit"):
        return MAX_BACKOFF_SECONDS
    if not decision.fleet.reserved:
        return UNSCHEDULABLE_SECONDS
    # Capacity is reserved for other bindings; what they do not use is free again when the reservation expires.
    lapse = view.next_lapse or view.now + RESERVATION_TTL
    return min(UNSCHEDULABLE_SECONDS, max(0.0, (lapse - view.now).total_seconds()) + 0.001)
