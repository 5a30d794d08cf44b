import json
from typing import Any

import pytest

from plugins.clusters import binding, cluster, fleet
from trimtab.decide.reschedule_trigger import APPLIED_PLACEMENT, reschedule_reason

DIVIDED = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}
M1 = [{"name": "m1", "replicas": 2}]


def reason_for(applied: Any, *, clusters: Any = M1, replicas: int = 2, status: Any = None, **spec: Any) -> str:
    request = binding(replicas=replicas, clusters=clusters, status=status, **({"placement": DIVIDED} | spec))
    text = applied if isinstance(applied, str) else json.dumps(applied)
    noted = request.but(metadata=request.metadata.but(annotations={APPLIED_PLACEMENT: text}))
    return reschedule_reason(noted, fleet(cluster("m1")))


def test_an_unchanged_binding_has_no_reason_to_reschedule() -> None:
    assert reason_for(DIVIDED) == "None"


@pytest.mark.parametrize("applied", ["", {}, {**DIVIDED, "clusterAffinity": {}}])
def test_a_changed_placement_triggers_rescheduling(applied: Any) -> None:
    assert reason_for(applied) == "PlacementChanged"


def test_an_unreadable_applied_placement_counts_as_unchanged() -> None:
    assert reason_for("{") == "None"
    assert reason_for('{"a":' * 50_000) == "None"


def test_a_change_of_an_unused_affinity_group_does_not_trigger() -> None:
    def groups(second: str) -> dict[str, Any]:
        terms = [{"affinityName": "a"}, {"affinityName": "b", "clusterNames": [second]}]
        return {**DIVIDED, "clusterAffinities": terms}

    for observed, expected in (("a", "None"), ("b", "PlacementChanged"), ("", "PlacementChanged")):
        status = {"schedulerObservingAffinityName": observed}
        assert reason_for(groups("m1"), placement=groups("m2"), status=status) == expected


def test_a_changed_replica_count_triggers_rescheduling() -> None:
    assert reason_for(DIVIDED, replicas=3) == "ReplicasChanged"


def test_a_trigger_must_be_later_than_the_last_decision() -> None:
    status = {"lastScheduledTime": "2030-01-01T00:00:00Z"}
    assert reason_for(DIVIDED, status=status, rescheduleTriggeredAt="2030-01-01T00:00:00Z") == "None"
    assert reason_for(DIVIDED, status=status, rescheduleTriggeredAt="2030-01-01T00:00:01Z") == "RescheduleTriggered"
    assert reason_for(DIVIDED, rescheduleTriggeredAt="2030-01-01T00:00:01Z") == "None"


def test_duplicated_bindings_are_always_decided() -> None:
    duplicated = {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}
    assert reason_for(duplicated, placement=duplicated) == "DuplicatedOrNonWorkload"


def test_a_terminating_target_cluster_triggers_rescheduling() -> None:
    leaving = cluster("m1")
    leaving = leaving.but(metadata=leaving.metadata.but(deletion_timestamp="2030-01-01T00:00:00Z"))
    request = binding(replicas=2, clusters=M1, placement=DIVIDED)
    noted = request.but(metadata=request.metadata.but(annotations={APPLIED_PLACEMENT: json.dumps(DIVIDED)}))
    assert reschedule_reason(noted, fleet(leaving)) == "TargetClusterTerminating"
