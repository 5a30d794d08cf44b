"""Replicas that no node takes are given back after a while."""

from datetime import timedelta

import msgspec
from builders import NOON, binding, item
from views import FakeView

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import UPSTREAM
from trimtab.controllers import well_known
from trimtab.controllers.clusters.health import Probe
from trimtab.controllers.movement.unschedulable_replicas import Stuck, deschedule, stuck_pods

DYNAMIC = '{"replicaScheduling":{"replicaSchedulingType":"Divided","replicaDivisionPreference":"Aggregated"}}'
LONG_AGO = NOON - timedelta(minutes=6)


def placed(annotation=DYNAMIC, ready=2) -> ResourceBinding:
    made = binding(
        clusters={"m1": 5, "m2": 1},
        status_aggregated_status=(item("m1", status={"readyReplicas": ready}), item("m2", status={"readyReplicas": 1})),
    )
    annotations = made.metadata.annotations | {well_known.APPLIED_PLACEMENT: annotation}
    return made.but(metadata=made.metadata.but(annotations=annotations))


def view(*stuck: Stuck, **more) -> FakeView:
    seen = FakeView(**more)
    seen.memory["probe", "m1"] = Probe(NOON, online=True, healthy=True, stuck=stuck)
    return seen


def waiting(since=LONG_AGO, template="new") -> Stuck:
    return Stuck("demo", "web", template, since)


def shares(wishes):
    (made,) = [wish for wish in wishes if isinstance(wish, ResourceBinding)]
    return {target.name: target.replicas for target in made.spec.clusters}


def test_what_is_stuck_for_long_is_given_back_and_told() -> None:
    wishes = list(deschedule(placed(), view(waiting(), waiting())))
    assert shares(wishes) == {"m1": 3, "m2": 1}
    assert wishes[-1].message.endswith("2 replica(s) in cluster(m1), 2 total descheduled replica(s)")


def test_never_fewer_are_left_than_are_ready() -> None:
    assert shares(deschedule(placed(ready=4), view(waiting(), waiting(), waiting()))) == {"m1": 4, "m2": 1}


def test_a_pod_that_has_just_begun_to_wait_is_waited_for() -> None:
    assert list(deschedule(placed(), view(waiting(since=NOON - timedelta(minutes=1))))) == []


def test_pods_of_an_older_template_do_not_count() -> None:
    young = waiting(since=NOON - timedelta(minutes=1), template="newer")
    assert list(deschedule(placed(), view(waiting(template="old"), young))) == []


def test_fixed_weights_and_upstream_without_its_descheduler_are_left_alone() -> None:
    assert list(deschedule(placed(annotation="{}"), view(waiting()))) == []
    assert list(deschedule(placed(), view(waiting(), profile=UPSTREAM))) == []


def test_once_in_two_minutes_is_enough() -> None:
    seen = view(waiting())
    seen.memory["descheduled", well_known.ref_of(placed())] = NOON - timedelta(seconds=119)
    assert list(deschedule(placed(), seen)) == []


def test_only_pods_that_no_node_takes_are_stuck() -> None:
    raw = {
        "metadata": {
            "name": "web-abc-1",
            "namespace": "demo",
            "labels": {"pod-template-hash": "abc"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web-abc", "controller": True}],
        },
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "lastTransitionTime": "2026-03-01T11:54:00Z",
                }
            ]
        },
    }
    pod = msgspec.convert(raw, Pod, strict=False)
    assert stuck_pods([pod]) == (Stuck("demo", "web", "abc", LONG_AGO),)
    assert stuck_pods([pod.but(spec=pod.spec.but(node_name="n1"))]) == ()
