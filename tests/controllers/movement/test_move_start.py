"""The start of a move: when it may be tried, in which order it is written, and when the rest is tried again."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from builders import MINUTE, NOON, binding, deployment, placement, status_item
from views import FakeView

from controllers.movement.test_gate import FLEET, budget, web
from static_fleet import StaticFleet
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionRate, Move
from trimtab.api.kinds.rebalancer import MoveOptions, RebalancerSpec, WorkloadRebalancer
from trimtab.api.kinds.work import Binding, HeldReplicas, PendingApproval, TargetCluster, Work
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Meta
from trimtab.controllers import well_known
from trimtab.controllers.contract import Effect, RequeueAfter, WriteSequence
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.approval import APPROVAL_REQUIRED, approval_text
from trimtab.controllers.movement.gate import MOVE_BLOCKED
from trimtab.controllers.movement.move_start import (
    BLOCKED_SECONDS,
    FIRST_RETRY_SECONDS,
    LEFTOVER_TIME,
    PAUSE_AFTER_REVERT,
    falls_back,
    grows_over_leftovers,
    is_blocked,
    removes_replicas,
    seconds_until_move,
    start_move,
    with_pending_approval,
    without_pending_approval,
)
from trimtab.controllers.propagation.scheduling.intent import SchedulingIntent
from trimtab.decide.gate import GateRefusal, Transfer
from trimtab.decide.karmada import BindingDecision, decide
from trimtab.decide.request import placement_request_of

APPROVED = well_known.APPROVED_MOVE


def decided(subject: Binding) -> BindingDecision:
    request = msgspec.structs.replace(placement_request_of(subject), fresh=True)
    return decide(request, StaticFleet(FLEET).at(NOON), TRIMTAB)


def start(subject: Binding, *things: Any, cause: str = "Rebalance") -> Sequence[Effect]:
    view = FakeView([subject, *FLEET, *things], raws=[deployment()])
    decision = decided(subject)
    return list(start_move(subject, decision, SchedulingIntent(cause, decision.request), view, set()))


def seconds_until(subject: Binding, cause: str, view: FakeView, **fields: Any) -> float | None:
    return seconds_until_move(subject, SchedulingIntent(cause, placement_request_of(subject), **fields), view)


def of_type(effects: Sequence[Effect], type_: type[Any]) -> list[int]:
    return [index for index, effect in enumerate(effects) if isinstance(effect, type_)]


def test_no_move_begins_into_a_cluster_that_still_has_a_copy_of_an_earlier_move() -> None:
    """It is about to be deleted, and would pass as the replacement until then."""
    subject = web({"m1": 4})
    labels = {well_known.RB_ID: well_known.binding_id(subject)}
    leftover = Work(metadata=Meta(name="web", namespace="karmada-es-m2", labels=labels))
    assert start(subject, leftover) == [RequeueAfter(1.0)]
    own = leftover.but(metadata=leftover.metadata.but(namespace="karmada-es-m1"))
    assert of_type(start(subject, own), WriteSequence)


def test_the_budget_is_charged_before_the_move_is_logged_and_both_before_the_binding_changes() -> None:
    effects = start(web({"m1": 4}), budget(max_unavailable=4))
    (charged,), (logged,), (begun,) = (of_type(effects, one) for one in (DisruptionBudget, Move, WriteSequence))
    assert charged < logged < begun
    sequence = effects[begun]
    assert isinstance(sequence, WriteSequence)
    held, placed = sequence.steps
    assert held.status.holds  # type: ignore[attr-defined]
    assert binding_moves.current_placement(held) == {"m1": 4}  # type: ignore[arg-type]
    assert binding_moves.current_placement(placed) == {"m1": 2, "m2": 2}  # type: ignore[arg-type]


def test_a_move_of_some_replicas_keeps_the_request_for_the_rest() -> None:
    before = NOON - MINUTE
    requested = state.request(web({"m1": 4}, status_last_scheduled_time=before), NOON, "Rebalance", "job")
    for surge, scheduled_at, placed_as in ((1, before, {"m1": 3, "m2": 1}), (2, NOON, {"m1": 2, "m2": 2})):
        options = RebalancerSpec(move=MoveOptions(max_surge=surge))
        effects = start(requested, WorkloadRebalancer(metadata=Meta(name="job"), spec=options))
        (placed,) = (effect.steps[-1] for effect in effects if isinstance(effect, WriteSequence))
        assert isinstance(placed, Binding)
        assert binding_moves.current_placement(placed) == placed_as
        assert placed.spec.reschedule_triggered_at == NOON
        assert placed.status.last_scheduled_time == scheduled_at, "a request is answered when this time reaches it"


def test_a_refused_move_writes_no_placement_and_is_tried_again_when_the_rate_allows_it() -> None:
    rate = DisruptionRate(disruptions=1, period="10m")
    used = budget(rate=rate)
    moved = start(web({"m1": 4}), used)
    charged = next(effect for effect in moved if isinstance(effect, DisruptionBudget))
    effects = start(web({"m1": 4}), charged)
    written = [effect for effect in effects if isinstance(effect, Binding)]
    assert [binding_moves.current_placement(one) for one in written] == [{"m1": 4}]
    assert is_blocked(written[0])
    (retry,) = (effect for effect in effects if isinstance(effect, RequeueAfter))
    assert retry.seconds == pytest.approx(600, abs=1)


def test_a_refusal_that_time_does_not_end_is_tried_again_soon_and_then_less_often() -> None:
    closed = budget(max_concurrent=0)
    first = start(web({"m1": 4}), closed)
    assert next(e.seconds for e in first if isinstance(e, RequeueAfter)) == pytest.approx(FIRST_RETRY_SECONDS, abs=0.01)
    blocked = binding_moves.with_stalled_condition(web({"m1": 4}), MOVE_BLOCKED, "no", NOON)
    second = start(blocked, closed)
    assert next(e.seconds for e in second if isinstance(e, RequeueAfter)) == pytest.approx(BLOCKED_SECONDS, abs=0.01)


def test_no_voluntary_move_begins_while_another_is_in_progress() -> None:
    held = web({"m1": 4}, status_holds=(HeldReplicas(cluster="m9", replicas=1, until=NOON + MINUTE),))
    assert seconds_until(held, "Rebalance", FakeView()) == 0.0
    assert seconds_until(held, "Scale", FakeView()) is None
    assert seconds_until(held, "PolicyChange", FakeView()) is None, "the author of a policy is not kept waiting"


def test_after_a_reverted_move_the_next_one_waits_unless_somebody_asks_again() -> None:
    reverted = binding_moves.with_stalled_condition(web({"m1": 4}), "MoveReverted", "not ready", NOON)
    assert seconds_until(reverted, "Rebalance", FakeView(now=NOON + MINUTE)) == 540.0
    assert seconds_until(reverted, "Rebalance", FakeView(now=NOON + PAUSE_AFTER_REVERT)) is None
    asked = reverted.but(spec=reverted.spec.but(reschedule_triggered_at=NOON + timedelta(seconds=1)))
    assert seconds_until(asked, "Rebalance", FakeView(now=NOON + MINUTE)) is None
    before = reverted.but(spec=reverted.spec.but(reschedule_triggered_at=NOON))
    assert seconds_until(before, "Rebalance", FakeView(now=NOON + MINUTE)) == 540.0
    assert seconds_until(reverted, "Drain", FakeView(now=NOON + MINUTE), is_policy_edit=True) is None


def test_growth_alone_removes_nothing() -> None:
    subject = web({"m1": 2})
    grown = subject.but(spec=subject.spec.but(replicas=4))
    assert not removes_replicas(grown, decided(grown))
    assert removes_replicas(web({"m1": 4}), decided(web({"m1": 4})))


def test_a_move_of_some_replicas_does_not_record_the_decision_as_applied() -> None:
    requested = state.request(web({"m1": 4}), NOON, "Rebalance", "job")
    for surge, is_applied in ((1, False), (2, True)):
        options = RebalancerSpec(move=MoveOptions(max_surge=surge))
        effects = start(requested, WorkloadRebalancer(metadata=Meta(name="job"), spec=options))
        (placed,) = (effect.steps[-1] for effect in effects if isinstance(effect, WriteSequence))
        applied = placed.metadata.annotations[well_known.APPLIED_PLACEMENT]
        assert (applied == msgspec.json.encode(requested.spec.placement).decode()) is is_applied


def test_an_approval_holds_until_the_whole_move_has_begun() -> None:
    requested = state.request(web({"m1": 4}), NOON, "Rebalance", "job")
    approval = {APPROVED: approval_text("Rebalance", {"m1": 2, "m2": 2})}
    requested = requested.but(metadata=requested.metadata.but(annotations=requested.metadata.annotations | approval))
    for surge, is_kept in ((1, True), (2, False)):
        options = RebalancerSpec(move=MoveOptions(max_surge=surge))
        effects = start(
            requested,
            WorkloadRebalancer(metadata=Meta(name="job"), spec=options),
            budget(approval="Required", max_unavailable=4),
        )
        (placed,) = (effect.steps[-1] for effect in effects if isinstance(effect, WriteSequence))
        assert (APPROVED in placed.metadata.annotations) is is_kept


def test_the_move_that_waits_for_an_approval_is_the_one_of_the_last_decision() -> None:
    required, wanted = (
        budget(approval="Required"),
        (TargetCluster(name="m1", replicas=2), TargetCluster(name="m2", replicas=2)),
    )
    for cause, clusters, since in (("Drain", wanted, NOON), ("Rebalance", wanted[:1], NOON - MINUTE)):
        earlier = PendingApproval(cause=cause, clusters=clusters, since=NOON - MINUTE)
        (written,) = (
            e for e in start(web({"m1": 4}, status_pending_approval=earlier), required) if isinstance(e, Binding)
        )
        assert written.status.pending_approval == PendingApproval(cause="Rebalance", clusters=wanted, since=since)


def finished_move(ago: timedelta | None) -> Move:
    cause = binding_moves.MoveCause("Rebalance", "trimtab-mover")
    move = binding_moves.move_of_binding(web({"m1": 4}), Transfer("m2", 2, (("m1", 2),)), cause, NOON)
    if ago is None:
        return move
    return binding_moves.with_outcome(move, "Done", "", NOON - ago)


def leftovers_delay(subject: Binding, *moves: Move, cause: str = "Rebalance") -> bool:
    view = FakeView([subject, *FLEET, *moves], raws=[deployment()])
    return grows_over_leftovers(subject, decided(subject), cause, view)


def with_leftovers(ready: int = 2, **fields: Any) -> Binding:
    """All is placed in m1, and m2 still reports replicas of a move that has finished."""
    items = (status_item("m1", status={"readyReplicas": 4}), status_item("m2", status={"readyReplicas": ready}))
    subject = web({"m1": 4}, **fields)
    return subject.but(status=subject.status.but(aggregated_status=items))


def test_replicas_of_a_move_that_has_just_finished_delay_the_next_one() -> None:
    just = finished_move(LEFTOVER_TIME - timedelta(seconds=1))
    assert leftovers_delay(with_leftovers(), just)
    assert not leftovers_delay(with_leftovers(ready=0), just)
    assert not leftovers_delay(with_leftovers()), "they may be of an autoscaler"
    assert not leftovers_delay(with_leftovers(), finished_move(LEFTOVER_TIME))
    assert not leftovers_delay(with_leftovers(), finished_move(None))


def test_leftovers_delay_moves_whose_replacement_is_counted() -> None:
    just = finished_move(timedelta(seconds=1))
    assert leftovers_delay(with_leftovers(), just, cause="Scale")
    for cause in ("PolicyChange", "ClusterFailover"):
        assert not leftovers_delay(with_leftovers(), just, cause=cause)
    held = (HeldReplicas(cluster="m9", replicas=1, until=NOON + MINUTE),)
    assert not leftovers_delay(with_leftovers(status_holds=held), just)


def test_replicas_in_a_cluster_that_does_not_grow_delay_nothing() -> None:
    items = (status_item("m1", status={"readyReplicas": 9}), status_item("m2", status={"readyReplicas": 0}))
    subject = web({"m1": 4})
    subject = subject.but(status=subject.status.but(aggregated_status=items))
    assert not leftovers_delay(subject, finished_move(timedelta(seconds=1)))


def test_a_move_removes_replicas_when_a_cluster_loses_some_or_leaves() -> None:
    decision = decided(web({"m1": 4}))  # two each
    assert removes_replicas(web({"m1": 4}), decision)
    assert removes_replicas(web({"m3": 0}), decision)
    assert not removes_replicas(web({"m1": 1}), decision)
    assert removes_replicas(web({"m1": 1}, status_holds=(HeldReplicas(cluster="m9", replicas=1),)), decision)


def test_only_a_blocked_move_makes_a_binding_blocked() -> None:
    assert is_blocked(binding_moves.with_stalled_condition(web({"m1": 4}), MOVE_BLOCKED, "no", NOON))
    assert not is_blocked(binding_moves.with_stalled_condition(web({"m1": 4}), "MoveReverted", "no", NOON))
    assert not is_blocked(web({"m1": 4}))


def test_only_a_reverted_move_pauses_the_next_one() -> None:
    reverted = binding_moves.with_stalled_condition(web({"m1": 4}), "MoveReverted", "no", NOON)
    blocked = binding_moves.with_stalled_condition(web({"m1": 4}), MOVE_BLOCKED, "no", NOON)
    assert seconds_until(reverted, "Rebalance", FakeView()) == PAUSE_AFTER_REVERT.total_seconds()
    assert seconds_until(blocked, "Rebalance", FakeView()) is None
    assert seconds_until(web({"m1": 4}), "Rebalance", FakeView()) is None


@pytest.mark.parametrize(
    ("old", "new", "later"),
    [("a", "b", True), ("b", "a", False), ("a", "a", False), ("", "b", False), ("gone", "b", False), ("a", "", False)],
)
def test_a_decision_falls_back_to_a_later_group_only(old: str, new: str, later: bool) -> None:
    groups = [{"affinityName": name, "clusterNames": ["m1"]} for name in ("a", "b")]
    subject = binding(clusters={"m1": 4}, placement=placement(clusterAffinities=groups))
    subject = subject.but(status=subject.status.but(scheduler_observing_affinity_name=old))
    decision = msgspec.structs.replace(decided(subject), affinity_name=new)
    assert falls_back(subject, decision) is later


def test_a_pending_approval_keeps_its_time_for_the_same_cause_and_goes_with_another_refusal() -> None:
    subject = web({"m1": 4})
    decision, view = decided(subject), FakeView(now=NOON + MINUTE)
    required = GateRefusal(APPROVAL_REQUIRED, "ask")
    waiting = with_pending_approval(subject, required, decision, "Drain", FakeView())
    assert waiting.status.pending_approval is not None
    assert waiting.status.pending_approval.since == NOON
    assert with_pending_approval(waiting, required, decision, "Drain", view) is waiting
    for cause, since in (("Drain", NOON), ("Rebalance", NOON + MINUTE)):
        changed = with_pending_approval(waiting, required, decided(web({"m1": 6})), cause, view)
        assert changed.status.pending_approval is not None
        assert changed.status.pending_approval.since == since
    other = with_pending_approval(waiting, GateRefusal("RateExhausted", "no"), decision, "Drain", view)
    assert other.status.pending_approval is None
    assert without_pending_approval(subject) is subject
