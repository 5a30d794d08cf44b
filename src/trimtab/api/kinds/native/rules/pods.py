"""What kube-apiserver rejects in pods and pod templates."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trimtab.api import quantity
from trimtab.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from trimtab.api.kinds.native.rules import common
from trimtab.api.names import label_faults, qualified_name_faults, subdomain_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_VARIABLE_NAME = re.compile(r"[ -<>-~]+\Z")
_VARIABLE_NAME_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MAX_ID = 2147483647
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _not_found(field: str, value: Any) -> Cause:
    return Cause("FieldValueNotFound", f'Not found: "{value}"', field)


def check_pod(new: Raw, old: Raw | None) -> Sequence[Cause]:
    if old is not None:
        return list(_check_update(new, old))
    spec = object_at(new, "spec")
    return [*check_pod_spec(spec, "spec"), *_check_new_pod(spec)]


def _check_new_pod(spec: Raw) -> Iterator[Cause]:
    """What only the creation of a pod refuses; what older versions stored in templates stays valid."""
    gates = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
    for index, name in enumerate(gates):
        if name in gates[:index]:
            yield duplicate(f"spec.schedulingGates[{index}]", name)
    if gates and spec.get("nodeName"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    if spec.get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    system = (spec.get("os") or {}).get("name")
    if system is not None and system not in ("linux", "windows"):
        yield not_supported("spec.os", system, ("linux", "windows"))
    if spec.get("dnsPolicy") == "None" and spec.get("dnsConfig") is None:
        yield required("spec.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    for index, container in enumerate(spec.get("initContainers") or ()):
        if container.get("restartPolicy") not in (None, "Always"):
            field = f"spec.initContainers[{index}].restartPolicy"
            yield not_supported(field, container["restartPolicy"], ("Always",))
    yield from _check_host_ports(spec.get("containers") or ())
    context = spec.get("securityContext") or {}
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        value = context.get(name)
        if value is not None and not 0 <= value <= _MAX_ID:
            yield invalid(f"spec.securityContext.{name}", value, f"must be between 0 and {_MAX_ID}, inclusive")


def _check_host_ports(containers: Sequence[Raw]) -> Iterator[Cause]:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            used = f"{port.get('protocol') or 'TCP'}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if used in taken:
                yield duplicate(f"spec.containers[{index}].ports[{number}].hostPort", used)
            taken.add(used)


def _check_update(new: Raw, old: Raw) -> Iterator[Cause]:
    new_spec, old_spec = dict(object_at(new, "spec")), dict(object_at(old, "spec"))
    new_tolerations = new_spec.get("tolerations") or []
    if any(toleration not in new_tolerations for toleration in old_spec.get("tolerations") or ()):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    for key in ("containers", "initContainers"):
        new_containers, old_containers = new_spec.get(key) or [], old_spec.get(key) or []
        if len(new_containers) != len(old_containers):
            yield forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
        yield from _check_images(new_containers, f"spec.{key}")
    yield from common.check_not_negative(new_spec.get("activeDeadlineSeconds"), "spec.activeDeadlineSeconds")
    if _immutable_fields(new_spec) != _immutable_fields(old_spec) and not (
        _is_gated(old_spec) and _immutable_fields(new_spec, is_gated=True) == _immutable_fields(old_spec, is_gated=True)
    ):
        yield forbidden("spec", _UPDATE_TEXT)


def check_ephemeral_containers(new: Raw, old: Raw) -> Sequence[Cause]:
    """What the subresource `ephemeralcontainers` may not do: change or remove one, or add one without a new name."""
    field = "spec.ephemeralContainers"
    spec, before = object_at(new, "spec"), object_at(old, "spec")
    wanted = {one.get("name"): one for one in spec.get("ephemeralContainers") or ()}
    found = [
        forbidden(field, f"existing ephemeral containers {one['name']!r} may not be changed or removed")
        for one in before.get("ephemeralContainers") or ()
        if wanted.get(one["name"]) != one
    ]
    taken = {one["name"] for part in ("containers", "initContainers") for one in before.get(part) or ()}
    for index, one in enumerate(spec.get("ephemeralContainers") or ()):
        name = one.get("name") or ""
        if name in taken:
            found.append(duplicate(f"{field}[{index}].name", name))
        taken.add(name)
        found += [invalid(f"{field}[{index}].name", name, why) for why in label_faults(name)]
        if not one.get("image"):
            found.append(required(f"{field}[{index}].image"))
    return found


def _is_gated(spec: Raw) -> bool:
    return bool(spec.get("schedulingGates"))


def _immutable_fields(spec: Raw, *, is_gated: bool = False) -> Raw:
    """The fields that an update must not change; node selector and affinity of a gated pod may still change."""
    mutable = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if is_gated:
        mutable |= {"nodeSelector", "affinity"}
    immutable = {key: value for key, value in spec.items() if key not in mutable}
    if immutable.get("terminationGracePeriodSeconds", 0) < 0:
        immutable["terminationGracePeriodSeconds"] = 1  # a negative value may be corrected to 1
    for key in ("containers", "initContainers"):
        if immutable.get(key):
            immutable[key] = [{k: v for k, v in container.items() if k != "image"} for container in immutable[key]]
    return immutable


def _check_images(containers: Sequence[Raw], field: str) -> Iterator[Cause]:
    for index, container in enumerate(containers):
        if not container.get("image"):
            yield required(f"{field}[{index}].image")


def check_template(template: Raw, field: str) -> Iterator[Cause]:
    """Check a pod template: labels, annotations and pod spec."""
    metadata = object_at(template, "metadata")
    yield from common.check_labels(metadata.get("labels"), f"{field}.labels")
    yield from common.check_annotations(metadata.get("annotations"), f"{field}.annotations")
    yield from check_pod_spec(object_at(template, "spec"), f"{field}.spec")


def check_pod_spec(spec: Raw, field: str) -> Iterator[Cause]:
    volumes: set[Any] = set()
    if spec.get("volumes"):
        yield from _check_volumes(spec["volumes"], f"{field}.volumes")
        volumes = {volume.get("name") for volume in spec["volumes"]}
    yield from _check_containers(spec.get("containers") or [], volumes, f"{field}.containers")
    if spec.get("initContainers"):
        yield from _check_init_containers(spec, volumes, f"{field}.initContainers")
    yield from common.check_one_of(
        spec.get("restartPolicy"), ("Always", "OnFailure", "Never"), f"{field}.restartPolicy"
    )
    yield from common.check_one_of(
        spec.get("dnsPolicy"), ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"), f"{field}.dnsPolicy"
    )
    if spec.get("nodeSelector"):
        yield from common.check_labels(spec["nodeSelector"], f"{field}.nodeSelector")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2147483647:
        yield invalid(f"{field}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    for key in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if value := spec.get(key):
            for fault in subdomain_faults(value):
                yield invalid(f"{field}.{key}", value, fault)
    for key in ("hostname", "subdomain"):
        if value := spec.get(key):
            for fault in label_faults(value):
                yield invalid(f"{field}.{key}", value, fault)
    if spec.get("affinity"):
        yield from _check_affinity(spec["affinity"], f"{field}.affinity")
    if spec.get("tolerations"):
        yield from check_tolerations(spec["tolerations"], f"{field}.tolerations")
    if spec.get("topologySpreadConstraints"):
        yield from _check_topology_spread(spec["topologySpreadConstraints"], f"{field}.topologySpreadConstraints")


def _check_volumes(volumes: Sequence[Raw], field: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        name, where = volume.get("name", ""), f"{field}[{index}]"
        if not name:
            yield required(f"{where}.name")
        for fault in label_faults(name) if name else ():
            yield invalid(f"{where}.name", name, fault)
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
        sources = [key for key in volume if key != "name"]
        for extra in sources[1:]:
            yield forbidden(f"{where}.{extra}", "may not specify more than 1 volume type")
        yield from _check_volume_source(volume, where)


def _check_volume_source(volume: Raw, field: str) -> Iterator[Cause]:
    for key, member in (
        ("persistentVolumeClaim", "claimName"),
        ("hostPath", "path"),
        ("configMap", "name"),
        ("secret", "secretName"),
    ):
        source = volume.get(key)
        if isinstance(source, dict) and not source.get(member):
            yield required(f"{field}.{key}.{member}")


def _check_containers(containers: Sequence[Raw], volumes: set[Any], field: str) -> Iterator[Cause]:
    if not containers:
        yield required(field)
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{field}[{index}]"
        yield from _check_container(container, volumes, where)
        name = container.get("name")
        if name and name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name or "")


def _check_init_containers(spec: Raw, volumes: set[Any], field: str) -> Iterator[Cause]:
    names = {container.get("name") for container in spec.get("containers") or ()}
    for index, container in enumerate(spec["initContainers"]):
        where = f"{field}[{index}]"
        yield from _check_container(container, volumes, where)
        name = container.get("name")
        if name and name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name)
        if container.get("restartPolicy") is None:
            for key in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
                if key in container:
                    yield forbidden(f"{where}.{key}", "may not be set for init containers without restartPolicy=Always")


def _check_container(container: Raw, volumes: set[Any], field: str) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield required(f"{field}.name")
    for fault in label_faults(name) if name else ():
        yield invalid(f"{field}.name", name, fault)
    image = container.get("image", "")
    if not image:
        yield required(f"{field}.image")
    elif image != image.strip():
        yield invalid(f"{field}.image", image, "must not have leading or trailing whitespace")
    policies = ("Always", "IfNotPresent", "Never")
    yield from common.check_one_of(container.get("imagePullPolicy"), policies, f"{field}.imagePullPolicy")
    if container.get("ports"):
        yield from _check_ports(container["ports"], f"{field}.ports")
    if container.get("env"):
        yield from _check_environment(container["env"], f"{field}.env")
    if container.get("volumeMounts"):
        yield from _check_mounts(container["volumeMounts"], volumes, f"{field}.volumeMounts")
    if container.get("resources"):
        yield from _check_resources(container["resources"], f"{field}.resources")
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if key in container:
            yield from _check_probe(container[key], f"{field}.{key}", key)


def _check_ports(ports: Sequence[Raw], field: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{field}[{index}]"
        if name := port.get("name"):
            for fault in common.port_name_faults(name):
                yield invalid(f"{where}.name", name, fault)
            if name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            yield required(f"{where}.containerPort")
        else:
            yield from common.check_port_number(number, f"{where}.containerPort")
        if port.get("hostPort"):
            yield from common.check_port_number(port["hostPort"], f"{where}.hostPort")
        yield from common.check_one_of(port.get("protocol"), ("SCTP", "TCP", "UDP"), f"{where}.protocol")


def _check_environment(variables: Sequence[Raw], field: str) -> Iterator[Cause]:
    for index, variable in enumerate(variables):
        where, name = f"{field}[{index}]", variable.get("name", "")
        if not name:
            yield required(f"{where}.name")
        elif not _VARIABLE_NAME.match(name):
            yield invalid(f"{where}.name", name, _VARIABLE_NAME_TEXT)
        source = variable.get("valueFrom")
        if source is None:
            continue
        if variable.get("value"):
            yield invalid(f"{where}.valueFrom", "", "may not be specified when `value` is not empty")
        if not source:
            yield invalid(
                f"{where}.valueFrom",
                "",
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            )
        elif len(source) > 1:
            yield invalid(f"{where}.valueFrom", "", "may not have more than one field specified at a time")


def _check_mounts(mounts: Sequence[Raw], volumes: set[Any], field: str) -> Iterator[Cause]:
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        where, name, path = f"{field}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield required(f"{where}.name")
        elif name not in volumes:
            yield _not_found(f"{where}.name", name)
        if not path:
            yield required(f"{where}.mountPath")
        if path in paths:
            yield invalid(f"{where}.mountPath", path, "must be unique")
        paths.add(path)


def _check_resources(resources: Raw, field: str) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, found in (("limits", limits), ("requests", requests)):
        for name, value in sorted(found.items()):
            if "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith("hugepages-"):
                where = f"{field}.{kind}[{name}]"
                yield invalid(where, name, "must be a standard resource type or fully qualified")
                yield invalid(where, name, "must be a standard resource for containers")
            if quantity.is_negative(value):
                yield invalid(f"{field}.{kind}[{name}]", str(value), "must be greater than or equal to 0")
    for name, value in sorted(requests.items()) if limits else ():
        limit = limits.get(name)
        if limit is not None and quantity.parse_quantity(value) > quantity.parse_quantity(limit):
            yield invalid(f"{field}.requests", str(value), f"must be less than or equal to {name} limit of {limit}")


_STANDARD_RESOURCES = {"cpu", "memory", "ephemeral-storage"}


def _check_probe(probe: Raw, field: str, kind: str) -> Iterator[Cause]:
    handlers = [key for key in ("exec", "httpGet", "tcpSocket", "grpc") if probe.get(key) is not None]
    if not handlers:
        yield required(field, "must specify a handler type")
    for extra in handlers[1:]:
        yield forbidden(f"{field}.{extra}", "may not specify more than 1 handler type")
    for key in ("httpGet", "tcpSocket", "grpc"):
        if isinstance(probe.get(key), dict):
            yield from common.check_port_or_name(probe[key].get("port", 0), f"{field}.{key}.port")
    for key in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        yield from common.check_not_negative(probe.get(key), f"{field}.{key}")
    if kind != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        yield invalid(f"{field}.successThreshold", probe["successThreshold"], "must be 1")


def _check_affinity(affinity: Raw, field: str) -> Iterator[Cause]:
    node = object_at(affinity, "nodeAffinity")
    needed = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    where = f"{field}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if needed is not None:
        terms = needed.get("nodeSelectorTerms") or []
        if not terms:
            yield required(where, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _check_node_term(term, f"{where}[{index}]")
    preferred = f"{field}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        yield from _check_weight(term, f"{preferred}[{index}]")
        yield from _check_node_term(object_at(term, "preference"), f"{preferred}[{index}].preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _check_pod_affinity(object_at(affinity, kind), f"{field}.{kind}")


def _check_weight(term: Raw, field: str) -> Iterator[Cause]:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        yield invalid(f"{field}.weight", weight, "must be in the range 1-100")


def _check_node_term(term: Raw, field: str) -> Iterator[Cause]:
    for index, rule in enumerate(term.get("matchExpressions") or ()):
        where, operator, values = f"{field}.matchExpressions[{index}]", rule.get("operator"), rule.get("values") or []
        if operator in ("In", "NotIn") and not values:
            yield required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            yield forbidden(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        elif operator in ("Gt", "Lt") and len(values) != 1:
            yield required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        elif operator not in _OPERATORS:
            yield invalid(f"{where}.operator", operator or "", "not a valid selector operator")
        for fault in qualified_name_faults(rule.get("key", "")):
            yield invalid(f"{where}.key", rule.get("key", ""), fault)


def _check_pod_affinity(affinity: Raw, field: str) -> Iterator[Cause]:
    needed = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(affinity.get(needed) or ()):
        yield from _check_pod_term(term, f"{field}.{needed}[{index}]")
    for index, term in enumerate(affinity.get(preferred) or ()):
        yield from _check_weight(term, f"{field}.{preferred}[{index}]")
        yield from _check_pod_term(object_at(term, "podAffinityTerm"), f"{field}.{preferred}[{index}].podAffinityTerm")


def _check_pod_term(term: Raw, field: str) -> Iterator[Cause]:
    yield from common.check_selector(term.get("labelSelector"), f"{field}.labelSelector")
    yield from common.check_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    key = term.get("topologyKey", "")
    if not key:
        yield required(f"{field}.topologyKey", "can not be empty")
    for fault in qualified_name_faults(key):
        yield invalid(f"{field}.topologyKey", key, fault)


def check_tolerations(tolerations: Sequence[Raw], field: str) -> Iterator[Cause]:
    for index, toleration in enumerate(tolerations):
        where = f"{field}[{index}]"
        key, operator, effect = toleration.get("key", ""), toleration.get("operator", ""), toleration.get("effect", "")
        if key:
            for fault in qualified_name_faults(key):
                yield invalid(f"{where}.key", key, fault)
        elif operator != "Exists":
            yield invalid(
                f"{where}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield invalid(
                f"{where}.effect",
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            )
        if operator == "Exists" and toleration.get("value"):
            yield invalid(f"{where}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
        if operator not in ("", "Equal", "Exists"):
            yield not_supported(f"{where}.operator", operator, ("Equal", "Exists"))
        if effect:
            yield from common.check_one_of(effect, _EFFECTS, f"{where}.effect")


def _check_above_zero(value: int, field: str) -> Iterator[Cause]:
    if value <= 0:
        yield invalid(field, value, "must be greater than zero")


def _check_topology_spread(constraints: Sequence[Raw], field: str) -> Iterator[Cause]:
    pairs = [(c.get("topologyKey", ""), c.get("whenUnsatisfiable", "")) for c in constraints]
    for index, constraint in enumerate(constraints):
        where = f"{field}[{index}]"
        yield from _check_above_zero(constraint.get("maxSkew", 0), f"{where}.maxSkew")
        key, when_unsatisfiable = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if not key:
            yield required(f"{where}.topologyKey", "can not be empty")
        yield from common.check_one_of(
            when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway"), f"{where}.whenUnsatisfiable"
        )
        if (key, when_unsatisfiable) in pairs[index + 1 :]:
            yield duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when_unsatisfiable}}}")
        if constraint.get("minDomains") is not None:
            yield from _check_above_zero(constraint["minDomains"], f"{where}.minDomains")
            if when_unsatisfiable != "DoNotSchedule":
                yield invalid(
                    f"{where}.minDomains",
                    constraint["minDomains"],
                    f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when_unsatisfiable}",
                )
        yield from common.check_selector(constraint.get("labelSelector"), f"{where}.labelSelector")
