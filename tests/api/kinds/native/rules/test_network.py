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
