"""The part of a pod status that the kubelet owns."""

from collections.abc import Iterable
from typing import Any

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.simulate.containers.container_lifecycle import ContainerLifecycle
from trimtab.simulate.kubelets.pod_lifecycle import PodLifecycle, is_init_done


def kubelet_status(lifecycle: PodLifecycle, pod: Raw, now: float, address: str) -> Raw:
    """The part of the pod status that the kubelet owns."""
    ready = lifecycle.is_ready(now) and _are_readiness_gates_true(pod)
    phase = lifecycle.phase
    waiting = "PodInitializing" if lifecycle.inits else "ContainerCreating"
    status: Raw = {
        "phase": phase,
        "conditions": _conditions(
            lifecycle, pod, phase, ready=ready, containers_ready=lifecycle.is_ready(now), now=now
        ),
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "startTime": (pod.get("status") or {}).get("startTime")
        or timestamp(lifecycle.to_wall_time(lifecycle.start_time)),
        "containerStatuses": [_status_of(lifecycle, one, now, waiting) for one in lifecycle.containers],
        **lifecycle.failure,
    }
    if lifecycle.inits:
        status["initContainerStatuses"] = [_init_status(one, now) for one in lifecycle.inits]
    if lifecycle.ephemerals:
        status["ephemeralContainerStatuses"] = [
            _status_of(lifecycle, one, now, waiting) for one in lifecycle.ephemerals
        ]
    if any(one.has_run for one in (*lifecycle.inits, *lifecycle.containers)):
        own = address if pod["spec"].get("hostNetwork") else pod_address(lifecycle.uid)
        status |= {"podIP": own, "podIPs": [{"ip": own}]}
    return status


def _status_of(lifecycle: PodLifecycle, container: ContainerLifecycle, now: float, waiting: str) -> Raw:
    status = container.status(now, ready=container.is_ready(now), waiting_reason=waiting)
    if error := lifecycle.config_errors.get(container.name):
        status["state"] = {"waiting": {"reason": "CreateContainerConfigError", "message": error}}
    return status


def _init_status(container: ContainerLifecycle, now: float) -> Raw:
    sidecar = container.restart_policy == "Always"
    ready = container.is_ready(now) if sidecar else container.has_succeeded
    return container.status(now, ready=ready, waiting_reason="PodInitializing")


def _are_readiness_gates_true(pod: Raw) -> bool:
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    true = {one["type"] for one in (pod.get("status") or {}).get("conditions") or () if one["status"] == "True"}
    return true.issuperset(gates)


def _conditions(
    lifecycle: PodLifecycle, pod: Raw, phase: str, *, ready: bool, containers_ready: bool, now: float
) -> list[Raw]:
    present = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
    reason_fields: dict[str, Any] = {}
    if phase == "Succeeded":
        reason_fields = {"reason": "PodCompleted"}
    elif not containers_ready:
        unready = _names(one for one in lifecycle.containers if not one.is_ready(now))
        reason_fields = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{unready}]"}
    elif not ready:
        reason_fields = {"reason": "ReadinessGatesNotReady"}
    running = phase != "Pending" or any(one.has_run for one in lifecycle.inits)
    conditions = {
        "PodReadyToStartContainers": (running and not lifecycle.is_finished, {}),
        "Initialized": (lifecycle.is_initialized or phase == "Succeeded", _initialized_reason(lifecycle, phase)),
        "Ready": (ready, reason_fields),
        "ContainersReady": (
            containers_ready,
            reason_fields if reason_fields.get("reason") != "ReadinessGatesNotReady" else {},
        ),
    }
    reported = []
    for type_, (holds, reason) in conditions.items():
        status = "True" if holds else "False"
        before = present.get(type_)
        since = (
            before["lastTransitionTime"]
            if before and before["status"] == status
            else timestamp(lifecycle.to_wall_time(now))
        )
        reported.append({"type": type_, "status": status, "lastProbeTime": None, "lastTransitionTime": since, **reason})
    return reported + [one for type_, one in present.items() if type_ not in conditions]


def _initialized_reason(lifecycle: PodLifecycle, phase: str) -> Raw:
    if phase == "Succeeded":
        return {"reason": "PodCompleted"}
    if lifecycle.is_initialized:
        return {}
    incomplete = _names(one for one in lifecycle.inits if not is_init_done(one))
    return {
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{incomplete}]",
    }


def _names(containers: Iterable[ContainerLifecycle]) -> str:
    return " ".join(one.name for one in containers)


def pod_address(uid: str) -> str:
    """A stable address derived from the uid."""
    number = sum(uid.encode()) + int(uid.replace("-", "")[:8] or "0", 16)
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
