from typing import Any

import pytest

from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

SERVICE: Raw = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
INGRESS: Raw = {
    "metadata": {"name": "i"},
    "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}},
}
BACKEND: Raw = {"service": {"name": "s", "port": {"number": 80}}}


def test_valid_service_is_accepted_on_create_and_update() -> None:
    assert validation_error("v1", "Service", SERVICE) == ""
    assert validation_error("v1", "Service", SERVICE, SERVICE) == ""


def test_valid_ingress_is_accepted_on_create_and_update() -> None:
    assert validation_error("networking.k8s.io/v1", "Ingress", INGRESS) == ""
    assert validation_error("networking.k8s.io/v1", "Ingress", INGRESS, INGRESS) == ""


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        (
            "type",
            "Mesh",
            (
                'spec.type: Unsupported value: "Mesh": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
                '"NodePort"'
            ),
        ),
        ("ports", [], "spec.ports: Required value"),
        (
            "ports",
            [{"port": 0, "targetPort": 80}],
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            "clusterIP",
            "x",
            'spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        ),
    ],
)
def test_invalid_service_fields_are_rejected(field: str, value: object, error: str) -> None:
    assert validation_error("v1", "Service", with_change(SERVICE, "spec", field, to=value)) == error


def test_headless_service_needs_no_ports() -> None:
    assert validation_error("v1", "Service", {"metadata": {"name": "s"}, "spec": {"clusterIP": "None"}}) == ""


def test_several_ports_need_distinct_names() -> None:
    unnamed = with_change(SERVICE, "spec", "ports", to=[{"port": 80}, {"port": 81}])
    assert validation_error("v1", "Service", unnamed) == (
        "[spec.ports[0].name: Required value, spec.ports[1].name: Required value]"
    )
    same = with_change(SERVICE, "spec", "ports", to=[{"port": 80, "name": "a"}, {"port": 81, "name": "a"}])
    assert validation_error("v1", "Service", same) == 'spec.ports[1].name: Duplicate value: "a"'


def test_cluster_ip_may_not_change() -> None:
    old, new = (with_change(SERVICE, "spec", "clusterIP", to=address) for address in ("10.0.0.1", "10.0.0.2"))
    assert validation_error("v1", "Service", new, old) == (
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'
    )


def test_external_name_service_needs_a_name_and_no_cluster_ip() -> None:
    service = {"metadata": {"name": "s"}, "spec": {"type": "ExternalName", "clusterIP": "10.0.0.1"}}
    assert validation_error("v1", "Service", service) == (
        "[spec.externalName: Required value, spec.clusterIPs[0]: Forbidden: may not be set for ExternalName services]"
    )


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({}, "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
        (
            {"defaultBackend": {}},
            'spec.defaultBackend: Invalid value: "": resource or service backend is required',
        ),
        (
            {"rules": [{"host": "10.0.0.1"}]},
            'spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
        ),
        (
            {"rules": [{"http": {"paths": [{"path": "/", "backend": BACKEND}]}}]},
            "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
        ),
        (
            {"rules": [{"http": {"paths": [{"path": "x", "pathType": "Prefix", "backend": BACKEND}]}}]},
            'spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path',
        ),
    ],
)
def test_invalid_ingress_is_rejected(spec: Raw, error: str) -> None:
    assert validation_error("networking.k8s.io/v1", "Ingress", {"metadata": {"name": "i"}, "spec": spec}) == error


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("externalTrafficPolicy", "Local", "may only be set for externally-accessible services"),
        ("loadBalancerClass", "x/y", "may only be used when `type` is 'LoadBalancer'"),
        ("ipFamilies", ["IPv4", "IPv4"], 'spec.ipFamilies[1]: Duplicate value: "IPv4"'),
    ],
)
def test_field_of_another_type_of_service_is_refused_at_creation(field: str, value: object, error: str) -> None:
    service = with_change(SERVICE, "spec", field, to=value)
    assert error in validation_error("v1", "Service", service)
    assert validation_error("v1", "Service", service, service) == ""


def policy_error(**spec: Any) -> str:
    policy = {"metadata": {"name": "p"}, "spec": {"podSelector": {}, **spec}}
    return validation_error("networking.k8s.io/v1", "NetworkPolicy", policy)


@pytest.mark.parametrize(
    ("port", "error"),
    [
        ({"port": 80, "endPort": 90, "protocol": "UDP"}, ""),
        ({"port": "http"}, ""),
        ({"endPort": 80}, "endPort: Invalid value: 80: may not be specified when `port` is not specified"),
        (
            {"port": "http", "endPort": 80},
            "endPort: Invalid value: 80: may not be specified when `port` is non-numeric",
        ),
        ({"port": 80, "endPort": 79}, "endPort: Invalid value: 80: must be greater than or equal to `port`"),
        ({"port": 80, "endPort": 65536}, "endPort: Invalid value: 65536: must be between 1 and 65535, inclusive"),
        ({"port": 0}, "port: Invalid value: 0: must be between 1 and 65535, inclusive"),
        ({"protocol": "ICMP"}, 'protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"'),
    ],
)
def test_ports_of_network_policies_are_checked(port: Raw, error: str) -> None:
    assert policy_error(egress=[{"ports": [port]}]) == (error and f"spec.egress[0].ports[0].{error}")


@pytest.mark.parametrize(
    ("peer", "error"),
    [
        ({"podSelector": {}, "namespaceSelector": {}}, ""),
        ({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, ""),
        ({}, ": Required value: must specify a peer"),
        (
            {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}},
            ": Forbidden: may not specify both ipBlock and another peer",
        ),
        ({"ipBlock": {"cidr": ""}}, ".ipBlock.cidr: Required value"),
        (
            {"ipBlock": {"cidr": "10.0.0.0"}},
            '.ipBlock.cidr: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)',
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}},
            '.ipBlock.except[0]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["2001:db8::/64"]}},
            '.ipBlock.except[0]: Invalid value: "2001:db8::/64": must be a strict subset of `cidr`',
        ),
    ],
)
def test_peers_of_network_policies_are_checked(peer: Raw, error: str) -> None:
    assert policy_error(ingress=[{"from": [peer]}]) == (error and f"spec.ingress[0].from[0]{error}")


def test_types_of_network_policies_are_checked() -> None:
    assert policy_error(policyTypes=["Ingress", "Egress"]) == ""
    unknown = 'spec.policyTypes[0]: Unsupported value: "Both": supported values: "Egress", "Ingress"'
    assert policy_error(policyTypes=["Both"]) == unknown
    assert "may not specify more than two policyTypes" in policy_error(policyTypes=["Ingress", "Egress", "Ingress"])


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"controller": "example.com/ingress"}, ""),
        ({}, "spec.controller: Required value"),
        (
            {"controller": "x"},
            'spec.controller: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        (
            {"controller": "a.io/b", "parameters": {"kind": "", "name": "b"}},
            "spec.parameters.kind: Required value: kind is required",
        ),
        (
            {"controller": "a.io/b", "parameters": {"kind": "A", "name": "b", "scope": "Namespace"}},
            "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
        ),
        (
            {"controller": "a.io/b", "parameters": {"kind": "A", "name": "b", "scope": "Cluster", "namespace": "x"}},
            "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'",
        ),
        (
            {"controller": "a.io/b", "parameters": {"kind": "A", "name": "b", "scope": "Other"}},
            'spec.parameters.scope: Unsupported value: "Other": supported values: "Cluster", "Namespace"',
        ),
    ],
)
def test_ingress_classes_are_checked(spec: Raw, error: str) -> None:
    assert validation_error("networking.k8s.io/v1", "IngressClass", {"metadata": {"name": "c"}, "spec": spec}) == error


def test_controller_of_an_ingress_class_does_not_change() -> None:
    old, new = ({"metadata": {"name": "c"}, "spec": {"controller": name}} for name in ("a.io/b", "a.io/c"))
    error = 'spec.controller: Invalid value: "a.io/c": field is immutable'
    assert validation_error("networking.k8s.io/v1", "IngressClass", new, old) == error
