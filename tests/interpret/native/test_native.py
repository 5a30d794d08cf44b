"""Built-in kinds: what the recorded vectors do not reach, and where the two profiles differ."""

from typing import Any

import pytest

from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.operations import Operation, Uninterpretable

TRIMTAB, UPSTREAM = Interpreter.of(), Interpreter.of(profile="upstream")
GENERATION = "resourcetemplate.karmada.io/generation"


def thing(kind: str, api_version: str = "v1", **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "ns", "generation": 2},
        **parts,
    }


def job(**status: Any) -> dict[str, Any]:
    return thing("Job", "batch/v1", spec={}, status=status)


def item(cluster: str, **status: Any) -> dict[str, Any]:
    return {"clusterName": cluster, "applied": True, "status": status}


def condition(kind: str, at: str = "2024-01-01T00:00:05Z") -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": at}


def aggregated(obj: dict[str, Any], *items: dict[str, Any], interpreter: Interpreter = TRIMTAB) -> Any:
    return interpreter.aggregate(obj, items).get("status")


def test_a_job_is_complete_when_every_member_says_so() -> None:
    done = [condition("SuccessCriteriaMet"), condition("Complete")]
    status = aggregated(job(), item("a", conditions=done, succeeded=1), item("b", conditions=done, succeeded=2))
    assert [c["type"] for c in status["conditions"]] == ["Complete", "SuccessCriteriaMet"]
    assert status["succeeded"] == 3


def test_a_job_that_runs_in_one_member_is_not_complete() -> None:
    status = aggregated(job(), item("a", conditions=[condition("Complete")], succeeded=1), item("b", active=1))
    assert status == {"active": 1, "succeeded": 1}


def test_a_job_fails_with_its_first_failed_member_and_names_it() -> None:
    status = aggregated(job(), item("a", active=1), item("b", conditions=[condition("Failed")], failed=1))
    (failed,) = status["conditions"]
    assert failed["reason"] == "JobFailed"
    assert failed["message"] == "Job executed failed in member clusters b"


def test_a_failure_target_stands_before_the_failure() -> None:
    conditions = [condition("FailureTarget"), condition("Failed")]
    status = aggregated(job(), item("a", conditions=conditions))
    assert [c["type"] for c in status["conditions"]] == ["FailureTarget", "Failed"]


def test_a_finished_job_is_never_touched_again() -> None:
    finished = job(conditions=[condition("Failed")], failed=9)
    assert TRIMTAB.aggregate(finished, [item("a", active=3)]) is finished


def test_a_job_starts_with_its_first_member_once_all_have_started() -> None:
    early, late = "2024-01-01T00:00:00Z", "2024-01-01T00:00:09Z"
    assert aggregated(job(), item("a", startTime=late), item("b", startTime=early)) == {"startTime": early}
    assert aggregated(job(), item("a", startTime=late), item("b")) == {}


def test_judging_a_job_twice_gives_the_same_times() -> None:
    items = [item("a", conditions=[condition("Complete")], completionTime="2024-01-01T00:00:09Z")]
    first = TRIMTAB.aggregate(job(), items)
    assert TRIMTAB.aggregate(job(), items) == first
    assert first["status"]["conditions"][0]["lastTransitionTime"] == "2024-01-01T00:00:09Z"


def test_a_cron_job_shows_all_active_jobs_and_the_latest_times() -> None:
    cron_job = thing("CronJob", "batch/v1", spec={}, status={})
    one = item("a", active=[{"name": "j1"}], lastScheduleTime="2024-01-01T00:00:00Z")
    two = item("b", active=[{"name": "j2"}], lastScheduleTime="2024-01-02T00:00:00Z")
    assert aggregated(cron_job, one, two) == {
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
def test_a_volume_has_the_worst_phase_of_its_members(phases: list[str | None], expected: str) -> None:
    items = [{"clusterName": str(i)} | ({"status": {"phase": p}} if p else {}) for i, p in enumerate(phases)]
    assert aggregated(thing("PersistentVolume", spec={}, status={}), *items) == {"phase": expected}


def test_a_pods_containers_are_reduced_to_ready_and_state() -> None:
    container = {"name": "c", "ready": True, "state": {"running": {}}, "image": "nginx", "restartCount": 4}
    status = aggregated(thing("Pod", spec={}, status={}), item("a", phase="Running", containerStatuses=[container]))
    (reduced,) = status["containerStatuses"]
    assert reduced["ready"] is True
    assert reduced["state"] == {"running": {}}
    assert reduced["restartCount"] == 0


def test_conditions_of_a_deployment_survive_aggregation() -> None:
    deployment = thing("Deployment", "apps/v1", spec={}, status={"conditions": [{"type": "Progressing"}]})
    assert aggregated(deployment, item("a", replicas=1))["conditions"] == [{"type": "Progressing"}]


def test_an_ingress_lists_every_way_in_once_with_its_ports() -> None:
    ingress = thing("Ingress", "networking.k8s.io/v1", spec={}, status={})
    ports = [{"port": 443, "protocol": "TCP"}]
    one = item("a", loadBalancer={"ingress": [{"ip": "2.2.2.2", "ports": ports}]})
    two = item("b", loadBalancer={"ingress": [{"ip": "2.2.2.2", "ports": [{"port": 80, "protocol": "TCP"}]}]})
    assert aggregated(ingress, one, two) == {
        "loadBalancer": {"ingress": [{"ip": "2.2.2.2", "ports": [{"port": 80, "protocol": "TCP"}, *ports]}]}
    }


def test_a_service_without_load_balancer_keeps_its_status() -> None:
    service = thing("Service", spec={"type": "ClusterIP"}, status={"loadBalancer": {}})
    assert TRIMTAB.aggregate(service, [item("a", loadBalancer={"ingress": [{"ip": "1.1.1.1"}]})]) is service


def stateful_set(**status: Any) -> dict[str, Any]:
    return thing("StatefulSet", "apps/v1", spec={"replicas": 2}, status=status)


def test_a_stateful_set_template_catches_up_with_its_members() -> None:
    seen = stateful_set(replicas=2, observedGeneration=2)
    seen["metadata"]["annotations"] = {GENERATION: "2"}
    assert aggregated(stateful_set(), item("a", **(TRIMTAB.reflect(seen) or {})))["observedGeneration"] == 2


def test_upstream_never_lets_a_stateful_set_template_catch_up() -> None:
    seen = stateful_set(replicas=2, observedGeneration=2)
    seen["metadata"]["annotations"] = {GENERATION: "2"}
    status = aggregated(stateful_set(), item("a", **(UPSTREAM.reflect(seen) or {})), interpreter=UPSTREAM)
    assert "observedGeneration" not in status


def test_a_status_without_the_template_generation_is_still_reflected() -> None:
    seen = thing("Deployment", "apps/v1", status={"replicas": 1})
    assert TRIMTAB.reflect(seen) == {"replicas": 1, "generation": 2}


def test_an_autoscaler_reflects_its_two_numbers() -> None:
    seen = thing(
        "HorizontalPodAutoscaler", "autoscaling/v2", status={"currentReplicas": 1, "desiredReplicas": 2, "x": 1}
    )
    assert TRIMTAB.reflect(seen) == {"currentReplicas": 1, "desiredReplicas": 2, "currentMetrics": None}


def test_a_kind_that_nobody_can_judge_is_healthy() -> None:
    assert TRIMTAB.health(thing("ConfigMap")) == "Healthy"


def test_an_operation_without_a_rule_says_so() -> None:
    with pytest.raises(Uninterpretable, match="no rule for InterpretReplica of v1 ConfigMap"):
        TRIMTAB.replicas(thing("ConfigMap"))


@pytest.mark.parametrize("operation", list(Operation))
def test_only_the_status_of_an_unknown_kind_is_interpreted(operation: Operation) -> None:
    assert TRIMTAB.interprets(("ex.io/v1", "Foo"), operation) is (operation is Operation.STATUS)


def test_a_pod_keeps_what_its_cluster_gave_it() -> None:
    mounts, volumes = [{"name": "token", "mountPath": "/t"}], [{"name": "token"}]
    desired = thing("Pod", spec={"containers": [{"name": "c"}, {"name": "new"}], "volumes": [{"name": "old"}]})
    observed = thing(
        "Pod", spec={"nodeName": "n", "containers": [{"name": "c", "volumeMounts": mounts}], "volumes": volumes}
    )
    assert TRIMTAB.retain(desired, observed)["spec"] == {
        "nodeName": "n",
        "volumes": volumes,
        "containers": [{"name": "c", "volumeMounts": mounts}, {"name": "new"}],
    }


@pytest.mark.parametrize(
    ("kind", "api_version", "spec"),
    [
        ("PersistentVolumeClaim", "v1", {"volumeName": "pv1"}),
        ("PersistentVolume", "v1", {"claimRef": {"name": "c"}}),
        ("Job", "batch/v1", {"selector": {"matchLabels": {"a": "b"}}}),
        ("Job", "batch/v1", {"template": {"metadata": {"labels": {"a": "b"}}}}),
    ],
)
def test_what_a_cluster_allocated_is_retained(kind: str, api_version: str, spec: dict[str, Any]) -> None:
    assert TRIMTAB.retain(thing(kind, api_version, spec={}), thing(kind, api_version, spec=spec))["spec"] == spec


def test_a_token_secret_keeps_its_data() -> None:
    desired = thing("Secret", type="kubernetes.io/service-account-token")
    assert TRIMTAB.retain(desired, thing("Secret", data={"token": "t"}))["data"] == {"token": "t"}


def test_another_secret_does_not() -> None:
    assert "data" not in TRIMTAB.retain(thing("Secret", type="Opaque"), thing("Secret", data={"token": "t"}))


def deployment(**spec: Any) -> dict[str, Any]:
    return thing("Deployment", "apps/v1", spec={"replicas": 1, "template": {"spec": spec}})


def test_amounts_are_written_in_the_unit_of_their_kind() -> None:
    requests = {"memory": "1G", "cpu": "1500m", "nvidia.com/gpu": 2, "hugepages-2Mi": "4Mi", "odd": 1, "pods": 0}
    (_, needs) = TRIMTAB.replicas(deployment(containers=[{"resources": {"requests": requests}}]))
    assert needs == {
        "resourceRequest": {"cpu": "1500m", "hugepages-2Mi": "4Mi", "memory": "1000000000", "nvidia.com/gpu": "2"}
    }


def test_an_amount_that_is_no_quantity_is_a_fault() -> None:
    with pytest.raises(Uninterpretable, match="'lots' is not a quantity"):
        TRIMTAB.replicas(deployment(containers=[{"resources": {"requests": {"cpu": "lots"}}}]))


@pytest.mark.parametrize(
    "volume",
    [
        {"azureFile": {"secretName": "s"}}, {"cephfs": {"secretRef": {"name": "s"}}}, {"cinder": {"secretRef": {"name": "s"}}},
        {"flexVolume": {"secretRef": {"name": "s"}}}, {"rbd": {"secretRef": {"name": "s"}}}, {"secret": {"secretName": "s"}},
        {"scaleIO": {"secretRef": {"name": "s"}}}, {"iscsi": {"secretRef": {"name": "s"}}},
        {"storageos": {"secretRef": {"name": "s"}}}, {"csi": {"nodePublishSecretRef": {"name": "s"}}},
    ],
)  # fmt: skip
def test_every_kind_of_volume_gives_away_its_secret(volume: dict[str, Any]) -> None:
    assert [ref["name"] for ref in TRIMTAB.dependencies(deployment(volumes=[volume]))] == ["s"]


def test_the_default_service_account_is_no_dependency() -> None:
    assert TRIMTAB.dependencies(deployment(serviceAccountName="default")) == []


def test_objects_handed_in_stay_as_they_are() -> None:
    obj = deployment(containers=[])
    TRIMTAB.revise(obj, 5)
    assert obj["spec"]["replicas"] == 1
