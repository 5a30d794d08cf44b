"""The status of a Deployment: its counts, and the conditions Available, Progressing and ReplicaFailure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.controllers.contract import Effect, RequeueAfter, View
from trimtab.simulate.workloads.deployment_state import (
    REVISION,
    DeploymentState,
    revision_of,
    total_size,
)
from trimtab.simulate.workloads.owned_pods import (
    AlwaysWritten,
    update_status,
)

NO_DEADLINE = 2**31 - 1


def report_status(
    state: DeploymentState, view: View, *, progress: bool = True, created: Raw | None = None
) -> Iterator[Effect]:
    """Update status, conditions and revision, all through the status subresource, which keeps the generation."""
    numbers = _replica_counts(state, created)
    conditions = list((state.raw.get("status") or {}).get("conditions") or [])
    conditions = _set_condition(conditions, _available_condition(state, numbers, view.now))
    if state.wanted.spec.progress_deadline_seconds not in (None, NO_DEADLINE):
        conditions = _with_pause(conditions, state, view.now)
        if progress:
            conditions = _with_progress(conditions, state, numbers, view, created)
        if wait := _seconds_until_deadline(conditions, state, view.now):
            yield RequeueAfter(wait)
    conditions = _with_failure(conditions, state, view.now)
    status = {**(state.raw.get("status") or {}), **numbers, "conditions": conditions}
    status["observedGeneration"] = state.wanted.metadata.generation
    newest = created["metadata"]["annotations"][REVISION] if created else None
    if newest is None and state.new is not None:
        newest = str(max(max(map(revision_of, state.old), default=0) + 1, revision_of(state.new)))
    annotations = dict(state.raw["metadata"].get("annotations") or {})
    yield from update_status(state.raw, status, annotations | ({REVISION: newest} if newest else {}))


def _replica_counts(state: DeploymentState, created: Raw | None) -> dict[str, Any]:
    total = sum(one.status.replicas for one in state.all)
    available = sum(one.status.available_replicas for one in state.all)
    wanted = total_size(state.all) + (created["spec"]["replicas"] if created else 0)
    return {
        "replicas": total,
        "updatedReplicas": state.new.status.replicas if state.new else 0,
        "readyReplicas": sum(one.status.ready_replicas for one in state.all),
        "availableReplicas": available,
        "unavailableReplicas": max(0, wanted - available),
        "terminatingReplicas": AlwaysWritten(sum(one.status.terminating_replicas or 0 for one in state.all)),
    }


def _condition(type_: str, status: str, reason: str, message: str, now: datetime) -> Raw:
    return {
        "type": type_,
        "status": status,
        "lastUpdateTime": timestamp(now),
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }


def _find_condition(conditions: Sequence[Raw], type_: str) -> Raw | None:
    return next((one for one in conditions if one["type"] == type_), None)


def _set_condition(conditions: list[Raw], new: Raw) -> list[Raw]:
    """Set this condition at the end of the list, unless its status and reason are unchanged."""
    present = _find_condition(conditions, new["type"])
    if present is not None:
        if present["status"] == new["status"] and present["reason"] == new["reason"]:
            return conditions
        if present["status"] == new["status"]:
            new = {**new, "lastTransitionTime": present["lastTransitionTime"]}
    return [*(one for one in conditions if one["type"] != new["type"]), new]


def _available_condition(state: DeploymentState, numbers: Mapping[str, Any], now: datetime) -> Raw:
    if numbers["availableReplicas"] >= state.replicas - state.max_unavailable:
        return _condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
    return _condition(
        "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now
    )


def _with_progress(
    conditions: list[Raw], state: DeploymentState, numbers: Mapping[str, Any], view: View, created: Raw | None
) -> list[Raw]:
    if created is not None:
        message = f'Created new replica set "{created["metadata"]["name"]}"'
        return _set_condition(conditions, _condition("Progressing", "True", "NewReplicaSetCreated", message, view.now))
    present = _find_condition(conditions, "Progressing")
    settled = numbers["replicas"] == numbers["updatedReplicas"]
    if settled and present is not None and present["reason"] == "NewReplicaSetAvailable":
        return conditions
    if present is None and state.new is not None:
        message = f'Found new replica set "{state.new.name}"'
        conditions = _set_condition(
            conditions, _condition("Progressing", "True", "FoundNewReplicaSet", message, view.now)
        )
        present = _find_condition(conditions, "Progressing")
    subject = f'ReplicaSet "{state.new.name}"' if state.new else f'Deployment "{state.wanted.name}"'
    if numbers["updatedReplicas"] == numbers["replicas"] == numbers["availableReplicas"] == state.replicas:
        done = f"{subject} has successfully progressed."
        return _set_condition(conditions, _condition("Progressing", "True", "NewReplicaSetAvailable", done, view.now))
    if _has_progressed(state, numbers):
        progressing = _condition("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.", view.now)
        if present is not None and present["status"] == "True":
            progressing["lastTransitionTime"] = present["lastTransitionTime"]
        return [*(one for one in conditions if one["type"] != "Progressing"), progressing]
    if present is not None and _has_timed_out(present, state, view.now):
        late = f"{subject} has timed out progressing."
        return _set_condition(
            conditions, _condition("Progressing", "False", "ProgressDeadlineExceeded", late, view.now)
        )
    return conditions


def _has_progressed(state: DeploymentState, numbers: Mapping[str, Any]) -> bool:
    before = state.wanted.status
    return bool(
        numbers["updatedReplicas"] > before.updated_replicas
        or numbers["replicas"] - numbers["updatedReplicas"] < before.replicas - before.updated_replicas
        or numbers["readyReplicas"] > before.ready_replicas
        or numbers["availableReplicas"] > before.available_replicas
    )


def _progress_deadline(present: Raw, state: DeploymentState) -> datetime:
    seconds = state.wanted.spec.progress_deadline_seconds or 0
    return datetime.fromisoformat(present["lastUpdateTime"]) + timedelta(seconds=seconds)


def _has_timed_out(present: Raw, state: DeploymentState, now: datetime) -> bool:
    if present["reason"] == "NewReplicaSetAvailable":
        return False
    return present["reason"] == "ProgressDeadlineExceeded" or _progress_deadline(present, state) < now


def _seconds_until_deadline(conditions: Sequence[Raw], state: DeploymentState, now: datetime) -> float | None:
    """Seconds until a rollout without progress times out; None when it has completed, failed or is paused."""
    present = _find_condition(conditions, "Progressing")
    ended = ("NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused")
    if present is None or present["reason"] in ended:
        return None
    return max(0.0, (_progress_deadline(present, state) - now).total_seconds()) + 1.0


def _with_pause(conditions: list[Raw], state: DeploymentState, now: datetime) -> list[Raw]:
    """Pausing suspends the progress deadline; resuming starts a new one."""
    present = _find_condition(conditions, "Progressing")
    if present is not None and present["reason"] == "ProgressDeadlineExceeded":
        return conditions
    paused = present is not None and present["reason"] == "DeploymentPaused"
    if state.wanted.spec.paused and not paused:
        return _set_condition(
            conditions, _condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now)
        )
    if paused and not state.wanted.spec.paused:
        message = "Deployment is resumed"
        return _set_condition(conditions, _condition("Progressing", "Unknown", "DeploymentResumed", message, now))
    return conditions


def _with_failure(conditions: list[Raw], state: DeploymentState, now: datetime) -> list[Raw]:
    """Copy `ReplicaFailure` from the newest ReplicaSet that has it."""
    others = [one for one in conditions if one["type"] != "ReplicaFailure"]
    for one in reversed(state.all):
        for condition in one.status.conditions:
            if condition.type == "ReplicaFailure" and condition.status == "True":
                failure = _condition("ReplicaFailure", "True", condition.reason, condition.message, now)
                return _set_condition(conditions, failure)
    return others
