"""Defaulting and validation of Open Cluster Management's kinds."""

from api.admission.admission_helpers import errors_of, with_defaults


def test_set_binding_must_have_the_name_of_its_set() -> None:
    kind = "managedclustersetbindings.cluster.open-cluster-management.io"
    assert errors_of(kind, {"metadata": {"name": "a"}, "spec": {"clusterSet": "a"}}) == []
    assert errors_of(kind, {"metadata": {"name": "a"}, "spec": {"clusterSet": "b"}}) != []


def test_managed_cluster_without_a_set_gets_the_default_set_label() -> None:
    kind = "managedclusters.cluster.open-cluster-management.io"
    label = "cluster.open-cluster-management.io/clusterset"
    assert with_defaults(kind, {"metadata": {"name": "a"}})["metadata"]["labels"] == {label: "default"}
    chosen = {"metadata": {"name": "a", "labels": {label: "mine"}}}
    assert with_defaults(kind, chosen) is chosen
