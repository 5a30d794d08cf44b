"""Aggregation of native kinds where the recorded vectors do not reach."""

from typing import Any

import pytest

from interpret.native.native_helpers import GENERATION, TRIMTAB, UPSTREAM, make_object, member_item, stateful_set
from trimtab.interpret.interpreter import Interpreter


def job(**status: Any) -> dict[str, Any]:
    return make_object("Job", "batch/v1", spec={}, status=status)


def condition(kind: str, at: str = "2024-01-01T00:00:05Z") -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": at}


def aggregated_status(obj: dict[str, Any], *items: dict[str, Any], interpreter: Interpreter = TRIMTAB) -> Any:
    return interpreter.aggregate(obj, items).get("status")


def test_job_is_complete_when_it_is_complete_in_every_member() -> None:
    done = [condition("SuccessCriteriaMet"), condition("Complete")]
    status = aggregated_status(
        job(), member_item("a", conditions=done, succeeded=1), member_item("b", conditions=done, succeeded=2)
    )
    assert [c["type"] for c in status["conditions"]] == ["Complete", "SuccessCriteriaMet"]
    assert status["succeeded"] == 3


def test_job_that_runs_in_one_member_is_not_complete() -> None:
    status = aggregated_status(
        job(), member_item("a", conditions=[condition("Complete")], succeeded=1), member_item("b", active=1)
    )
    assert status == {"active": 1, "succeeded": 1}


def test_job_fails_when_it_fails_in_one_member_and_names_it() -> None:
    status = aggregated_status(
        job(), member_item("a", active=1), member_item("b", conditions=[condition("Failed")], failed=1)
    )
    (failed,) = status["conditions"]
    assert failed["reason"] == "JobFailed"
    assert failed["message"] == "Job executed failed in member clusters b"


def test_failure_target_comes_before_failed() -> None:
    conditions = [condition("FailureTarget"), condition("Failed")]
    status = aggregated_status(job(), member_item("a", conditions=conditions))
    assert [c["type"] for c in status["conditions"]] == ["FailureTarget", "Failed"]


def test_finished_job_is_not_changed() -> None:
    finished = job(conditions=[condition("Failed")], failed=9)
    assert TRIMTAB.aggregate(finished, [member_item("a", active=3)]) is finished


def test_job_start_time_is_the_earliest_once_all_members_have_started() -> None:
    early, late = "2024-01-01T00:00:00Z", "2024-01-01T00:00:09Z"
    assert aggregated_status(job(), member_item("a", startTime=late), member_item("b", startTime=early)) == {
        "startTime": early
    }
    assert aggregated_status(job(), member_item("a", startTime=late), member_item("b")) == {}


def test_aggregating_a_job_twice_gives_the_same_times() -> None:
    items = [member_item("a", conditions=[condition("Complete")], completionTime="2024-01-01T00:00:09Z")]
    first = TRIMTAB.aggregate(job(), items)
    assert TRIMTAB.aggregate(job(), items) == first
    assert first["status"]["conditions"][0]["lastTransitionTime"] == "2024-01-01T00:00:09Z"


def test_cron_job_lists_all_active_jobs_and_the_latest_times() -> None:
    cron_job = make_object("CronJob", "batch/v1", spec={}, status={})
    one = member_item("a", active=[{"name": "j1"}], lastScheduleTime="2024-01-01T00:00:00Z")
    two = member_item("b", active=[{"name": "j2"}], lastScheduleTime="2024-01-02T00:00:00Z")
    assert aggregated_status(cron_job, one, two) == {
        "active": [{"name": "j1"}, {"name": "j2"}],
        "lastScheduleTime": "2024-01-02T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        (["Bound", "Available"], "Available"),
        (["Released", "Bound"], "Bound"),
        (["Released", "Failed"], "Failed"),
        (["Bound", None], "Pending"),
    ],
)
def test_volume_has_the_worst_phase_of_its_members(phases: list[str | None], expected: str) -> None:
    items = [{"clusterName": str(i)} | ({"status": {"phase": p}} if p else {}) for i, p in enumerate(phases)]
    assert aggregated_status(make_object("PersistentVolume", spec={}, status={}), *items) == {"phase": expected}


def test_container_statuses_are_reduced_to_ready_and_state() -> None:
    container = {"name": "c", "ready": True, "state": {"running": {}}, "image": "nginx", "restartCount": 4}
    status = aggregated_status(
        make_object("Pod", spec={}, status={}), member_item("a", phase="Running", containerStatuses=[container])
    )
    (reduced,) = status["containerStatuses"]
    assert reduced["ready"] is True
    assert reduced["state"] == {"running": {}}
    assert reduced["restartCount"] == 0


def test_conditions_of_a_deployment_are_kept() -> None:
    deployment = make_object("Deployment", "apps/v1", spec={}, status={"conditions": [{"type": "Progressing"}]})
    assert aggregated_status(deployment, member_item("a", replicas=1))["conditions"] == [{"type": "Progressing"}]


def test_ingress_lists_every_address_once_with_all_ports() -> None:
    ingress = make_object("Ingress", "networking.k8s.io/v1", spec={}, status={})
    ports = [{"port": 443, "protocol": "TCP"}]
    one = member_item("a", loadBalancer={"ingress": [{"ip": "2.2.2.2", "ports": ports}]})
    two = member_item("b", loadBalancer={"ingress": [{"ip": "2.2.2.2", "ports": [{"port": 80, "protocol": "TCP"}]}]})
    assert aggregated_status(ingress, one, two) == {
        "loadBalancer": {"ingress": [{"ip": "2.2.2.2", "ports": [{"port": 80, "protocol": "TCP"}, *ports]}]}
    }


def test_service_without_load_balancer_keeps_its_status() -> None:
    service = make_object("Service", spec={"type": "ClusterIP"}, status={"loadBalancer": {}})
    assert TRIMTAB.aggregate(service, [member_item("a", loadBalancer={"ingress": [{"ip": "1.1.1.1"}]})]) is service


def test_stateful_set_template_takes_over_the_observed_generation() -> None:
    observed = stateful_set(replicas=2, observedGeneration=2)
    observed["metadata"]["annotations"] = {GENERATION: "2"}
    assert (
        aggregated_status(stateful_set(), member_item("a", **(TRIMTAB.reflect(observed) or {})))["observedGeneration"]
        == 2
    )


def test_stateful_set_template_never_takes_over_the_observed_generation_in_profile_upstream() -> None:
    observed = stateful_set(replicas=2, observedGeneration=2)
    observed["metadata"]["annotations"] = {GENERATION: "2"}
    status = aggregated_status(
        stateful_set(), member_item("a", **(UPSTREAM.reflect(observed) or {})), interpreter=UPSTREAM
    )
    assert "observedGeneration" not in status
