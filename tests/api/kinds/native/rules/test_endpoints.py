"""Endpoints and EndpointSlices; the texts are those of kube-apiserver 1.32."""

from typing import Any

import pytest

from api.kinds.native.native_validation import validation_error
from trimtab.api.value import Raw

METADATA: Raw = {"name": "e"}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def slice_error(old: Raw | None = None, **fields: Any) -> str:
    new = {"metadata": METADATA, "addressType": "IPv4", "endpoints": [], **fields}
    return validation_error("discovery.k8s.io/v1", "EndpointSlice", new, old)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}, ""),
        ({"endpoints": [{"addresses": ["127.0.0.1"]}]}, ""),
        ({"addressType": ""}, "addressType: Required value"),
        (
            {"addressType": "Mac"},
            'addressType: Unsupported value: "Mac": supported values: "FQDN", "IPv4", "IPv6"',
        ),
        (
            {"endpoints": [{"addresses": []}]},
            "endpoints[0].addresses: Required value: must contain at least 1 address",
        ),
        (
            {"addressType": "IPv6", "endpoints": [{"addresses": ["1.2.3.4"]}]},
            'endpoints[0].addresses[0]: Invalid value: "1.2.3.4": must be a valid IPv6 address',
        ),
        (
            {"addressType": "FQDN", "endpoints": [{"addresses": ["A_b"]}]},
            f'endpoints[0].addresses[0]: Invalid value: "A_b": {SUBDOMAIN}',
        ),
        (
            {"endpoints": [{"addresses": ["1.2.3.4"], "nodeName": "A_"}]},
            f'endpoints[0].nodeName: Invalid value: "A_": {SUBDOMAIN}',
        ),
        (
            {"endpoints": [{"addresses": ["1.2.3.4"], "hostname": "A.b"}]},
            f'endpoints[0].hostname: Invalid value: "A.b": {LABEL}',
        ),
        (
            {"endpoints": [{"addresses": ["1.2.3.4"], "hints": {"forZones": [{"name": "a"}, {"name": "a"}]}}]},
            'endpoints[0].hints.forZones[1].name: Duplicate value: "a"',
        ),
        ({"ports": [{"name": "a"}, {"name": "a"}]}, 'ports[1].name: Duplicate value: "a"'),
        ({"ports": [{"name": "UP"}]}, f'ports[0].name: Invalid value: "UP": {LABEL}'),
        (
            {"ports": [{"protocol": "X"}]},
            'ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
        ),
    ],
)
def test_slices_are_checked(fields: Raw, error: str) -> None:
    assert slice_error(**fields) == error


def test_text_that_is_no_address_is_refused_in_slices() -> None:
    field = 'endpoints[0].addresses[0]: Invalid value: "x"'
    wanted = f"[{field}: must be a valid IPv4 address, {field}: must be a valid IP address]"
    assert slice_error(endpoints=[{"addresses": ["x"]}]) == wanted
    many = [{"addresses": [f"10.0.0.{number}" for number in range(101)]}]
    assert slice_error(endpoints=many) == "endpoints[0].addresses: Too many: 101: must have at most 100 items"


def test_address_type_of_a_slice_does_not_change() -> None:
    old = {"metadata": METADATA, "addressType": "IPv6", "endpoints": []}
    assert slice_error(old) == 'addressType: Invalid value: "IPv4": field is immutable'


@pytest.mark.parametrize(
    ("subset", "error"),
    [
        ({"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 80}]}, ""),
        ({"ports": [{"port": 1}]}, ": Required value: must specify `addresses` or `notReadyAddresses`"),
        (
            {"addresses": [{"ip": "0.0.0.0"}]},
            '.addresses[0].ip: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)',
        ),
        (
            {"addresses": [{"ip": "169.254.1.1"}]},
            (
                '.addresses[0].ip: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, '
                "fe80::/10)"
            ),
        ),
        (
            {"addresses": [{"ip": "224.0.0.1"}]},
            (
                '.addresses[0].ip: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, '
                "ff02::/10)"
            ),
        ),
        (
            {"addresses": [{"ip": "1.2.3.4", "hostname": "A_"}]},
            f'.addresses[0].hostname: Invalid value: "A_": {LABEL}',
        ),
        (
            {"addresses": [{"ip": "1.2.3.4", "nodeName": "A_"}]},
            f'.addresses[0].nodeName: Invalid value: "A_": {SUBDOMAIN}',
        ),
        (
            {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 0}]},
            ".ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 1, "name": "a"}, {"port": 2}]},
            ".ports[1].name: Required value",
        ),
        (
            {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 1, "name": "A_"}]},
            f'.ports[0].name: Invalid value: "A_": {LABEL}',
        ),
        (
            {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 1, "protocol": "X"}]},
            '.ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
        ),
    ],
)
def test_endpoints_are_checked(subset: Raw, error: str) -> None:
    new = {"metadata": METADATA, "subsets": [subset]}
    assert validation_error("v1", "Endpoints", new) == (error and f"subsets[0]{error}")
    assert validation_error("v1", "Endpoints", new, new) == ""


def test_text_that_is_no_address_is_refused_in_endpoints() -> None:
    field = 'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address'
    new = {"metadata": METADATA, "subsets": [{"addresses": [{"ip": "x"}]}]}
    assert validation_error("v1", "Endpoints", new) == f"[{field}, (e.g. 10.9.8.7 or 2001:db8::ffff), {field}]"
