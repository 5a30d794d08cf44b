"""Merges the statuses that member clusters report into one status of the template."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from trimtab.api.paths import dig, number, planted, table, tables, text
from trimtab.api.value import Raw
from trimtab.interpret.native.reflect import AUTOSCALER, BUDGET, DAEMON_SET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET

Aggregate = Callable[[Raw, Sequence[Raw]], Raw]

POD_PHASES = ("Failed", "Pending", "Running", "Succeeded")
VOLUME_PHASES = ("Failed", "Pending", "Available", "Bound", "Released")


def _statuses(items: Sequence[Raw]) -> list[Raw]:
    """The statuses collected so far; a cluster without a status contributes nothing."""
    return [item["status"] for item in items if isinstance(item.get("status"), dict)]


def _sums(items: Sequence[Raw], fields: tuple[str, ...]) -> dict[str, int]:
    names = [field.lstrip("!") for field in fields]
    return {name: sum(number(status, name) for status in _statuses(items)) for name in names}


def _replaced(obj: Raw, status: Raw) -> Raw:
    return obj if dig(obj, "status") == status else planted(obj, status, "status")


def _caught_up(status: Raw, generation: int) -> bool:
    """The member has observed its object, and the object was made from this generation of the template."""
    return (
        number(status, "observedGeneration") >= number(status, "generation")
        and number(status, "resourceTemplateGeneration") >= generation
    )


def _stateful_set_caught_up(status: Raw, generation: int) -> bool:
    """Upstream's comparison with the member's own generation: kept because users see its result."""
    return _caught_up(status, number(status, "generation"))


def _workload(fields: tuple[str, ...], caught_up: Callable[[Raw, int], bool]) -> Aggregate:
    def aggregate(obj: Raw, items: Sequence[Raw]) -> Raw:
        old, generation = table(obj, "status"), number(obj, "metadata", "generation")
        current = sum(caught_up(status, generation) for status in _statuses(items)) == len(items)
        new = _sums(items, fields)
        new["observedGeneration"] = generation if current else number(old, "observedGeneration")
        if all(number(old, name) == value for name, value in new.items()):
            return obj
        new_fields = {name: value for name, value in new.items() if value or f"!{name}" in fields}
        return planted(obj, {key: value for key, value in old.items() if key not in new} | new_fields, "status")

    return aggregate


def _when(time: str) -> datetime:
    return datetime.fromisoformat(time)


def _times(statuses: Iterable[Raw], field: str) -> list[str]:
    return [time for status in statuses if (time := text(status, field))]


def _latest(times: Sequence[str]) -> str:
    return max(times, key=_when, default="")


def _holds(status: Raw, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in tables(status, "conditions"))


def _outcome(status: Raw) -> str:
    """Complete or Failed, whichever the member reports first; empty while the job runs."""
    for condition in tables(status, "conditions"):
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return ""


def _job_condition(kind: str, reason: str, message: str, time: str) -> Raw:
    times = {"lastProbeTime": time, "lastTransitionTime": time} if time else {}
    return {"type": kind, "status": "True", **times, "reason": reason, "message": message}


def _job_conditions(items: Sequence[Raw]) -> list[Raw]:
    """The conditions of the template. Their time is the latest that members report, so that the result is stable."""
    statuses = _statuses(items)
    transitions = [time for s in statuses for c in tables(s, "conditions") if (time := text(c, "lastTransitionTime"))]
    time = _latest(transitions + _times(statuses, "completionTime"))
    outcomes = [_outcome(status) for status in statuses]
    found: list[Raw] = []
    failed = [text(item, "clusterName") for item in items if _outcome(table(item, "status")) == "Failed"]
    if failed:
        message = f"Job executed failed in member clusters {','.join(failed)}"
        if any(_holds(status, "FailureTarget") for status in statuses):
            # kube-apiserver rejects Failed without FailureTarget beside it
            found.append(_job_condition("FailureTarget", "JobFailed", message, time))
        found.append(_job_condition("Failed", "JobFailed", message, time))
    if items and outcomes.count("Complete") == len(items):
        found.append(_job_condition("Complete", "Completed", "Job completed", time))
        if sum(_holds(status, "SuccessCriteriaMet") for status in statuses) == len(items):
            message = "All member clusters have met success criteria"
            found.append(_job_condition("SuccessCriteriaMet", "CompletionsReached", message, time))
    return found


def _job(obj: Raw, items: Sequence[Raw]) -> Raw:
    old, statuses = table(obj, "status"), _statuses(items)
    if _outcome(old):
        return obj
    started, completed = _times(statuses, "startTime"), _times(statuses, "completionTime")
    earliest = min(started, key=_when) if items and len(started) == len(items) else ""
    new: dict[str, Any] = {
        "conditions": _job_conditions(items),
        "startTime": text(old, "startTime") or earliest,
        "completionTime": _latest(completed) if len(completed) == len(items) else "",
        **_sums(items, ("active", "succeeded", "failed")),
    }
    return _replaced(obj, {key: value for key, value in new.items() if value})


def _cron_job(obj: Raw, items: Sequence[Raw]) -> Raw:
    statuses = _statuses(items)
    new: dict[str, Any] = {
        "active": [reference for status in statuses for reference in tables(status, "active")],
        "lastScheduleTime": _latest(_times(statuses, "lastScheduleTime")),
        "lastSuccessfulTime": _latest(_times(statuses, "lastSuccessfulTime")),
    }
    return _replaced(obj, {key: value for key, value in new.items() if value})


def _worst(items: Sequence[Raw], order: Sequence[str]) -> str:
    """The first phase in `order` that any cluster reports; a cluster without a report counts as Pending."""
    phases = {text(item, "status", "phase") if dig(item, "status") is not None else "Pending" for item in items}
    return next((phase for phase in order if phase in phases), "")


def _container(status: Raw) -> Raw:
    """Ready and state only; the rest are the zero values that the type requires."""
    return {
        "name": "",
        "state": table(status, "state"),
        "lastState": {},
        "ready": bool(status.get("ready")),
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }


def _pod(obj: Raw, items: Sequence[Raw]) -> Raw:
    if not items:
        return obj
    new: dict[str, Any] = {"phase": _worst(items, POD_PHASES)}
    for field in ("containerStatuses", "initContainerStatuses"):
        new[field] = [_container(c) for status in _statuses(items) for c in tables(status, field)]
    return _replaced(obj, {key: value for key, value in new.items() if value})


def _volume(obj: Raw, items: Sequence[Raw]) -> Raw:
    phase = _worst(items, VOLUME_PHASES)
    return _replaced(obj, {"phase": phase} if phase else {})


def _claim(obj: Raw, items: Sequence[Raw]) -> Raw:
    phase = "Bound"
    for status in _statuses(items):
        member_phase = text(status, "phase")
        if member_phase != "Bound":
            phase = member_phase
        if member_phase == "Lost":
            break
    return _replaced(obj, {"phase": phase} if phase else {})


def _entry_order(entry: Raw) -> tuple[bool, str, str]:
    return not text(entry, "hostname"), text(entry, "hostname"), text(entry, "ip")


def _load_balancer(items: Sequence[Raw]) -> Raw:
    """Every ingress entry once: hostnames first, then addresses."""
    merged: dict[tuple[str, str, str], Raw] = {}
    for status in _statuses(items):
        for entry in tables(status, "loadBalancer", "ingress"):
            key = (text(entry, "hostname"), text(entry, "ip"), text(entry, "ipMode"))
            known = merged.get(key, {**entry, "ports": []})
            merged[key] = {**known, "ports": _ports(tables(known, "ports") + tables(entry, "ports"))}
    entries = [
        {key: value for key, value in entry.items() if key != "ports" or value}
        for entry in sorted(merged.values(), key=_entry_order)
    ]
    return {"loadBalancer": {"ingress": entries} if entries else {}}


def _ports(ports: Iterable[Raw]) -> list[Raw]:
    unique = {(number(port, "port"), text(port, "protocol"), text(port, "error")): port for port in ports}
    return [unique[key] for key in sorted(unique)]


def _service(obj: Raw, items: Sequence[Raw]) -> Raw:
    return _ingress(obj, items) if text(obj, "spec", "type") == "LoadBalancer" else obj


def _ingress(obj: Raw, items: Sequence[Raw]) -> Raw:
    return _replaced(obj, _load_balancer(items))


def _budget(obj: Raw, items: Sequence[Raw]) -> Raw:
    disrupted = {
        f"{text(item, 'clusterName')}/{pod}": time
        for item in items
        for pod, time in table(item, "status", "disruptedPods").items()
    }
    return _replaced(obj, {**_sums(items, BUDGET), **({"disruptedPods": disrupted} if disrupted else {})})


def _autoscaler(obj: Raw, items: Sequence[Raw]) -> Raw:
    sums = _sums(items, AUTOSCALER)
    fields = {name: value for name, value in sums.items() if value or f"!{name}" in AUTOSCALER}
    return _replaced(obj, {**fields, "currentMetrics": None})


def aggregators(*, upstream: bool) -> dict[tuple[str, str], Aggregate]:
    """One rule per kind."""
    stateful_set_caught_up = _stateful_set_caught_up if upstream else _caught_up
    return {
        ("apps/v1", "Deployment"): _workload(DEPLOYMENT, _caught_up),
        ("apps/v1", "ReplicaSet"): _workload(REPLICA_SET, _caught_up),
        ("apps/v1", "DaemonSet"): _workload(DAEMON_SET, _caught_up),
        ("apps/v1", "StatefulSet"): _workload(STATEFUL_SET, stateful_set_caught_up),
        ("batch/v1", "Job"): _job,
        ("batch/v1", "CronJob"): _cron_job,
        ("v1", "Pod"): _pod,
        ("v1", "PersistentVolume"): _volume,
        ("v1", "PersistentVolumeClaim"): _claim,
        ("v1", "Service"): _service,
        ("networking.k8s.io/v1", "Ingress"): _ingress,
        ("policy/v1", "PodDisruptionBudget"): _budget,
        ("autoscaling/v2", "HorizontalPodAutoscaler"): _autoscaler,
    }
