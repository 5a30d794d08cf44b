"""ResourceRegistries."""

from api.kinds.kind_helpers import decode, schema_error_fields
from trimtab.api.kinds.search import ResourceRegistry


def test_objects_are_cached_in_memory_without_a_backend_store() -> None:
    selectors = [{"apiVersion": "v1", "kind": "Pod"}]
    raw = {"spec": {"targetCluster": {"clusterNames": ["m1"]}, "resourceSelectors": selectors}}
    spec = decode(ResourceRegistry, raw).spec
    assert spec.backend_store is None
    assert spec.target_cluster.cluster_names == ("m1",)
    assert spec.resource_selectors[0].namespace == ""


def test_clusters_and_selectors_are_required() -> None:
    assert sorted(schema_error_fields(ResourceRegistry, {"spec": {}})) == [
        "spec.resourceSelectors",
        "spec.targetCluster",
    ]
