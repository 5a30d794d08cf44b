"""What kube-apiserver refuses in configuration, services, events, leases, budgets and the other smaller kinds."""

import base64
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Any

from trimtab.api import quantity
from trimtab.api.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long
from trimtab.api.kinds.native.fields import message
from trimtab.api.kinds.native.rules import common
from trimtab.api.names import label_faults, label_value_faults, qualified_name_faults, subdomain_faults
from trimtab.api.value import Raw
from trimtab.errors import Cause

_LARGEST_CONFIG = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"
_PRIORITY_LIMIT = 1_000_000_000
_TAINTS_TEXT = "taints must be unique by key and effect pair"
_QUOTA_RESOURCES = frozenset(
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
) | frozenset(
    {
        "requests.storage",
        "pods",
        "services",
        "services.nodeports",
        "services.loadbalancers",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
    }
)

_PLAIN_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")


# configuration


def _frozen(new: Raw, old: Raw, parts: Sequence[str]) -> Iterator[Cause]:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", _FROZEN)
    for part in parts:
        if (new.get(part) or {}) != (old.get(part) or {}):
            yield forbidden(part, _FROZEN)


def check_config_map(new: Raw, old: Raw | None) -> Sequence[Cause]:
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    found: list[Cause] = list(_frozen(new, old, ("data", "binaryData"))) if old is not None else []
    size = 0
    for part, values in (("data", data), ("binaryData", binary)):
        for key, value in sorted(values.items()):
            found += [invalid(f"{part}[{key}]", key, fault) for fault in common.config_key_faults(key)]
            if part == "data" and key in binary:
                found.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
            size += len(value.encode()) if part == "data" else len(base64.b64decode(value))
    if size > _LARGEST_CONFIG:
        found.append(too_long("[]", _LARGEST_CONFIG))  # the whole object, as the other system names it
    return found


_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def check_secret(new: Raw, old: Raw | None) -> Sequence[Cause]:
    data, kind = new.get("data") or {}, new.get("type", "")
    found: list[Cause] = []
    if old is not None:
        found += common.unchanged(kind, old.get("type", ""), "type")
        found += _frozen(new, old, ("data",))
    for key in sorted(data):
        found += [invalid(f"data[{key}]", key, fault) for fault in common.config_key_faults(key)]
    if sum(len(base64.b64decode(value)) for value in data.values()) > _LARGEST_CONFIG:
        found.append(too_long("data", _LARGEST_CONFIG))
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            found.append(required(f"data[{key}]"))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        found += [required("data[username]"), required("data[password]")]
    annotation = "kubernetes.io/service-account.name"
    if kind == "kubernetes.io/service-account-token" and not common.part(new, "metadata", "annotations").get(
        annotation
    ):
        found.append(required(f"metadata.annotations[{annotation}]"))
    return found


# network


def check_service(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = common.part(new, "spec")
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    found: list[Cause] = []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        found.append(required("spec.ports"))
    found += _service_ports(ports)
    found += common.labels(spec.get("selector"), "spec.selector")
    found += common.one_of(spec.get("sessionAffinity"), ("ClientIP", "None"), "spec.sessionAffinity")
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    if kind not in kinds:
        found.append(not_supported("spec.type", kind, kinds))
    if kind == "ExternalName":
        found += _external_name(spec)
    address = spec.get("clusterIP", "")
    if address not in ("", "None") and not _is_address(address):
        found.append(
            invalid("spec.clusterIPs[0]", address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        )
    if old is not None:
        found += _same_address(spec, common.part(old, "spec"))
    return found


def _same_address(spec: Raw, before: Raw) -> Iterator[Cause]:
    had, has = before.get("clusterIP", ""), spec.get("clusterIP", "")
    if "ExternalName" not in (spec.get("type"), before.get("type")) and had and has and had != has:
        yield invalid("spec.clusterIPs[0]", [has], "may not change once set")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _external_name(spec: Raw) -> Iterator[Cause]:
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        yield required("spec.externalName")
    for fault in subdomain_faults(name) if name else ():
        yield invalid("spec.externalName", name, fault)
    if spec.get("clusterIP"):
        yield forbidden("spec.clusterIPs[0]", "may not be set for ExternalName services")


def _service_ports(ports: Sequence[Raw]) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"spec.ports[{index}]", port.get("name", "")
        if not name and len(ports) > 1:
            yield required(f"{field}.name")
        elif name:
            for fault in label_faults(name):
                yield invalid(f"{field}.name", name, fault)
            if name in names:
                yield duplicate(f"{field}.name", name)
            names.add(name)
        yield from common.port_number(port.get("port", 0), f"{field}.port")
        yield from common.one_of(port.get("protocol"), ("SCTP", "TCP", "UDP"), f"{field}.protocol")
        yield from common.port_or_name(port.get("targetPort", 0), f"{field}.targetPort")
    yield from common.unique([(_as_go(port), f"spec.ports[{index}]") for index, port in enumerate(ports)])


def _as_go(port: Raw) -> Raw:
    """What makes a port distinct, under the names of the server's own types."""
    distinct = {"Protocol": port.get("protocol", ""), "AppProtocol": None, "Port": port.get("port", 0)}
    return {"Name": "", **distinct, "TargetPort": 0, "NodePort": 0}


def check_ingress(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = common.part(new, "spec")
    found: list[Cause] = []
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        text = "either `defaultBackend` or `rules` must be specified"
        return [invalid("spec", None, text)]
    if spec.get("defaultBackend") is not None:
        found += _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        found += _ingress_rule(rule, f"spec.rules[{index}]")
    return found


def _ingress_rule(rule: Raw, field: str) -> Iterator[Cause]:
    host = rule.get("host", "")
    if host and _is_address(host):
        yield invalid(f"{field}.host", host, "must be a DNS name, not an IP address")
    elif host:
        for fault in subdomain_faults(host.removeprefix("*.")):
            yield invalid(f"{field}.host", host, fault)
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{field}.http.paths")
    for index, path in enumerate(http.get("paths") or ()):
        yield from _ingress_path(path, f"{field}.http.paths[{index}]")


def _ingress_path(path: Raw, field: str) -> Iterator[Cause]:
    kind, text = path.get("pathType"), path.get("path", "")
    if not kind:
        yield required(f"{field}.pathType", "pathType must be specified")
        return
    if not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(f"{field}.path", text, "must be an absolute path")
    yield from common.one_of(kind, ("Exact", "ImplementationSpecific", "Prefix"), f"{field}.pathType")
    yield from _backend(common.part(path, "backend"), f"{field}.backend")


def _backend(backend: Raw, field: str) -> Iterator[Cause]:
    target = backend.get("service")
    if target is not None and backend.get("resource") is not None:
        yield invalid(field, "", "cannot set both resource and service backends")
        return
    if target is None:
        if backend.get("resource") is None:
            yield invalid(field, "", "resource or service backend is required")
        return
    if not target.get("name"):
        yield required(f"{field}.service.name")
    port = common.part(target, "port")
    if port.get("name") and port.get("number"):
        yield invalid(f"{field}.service.port", "", "cannot set both port name & port number")
    elif port.get("name"):
        yield from common.port_or_name(port["name"], f"{field}.service.port.name")
    elif port.get("number"):
        yield from common.port_number(port["number"], f"{field}.service.port.number")
    else:
        yield required(field, "port name or number is required")


# nodes and storage


def check_node(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found: list[Cause] = []
    seen: list[tuple[Any, Any]] = []
    for index, taint in enumerate(common.part(new, "spec").get("taints") or ()):
        field, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        found += [invalid(f"{field}.key", key, fault) for fault in qualified_name_faults(key)]
        value = taint.get("value", "")
        found += [invalid(f"{field}.value", value, fault) for fault in label_value_faults(value)]
        if not effect:
            found.append(required(f"{field}.effect"))
        else:
            found += common.one_of(effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"), f"{field}.effect")
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            found.append(duplicate(field, shown)._replace(message=f"{duplicate(field, shown).message}: {_TAINTS_TEXT}"))
        seen.append((key, effect))
    return found


def check_claim(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = common.part(new, "spec")
    found: list[Cause] = []
    if not spec.get("accessModes"):
        found.append(required("spec.accessModes", "at least 1 access mode is required"))
    requests = common.part(spec, "resources", "requests")
    modes = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
    for mode in spec.get("accessModes") or ():
        found += common.one_of(mode, modes, "spec.accessModes")
    if "storage" not in requests:
        found.append(required("spec.resources[storage]"))
    elif quantity.parse(requests["storage"]) <= 0:
        found.append(invalid("spec.resources[storage]", str(requests["storage"]), "must be greater than zero"))
    if old is not None:
        bound = common.part(old, "status").get("phase") == "Bound"
        found += _same_claim(spec, common.part(old, "spec"), bound=bound)
    return found


def _same_claim(spec: Raw, before: Raw, *, bound: bool) -> Iterator[Cause]:
    free = {"volumeName", "storageClassName"} | ({"resources", "volumeAttributesClassName"} if bound else set())
    fixed = [{key: value for key, value in part.items() if key not in free} for part in (spec, before)]
    rebound = any(before.get(key) and spec.get(key) != before.get(key) for key in ("volumeName", "storageClassName"))
    if fixed[0] != fixed[1] or rebound:
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", text)


def check_volume(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = common.part(new, "spec")
    sources = [key for key in spec if key in message("core.v1.PersistentVolumeSource").json]
    found: list[Cause] = []
    if not spec.get("accessModes"):
        found.append(required("spec.accessModes"))
    if not spec.get("capacity"):
        found.append(required("spec.capacity"))
    found += common.amounts(spec.get("capacity"), "spec.capacity")
    if not sources:
        found.append(required("spec", "must specify a volume type"))
    found += (forbidden(f"spec.{extra}", "may not specify more than 1 volume type") for extra in sources[1:])
    if old is not None and any(spec[key] != common.part(old, "spec").get(key) for key in sources):
        text = "spec.persistentvolumesource is immutable after creation"
        found.append(forbidden("spec.persistentvolumesource", text))
    return found


def check_storage_class(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found: list[Cause] = []
    if not new.get("provisioner"):
        found.append(required("provisioner"))
    if new.get("reclaimPolicy") not in ("Delete", "Retain"):
        found.append(not_supported("reclaimPolicy", new.get("reclaimPolicy", ""), ["Delete", "Retain"]))
    binding = ("Immediate", "WaitForFirstConsumer")
    found += common.one_of(new.get("volumeBindingMode"), binding, "volumeBindingMode")
    if old is not None:
        fixed = ("parameters", "provisioner", "reclaimPolicy")
        changed = (name for name in fixed if new.get(name) != old.get(name))
        found += (forbidden(name, f"updates to {name} are forbidden.") for name in changed)
        found += common.unchanged(new.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")
    return found


# events and leases


def check_event(new: Raw, old: Raw | None) -> Sequence[Cause]:
    return list(_event(new, "involvedObject", "reportingComponent", "message"))


def _event(event: Raw, about: str, controller: str, told: str) -> Iterator[Cause]:
    """The rules of both event groups; an event with an eventTime is one of the newer sort and must say more."""
    namespace = common.part(event, "metadata").get("namespace", "")
    subject = common.part(event, about).get("namespace", "")
    newer = event.get("eventTime")
    homeless = ("default", "kube-system") if newer else ("", "default")
    if (not subject and namespace not in homeless) or (subject and subject != namespace and not newer):
        yield invalid("involvedObject.namespace", subject, "does not match event.namespace")
    if not newer:
        return
    reporter = event.get(controller, "")
    if not reporter:
        yield required(controller)
    for fault in qualified_name_faults(reporter):
        yield invalid(controller, reporter, fault)
    for name in ("reportingInstance", "action", "reason"):
        if not event.get(name):
            yield required(name)
        elif len(event[name]) > 128:
            yield invalid(name, "", "can have at most 128 characters")
    if len(event.get(told, "")) > 1024:
        yield invalid("message", "", "can have at most 1024 characters")


_EVENT_OLD = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def check_event_v1(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found = list(_event(new, "regarding", "reportingController", "note"))
    if old is not None:
        return found
    if not new.get("eventTime"):
        found.append(required("eventTime"))
    if new.get("type") not in ("Normal", "Warning"):
        found.append(invalid("type", "", f"has invalid value: {new.get('type', '')}"))
    for key, name in _EVENT_OLD.items():
        if new.get(key):
            found.append(invalid(name, "", "needs to be unset"))
    if any(common.part(new, "deprecatedSource").values()):
        found.append(invalid("source", "", "needs to be unset"))
    return found


def check_lease(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = common.part(new, "spec")
    return [
        *common.positive(spec.get("leaseDurationSeconds"), "spec.leaseDurationSeconds"),
        *common.not_negative(spec.get("leaseTransitions"), "spec.leaseTransitions"),
    ]


# budgets, quotas, priorities, autoscaling


def check_disruption_budget(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = common.part(new, "spec")
    found: list[Cause] = []
    both = spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None
    if both:
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        found.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        if spec.get(name) is not None:
            found += common.count_or_percent(spec[name], f"spec.{name}")
            found += common.at_most_all(spec[name], f"spec.{name}")
    found += common.selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None:
        choices = ("AlwaysAllow", "IfHealthyBudget")
        found += common.one_of(policy, choices, "spec.unhealthyPodEvictionPolicy")
    return found


def check_quota(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = common.part(new, "spec")
    found: list[Cause] = []
    for name in sorted(spec.get("hard") or {}):
        if "/" not in name and name not in _QUOTA_RESOURCES and "hugepages-" not in name:
            found.append(invalid(f"spec.hard[{name}]", name, "must be a standard resource type or fully qualified"))
            found.append(invalid(f"spec.hard[{name}]", name, "must be a standard resource for quota"))
    found += common.amounts(spec.get("hard"), "spec.hard")
    for rule in common.part(spec, "scopeSelector").get("matchExpressions") or ():
        found += _scope_rule(rule, "spec.scopeSelector.matchExpressions")
    if old is not None:
        found += common.unchanged(spec.get("scopes"), common.part(old, "spec").get("scopes"), "spec.scopes")
    return found


def _scope_rule(rule: Raw, field: str) -> Iterator[Cause]:
    """One line of a scope selector; kube-apiserver does not say which."""
    scope, operator, values = rule.get("scopeName", ""), rule.get("operator", ""), rule.get("values") or []
    if scope not in (*_PLAIN_SCOPES, "PriorityClass"):
        yield invalid(f"{field}.scopeName", scope, "unsupported scope")
    if scope in _PLAIN_SCOPES and operator != "Exists":
        listed = " or ".join(", ".join(f"ResourceQuotaScope{name}" for name in _PLAIN_SCOPES).rsplit(", ", 1))
        yield invalid(f"{field}.operator", operator, f"must be 'Exists' when scope is any of {listed}")
    if operator in ("In", "NotIn"):
        if not values:
            said = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(f"{field}.values", said)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            said = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield invalid(f"{field}.values", values, said)
    else:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")


def check_priority_class(new: Raw, old: Raw | None) -> Sequence[Cause]:
    name, value = common.part(new, "metadata").get("name", ""), new.get("value", 0)
    found: list[Cause] = []
    if old is not None:
        if value != old.get("value", 0):
            found.append(forbidden("value", "may not be changed in an update."))
        found += common.unchanged(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")
        return found
    if name.startswith("system-"):
        if name not in ("system-node-critical", "system-cluster-critical"):
            text = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
            )
            found.append(forbidden("metadata.name", text))
    elif value > _PRIORITY_LIMIT:
        text = f"maximum allowed value of a user defined priority is {_PRIORITY_LIMIT}"
        found.append(forbidden("value", text))
    policy = new.get("preemptionPolicy")
    if policy not in ("PreemptLowerPriority", "Never"):
        found.append(not_supported("preemptionPolicy", policy or "", ["PreemptLowerPriority", "Never"]))
    return found


def check_autoscaler(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = common.part(new, "spec")
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    found: list[Cause] = []
    if least is not None and least < 1:
        found.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most < 1:
        found.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
    if least is not None and most < least:
        found.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = common.part(spec, "scaleTargetRef")
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if least == 0 and not kinds & {"Object", "External"}:
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        found.append(forbidden("spec.metrics", text))
    found += (required(f"spec.scaleTargetRef.{name}") for name in ("kind", "name") if not target.get(name))
    return found
