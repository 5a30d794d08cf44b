"""Whether a native object in a member cluster is healthy, according to its status."""

from collections.abc import Callable

from trimtab.api.paths import int_at, objects_at, string_at, value_at
from trimtab.api.value import Raw


def _is_generation_observed(obj: Raw) -> bool:
    return int_at(obj, "status", "observedGeneration") == int_at(obj, "metadata", "generation")


def _is_rolled_out(obj: Raw) -> bool:
    updated = int_at(obj, "status", "updatedReplicas")
    return (
        _is_generation_observed(obj)
        and (value_at(obj, "spec", "replicas") is None or updated >= int_at(obj, "spec", "replicas"))
        and int_at(obj, "status", "availableReplicas") >= updated
    )


def _is_replica_set_healthy(obj: Raw) -> bool:
    return _is_generation_observed(obj) and int_at(obj, "status", "availableReplicas") >= int_at(
        obj, "spec", "replicas"
    )


def _is_daemon_set_healthy(obj: Raw) -> bool:
    updated = int_at(obj, "status", "updatedNumberScheduled")
    return (
        _is_generation_observed(obj)
        and updated >= int_at(obj, "status", "desiredNumberScheduled")
        and int_at(obj, "status", "numberAvailable") >= updated
    )


def _has_load_balancer_address(obj: Raw) -> bool:
    entries = objects_at(obj, "status", "loadBalancer", "ingress")
    return any(string_at(entry, "hostname") or string_at(entry, "ip") for entry in entries)


def _is_service_healthy(obj: Raw) -> bool:
    return string_at(obj, "spec", "type") != "LoadBalancer" or _has_load_balancer_address(obj)


def _is_claim_bound(obj: Raw) -> bool:
    return string_at(obj, "status", "phase") == "Bound"


def _is_pod_healthy(obj: Raw) -> bool:
    phase = string_at(obj, "status", "phase")
    if phase != "Running":
        return phase == "Succeeded"
    conditions = objects_at(obj, "status", "conditions")
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _is_budget_satisfied(obj: Raw) -> bool:
    return int_at(obj, "status", "currentHealthy") >= int_at(obj, "status", "desiredHealthy")


HEALTH: dict[tuple[str, str], Callable[[Raw], bool]] = {
    ("apps/v1", "Deployment"): _is_rolled_out,
    ("apps/v1", "StatefulSet"): _is_rolled_out,
    ("apps/v1", "ReplicaSet"): _is_replica_set_healthy,
    ("apps/v1", "DaemonSet"): _is_daemon_set_healthy,
    ("v1", "Service"): _is_service_healthy,
    ("networking.k8s.io/v1", "Ingress"): _has_load_balancer_address,
    ("v1", "PersistentVolumeClaim"): _is_claim_bound,
    ("v1", "Pod"): _is_pod_healthy,
    ("policy/v1", "PodDisruptionBudget"): _is_budget_satisfied,
}
