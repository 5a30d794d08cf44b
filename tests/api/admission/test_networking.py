"""Validation of MultiClusterServices."""

from api.admission.admission_helpers import errors_of


def test_type_of_a_multi_cluster_service_is_immutable() -> None:
    kind = "multiclusterservices.networking.karmada.io"
    old = {"metadata": {"name": "web"}, "spec": {"types": ["CrossCluster"]}}
    new = {"metadata": {"name": "web"}, "spec": {"types": ["LoadBalancer"]}}
    assert errors_of(kind, old) == []
    assert errors_of(kind, new, old) != []
