"""Multi-cluster services and ingresses."""

from api.kinds.kind_helpers import decode, reencode, schema_error_fields, with_schema_defaults
from trimtab.api.kinds.networking import MultiClusterIngress, MultiClusterService, ServiceImport


def test_service_types_are_limited() -> None:
    assert schema_error_fields(MultiClusterService, {"spec": {"types": ["CrossCluster"]}}) == []
    assert schema_error_fields(MultiClusterService, {"spec": {"types": ["NodePort"]}}) == ["spec.types[0]"]


def test_imported_ports_default_to_tcp_and_one_address_is_allowed() -> None:
    raw = {"spec": {"type": "ClusterSetIP", "ports": [{"port": 80}]}}
    assert with_schema_defaults(ServiceImport, raw)["spec"]["ports"] == [{"port": 80, "protocol": "TCP"}]
    two = {"spec": {"type": "ClusterSetIP", "ports": [], "ips": ["10.0.0.1", "10.0.0.2"]}}
    assert schema_error_fields(ServiceImport, two) == ["spec.ips"]


def test_ingress_spec_is_kept_as_written() -> None:
    raw = {"metadata": {"name": "web"}, "spec": {"rules": [{"host": "a.example", "http": {"paths": []}}]}}
    assert decode(MultiClusterIngress, raw).spec == raw["spec"]
    assert reencode(MultiClusterIngress, raw)["spec"] == raw["spec"]
