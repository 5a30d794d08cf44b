"""What makes the scheduler look at a binding."""

from builders import NOON, binding, cluster, placement
from views import FakeView

from controllers.propagation.scheduling.test_candidates import REFERRING, page
from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.work import BindingSchedulePriority, HeldReplicas, ResourceBinding
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Condition, Meta
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.gate import MOVE_BLOCKED
from trimtab.controllers.propagation.scheduling.triggers import (
    affected_bindings,
    bindings_blocked_by,
    bindings_of_placement_decision,
    may_select,
    needs_scheduling,
    scheduling_priority,
)


def next_generation(subject: ResourceBinding, *, observed: bool) -> ResourceBinding:
    generation = subject.metadata.generation + 1
    status = subject.status.but(scheduler_observed_generation=generation) if observed else subject.status
    return subject.but(metadata=subject.metadata.but(generation=generation), status=status)


def test_a_new_binding_and_a_changed_spec_are_scheduled() -> None:
    subject = binding()
    assert needs_scheduling(None, subject)
    assert needs_scheduling(subject, next_generation(subject, observed=False))
    assert not needs_scheduling(subject, subject)


def test_the_scheduler_does_not_answer_its_own_write() -> None:
    subject = binding()
    assert not needs_scheduling(subject, next_generation(subject, observed=True))


def test_a_change_of_another_writer_between_two_own_writes_is_scheduled() -> None:
    """The observed generation was already that of the new object: somebody else raised it afterwards."""
    subject = binding(status_scheduler_observed_generation=3)
    assert needs_scheduling(subject, next_generation(subject, observed=True))


def test_the_end_of_a_move_lets_the_next_decision_happen() -> None:
    held = binding(status_holds=(HeldReplicas(cluster="m1", replicas=1, until=NOON),))
    assert needs_scheduling(held, binding())
    assert not needs_scheduling(binding(), held)


def test_a_deletion_is_seen() -> None:
    subject = binding()
    assert needs_scheduling(subject, subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON)))


def test_a_cluster_with_new_labels_affects_what_may_select_it() -> None:
    scheduled = (Condition(type="Scheduled", status="True", last_transition_time=NOON),)
    mine = binding("mine", placement=placement(clusterAffinity={"clusterNames": ["m1"]}), status_conditions=scheduled)
    other = binding("other", placement=placement(clusterAffinity={"clusterNames": ["m2"]}), status_conditions=scheduled)
    old = cluster("m1")
    new = old.but(metadata=old.metadata.but(labels={"zone": "a"}))
    view = FakeView([mine, other], profile=UPSTREAM)
    assert list(affected_bindings(old, new, view)) == [key_of(mine)]
    assert list(affected_bindings(old, old, view)) == []
    assert list(affected_bindings(None, new, view)) == [], "upstream does not retry when a cluster joins"


def test_a_pending_binding_is_tried_again_when_a_cluster_joins() -> None:
    pending = binding(placement=placement(clusterAffinity={"clusterNames": ["m9"]}))
    assert list(affected_bindings(None, cluster("m1"), FakeView([pending]))) == [key_of(pending)]


def test_only_the_affinity_group_in_use_counts() -> None:
    groups = placement(
        clusterAffinities=[
            {"affinityName": "first", "clusterNames": ["m1"]},
            {"affinityName": "second", "clusterNames": ["m2"]},
        ]
    )
    subject = binding(placement=groups, status_scheduler_observing_affinity_name="second")
    assert not may_select(subject, cluster("m1"))
    assert may_select(subject, cluster("m2"))
    undecided = binding(placement=groups, status_scheduler_observed_generation=1)
    assert may_select(undecided, cluster("m1")), "any group may be chosen for a new generation"


def test_a_new_decision_of_a_placement_wakes_the_bindings_that_refer_to_it() -> None:
    view = FakeView([REFERRING, binding("unrelated")])
    assert list(bindings_of_placement_decision(None, page("gold", "m1"), view)) == [key_of(REFERRING)]
    assert list(bindings_of_placement_decision(page("gold", "m1"), page("gold", "m1"), view)) == []
    assert list(bindings_of_placement_decision(None, page("gold", "m1", namespace="elsewhere"), view)) == []


def test_a_changed_budget_wakes_the_blocked_bindings_of_its_namespace() -> None:
    blocked = binding_moves.with_stalled_condition(binding("blocked"), MOVE_BLOCKED, "no", NOON)
    view = FakeView([blocked, binding("free")])
    budget = DisruptionBudget(metadata=Meta(name="b", namespace="demo"))
    assert list(bindings_blocked_by(None, budget, view)) == [key_of(blocked)]
    elsewhere = DisruptionBudget(metadata=Meta(name="b", namespace="elsewhere"))
    assert list(bindings_blocked_by(budget, elsewhere, view)) == []


def test_bindings_without_a_priority_have_priority_zero() -> None:
    assert scheduling_priority(binding()) == 0
    assert scheduling_priority(binding(schedule_priority=BindingSchedulePriority(priority=7))) == 7
