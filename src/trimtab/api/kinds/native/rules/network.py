"""What kube-apiserver rejects in Services, Ingresses, IngressClasses and NetworkPolicies."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from trimtab.api.field_errors import duplicate, forbidden, format_value, invalid, not_supported, required
from trimtab.api.kinds.native.rules import common
from trimtab.api.names import label_faults, subdomain_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def check_service(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    found: list[Cause] = []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        found.append(required("spec.ports"))
    found += _check_ports(ports)
    found += common.check_labels(spec.get("selector"), "spec.selector")
    found += common.check_one_of(spec.get("sessionAffinity"), ("ClientIP", "None"), "spec.sessionAffinity")
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    if kind not in kinds:
        found.append(not_supported("spec.type", kind, kinds))
    if kind == "ExternalName":
        found += _check_external_name(spec)
    address = spec.get("clusterIP", "")
    if address not in ("", "None") and not _is_ip_address(address):
        found.append(
            invalid("spec.clusterIPs[0]", address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        )
    if old is None:
        found += _check_new_service(spec, kind)
    if old is not None:
        found += _check_same_cluster_ip(spec, object_at(old, "spec"))
    return found


def _check_new_service(spec: Raw, kind: str) -> Iterator[Cause]:
    policy = spec.get("externalTrafficPolicy")
    if policy and kind not in ("LoadBalancer", "NodePort") and not spec.get("externalIPs"):
        yield invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
    if spec.get("loadBalancerClass") is not None and kind != "LoadBalancer":
        yield forbidden("spec.loadBalancerClass", "may only be used when `type` is 'LoadBalancer'")
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family in families[:index]:
            yield duplicate(f"spec.ipFamilies[{index}]", family)


def _check_same_cluster_ip(spec: Raw, old_spec: Raw) -> Iterator[Cause]:
    old_ip, new_ip = old_spec.get("clusterIP", ""), spec.get("clusterIP", "")
    if "ExternalName" not in (spec.get("type"), old_spec.get("type")) and old_ip and new_ip and old_ip != new_ip:
        yield invalid("spec.clusterIPs[0]", [new_ip], "may not change once set")


def _is_ip_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_external_name(spec: Raw) -> Iterator[Cause]:
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        yield required("spec.externalName")
    for fault in subdomain_faults(name) if name else ():
        yield invalid("spec.externalName", name, fault)
    if spec.get("clusterIP"):
        yield forbidden("spec.clusterIPs[0]", "may not be set for ExternalName services")


def _check_ports(ports: Sequence[Raw]) -> Iterator[Cause]:
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
        yield from common.check_port_number(port.get("port", 0), f"{field}.port")
        yield from common.check_one_of(port.get("protocol"), ("SCTP", "TCP", "UDP"), f"{field}.protocol")
        yield from common.check_port_or_name(port.get("targetPort", 0), f"{field}.targetPort")
    yield from common.check_unique([(_go_port(port), f"spec.ports[{index}]") for index, port in enumerate(ports)])


def _go_port(port: Raw) -> Raw:
    """The fields that make a port distinct, under their Go names, as kube-apiserver formats them in the error."""
    distinct = {"Protocol": port.get("protocol", ""), "AppProtocol": None, "Port": port.get("port", 0)}
    return {"Name": "", **distinct, "TargetPort": 0, "NodePort": 0}


def check_ingress(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found: list[Cause] = []
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        text = "either `defaultBackend` or `rules` must be specified"
        return [invalid("spec", None, text)]
    if spec.get("defaultBackend") is not None:
        found += _check_backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        found += _check_ingress_rule(rule, f"spec.rules[{index}]")
    return found


def _check_ingress_rule(rule: Raw, field: str) -> Iterator[Cause]:
    host = rule.get("host", "")
    if host and _is_ip_address(host):
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
        yield from _check_ingress_path(path, f"{field}.http.paths[{index}]")


def _check_ingress_path(path: Raw, field: str) -> Iterator[Cause]:
    kind, text = path.get("pathType"), path.get("path", "")
    if not kind:
        yield required(f"{field}.pathType", "pathType must be specified")
        return
    if not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(f"{field}.path", text, "must be an absolute path")
    yield from common.check_one_of(kind, ("Exact", "ImplementationSpecific", "Prefix"), f"{field}.pathType")
    yield from _check_backend(object_at(path, "backend"), f"{field}.backend")


def _check_backend(backend: Raw, field: str) -> Iterator[Cause]:
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
    port = object_at(target, "port")
    if port.get("name") and port.get("number"):
        yield invalid(f"{field}.service.port", "", "cannot set both port name & port number")
    elif port.get("name"):
        yield from common.check_port_or_name(port["name"], f"{field}.service.port.name")
    elif port.get("number"):
        yield from common.check_port_number(port["number"], f"{field}.service.port.number")
    else:
        yield required(field, "port name or number is required")


def check_ingress_class(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    controller, found = spec.get("controller", ""), list[Cause]()
    host, _, path = controller.partition("/")
    if not controller:
        found.append(required("spec.controller"))
    elif not host or not path:
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        found.append(invalid("spec.controller", controller, text))
    else:
        found += [invalid("spec.controller", host, fault) for fault in subdomain_faults(host)]
    if (parameters := spec.get("parameters")) is not None:
        found += _check_class_parameters(parameters, "spec.parameters")
    if old is not None and object_at(old, "spec").get("controller", "") != controller:
        found.append(invalid("spec.controller", controller, common.IMMUTABLE))
    return found


def _check_class_parameters(parameters: Raw, field: str) -> Iterator[Cause]:
    for name in ("kind", "name"):
        if not parameters.get(name):
            yield required(f"{field}.{name}", f"{name} is required")
    scope, namespace = parameters.get("scope") or "Cluster", parameters.get("namespace")
    yield from common.check_one_of(scope, ("Cluster", "Namespace"), f"{field}.scope")
    if scope == "Namespace" and not namespace:
        yield required(f"{field}.namespace", "`parameters.scope` is set to 'Namespace'")
    if scope == "Cluster" and namespace is not None:
        yield forbidden(f"{field}.namespace", "`parameters.scope` is set to 'Cluster'")


def check_network_policy(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found = [*common.check_selector(spec.get("podSelector"), "spec.podSelector")]
    for part, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(part) or ()):
            field = f"spec.{part}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                found += _check_policy_port(port, f"{field}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                found += _check_policy_peer(peer, f"{field}.{peers}[{number}]")
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        text = "Invalid value: []networking.PolicyType{%s}: may not specify more than two policyTypes"
        listed = ", ".join(format_value(one) for one in types)
        return [*found, Cause("FieldValueInvalid", text % listed, "spec.policyTypes")]
    for index, one in enumerate(types):
        found += common.check_one_of(one, ("Egress", "Ingress"), f"spec.policyTypes[{index}]")
    return found


def _check_policy_port(port: Raw, field: str) -> Iterator[Cause]:
    yield from common.check_one_of(port.get("protocol", "TCP"), ("TCP", "UDP", "SCTP"), f"{field}.protocol")
    first, last = port.get("port"), port.get("endPort")
    if first is not None:
        yield from common.check_port_or_name(first, f"{field}.port")
    if last is None:
        return
    if not isinstance(first, int):
        why = "is not specified" if first is None else "is non-numeric"
        yield invalid(f"{field}.endPort", last, f"may not be specified when `port` {why}")
        return
    if last < first:
        yield invalid(f"{field}.endPort", first, "must be greater than or equal to `port`")
    yield from common.check_port_number(last, f"{field}.endPort")


def _check_policy_peer(peer: Raw, field: str) -> Iterator[Cause]:
    block = peer.get("ipBlock")
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in selectors:
        yield from common.check_selector(peer[name], f"{field}.{name}")
    if block is not None:
        yield from _check_ip_block(block, f"{field}.ipBlock")
    if block is None and not selectors:
        yield required(field, "must specify a peer")
    elif block is not None and selectors:
        yield forbidden(field, "may not specify both ipBlock and another peer")


def _check_ip_block(block: Raw, field: str) -> Iterator[Cause]:
    text = block.get("cidr", "")
    if not text:
        yield required(f"{field}.cidr")
        return
    whole = _network(text)
    if whole is None:
        yield invalid(f"{field}.cidr", text, _CIDR_TEXT)
        return
    for index, exception in enumerate(block.get("except") or ()):
        part = _network(exception)
        if part is None:
            yield invalid(f"{field}.except[{index}]", exception, _CIDR_TEXT)
        elif part.version != whole.version or part == whole or not _is_within(part, whole):
            yield invalid(f"{field}.except[{index}]", exception, "must be a strict subset of `cidr`")


def _is_within(part: IPv4Network | IPv6Network, whole: IPv4Network | IPv6Network) -> bool:
    return whole.prefixlen <= part.prefixlen and part.network_address in whole


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None
