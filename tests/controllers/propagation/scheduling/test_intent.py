"""Why a binding is scheduled, and what is asked of the decision."""

from datetime import datetime

from builders import NOON, binding, cluster, placement, status_item
from msgspec.json import encode
from views import FakeView

from trimtab.api.kinds.rebalancer import RebalancerSpec, WorkloadRebalancer
from trimtab.api.kinds.work import Binding, BindingStatus, PreviousPlacement, TargetCluster
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Meta, Object
from trimtab.controllers import well_known
from trimtab.controllers.movement import state
from trimtab.controllers.propagation.scheduling.intent import (
    LAST_REQUEST,
    SchedulingIntent,
    available_shares,
    intent_of,
    intent_of_new_candidates,
    returns_to_previous,
)
from trimtab.decide.fleet import Fleet
from trimtab.decide.request import FeatureGates

EVENLY = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
GATES = FeatureGates()


def settled(subject: Binding) -> Binding:
    """The binding, decided for its present placement."""
    marks = subject.metadata.annotations | {well_known.APPLIED_PLACEMENT: encode(subject.spec.placement).decode()}
    return subject.but(metadata=subject.metadata.but(annotations=marks))


def intent_in(subject: Binding, *objects: Object) -> SchedulingIntent | None:
    clusters = [cluster("m1"), cluster("m2")]
    known = {thing.name for thing in objects}
    view = FakeView([*objects, *(one for one in clusters if one.name not in known)])
    return intent_of(subject, Fleet.of(clusters), GATES, view)


def drained(name: str) -> Object:
    found = cluster(name)
    return found.but(metadata=found.metadata.but(annotations={well_known.DRAIN: "now"}))


def test_a_settled_binding_is_left_alone() -> None:
    assert intent_in(settled(binding(clusters={"m1": 2}, placement=placement(replicaScheduling=EVENLY)))) is None


def test_a_binding_that_was_created_with_its_clusters_but_without_its_status_is_decided_again() -> None:
    """The process ended between the two requests that a remote API server takes."""
    subject = settled(binding(clusters={"m1": 2}, placement=placement(replicaScheduling=EVENLY)))
    unreported = subject.but(status=BindingStatus())
    found = intent_in(unreported)
    assert found is not None
    assert (found.cause, dict(found.request.placed)) == ("", {"m1": 2})
    clusters = [cluster("m1"), cluster("m2")]
    assert intent_of(unreported, Fleet.of(clusters), GATES, FakeView(clusters, profile=UPSTREAM)) is None


def test_a_drained_cluster_is_left_without_its_share() -> None:
    subject = settled(binding(clusters={"m1": 2, "m2": 1}, placement=placement(replicaScheduling=EVENLY)))
    found = intent_in(subject, drained("m1"))
    assert found is not None
    assert found.cause == "Drain"
    assert dict(found.request.placed) == {"m2": 1}


def test_an_edit_of_the_policy_is_told_from_the_drain_that_it_takes_part_in() -> None:
    subject = settled(binding(clusters={"m1": 2, "m2": 1}, placement=placement(replicaScheduling=EVENLY)))
    leaving = cluster("m1").but(metadata=cluster("m1").metadata.but(deletion_timestamp=NOON))
    edited = subject.but(spec=subject.spec.but(placement=placement(clusterAffinity={"clusterNames": ["m2"]})))
    by_itself, by_edit = intent_in(subject, leaving), intent_in(edited, leaving)
    assert by_itself is not None
    assert by_edit is not None
    assert (by_itself.cause, by_itself.is_policy_edit) == ("Drain", False)
    assert (by_edit.cause, by_edit.is_policy_edit) == ("Drain", True)


def test_a_scaled_workload_is_scheduled_for_its_scale() -> None:
    subject = settled(binding(clusters={"m1": 2}, placement=placement(replicaScheduling=EVENLY)))
    found = intent_in(subject.but(spec=subject.spec.but(replicas=5)))
    assert found is not None
    assert found.cause == "Scale"


def test_a_request_in_the_second_of_the_last_decision_is_answered_once() -> None:
    decided = settled(
        binding(clusters={"m1": 2}, placement=placement(replicaScheduling=EVENLY), status_last_scheduled_time=NOON)
    )
    asked = state.request(decided, NOON)
    clusters = [cluster("m1"), cluster("m2")]

    def intent_after(*last: datetime | None) -> SchedulingIntent | None:
        view = FakeView(clusters, profile=UPSTREAM)
        if last:
            view.memory[LAST_REQUEST, well_known.ref_of(asked)] = last
        return intent_of(asked, Fleet.of(clusters), GATES, view)

    found = intent_after(None)
    assert found is not None
    assert found.request.fresh
    assert intent_after(NOON) is None, "it was answered"
    assert intent_after() is None, "after a restart it is not known"


def test_a_rebalance_that_preserves_what_is_available_keeps_ready_replicas_only() -> None:
    items = (status_item("m1", status={"readyReplicas": 2}), status_item("m2", status={"readyReplicas": 0}))
    subject = settled(
        binding(
            clusters={"m1": 3, "m2": 2}, placement=placement(replicaScheduling=EVENLY), status_aggregated_status=items
        )
    )
    job = WorkloadRebalancer(metadata=Meta(name="job"), spec=RebalancerSpec(strategy="PreserveAvailable"))
    asked = state.request(subject, NOON, "Rebalance", "job")
    found = intent_in(asked, job)
    assert found is not None
    assert found.keep == (TargetCluster(name="m1", replicas=2),)
    assert not found.request.fresh
    whole = intent_in(asked)
    assert whole is not None
    assert whole.request.fresh
    assert whole.keep == ()


def test_available_shares_are_never_more_than_placed() -> None:
    subject = binding(clusters={"m1": 2}, status_aggregated_status=(status_item("m1", status={"readyReplicas": 9}),))
    assert available_shares(subject, FakeView([cluster("m1")])) == {"m1": 2}


def test_a_failback_returns_to_the_previous_clusters_only() -> None:
    rules = placement(replicaScheduling=EVENLY, failback={"to": "Previous"})
    previous = PreviousPlacement(clusters=(TargetCluster(name="m1", replicas=2),))
    subject = settled(binding(clusters={"m2": 2}, placement=rules, status_previous_placement=previous))
    assert returns_to_previous(subject)
    found = intent_in(state.request(subject, NOON, "Failback"))
    assert found is not None
    assert (found.cause, found.restore) == ("Failback", previous.clusters)
    assert found.request.candidates == {"m1"}


def test_a_cluster_that_a_placement_does_not_offer_any_more_is_left() -> None:
    subject = binding(clusters={"m1": 2, "m2": 1}, placement=placement(replicaScheduling=EVENLY))
    found = intent_of_new_candidates(subject, ["m2"], FakeView())
    assert found is not None
    assert dict(found.request.placed) == {"m2": 1}
    assert intent_of_new_candidates(subject, ["m1", "m2"], FakeView()) is None


def test_new_candidates_get_replicas_only_when_more_joined_than_left() -> None:
    known = binding(
        clusters={"m1": 2}, placement=placement(replicaScheduling=EVENLY), status_placement_ref_clusters=("m1",)
    )
    joined = intent_of_new_candidates(known, ["m1", "m2"], FakeView())
    assert joined is not None
    assert joined.request.fresh
    swapped = intent_of_new_candidates(known, ["m2"], FakeView())
    assert swapped is not None
    assert not swapped.request.fresh
