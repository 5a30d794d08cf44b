"""The status of a workload in a lean member, from its replicas in numbers."""

from datetime import UTC, datetime, timedelta

from trimtab.simulate.lean.workload_status import STATUS, ReplicaState, deployment_status, job_status

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)


def test_deployment_is_available_when_all_replicas_are_ready() -> None:
    obj = {"metadata": {"generation": 3}}
    before = deployment_status(obj, ReplicaState(desired=3, placed=3, ready=1, updated=2), NOON)
    assert (before["observedGeneration"], before["unavailableReplicas"]) == (3, 2)
    assert [one["status"] for one in before["conditions"]] == ["False", "True"]
    after = deployment_status({**obj, "status": before}, ReplicaState(3, 3, 3, 3), LATER)
    assert after["unavailableReplicas"] == 0
    assert after["conditions"][0]["lastTransitionTime"] == "2026-01-01T12:05:00Z"


def test_times_of_an_equal_condition_are_kept() -> None:
    state = ReplicaState(desired=1, placed=1, ready=1, updated=1)
    before = deployment_status({"metadata": {}}, state, NOON)
    assert deployment_status({"metadata": {}, "status": before}, state, LATER) == before


def test_job_is_complete_when_enough_replicas_have_ended() -> None:
    running = job_status({}, ReplicaState(desired=2, placed=1, ready=1, updated=1, completed=1), NOON)
    assert (running["active"], running["succeeded"], running["startTime"]) == (1, 1, "2026-01-01T12:00:00Z")
    assert "conditions" not in running
    ended = job_status({"status": running}, ReplicaState(2, 0, 0, 0, completed=2), LATER)
    assert (ended["startTime"], ended["completionTime"]) == (running["startTime"], "2026-01-01T12:05:00Z")
    assert [(one["type"], one["status"]) for one in ended["conditions"]] == [("Complete", "True")]


def test_every_status_names_what_is_ready() -> None:
    for function in STATUS.values():
        status = function({"metadata": {}}, ReplicaState(desired=2, placed=2, ready=1, updated=2), NOON)
        assert status.get("readyReplicas", status.get("ready")) == 1
