from typing import Any

import pytest

from interpret.native.native_helpers import TRIMTAB, make_object


def test_kind_without_a_health_rule_is_healthy() -> None:
    assert TRIMTAB.health(make_object("ConfigMap")) == "Healthy"


@pytest.mark.parametrize(
    ("kind", "api_version", "spec", "status", "healthy"),
    [
        ("Deployment", "apps/v1", {"replicas": 2}, {"updatedReplicas": 2, "availableReplicas": 2}, True),
        ("Deployment", "apps/v1", {"replicas": 2}, {"updatedReplicas": 2, "availableReplicas": 1}, False),
        ("StatefulSet", "apps/v1", {"replicas": 2}, {"updatedReplicas": 1, "availableReplicas": 1}, False),
        ("ReplicaSet", "apps/v1", {"replicas": 1}, {"availableReplicas": 1}, True),
        ("DaemonSet", "apps/v1", {}, {"updatedNumberScheduled": 1, "desiredNumberScheduled": 2}, False),
        ("Service", "v1", {"type": "ClusterIP"}, {}, True),
        ("Service", "v1", {"type": "LoadBalancer"}, {}, False),
        ("Ingress", "networking.k8s.io/v1", {}, {"loadBalancer": {"ingress": [{"hostname": "a"}]}}, True),
        ("PersistentVolumeClaim", "v1", {}, {"phase": "Pending"}, False),
        ("Pod", "v1", {}, {"phase": "Succeeded"}, True),
        ("Pod", "v1", {}, {"phase": "Running"}, False),
        ("Pod", "v1", {}, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, True),
        ("PodDisruptionBudget", "policy/v1", {}, {"currentHealthy": 1, "desiredHealthy": 2}, False),
    ],
)
def test_health_follows_from_the_status(
    kind: str, api_version: str, spec: dict[str, Any], status: dict[str, Any], healthy: bool
) -> None:
    obj = make_object(kind, api_version, spec=spec, status={"observedGeneration": 2, **status})
    assert TRIMTAB.health(obj) == ("Healthy" if healthy else "Unhealthy")


def test_workload_is_unhealthy_until_its_generation_is_observed() -> None:
    status = {"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2}
    assert TRIMTAB.health(make_object("Deployment", "apps/v1", spec={"replicas": 2}, status=status)) == "Unhealthy"
