"""Merges the statuses that member clusters report into one status of the template."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from trimtab.api.paths import int_at, object_at, objects_at, string_at, value_at, with_value
from trimtab.api.value import Raw
from trimtab.interpret.native.reflect import (
    AUTOSCALER,
    BUDGET,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    STATEFUL_SET,
    NumberFields,
    read_numbers,
)

Aggregator = Callable[[Raw, Sequence[Raw]], Raw]

POD_PHASES = ("Failed", "Pending", "Running", "Succeeded")
VOLUME_PHASES = ("Failed", "Pending", "Available", "Bound", "Released")


def _statuses(items: Sequence[Raw]) -> list[Raw]:
    """The statuses collected so far; a cluster without a status contributes nothing."""
    return [item["status"] for item in items if isinstance(item.get("status"), dict)]


def _sum_fields(items: Sequence[Raw], names: Iterable[str]) -> dict[str, int]:
    total = dict.fromkeys(names, 0)
    for status in _statuses(items):
        for name, value in read_numbers(status, names).items():
            total[name] += value
    return total


def _with_status(obj: Raw, status: Raw) -> Raw:
    return obj if value_at(obj, "status") == status else with_value(obj, status, "status")


def _is_up_to_date(status: Raw, generation: int) -> bool:
    """The member has observed its object, and the object was made from this generation of the template."""
    return (
        int_at(status, "observedGeneration") >= int_at(status, "generation")
        and int_at(status, "resourceTemplateGeneration") >= generation
    )


def _is_stateful_set_up_to_date_upstream(status: Raw, generation: int) -> bool:
    """Upstream's comparison with the member's own generation: kept because users see its result."""
    return _is_up_to_date(status, int_at(status, "generation"))


def _workload_aggregator(fields: NumberFields, is_up_to_date: Callable[[Raw, int], bool]) -> Aggregator:
    def aggregate(obj: Raw, items: Sequence[Raw]) -> Raw:
        old, generation = object_at(obj, "status"), int_at(obj, "metadata", "generation")
        current = sum(is_up_to_date(status, generation) for status in _statuses(items)) == len(items)
        new = _sum_fields(items, fields)
        new["observedGeneration"] = generation if current else int_at(old, "observedGeneration")
        if read_numbers(old, new) == new:
            return obj
        new_fields = {name: value for name, value in new.items() if value or fields.get(name)}
        return with_value(obj, {key: value for key, value in old.items() if key not in new} | new_fields, "status")

    return aggregate


def _parse_time(time: str) -> datetime:
    return datetime.fromisoformat(time)


def _collect_times(statuses: Iterable[Raw], field: str) -> list[str]:
    return [time for status in statuses if (time := string_at(status, field))]


def _latest_time(times: Sequence[str]) -> str:
    return max(times, key=_parse_time, default="")


def _has_true_condition(status: Raw, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in objects_at(status, "conditions"))


def _job_outcome(status: Raw) -> str:
    """Complete or Failed, whichever the member reports first; empty while the job runs."""
    for condition in objects_at(status, "conditions"):
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return ""


def _job_condition(kind: str, reason: str, message: str, time: str) -> Raw:
    times = {"lastProbeTime": time, "lastTransitionTime": time} if time else {}
    return {"type": kind, "status": "True", **times, "reason": reason, "message": message}


def _job_conditions(items: Sequence[Raw]) -> list[Raw]:
    """The conditions of the template. Their time is the latest that members report, so that the result is stable."""
    statuses = _statuses(items)
    transitions = [
        time for s in statuses for c in objects_at(s, "conditions") if (time := string_at(c, "lastTransitionTime"))
    ]
    time = _latest_time(transitions + _collect_times(statuses, "completionTime"))
    outcomes = [_job_outcome(status) for status in statuses]
    found: list[Raw] = []
    failed = [string_at(item, "clusterName") for item in items if _job_outcome(object_at(item, "status")) == "Failed"]
    if failed:
        message = f"Job executed failed in member clusters {','.join(failed)}"
        if any(_has_true_condition(status, "FailureTarget") for status in statuses):
            # kube-apiserver rejects Failed without FailureTarget beside it
            found.append(_job_condition("FailureTarget", "JobFailed", message, time))
        found.append(_job_condition("Failed", "JobFailed", message, time))
    if items and outcomes.count("Complete") == len(items):
        found.append(_job_condition("Complete", "Completed", "Job completed", time))
        if sum(_has_true_condition(status, "SuccessCriteriaMet") for status in statuses) == len(items):
            message = "All member clusters have met success criteria"
            found.append(_job_condition("SuccessCriteriaMet", "CompletionsReached", message, time))
    return found


def _aggregate_job(obj: Raw, items: Sequence[Raw]) -> Raw:
    old, statuses = object_at(obj, "status"), _statuses(items)
    if _job_outcome(old):
        return obj
    started, completed = _collect_times(statuses, "startTime"), _collect_times(statuses, "completionTime")
    earliest = min(started, key=_parse_time) if items and len(started) == len(items) else ""
    new: dict[str, Any] = {
        "conditions": _job_conditions(items),
        "startTime": string_at(old, "startTime") or earliest,
        "completionTime": _latest_time(completed) if len(completed) == len(items) else "",
        **_sum_fields(items, JOB),
    }
    return _with_status(obj, {key: value for key, value in new.items() if value})


def _aggregate_cron_job(obj: Raw, items: Sequence[Raw]) -> Raw:
    statuses = _statuses(items)
    new: dict[str, Any] = {
        "active": [reference for status in statuses for reference in objects_at(status, "active")],
        "lastScheduleTime": _latest_time(_collect_times(statuses, "lastScheduleTime")),
        "lastSuccessfulTime": _latest_time(_collect_times(statuses, "lastSuccessfulTime")),
    }
    return _with_status(obj, {key: value for key, value in new.items() if value})


def _worst_phase(items: Sequence[Raw], order: Sequence[str]) -> str:
    """The first phase in `order` that any cluster reports; a cluster without a report counts as Pending."""
    phases = {
        string_at(item, "status", "phase") if value_at(item, "status") is not None else "Pending" for item in items
    }
    return next((phase for phase in order if phase in phases), "")


def _reduce_container_status(status: Raw) -> Raw:
    """Ready and state only; the rest are the zero values that the type requires."""
    return {
        "name": "",
        "state": object_at(status, "state"),
        "lastState": {},
        "ready": bool(status.get("ready")),
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }


def _aggregate_pod(obj: Raw, items: Sequence[Raw]) -> Raw:
    if not items:
        return obj
    new: dict[str, Any] = {"phase": _worst_phase(items, POD_PHASES)}
    for field in ("containerStatuses", "initContainerStatuses"):
        new[field] = [_reduce_container_status(c) for status in _statuses(items) for c in objects_at(status, field)]
    return _with_status(obj, {key: value for key, value in new.items() if value})


def _aggregate_volume(obj: Raw, items: Sequence[Raw]) -> Raw:
    phase = _worst_phase(items, VOLUME_PHASES)
    return _with_status(obj, {"phase": phase} if phase else {})


def _aggregate_claim(obj: Raw, items: Sequence[Raw]) -> Raw:
    phase = "Bound"
    for status in _statuses(items):
        member_phase = string_at(status, "phase")
        if member_phase != "Bound":
            phase = member_phase
        if member_phase == "Lost":
            break
    return _with_status(obj, {"phase": phase} if phase else {})


def _ingress_entry_sort_key(entry: Raw) -> tuple[bool, str, str]:
    return not string_at(entry, "hostname"), string_at(entry, "hostname"), string_at(entry, "ip")


def _merge_load_balancers(items: Sequence[Raw]) -> Raw:
    """Every ingress entry once: hostnames first, then addresses."""
    merged: dict[tuple[str, str, str], Raw] = {}
    for status in _statuses(items):
        for entry in objects_at(status, "loadBalancer", "ingress"):
            key = (string_at(entry, "hostname"), string_at(entry, "ip"), string_at(entry, "ipMode"))
            known = merged.get(key, {**entry, "ports": []})
            merged[key] = {**known, "ports": _unique_ports(objects_at(known, "ports") + objects_at(entry, "ports"))}
    entries = [
        {key: value for key, value in entry.items() if key != "ports" or value}
        for entry in sorted(merged.values(), key=_ingress_entry_sort_key)
    ]
    return {"loadBalancer": {"ingress": entries} if entries else {}}


def _unique_ports(ports: Iterable[Raw]) -> list[Raw]:
    unique = {(int_at(port, "port"), string_at(port, "protocol"), string_at(port, "error")): port for port in ports}
    return [unique[key] for key in sorted(unique)]


def _aggregate_service(obj: Raw, items: Sequence[Raw]) -> Raw:
    return _aggregate_ingress(obj, items) if string_at(obj, "spec", "type") == "LoadBalancer" else obj


def _aggregate_ingress(obj: Raw, items: Sequence[Raw]) -> Raw:
    return _with_status(obj, _merge_load_balancers(items))


def _aggregate_budget(obj: Raw, items: Sequence[Raw]) -> Raw:
    disrupted = {
        f"{string_at(item, 'clusterName')}/{pod}": time
        for item in items
        for pod, time in object_at(item, "status", "disruptedPods").items()
    }
    return _with_status(obj, {**_sum_fields(items, BUDGET), **({"disruptedPods": disrupted} if disrupted else {})})


def _aggregate_autoscaler(obj: Raw, items: Sequence[Raw]) -> Raw:
    sums = _sum_fields(items, AUTOSCALER)
    fields = {name: value for name, value in sums.items() if value or AUTOSCALER[name]}
    return _with_status(obj, {**fields, "currentMetrics": None})


def aggregators(*, upstream: bool) -> dict[tuple[str, str], Aggregator]:
    """One rule per kind."""
    stateful_set_caught_up = _is_stateful_set_up_to_date_upstream if upstream else _is_up_to_date
    return {
        ("apps/v1", "Deployment"): _workload_aggregator(DEPLOYMENT, _is_up_to_date),
        ("apps/v1", "ReplicaSet"): _workload_aggregator(REPLICA_SET, _is_up_to_date),
        ("apps/v1", "DaemonSet"): _workload_aggregator(DAEMON_SET, _is_up_to_date),
        ("apps/v1", "StatefulSet"): _workload_aggregator(STATEFUL_SET, stateful_set_caught_up),
        ("batch/v1", "Job"): _aggregate_job,
        ("batch/v1", "CronJob"): _aggregate_cron_job,
        ("v1", "Pod"): _aggregate_pod,
        ("v1", "PersistentVolume"): _aggregate_volume,
        ("v1", "PersistentVolumeClaim"): _aggregate_claim,
        ("v1", "Service"): _aggregate_service,
        ("networking.k8s.io/v1", "Ingress"): _aggregate_ingress,
        ("policy/v1", "PodDisruptionBudget"): _aggregate_budget,
        ("autoscaling/v2", "HorizontalPodAutoscaler"): _aggregate_autoscaler,
    }
