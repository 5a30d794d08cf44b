"""Defaults of Services, their endpoints and network policies."""

from trimtab.api.kinds.native.defaults.fill import fill_items, fill_member, set_missing
from trimtab.api.kinds.native.defaults.pods import port_with_protocol
from trimtab.api.value import Raw


def service(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = set_missing(spec, type="ClusterIP", sessionAffinity="None")
        if spec["sessionAffinity"] == "ClientIP" and not spec.get("sessionAffinityConfig"):
            spec = {**spec, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}
        if spec["type"] in ("ClusterIP", "NodePort", "LoadBalancer"):
            spec = set_missing(spec, internalTrafficPolicy="Cluster")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            spec = set_missing(spec, externalTrafficPolicy="Cluster")
        if spec["type"] == "LoadBalancer":
            spec = set_missing(spec, allocateLoadBalancerNodePorts=True)
        return fill_items(spec, "ports", service_port)

    def service_port(port: Raw) -> Raw:
        port = set_missing(port, protocol="TCP")
        return port if port.get("targetPort") not in (None, 0, "") else {**port, "targetPort": port.get("port", 0)}

    return fill_member(obj, "spec", fill)


def endpoints(obj: Raw) -> Raw:
    return fill_items(obj, "subsets", lambda subset: fill_items(subset, "ports", port_with_protocol))


def endpoint_slice(obj: Raw) -> Raw:
    return fill_items(obj, "ports", lambda port: set_missing(port, name="", protocol="TCP"))


def network_policy(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        directions = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        spec = set_missing(spec, policyTypes=directions)
        for key in ("ingress", "egress"):
            spec = fill_items(spec, key, lambda rule: fill_items(rule, "ports", port_with_protocol))
        return spec

    return fill_member(obj, "spec", fill)
