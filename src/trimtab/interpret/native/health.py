"""Whether a native object in a member cluster is healthy, according to its status."""

from collections.abc import Callable

from trimtab.api.paths import dig, number, tables, text
from trimtab.api.value import Raw


def _observed(obj: Raw) -> bool:
    return number(obj, "status", "observedGeneration") == number(obj, "metadata", "generation")


def _rolled_out(obj: Raw) -> bool:
    updated = number(obj, "status", "updatedReplicas")
    return (
        _observed(obj)
        and (dig(obj, "spec", "replicas") is None or updated >= number(obj, "spec", "replicas"))
        and number(obj, "status", "availableReplicas") >= updated
    )


def _replica_set(obj: Raw) -> bool:
    return _observed(obj) and number(obj, "status", "availableReplicas") >= number(obj, "spec", "replicas")


def _daemon_set(obj: Raw) -> bool:
    updated = number(obj, "status", "updatedNumberScheduled")
    return (
        _observed(obj)
        and updated >= number(obj, "status", "desiredNumberScheduled")
        and number(obj, "status", "numberAvailable") >= updated
    )


def _reachable(obj: Raw) -> bool:
    entries = tables(obj, "status", "loadBalancer", "ingress")
    return any(text(entry, "hostname") or text(entry, "ip") for entry in entries)


def _service(obj: Raw) -> bool:
    return text(obj, "spec", "type") != "LoadBalancer" or _reachable(obj)


def _claim(obj: Raw) -> bool:
    return text(obj, "status", "phase") == "Bound"


def _pod(obj: Raw) -> bool:
    phase = text(obj, "status", "phase")
    if phase != "Running":
        return phase == "Succeeded"
    conditions = tables(obj, "status", "conditions")
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _budget(obj: Raw) -> bool:
    return number(obj, "status", "currentHealthy") >= number(obj, "status", "desiredHealthy")


HEALTH: dict[tuple[str, str], Callable[[Raw], bool]] = {
    ("apps/v1", "Deployment"): _rolled_out,
    ("apps/v1", "StatefulSet"): _rolled_out,
    ("apps/v1", "ReplicaSet"): _replica_set,
    ("apps/v1", "DaemonSet"): _daemon_set,
    ("v1", "Service"): _service,
    ("networking.k8s.io/v1", "Ingress"): _reachable,
    ("v1", "PersistentVolumeClaim"): _claim,
    ("v1", "Pod"): _pod,
    ("policy/v1", "PodDisruptionBudget"): _budget,
}
