"""The admission defaults of native kinds: Priority, DefaultTolerationSeconds, cluster IPs, node ports, node taints."""

import ipaddress
from collections.abc import Iterator
from typing import cast

import orjson

from trimtab.api.field_errors import invalid
from trimtab.api.kind import Kind, kind_of
from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.native.defaults.workloads import with_job_selector
from trimtab.api.quantity import parse_quantity
from trimtab.api.value import Raw
from trimtab.errors import Cause
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.storage.object_codec import labels_of
from trimtab.store.keys import key_below, object_key, resource_prefix
from trimtab.store.store import Store

_CLASSES = resource_prefix("scheduling.k8s.io", "priorityclasses")
_GLOBAL_DEFAULT = b'"globalDefault"'
"""The JSON of few classes has this field; the others are not decoded for every pod."""
_POLICY = object_key("trimtab.dev", "disruptionpolicies", "default")
_SERVICES = resource_prefix("", "services")
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_TYPES_WITH_NODE_PORTS = ("LoadBalancer", "NodePort")
_TYPES_WITH_ADDRESS = ("ClusterIP", *_TYPES_WITH_NODE_PORTS)
_FIELDS_OF_SERVICE_TYPES = {
    "clusterIP": _TYPES_WITH_ADDRESS,
    "clusterIPs": _TYPES_WITH_ADDRESS,
    "ipFamilies": _TYPES_WITH_ADDRESS,
    "ipFamilyPolicy": _TYPES_WITH_ADDRESS,
    "externalTrafficPolicy": _TYPES_WITH_NODE_PORTS,
    "allocateLoadBalancerNodePorts": ("LoadBalancer",),
    "healthCheckNodePort": ("LoadBalancer",),
    "loadBalancerClass": ("LoadBalancer",),
}
"""Fields of a service that only these types have."""
_CLUSTER_IPS = ipaddress.IPv4Network("10.96.0.0/12")
_NODE_PORTS = range(30000, 32768)
_TOLERATED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS = 300
_COMPUTE_RESOURCES = ("cpu", "memory")
_DEFAULTED_KINDS = {"services", "pods", "nodes", "jobs.batch"}


class BuiltinDefaults:
    """An admission plugin for native kinds."""

    def __init__(self, store: Store, *, default_tolerations: bool = True) -> None:
        self._store = store
        self._default_tolerations = default_tolerations

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id in _DEFAULTED_KINDS

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        kind = attributes.where.served.kind.id
        if kind == "services" and attributes.where.subresource == "":
            return self._default_service(obj, old)
        if attributes.operation != "CREATE":
            is_pod = kind == "pods" and not attributes.where.subresource
            return self._keep_pod_defaults(obj, old) if is_pod and old is not None else obj
        if kind == "pods":
            return self._default_pod(attributes, obj)
        if kind == "nodes":
            return _default_node(obj)
        return with_job_selector(obj) if kind == "jobs.batch" and obj["metadata"].get("name") else obj

    def _default_pod(self, attributes: Attributes, obj: Raw) -> Raw:
        spec = {**obj.get("spec", {})}
        given = spec.get("priorityClassName") or ""
        class_name = given or self._class_by_rule(attributes, obj)
        if class_name != given and self._store.get(key_below(_CLASSES, class_name)) is None:
            why = (
                f"a rule of the DisruptionPolicy default gives it the PriorityClass {class_name}, which does not exist"
            )
            raise api_errors.forbidden("pods", "", attributes.where.name, why)
        spec |= self._priority_fields(attributes, {**spec, "priorityClassName": class_name})
        if self._default_tolerations:
            spec["tolerations"] = _with_default_tolerations(spec.get("tolerations") or [])
        if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
            spec["terminationGracePeriodSeconds"] = 1
        status = {"phase": "Pending", **obj.get("status", {}), "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            status["conditions"] = [_GATED]
        return {**obj, "spec": spec, "status": status}

    def _keep_pod_defaults(self, obj: Raw, old: Raw) -> Raw:
        """An update that leaves out what admission has added keeps it."""
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        missing = {key: before[key] for key in ("priority", "preemptionPolicy") if key in before and key not in spec}
        if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
            missing["terminationGracePeriodSeconds"] = 1
        given = spec.get("tolerations") or []
        completed = _with_default_tolerations(given) if self._default_tolerations else given
        if completed != given:
            missing["tolerations"] = completed
        return {**obj, "spec": {**spec, **missing}} if missing else obj

    def _priority_fields(self, attributes: Attributes, spec: Raw) -> Raw:
        """The priority of the pod's class, or of the global default class."""
        name = spec.get("priorityClassName") or ""
        if name:
            entry = self._store.get(key_below(_CLASSES, name))
            if entry is None:
                why = f"no PriorityClass with name {name} was found"
                raise api_errors.forbidden("pods", "", attributes.where.name, why)
            priority_class = orjson.loads(entry.value)
        else:
            priority_class = min(self._global_classes(), key=lambda found: found["value"], default={})
        fields: Raw = {"priority": priority_class.get("value", 0)}
        if priority_class:
            fields["priorityClassName"] = priority_class["metadata"]["name"]
        policy = spec.get("preemptionPolicy") or priority_class.get("preemptionPolicy") or "PreemptLowerPriority"
        given = spec.get("priority")
        if given is not None and given != fields["priority"]:
            why = f"the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {fields['priority']} from the given PriorityClass name"
            raise api_errors.forbidden("pods", "", attributes.where.name, why)
        return {**fields, "preemptionPolicy": policy}

    def _class_by_rule(self, attributes: Attributes, pod: Raw) -> str:
        """The class of the first matching rule of the DisruptionPolicy, for a pod without a class."""
        spec = pod.get("spec") or {}
        entry = self._store.get(_POLICY)
        if entry is None:
            return ""
        policy = cast("DisruptionPolicy", kind_of(DisruptionPolicy).decode(entry.value))
        namespace = self._store.get(object_key("", "namespaces", attributes.where.namespace))
        namespace_labels = labels_of(namespace.value) if namespace is not None else {}
        labels, account = pod["metadata"].get("labels") or {}, spec.get("serviceAccountName") or "default"
        for rule in policy.spec.priority_rules:
            namespace_matches = rule.namespace_selector is None or rule.namespace_selector.matches(namespace_labels)
            pod_matches = rule.pod_selector is None or rule.pod_selector.matches(labels)
            if namespace_matches and pod_matches and rule.service_account in ("", account):
                return rule.priority_class_name
        return ""

    def _global_classes(self) -> Iterator[Raw]:
        for entry in self._store.list(_CLASSES).entries:
            value = entry.value
            if _GLOBAL_DEFAULT in value and (priority_class := orjson.loads(value)).get("globalDefault"):
                yield priority_class

    def _default_service(self, obj: Raw, old: Raw | None) -> Raw:
        """Assign cluster IPs and node ports of a service, and keep the ones it has."""
        before: Raw = (old or {}).get("spec", {})
        spec = _without_fields_of_old_type({**obj.get("spec", {})}, before)
        if spec.get("type") == "ExternalName":
            return {**obj, "spec": spec}
        if not spec.get("clusterIP"):
            spec["clusterIP"] = before.get("clusterIP") or self._free_address()
        spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec["type"] == "NodePort" or (
            spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
        ):
            spec["ports"] = self._with_node_ports(obj["metadata"].get("name") or "", spec, before)
        return {**obj, "spec": spec}

    def _service_specs(self) -> Iterator[Raw]:
        for entry in self._store.list(_SERVICES).entries:
            yield orjson.loads(entry.value).get("spec") or {}

    def _free_address(self) -> str:
        taken = {spec.get("clusterIP") for spec in self._service_specs()}
        first = int(_CLUSTER_IPS.network_address)
        free = (str(ipaddress.IPv4Address(first + n)) for n in range(10, _CLUSTER_IPS.num_addresses - 1))
        return next(address for address in free if address not in taken)

    def _with_node_ports(self, name: str, spec: Raw, before: Raw) -> list[Raw]:
        taken = {port.get("nodePort") for other in self._service_specs() for port in other.get("ports") or ()}
        if causes := list(_refused_node_ports(spec.get("ports") or [], before.get("ports") or [], taken)):
            raise api_errors.invalid("Service", "", name, causes)
        taken |= _node_ports(spec.get("ports") or [])
        previous = {
            (port.get("port"), port.get("protocol")): port.get("nodePort") for port in before.get("ports") or ()
        }
        free = (port for port in _NODE_PORTS if port not in taken)
        return [
            {
                **port,
                "nodePort": port.get("nodePort")
                or previous.get((port.get("port"), port.get("protocol")))
                or next(free),
            }
            for port in spec.get("ports") or ()
        ]


def _without_fields_of_old_type(spec: Raw, before: Raw) -> Raw:
    """The spec of a service whose type changes, without unchanged fields that only the old type has."""
    kind, old_kind = spec.get("type"), before.get("type")
    if old_kind is None or kind == old_kind:
        return spec
    unused = [name for name, kinds in _FIELDS_OF_SERVICE_TYPES.items() if old_kind in kinds and kind not in kinds]
    kept = {name: value for name, value in spec.items() if name not in unused or value != before.get(name)}
    ports, old_ports = spec.get("ports") or [], before.get("ports") or []
    if kind not in _TYPES_WITH_NODE_PORTS and _node_ports(ports) == _node_ports(old_ports):
        kept["ports"] = [{name: value for name, value in port.items() if name != "nodePort"} for port in ports]
    return kept


def _refused_node_ports(ports: list[Raw], old_ports: list[Raw], taken: set[int | None]) -> Iterator[Cause]:
    """Node ports that the service did not have before, and that are out of range or belong to another one."""
    kept = _node_ports(old_ports)
    for number, port in enumerate(ports):
        wanted = port.get("nodePort")
        if not wanted or wanted in kept:
            continue
        field = f"spec.ports[{number}].nodePort"
        if wanted not in _NODE_PORTS:
            valid = f"{_NODE_PORTS.start}-{_NODE_PORTS.stop - 1}"
            yield invalid(
                field, wanted, f"provided port is not in the valid range. The range of valid ports is {valid}"
            )
        elif wanted in taken:
            yield invalid(field, wanted, "provided port is already allocated")


def _node_ports(ports: list[Raw]) -> set[int]:
    return {port["nodePort"] for port in ports if port.get("nodePort")}


def _with_default_tolerations(tolerations: list[Raw]) -> list[Raw]:
    """Every pod tolerates a not-ready or unreachable node for a while."""
    added = list(tolerations)
    for key in _TOLERATED_TAINTS:
        covered = any(t.get("key", "") in {key, ""} and t.get("effect", "") in {"NoExecute", ""} for t in tolerations)
        if not covered:
            added.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS}
            )
    return added


def _default_node(obj: Raw) -> Raw:
    spec = obj.get("spec") or {}
    taints = list(spec.get("taints") or ())
    if not any(taint.get("key") == _NOT_READY["key"] and taint.get("effect") == "NoSchedule" for taint in taints):
        taints.append(dict(_NOT_READY))
    return {**obj, "spec": {**spec, "taints": taints}}


def qos_class(spec: Raw) -> str:
    """The QoS class that follows from a pod's requests and limits."""
    is_best_effort = is_guaranteed = True
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = _nonzero_amounts(resources.get("requests")), _nonzero_amounts(resources.get("limits"))
        is_best_effort = is_best_effort and not requests and not limits
        is_guaranteed = is_guaranteed and len(limits) == len(_COMPUTE_RESOURCES) and limits == requests
    if is_best_effort:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _nonzero_amounts(amounts: Raw | None) -> dict[str, object]:
    """The amounts of cpu and memory that are not zero."""
    if not amounts:
        return {}
    return {
        name: amount for name in _COMPUTE_RESOURCES if name in amounts and (amount := parse_quantity(amounts[name]))
    }
