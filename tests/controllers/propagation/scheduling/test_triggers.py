"""What makes the scheduler look at a binding."""

from datetime import datetime
from typing import Any

import msgspec
import pytest
from builders import MINUTE, NOON, binding, cluster, placement
from hypothesis import given
from hypothesis import strategies as st
from views import FakeView

from controllers.propagation.scheduling.test_candidates import REFERRING, page
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster, Taint
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.policy import Placement, PlacementReference
from trimtab.api.kinds.work import (
    BindingSchedulePriority,
    ClusterResourceBinding,
    Component,
    GracefulEvictionTask,
    HeldReplicas,
    PendingApproval,
    ResourceBinding,
)
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.api.value import Condition, Meta
from trimtab.controllers import well_known
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.gate import MOVE_BLOCKED
from trimtab.controllers.propagation.scheduling.triggers import (
    DECIDED_ANEW,
    NOT_SCHEDULED,
    affected_bindings,
    bindings_blocked_by,
    bindings_of_placement_decision,
    decision_states,
    may_select,
    needs_scheduling,
    scheduling_priority,
)
from trimtab.decide.fleet import Fleet
from trimtab.decide.request import FeatureGates
from trimtab.decide.reschedule_trigger import reschedule_reason


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


SCHEDULED = (Condition(type="Scheduled", status="True", last_transition_time=NOON - MINUTE),)
DIVIDED = placement(replicaScheduling={"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"})


def divided(name: str = "web", clusters: dict[str, int] | None = None, **fields: Any) -> ResourceBinding:
    """A divided workload whose decision is complete."""
    given = {"placement": DIVIDED, "status_conditions": SCHEDULED} | fields
    subject = binding(name, clusters={"m1": 2} if clusters is None else clusters, **given)
    text = msgspec.json.encode(subject.spec.placement).decode()
    return with_annotation(subject, text)


def with_annotation(subject: ResourceBinding, applied_placement: str) -> ResourceBinding:
    annotations = {**subject.metadata.annotations, well_known.APPLIED_PLACEMENT: applied_placement}
    return subject.but(metadata=subject.metadata.but(annotations=annotations))


def with_taint(one: Cluster) -> Cluster:
    tainted = one.but(spec=one.spec.but(taints=(Taint(key="closed", effect="NoSchedule"),)))
    return tainted.but(metadata=tainted.metadata.but(generation=2))


@pytest.mark.parametrize("profile", [TRIMTAB, UPSTREAM])
def test_a_taint_affects_a_divided_workload_only_in_its_own_clusters(profile: Profile) -> None:
    mine, other = divided("mine", {"m1": 2}), divided("other", {"m2": 2})
    view = FakeView([mine, other], profile=profile)
    assert list(affected_bindings(cluster("m1"), with_taint(cluster("m1")), view)) == [key_of(mine)]
    leaving = divided("leaving", graceful_eviction_tasks=(GracefulEvictionTask(from_cluster="m3"),))
    view = FakeView([mine, leaving], profile=profile)
    assert list(affected_bindings(cluster("m3"), with_taint(cluster("m3")), view)) == [key_of(leaving)]


def test_a_binding_outside_namespaces_is_affected_as_well() -> None:
    found = divided("mine")
    global_ = ClusterResourceBinding(
        metadata=found.metadata.but(namespace=""), spec=found.spec.but(placement=Placement()), status=found.status
    )
    view = FakeView([global_, divided("other", {"m2": 2}), divided("mine", {"m1": 2})])
    affected = list(affected_bindings(cluster("m1"), with_taint(cluster("m1")), view))
    assert affected == [key_of(divided("mine")), key_of(global_)]


UNFINISHED = {
    "duplicated": divided(placement=placement(replicaScheduling={"replicaSchedulingType": "Duplicated"})),
    "no scheduling": divided(placement=Placement()),
    "no workload": divided(clusters={"m1": 0}),
    "components": divided(components=(Component(name="main", replicas=1),)),
    "a Placement": divided(placement=DIVIDED.but(placement_ref=PlacementReference(name="gold"))),
    "a new generation": divided(status_scheduler_observed_generation=1),
    "a request": divided(reschedule_triggered_at=NOON),
    "a request in the second of the decision": divided(reschedule_triggered_at=NOON - MINUTE),
    "a request before any decision": divided(reschedule_triggered_at=NOON, status_last_scheduled_time=None),
    "other replicas": divided(replicas=3),
    "an approval": divided(status_pending_approval=PendingApproval(cause="Rebalance")),
    "a blocked move": binding_moves.with_stalled_condition(divided(), MOVE_BLOCKED, "no", NOON),
    "no applied placement": with_annotation(divided(), ""),
    "no decision": divided(status_conditions=()),
}


@pytest.mark.parametrize("subject", UNFINISHED.values(), ids=UNFINISHED)
def test_every_cluster_may_change_a_decision_that_is_not_complete(subject: ResourceBinding) -> None:
    assert list(decision_states(subject)) in ([NOT_SCHEDULED], [DECIDED_ANEW])
    view = FakeView([subject])
    assert list(affected_bindings(cluster("m9"), with_taint(cluster("m9")), view)) == [key_of(subject)]


@given(
    replicas=st.integers(0, 3),
    placed=st.dictionaries(st.sampled_from(["m1", "m2"]), st.integers(0, 3)),
    scheduling=st.sampled_from(["Divided", "Duplicated", ""]),
    requested=st.sampled_from([None, NOON - 2 * MINUTE, NOON - MINUTE, NOON]),
    decided=st.sampled_from([None, NOON - MINUTE]),
    gates=st.builds(FeatureGates, components=st.booleans()),
)
def test_what_no_other_cluster_changes_has_no_reason_to_be_decided(
    replicas: int,
    placed: dict[str, int],
    scheduling: str,
    requested: datetime | None,
    decided: datetime | None,
    gates: FeatureGates,
) -> None:
    subject = divided(
        clusters=placed,
        replicas=replicas,
        placement=placement(replicaScheduling={"replicaSchedulingType": scheduling}) if scheduling else Placement(),
        reschedule_triggered_at=requested,
        status_last_scheduled_time=decided,
    )
    if not list(decision_states(subject)):
        fleet = Fleet.of([with_taint(cluster(name)) for name in ("m1", "m2", "m3")])
        assert reschedule_reason(subject, fleet, gates) == "None"


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
    named = binding("named", placement=placement(placementRef={"name": "gold", "namespace": "elsewhere"}))
    elsewhere = page("gold", "m1", namespace="elsewhere")
    assert list(bindings_of_placement_decision(None, elsewhere, FakeView([REFERRING, named]))) == [key_of(named)]


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
