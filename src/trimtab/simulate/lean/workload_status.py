"""The status of a workload in a lean member, from how many of its replicas run and are ready."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.clock import timestamp


class ReplicaState(NamedTuple):
    """The replicas of one workload in numbers."""

    desired: int
    placed: int
    ready: int
    updated: int
    """Replicas of the newest template."""
    completed: int = 0


def deployment_status(obj: Raw, state: ReplicaState, now: datetime) -> Raw:
    available = state.ready >= state.desired
    return {
        "observedGeneration": obj["metadata"].get("generation", 0),
        "replicas": state.desired,
        "updatedReplicas": state.updated,
        "readyReplicas": state.ready,
        "availableReplicas": state.ready,
        "unavailableReplicas": max(0, state.desired - state.ready),
        "conditions": [
            _condition(obj, "Available", available, "MinimumReplicasAvailable", "MinimumReplicasUnavailable", now),
            _condition(
                obj, "Progressing", True, "NewReplicaSetAvailable" if available else "ReplicaSetUpdated", "", now
            ),
        ],
    }


def replica_set_status(obj: Raw, state: ReplicaState, now: datetime) -> Raw:
    return {
        "observedGeneration": obj["metadata"].get("generation", 0),
        "replicas": state.desired,
        "fullyLabeledReplicas": state.desired,
        "readyReplicas": state.ready,
        "availableReplicas": state.ready,
    }


def stateful_set_status(obj: Raw, state: ReplicaState, now: datetime) -> Raw:
    return {
        "observedGeneration": obj["metadata"].get("generation", 0),
        "replicas": state.desired,
        "currentReplicas": state.updated,
        "updatedReplicas": state.updated,
        "readyReplicas": state.ready,
        "availableReplicas": state.ready,
    }


def job_status(obj: Raw, state: ReplicaState, now: datetime) -> Raw:
    status: Raw = {"active": state.placed, "ready": state.ready, "succeeded": state.completed}
    status["startTime"] = (obj.get("status") or {}).get("startTime") or timestamp(now)
    if state.completed >= state.desired:
        status |= {"active": 0, "ready": 0, "completionTime": timestamp(now)}
        status["conditions"] = [_condition(obj, "Complete", True, "CompletionsReached", "", now)]
    return status


StatusFunction = Callable[[Raw, ReplicaState, datetime], Raw]
STATUS: dict[tuple[str, str], StatusFunction] = {
    ("apps", "deployments"): deployment_status,
    ("apps", "replicasets"): replica_set_status,
    ("apps", "statefulsets"): stateful_set_status,
    ("batch", "jobs"): job_status,
}


def _condition(obj: Raw, type_: str, is_true: bool, reason: str, other_reason: str, now: datetime) -> Raw:
    """The condition; its times are those of an equal one before."""
    wanted = {"type": type_, "status": "True" if is_true else "False", "reason": reason if is_true else other_reason}
    for present in (obj.get("status") or {}).get("conditions") or ():
        if all(present.get(key) == value for key, value in wanted.items()):
            return present  # type: ignore[no-any-return]
    return {**wanted, "lastTransitionTime": timestamp(now), "message": ""}
