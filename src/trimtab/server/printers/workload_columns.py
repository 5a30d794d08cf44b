"""Table columns of pods, the kinds that create pods, and the kinds that limit or scale them."""

from datetime import datetime
from typing import Any

from trimtab.api.paths import value_at
from trimtab.api.value import Raw
from trimtab.server.printers.cells import (
    NONE,
    UNKNOWN,
    ColumnSet,
    container_columns,
    format_age,
    format_duration,
    format_labels,
    format_selector,
    int_at,
    object_age,
    object_name,
    parse_headers,
)


def _init_container_reason(obj: Raw) -> str:
    """The `Init:` status of a pod; empty when all init containers are done."""
    specs = {c.get("name"): c for c in value_at(obj, "spec", "initContainers") or ()}
    statuses = value_at(obj, "status", "initContainerStatuses") or ()
    for index, status in enumerate(statuses):
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated and not terminated.get("exitCode"):
            continue
        if specs.get(status.get("name"), {}).get("restartPolicy") == "Always" and status.get("started"):
            continue
        if terminated:
            return "Init:" + (terminated.get("reason") or _format_exit(terminated))
        if waiting and waiting.get("reason") not in {None, "", "PodInitializing"}:
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(specs)}"
    return ""


def _format_exit(terminated: Raw) -> str:
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode', 0)}"


def _container_reason(obj: Raw, reason: str) -> str:
    running = False
    for status in reversed(value_at(obj, "status", "containerStatuses") or ()):
        state = status.get("state") or {}
        if (waiting := state.get("waiting")) and waiting.get("reason"):
            reason = waiting["reason"]
        elif ended := state.get("terminated"):
            reason = ended.get("reason") or _format_exit(ended)
        elif status.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        ready = any(
            c.get("type") == "Ready" and c.get("status") == "True" for c in value_at(obj, "status", "conditions") or ()
        )
        return "Running" if ready else "NotReady"
    return reason


def pod_status(obj: Raw) -> str:
    """The STATUS column of a pod: the most specific reason, or its phase."""
    status: Raw = obj.get("status") or {}
    reason = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    reason = _init_container_reason(obj) or _container_reason(obj, reason)
    if obj["metadata"].get("deletionTimestamp") and status.get("phase") not in {"Succeeded", "Failed"}:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(reason)


def _pod_cells(obj: Raw, now: datetime) -> list[Any]:
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    states = status.get("containerStatuses") or []
    ready = sum(1 for state in states if state.get("ready"))
    restarts = sum(state.get("restartCount") or 0 for state in states)
    latest = max(
        (
            state["lastState"]["terminated"]["finishedAt"]
            for state in states
            if value_at(state, "lastState", "terminated", "finishedAt")
        ),
        default="",
    )
    restart_text = f"{restarts} ({format_age(latest, now)} ago)" if restarts and latest else str(restarts)
    gates = spec.get("readinessGates") or []
    conditions = {c.get("type"): c.get("status") for c in status.get("conditions") or ()}
    gates_met = sum(1 for gate in gates if conditions.get(gate.get("conditionType")) == "True")
    return [
        object_name(obj),
        f"{ready}/{len(spec.get('containers') or ())}",
        pod_status(obj),
        restart_text,
        object_age(obj, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{gates_met}/{len(gates)}" if gates else NONE,
    ]


def _deployment_cells(obj: Raw, now: datetime) -> list[Any]:
    names, images = container_columns(value_at(obj, "spec", "template", "spec"))
    return [
        object_name(obj),
        f"{int_at(obj, 'status', 'readyReplicas')}/{int_at(obj, 'spec', 'replicas')}",
        int_at(obj, "status", "updatedReplicas"),
        int_at(obj, "status", "availableReplicas"),
        object_age(obj, now),
        names,
        images,
        format_selector(value_at(obj, "spec", "selector")),
    ]


def _replicaset_cells(obj: Raw, now: datetime) -> list[Any]:
    names, images = container_columns(value_at(obj, "spec", "template", "spec"))
    selector = value_at(obj, "spec", "selector")
    text = (
        format_selector(selector)
        if selector is None or "matchLabels" in selector or "matchExpressions" in selector
        else format_labels(selector)
    )
    return [
        object_name(obj),
        int_at(obj, "spec", "replicas"),
        int_at(obj, "status", "replicas"),
        int_at(obj, "status", "readyReplicas"),
        object_age(obj, now),
        names,
        images,
        text,
    ]


def _statefulset_cells(obj: Raw, now: datetime) -> list[Any]:
    ready = f"{int_at(obj, 'status', 'readyReplicas')}/{int_at(obj, 'spec', 'replicas')}"
    return [
        object_name(obj),
        ready,
        object_age(obj, now),
        *container_columns(value_at(obj, "spec", "template", "spec")),
    ]


def _daemonset_cells(obj: Raw, now: datetime) -> list[Any]:
    names, images = container_columns(value_at(obj, "spec", "template", "spec"))
    return [
        object_name(obj),
        *(
            int_at(obj, "status", key)
            for key in (
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            )
        ),
        format_labels(value_at(obj, "spec", "template", "spec", "nodeSelector")),
        object_age(obj, now),
        names,
        images,
        format_selector(value_at(obj, "spec", "selector")),
    ]


def _job_status(obj: Raw) -> str:
    true_conditions = {c.get("type") for c in value_at(obj, "status", "conditions") or () if c.get("status") == "True"}
    for condition, text in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition in true_conditions:
            return text
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in true_conditions:
            return condition
    return "Running"


def _job_cells(obj: Raw, now: datetime) -> list[Any]:
    names, images = container_columns(value_at(obj, "spec", "template", "spec"))
    succeeded, wanted_completions = int_at(obj, "status", "succeeded"), value_at(obj, "spec", "completions")
    parallel = value_at(obj, "spec", "parallelism") or 0
    if wanted_completions is not None:
        completions = f"{succeeded}/{wanted_completions}"
    else:
        completions = f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"
    started, ended = value_at(obj, "status", "startTime"), value_at(obj, "status", "completionTime")
    elapsed = ""
    if started:
        elapsed = format_duration((datetime.fromisoformat(ended) if ended else now) - datetime.fromisoformat(started))
    selector = format_selector(value_at(obj, "spec", "selector"))
    return [object_name(obj), _job_status(obj), completions, elapsed, object_age(obj, now), names, images, selector]


def _cronjob_cells(obj: Raw, now: datetime) -> list[Any]:
    names, images = container_columns(value_at(obj, "spec", "jobTemplate", "spec", "template", "spec"))
    last = value_at(obj, "status", "lastScheduleTime")
    return [
        object_name(obj),
        value_at(obj, "spec", "schedule") or "",
        value_at(obj, "spec", "timeZone") or NONE,
        "True" if value_at(obj, "spec", "suspend") else "False",
        len(value_at(obj, "status", "active") or ()),
        format_age(last, now) if last else NONE,
        object_age(obj, now),
        names,
        images,
        format_selector(value_at(obj, "spec", "jobTemplate", "spec", "selector")),
    ]


def _pdb_cells(obj: Raw, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    limits = [str(spec[key]) if spec.get(key) is not None else "N/A" for key in ("minAvailable", "maxUnavailable")]
    return [object_name(obj), *limits, int_at(obj, "status", "disruptionsAllowed"), object_age(obj, now)]


def _metric_text(spec: Raw, current: Raw | None) -> str:
    kind = spec.get("type", "")
    key = {
        "Resource": "resource",
        "ContainerResource": "containerResource",
        "Pods": "pods",
        "Object": "object",
        "External": "external",
    }.get(kind, "")
    source = spec.get(key) or {}
    target = source.get("target") or {}
    current_values = ((current or {}).get(key) or {}).get("current") or {}
    if target.get("averageUtilization") is not None:
        current_text = (
            f"{current_values['averageUtilization']}%"
            if current_values.get("averageUtilization") is not None
            else UNKNOWN
        )
        text = f"{current_text}/{target['averageUtilization']}%"
    else:
        target_text = target.get("averageValue") or target.get("value") or "<auto>"
        text = f"{current_values.get('averageValue') or current_values.get('value') or UNKNOWN}/{target_text}"
    return f"{source['name']}: {text}" if kind == "Resource" and source.get("name") else text


def _hpa_cells(obj: Raw, now: datetime) -> list[Any]:
    target = value_at(obj, "spec", "scaleTargetRef") or {}
    metrics = value_at(obj, "spec", "metrics") or []
    current_metrics = value_at(obj, "status", "currentMetrics") or []
    texts = [
        _metric_text(spec, current_metrics[i] if i < len(current_metrics) else None) for i, spec in enumerate(metrics)
    ]
    targets = ", ".join(texts[:2]) + (f" + {len(texts) - 2} more..." if len(texts) > 2 else "")
    minimum = value_at(obj, "spec", "minReplicas")
    return [
        object_name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        targets or NONE,
        "<unset>" if minimum is None else str(minimum),
        int_at(obj, "spec", "maxReplicas"),
        int_at(obj, "status", "currentReplicas"),
        object_age(obj, now),
    ]


_TEMPLATE_HEADERS = "Containers*|Images*|Selector*"
_REPLICA_SETS = ColumnSet(parse_headers(f"Name|Desired#|Current#|Ready#|Age|{_TEMPLATE_HEADERS}"), _replicaset_cells)
WORKLOAD_COLUMNS: dict[str, ColumnSet] = {
    "pods": ColumnSet(
        parse_headers("Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*"), _pod_cells
    ),
    "deployments.apps": ColumnSet(
        parse_headers(f"Name|Ready|Up-to-date|Available|Age|{_TEMPLATE_HEADERS}"), _deployment_cells
    ),
    "replicasets.apps": _REPLICA_SETS,
    "replicationcontrollers": _REPLICA_SETS,
    "statefulsets.apps": ColumnSet(parse_headers("Name|Ready|Age|Containers*|Images*"), _statefulset_cells),
    "daemonsets.apps": ColumnSet(
        parse_headers(f"Name|Desired#|Current#|Ready#|Up-to-date#|Available#|Node Selector|Age|{_TEMPLATE_HEADERS}"),
        _daemonset_cells,
    ),
    "jobs.batch": ColumnSet(parse_headers(f"Name|Status|Completions|Duration|Age|{_TEMPLATE_HEADERS}"), _job_cells),
    "cronjobs.batch": ColumnSet(
        parse_headers(f"Name|Schedule|Timezone|Suspend?|Active#|Last Schedule|Age|{_TEMPLATE_HEADERS}"), _cronjob_cells
    ),
    "poddisruptionbudgets.policy": ColumnSet(
        parse_headers("Name|Min Available|Max Unavailable|Allowed Disruptions#|Age"), _pdb_cells
    ),
    "horizontalpodautoscalers.autoscaling": ColumnSet(
        parse_headers("Name|Reference|Targets|MinPods|MaxPods|Replicas|Age"), _hpa_cells
    ),
}
