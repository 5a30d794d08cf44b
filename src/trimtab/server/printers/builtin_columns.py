"""What `kubectl get` shows of Kubernetes' own kinds: one function per kind, a cell per column."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from trimtab.api.value import Raw

NONE = "<none>"
UNKNOWN = "<unknown>"


class Head(NamedTuple):
    """A column of a table."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0


def duration(elapsed: timedelta) -> str:
    """A span of time as people read it: two units at most."""
    seconds = int(elapsed.total_seconds())
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    years = days // 365
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    if years < 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


def age(moment: Any, now: datetime) -> str:
    if not isinstance(moment, str) or not moment:
        return UNKNOWN
    try:
        return duration(now - datetime.fromisoformat(moment))
    except (ValueError, TypeError):
        return "<invalid>"


def _name(obj: Raw) -> str:
    return str(obj["metadata"]["name"])


def _born(obj: Raw, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _part(obj: Raw, *path: str) -> Any:
    value: Any = obj
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _number(obj: Raw, *path: str) -> int:
    return int(_part(obj, *path) or 0)


def selector_text(selector: Raw | None) -> str:
    """A label selector as people write it."""
    if selector is None:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    words = {"In": "in", "NotIn": "notin"}
    for rule in sorted(selector.get("matchExpressions") or (), key=lambda rule: str(rule["key"])):
        key, operator = rule["key"], rule["operator"]
        if operator in words:
            terms.append(f"{key} {words[operator]} ({','.join(sorted(rule.get('values') or ()))})")
        else:
            terms.append(key if operator == "Exists" else f"!{key}")
    return ",".join(terms) or NONE


def _map_text(labels: Raw | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def _containers(spec: Raw | None) -> tuple[str, str]:
    found = (spec or {}).get("containers") or []
    return ",".join(c.get("name", "") for c in found), ",".join(c.get("image", "") for c in found)


def _configmap(obj: Raw, now: datetime) -> list[Any]:
    return [_name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), _born(obj, now)]


def _secret(obj: Raw, now: datetime) -> list[Any]:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or {}), _born(obj, now)]


def _namespace(obj: Raw, now: datetime) -> list[Any]:
    return [_name(obj), _part(obj, "status", "phase") or "", _born(obj, now)]


def _plain(obj: Raw, now: datetime) -> list[Any]:
    return [_name(obj), _born(obj, now)]


def _reason_of_init(obj: Raw) -> str:
    """Why a pod still initialises; empty when it does not."""
    specs = {c.get("name"): c for c in _part(obj, "spec", "initContainers") or ()}
    statuses = _part(obj, "status", "initContainerStatuses") or ()
    for index, status in enumerate(statuses):
        state = status.get("state") or {}
        ended, waits = state.get("terminated"), state.get("waiting")
        if ended and not ended.get("exitCode"):
            continue
        if specs.get(status.get("name"), {}).get("restartPolicy") == "Always" and status.get("started"):
            continue
        if ended:
            return "Init:" + (ended.get("reason") or _exit_text(ended))
        if waits and waits.get("reason") not in {None, "", "PodInitializing"}:
            return f"Init:{waits['reason']}"
        return f"Init:{index}/{len(specs)}"
    return ""


def _exit_text(ended: Raw) -> str:
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _reason_of_containers(obj: Raw, reason: str) -> str:
    running = False
    for status in reversed(_part(obj, "status", "containerStatuses") or ()):
        state = status.get("state") or {}
        if (waiting := state.get("waiting")) and waiting.get("reason"):
            reason = waiting["reason"]
        elif ended := state.get("terminated"):
            reason = ended.get("reason") or _exit_text(ended)
        elif status.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        ready = any(
            c.get("type") == "Ready" and c.get("status") == "True" for c in _part(obj, "status", "conditions") or ()
        )
        return "Running" if ready else "NotReady"
    return reason


def pod_status(obj: Raw) -> str:
    status: Raw = obj.get("status") or {}
    reason = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    reason = _reason_of_init(obj) or _reason_of_containers(obj, reason)
    if obj["metadata"].get("deletionTimestamp") and status.get("phase") not in {"Succeeded", "Failed"}:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(reason)


def _pod(obj: Raw, now: datetime) -> list[Any]:
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    states = status.get("containerStatuses") or []
    ready = sum(1 for state in states if state.get("ready"))
    restarts = sum(state.get("restartCount") or 0 for state in states)
    latest = max(
        (
            state["lastState"]["terminated"]["finishedAt"]
            for state in states
            if _part(state, "lastState", "terminated", "finishedAt")
        ),
        default="",
    )
    shown = f"{restarts} ({age(latest, now)} ago)" if restarts and latest else str(restarts)
    gates = spec.get("readinessGates") or []
    conditions = {c.get("type"): c.get("status") for c in status.get("conditions") or ()}
    met = sum(1 for gate in gates if conditions.get(gate.get("conditionType")) == "True")
    return [
        _name(obj),
        f"{ready}/{len(spec.get('containers') or ())}",
        pod_status(obj),
        shown,
        _born(obj, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{met}/{len(gates)}" if gates else NONE,
    ]


def _deployment(obj: Raw, now: datetime) -> list[Any]:
    names, images = _containers(_part(obj, "spec", "template", "spec"))
    return [
        _name(obj),
        f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}",
        _number(obj, "status", "updatedReplicas"),
        _number(obj, "status", "availableReplicas"),
        _born(obj, now),
        names,
        images,
        selector_text(_part(obj, "spec", "selector")),
    ]


def _replicaset(obj: Raw, now: datetime) -> list[Any]:
    names, images = _containers(_part(obj, "spec", "template", "spec"))
    selector = _part(obj, "spec", "selector")
    text = (
        selector_text(selector)
        if selector is None or "matchLabels" in selector or "matchExpressions" in selector
        else _map_text(selector)
    )
    return [
        _name(obj),
        _number(obj, "spec", "replicas"),
        _number(obj, "status", "replicas"),
        _number(obj, "status", "readyReplicas"),
        _born(obj, now),
        names,
        images,
        text,
    ]


def _statefulset(obj: Raw, now: datetime) -> list[Any]:
    ready = f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}"
    return [_name(obj), ready, _born(obj, now), *_containers(_part(obj, "spec", "template", "spec"))]


def _daemonset(obj: Raw, now: datetime) -> list[Any]:
    names, images = _containers(_part(obj, "spec", "template", "spec"))
    return [
        _name(obj),
        *(
            _number(obj, "status", key)
            for key in (
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            )
        ),
        _map_text(_part(obj, "spec", "template", "spec", "nodeSelector")),
        _born(obj, now),
        names,
        images,
        selector_text(_part(obj, "spec", "selector")),
    ]


def _job_status(obj: Raw) -> str:
    held = {c.get("type") for c in _part(obj, "status", "conditions") or () if c.get("status") == "True"}
    for condition, shown in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition in held:
            return shown
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in held:
            return condition
    return "Running"


def _job(obj: Raw, now: datetime) -> list[Any]:
    names, images = _containers(_part(obj, "spec", "template", "spec"))
    done, wanted = _number(obj, "status", "succeeded"), _part(obj, "spec", "completions")
    parallel = _part(obj, "spec", "parallelism") or 0
    if wanted is not None:
        completions = f"{done}/{wanted}"
    else:
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    started, ended = _part(obj, "status", "startTime"), _part(obj, "status", "completionTime")
    took = ""
    if started:
        took = duration((datetime.fromisoformat(ended) if ended else now) - datetime.fromisoformat(started))
    selector = selector_text(_part(obj, "spec", "selector"))
    return [_name(obj), _job_status(obj), completions, took, _born(obj, now), names, images, selector]


def _cronjob(obj: Raw, now: datetime) -> list[Any]:
    names, images = _containers(_part(obj, "spec", "jobTemplate", "spec", "template", "spec"))
    last = _part(obj, "status", "lastScheduleTime")
    return [
        _name(obj),
        _part(obj, "spec", "schedule") or "",
        _part(obj, "spec", "timeZone") or NONE,
        "True" if _part(obj, "spec", "suspend") else "False",
        len(_part(obj, "status", "active") or ()),
        age(last, now) if last else NONE,
        _born(obj, now),
        names,
        images,
        selector_text(_part(obj, "spec", "jobTemplate", "spec", "selector")),
    ]


def _service_ports(spec: Raw) -> str:
    ports = []
    for port in spec.get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or NONE


def _external_address(obj: Raw) -> str:
    spec = obj.get("spec") or {}
    given = spec.get("externalIPs") or []
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return str(spec.get("externalName") or NONE)
    if kind == "LoadBalancer":
        found = [i.get("ip") or i.get("hostname") or "" for i in _part(obj, "status", "loadBalancer", "ingress") or ()]
        return ",".join([*found, *given]) or "<pending>"
    return ",".join(given) or NONE


def _service(obj: Raw, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    return [
        _name(obj),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        _external_address(obj),
        _service_ports(spec),
        _born(obj, now),
        _map_text(spec.get("selector")),
    ]


def _node_status(obj: Raw) -> str:
    conditions = {c.get("type"): c.get("status") for c in _part(obj, "status", "conditions") or ()}
    shown = "Unknown"
    if "Ready" in conditions:
        shown = "Ready" if conditions["Ready"] == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if _part(obj, "spec", "unschedulable") else shown


def _node_roles(obj: Raw) -> str:
    prefix, found = "node-role.kubernetes.io/", set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith(prefix) and key != prefix:
            found.add(key.removeprefix(prefix))
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return ",".join(sorted(found)) or NONE


def _node(obj: Raw, now: datetime) -> list[Any]:
    addresses: dict[str, str] = {}
    for address in _part(obj, "status", "addresses") or ():
        addresses.setdefault(address.get("type", ""), address.get("address", ""))
    system = _part(obj, "status", "nodeInfo") or {}
    return [
        _name(obj),
        _node_status(obj),
        _node_roles(obj),
        _born(obj, now),
        system.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        system.get("osImage") or UNKNOWN,
        system.get("kernelVersion") or UNKNOWN,
        system.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _budget(obj: Raw, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    shown = [str(spec[key]) if spec.get(key) is not None else "N/A" for key in ("minAvailable", "maxUnavailable")]
    return [_name(obj), *shown, _number(obj, "status", "disruptionsAllowed"), _born(obj, now)]


def _lease(obj: Raw, now: datetime) -> list[Any]:
    return [_name(obj), _part(obj, "spec", "holderIdentity") or "", _born(obj, now)]


def _event_interval(obj: Raw, now: datetime) -> tuple[str, str]:
    micro = _part(obj, "series", "lastObservedTime")
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = micro or obj.get("lastTimestamp") or first
    return age(last, now), age(first, now)


def _event(obj: Raw, now: datetime) -> list[Any]:
    last, first = _event_interval(obj, now)
    involved = obj.get("involvedObject") or {}
    target = involved.get("kind", "").lower()
    if involved.get("name"):
        target = f"{target}/{involved['name']}"
    source = obj.get("source") or {}
    shown = ", ".join(filter(None, (source.get("component") or obj.get("reportingComponent"), source.get("host"))))
    count = _part(obj, "series", "count") or obj.get("count") or 1
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        involved.get("fieldPath", ""),
        shown,
        str(obj.get("message", "")).strip(),
        first,
        count,
        _name(obj),
    ]


def _priority(obj: Raw, now: datetime) -> list[Any]:
    return [
        _name(obj),
        obj.get("value") or 0,
        bool(obj.get("globalDefault")),
        _born(obj, now),
        obj.get("preemptionPolicy") or "",
    ]


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
    seen = ((current or {}).get(key) or {}).get("current") or {}
    if target.get("averageUtilization") is not None:
        now = f"{seen['averageUtilization']}%" if seen.get("averageUtilization") is not None else UNKNOWN
        shown = f"{now}/{target['averageUtilization']}%"
    else:
        wanted = target.get("averageValue") or target.get("value") or "<auto>"
        shown = f"{seen.get('averageValue') or seen.get('value') or UNKNOWN}/{wanted}"
    return f"{source['name']}: {shown}" if kind == "Resource" and source.get("name") else shown


def _autoscaler(obj: Raw, now: datetime) -> list[Any]:
    target = _part(obj, "spec", "scaleTargetRef") or {}
    metrics = _part(obj, "spec", "metrics") or []
    seen = _part(obj, "status", "currentMetrics") or []
    texts = [_metric_text(spec, seen[i] if i < len(seen) else None) for i, spec in enumerate(metrics)]
    shown = ", ".join(texts[:2]) + (f" + {len(texts) - 2} more..." if len(texts) > 2 else "")
    minimum = _part(obj, "spec", "minReplicas")
    return [
        _name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        shown or NONE,
        "<unset>" if minimum is None else str(minimum),
        _number(obj, "spec", "maxReplicas"),
        _number(obj, "status", "currentReplicas"),
        _born(obj, now),
    ]


def _definition(obj: Raw, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    versions = [
        v["name"] + ("(storage)" if v.get("storage") else "") for v in spec.get("versions") or () if v.get("served")
    ]
    established = any(
        c.get("type") == "Established" and c.get("status") == "True" for c in _part(obj, "status", "conditions") or ()
    )
    return [
        _name(obj),
        spec.get("scope", ""),
        ",".join(versions),
        obj["metadata"].get("creationTimestamp", ""),
        spec.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()) or NONE,
        established,
    ]


def _binding(obj: Raw, now: datetime) -> list[Any]:
    role = obj.get("roleRef") or {}
    found: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        found.setdefault(subject.get("kind", ""), []).append(name)
    people = [", ".join(found[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [_name(obj), f"{role.get('kind', '')}/{role.get('name', '')}", _born(obj, now), *people]


def _created(obj: Raw, now: datetime) -> list[Any]:
    return [_name(obj), obj["metadata"].get("creationTimestamp", "")]


def _webhooks(obj: Raw, now: datetime) -> list[Any]:
    return [_name(obj), len(obj.get("webhooks") or ()), _born(obj, now)]


def _claim(obj: Raw, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    modes = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    return [
        _name(obj),
        phase,
        spec.get("volumeName", ""),
        str(_part(status, "capacity", "storage") or "") if bound else "",
        ",".join(modes.get(mode, mode) for mode in status.get("accessModes") or ()) if bound else "",
        spec.get("storageClassName") or "",
        status.get("currentVolumeAttributesClassName") or "<unset>",
        _born(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _ingress(obj: Raw, now: datetime) -> list[Any]:
    rules = _part(obj, "spec", "rules") or []
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    shown = ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "")
    found = [i.get("ip") or i.get("hostname") or "" for i in _part(obj, "status", "loadBalancer", "ingress") or ()]
    ports = "80, 443" if _part(obj, "spec", "tls") else "80"
    return [
        _name(obj),
        _part(obj, "spec", "ingressClassName") or NONE,
        shown or "*",
        ",".join(found),
        ports,
        _born(obj, now),
    ]


def _quota(obj: Raw, now: datetime) -> list[Any]:
    hard, used = _part(obj, "status", "hard") or {}, _part(obj, "status", "used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        shown = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits") else requests).append(shown)
    return [_name(obj), ", ".join(requests), ", ".join(limits), _born(obj, now)]


def _cluster(obj: Raw, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = next((c.get("status") for c in status.get("conditions") or () if c.get("type") == "Ready"), "Unknown")
    return [
        _name(obj),
        status.get("kubernetesVersion", ""),
        spec.get("syncMode", ""),
        ready,
        _born(obj, now),
        ",".join(spec.get("zones") or ()) or NONE,
        spec.get("region") or NONE,
        spec.get("provider") or NONE,
        spec.get("apiEndpoint") or NONE,
        spec.get("proxyURL") or NONE,
    ]


def _heads(text: str) -> tuple[Head, ...]:
    """Columns in shorthand: `*` wide only, `#` integer, `?` boolean, `@` date; the first is a name unless it says `-`."""
    heads = []
    types = {"#": "integer", "?": "boolean", "@": "date"}
    for index, word in enumerate(text.split("|")):
        name = word.strip("*#?@-")
        kind = next((types[mark] for mark in word if mark in types), "string")
        form = "name" if (index == 0 and not word.endswith("-")) or (name == "Name" and index) else ""
        heads.append(Head(name, kind, form, 1 if word.endswith("*") else 0))
    return tuple(heads)


Cells = Callable[[Raw, datetime], list[Any]]


class Printed(NamedTuple):
    heads: tuple[Head, ...]
    cells: Cells


_WORKLOAD = "Containers*|Images*|Selector*"
_BINDINGS = Printed(_heads("Name|Role|Age|Users*|Groups*|ServiceAccounts*"), _binding)
_CREATED = Printed(_heads("Name|Created At@"), _created)
_WEBHOOKS = Printed(_heads("Name|Webhooks#|Age"), _webhooks)
_REPLICAS = Printed(_heads(f"Name|Desired#|Current#|Ready#|Age|{_WORKLOAD}"), _replicaset)
PRINTED: dict[str, Printed] = {
    "configmaps": Printed(_heads("Name|Data|Age"), _configmap),
    "secrets": Printed(_heads("Name|Type|Data|Age"), _secret),
    "namespaces": Printed(_heads("Name|Status|Age"), _namespace),
    "serviceaccounts": Printed(_heads("Name|Age"), _plain),
    "pods": Printed(_heads("Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*"), _pod),
    "deployments.apps": Printed(_heads(f"Name|Ready|Up-to-date|Available|Age|{_WORKLOAD}"), _deployment),
    "replicasets.apps": _REPLICAS,
    "replicationcontrollers": _REPLICAS,
    "statefulsets.apps": Printed(_heads("Name|Ready|Age|Containers*|Images*"), _statefulset),
    "daemonsets.apps": Printed(
        _heads(f"Name|Desired#|Current#|Ready#|Up-to-date#|Available#|Node Selector|Age|{_WORKLOAD}"), _daemonset
    ),
    "jobs.batch": Printed(_heads(f"Name|Status|Completions|Duration|Age|{_WORKLOAD}"), _job),
    "cronjobs.batch": Printed(
        _heads(f"Name|Schedule|Timezone|Suspend?|Active#|Last Schedule|Age|{_WORKLOAD}"), _cronjob
    ),
    "services": Printed(_heads("Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*"), _service),
    "nodes": Printed(
        _heads("Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*"),
        _node,
    ),
    "poddisruptionbudgets.policy": Printed(
        _heads("Name|Min Available|Max Unavailable|Allowed Disruptions#|Age"), _budget
    ),
    "leases.coordination.k8s.io": Printed(_heads("Name|Holder|Age"), _lease),
    "events": Printed(
        _heads("Last Seen-|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*"), _event
    ),
    "priorityclasses.scheduling.k8s.io": Printed(_heads("Name|Value#|Global-Default?|Age|PreemptionPolicy"), _priority),
    "horizontalpodautoscalers.autoscaling": Printed(
        _heads("Name|Reference|Targets|MinPods|MaxPods|Replicas|Age"), _autoscaler
    ),
    "customresourcedefinitions.apiextensions.k8s.io": Printed(
        _heads("Name|Scope|Versions|Created At@|Group*|Kind*|ShortNames*|Established?*"), _definition
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "persistentvolumeclaims": Printed(
        _heads("Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*"), _claim
    ),
    "ingresses.networking.k8s.io": Printed(_heads("Name|Class|Hosts|Address|Ports|Age"), _ingress),
    "resourcequotas": Printed(_heads("Name|Request|Limit|Age"), _quota),
    "clusters.cluster.karmada.io": Printed(
        _heads("Name|Version|Mode|Ready|Age|Zones*|Region*|Provider*|API-Endpoint*|Proxy-URL*"), _cluster
    ),
}


def printed(kind_id: str) -> Printed:
    """How a built-in kind is shown; kinds without words of their own show when they were made."""
    return PRINTED.get(kind_id, _CREATED)
