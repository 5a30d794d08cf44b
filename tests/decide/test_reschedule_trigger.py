import json
from typing import Any

import pytest

from plugins.clusters import binding, cluster, fleet
from trimtab.decide.reschedule_trigger import APPLIED_PLACEMENT, trigger

DIVIDED = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}
M1 = [{"name": "m1", "replicas": 2}]


def fired(applied: Any, *, clusters: Any = M1, replicas: int = 2, status: Any = None, **spec: Any) -> str:
    asked = binding(replicas=replicas, clusters=clusters, status=status, **({"placement": DIVIDED} | spec))
    text = applied if isinstance(applied, str) else json.dumps(applied)
    noted = asked.but(metadata=asked.metadata.but(annotations={APPLIED_PLACEMENT: text}))
    return trigger(noted, fleet(cluster("m1")))


def test_nothing_new_is_no_reason() -> None:
    assert fired(DIVIDED) == "None"


@pytest.mark.parametrize("applied", ["", {}, {**DIVIDED, "clusterAffinity": {}}])
def test_another_placement_is(applied: Any) -> None:
    assert fired(applied) == "PlacementChanged"


def test_a_placement_that_cannot_be_read_is_taken_for_the_same() -> None:
    assert fired("{") == "None"


def test_an_edit_of_a_group_that_is_not_in_use_is_no_reason() -> None:
    def groups(second: str) -> dict[str, Any]:
        terms = [{"affinityName": "a"}, {"affinityName": "b", "clusterNames": [second]}]
        return {**DIVIDED, "clusterAffinities": terms}

    for observed, expected in (("a", "None"), ("b", "PlacementChanged"), ("", "PlacementChanged")):
        status = {"schedulerObservingAffinityName": observed}
        assert fired(groups("m1"), placement=groups("m2"), status=status) == expected


def test_another_number_of_replicas_is() -> None:
    assert fired(DIVIDED, replicas=3) == "ReplicasChanged"


def test_a_trigger_must_be_later_than_the_last_decision() -> None:
    status = {"lastScheduledTime": "2030-01-01T00:00:00Z"}
    assert fired(DIVIDED, status=status, rescheduleTriggeredAt="2030-01-01T00:00:00Z") == "None"
    assert fired(DIVIDED, status=status, rescheduleTriggeredAt="2030-01-01T00:00:01Z") == "RescheduleTriggered"
    assert fired(DIVIDED, rescheduleTriggeredAt="2030-01-01T00:00:01Z") == "None"


def test_what_is_duplicated_is_always_looked_at() -> None:
    duplicated = {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}
    assert fired(duplicated, placement=duplicated) == "DuplicatedOrNonWorkload"


def test_a_target_on_its_way_out_is_a_reason() -> None:
    leaving = cluster("m1")
    leaving = leaving.but(metadata=leaving.metadata.but(deletion_timestamp="2030-01-01T00:00:00Z"))
    asked = binding(replicas=2, clusters=M1, placement=DIVIDED)
    noted = asked.but(metadata=asked.metadata.but(annotations={APPLIED_PLACEMENT: json.dumps(DIVIDED)}))
    assert trigger(noted, fleet(leaving)) == "TargetClusterTerminating"
