"""Removal of replicas that are unschedulable for too long."""

from datetime import timedelta

import msgspec
from builders import NOON, binding, frozen, status_item
from views import FakeView

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import UPSTREAM
from trimtab.controllers import well_known
from trimtab.controllers.clusters.health import PROBE, Probe
from trimtab.controllers.movement.unschedulable_replicas import (
    DESCHEDULED,
    UnschedulablePod,
    unschedulable_pods,
    unschedulable_replicas,
)

DYNAMIC = '{"replicaScheduling":{"replicaSchedulingType":"Divided","replicaDivisionPreference":"Aggregated"}}'
LONG_AGO = NOON - timedelta(minutes=6)


def placed(annotation=DYNAMIC, ready=2) -> ResourceBinding:
    changed = binding(
        clusters={"m1": 5, "m2": 1},
        status_aggregated_status=(
            status_item("m1", status={"readyReplicas": ready}),
            status_item("m2", status={"readyReplicas": 1}),
        ),
    )
    annotations = changed.metadata.annotations | {well_known.APPLIED_PLACEMENT: annotation}
    return changed.but(metadata=changed.metadata.but(annotations=annotations))


def view(*pods: UnschedulablePod, **more) -> FakeView:
    snapshot = FakeView(**more)
    snapshot.memory[PROBE, "m1"] = Probe(NOON, online=True, healthy=True, unschedulable_pods=pods)
    return snapshot


def unschedulable(since=LONG_AGO, template="new") -> UnschedulablePod:
    return UnschedulablePod("demo", "web", template, since)


def shares(effects):
    (changed,) = [effect for effect in effects if isinstance(effect, ResourceBinding)]
    return {target.name: target.replicas for target in changed.spec.clusters}


def test_replicas_that_are_unschedulable_for_too_long_are_removed_with_an_event() -> None:
    effects = list(unschedulable_replicas(placed(), view(unschedulable(), unschedulable())))
    assert shares(effects) == {"m1": 3, "m2": 1}
    assert effects[-1].message.endswith("2 replica(s) in cluster(m1), 2 total descheduled replica(s)")


def test_ready_replicas_are_never_removed() -> None:
    assert shares(unschedulable_replicas(placed(ready=4), view(unschedulable(), unschedulable(), unschedulable()))) == {
        "m1": 4,
        "m2": 1,
    }


def test_a_recently_unschedulable_pod_is_ignored() -> None:
    assert list(unschedulable_replicas(placed(), view(unschedulable(since=NOON - timedelta(minutes=1))))) == []


def test_pods_of_an_older_template_do_not_count() -> None:
    recent = unschedulable(since=NOON - timedelta(minutes=1), template="newer")
    assert list(unschedulable_replicas(placed(), view(unschedulable(template="old"), recent))) == []


def test_static_weights_and_upstream_are_not_descheduled() -> None:
    assert list(unschedulable_replicas(placed(annotation="{}"), view(unschedulable()))) == []
    assert list(unschedulable_replicas(placed(), view(unschedulable(), profile=UPSTREAM))) == []


def test_a_binding_is_descheduled_at_most_once_per_interval() -> None:
    snapshot = view(unschedulable())
    snapshot.memory[DESCHEDULED, well_known.ref_of(placed())] = NOON - timedelta(seconds=119)
    assert list(unschedulable_replicas(placed(), snapshot)) == []


def test_only_pods_without_a_node_are_unschedulable() -> None:
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
    assert unschedulable_pods([pod]) == (UnschedulablePod("demo", "web", "abc", LONG_AGO),)
    assert unschedulable_pods([pod.but(spec=pod.spec.but(node_name="n1"))]) == ()


def test_nothing_is_removed_while_moves_are_frozen() -> None:
    snapshot = FakeView([frozen()])
    snapshot.memory[PROBE, "m1"] = Probe(NOON, online=True, healthy=True, unschedulable_pods=(unschedulable(),))
    assert list(unschedulable_replicas(placed(), snapshot)) == []
