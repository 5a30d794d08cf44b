"""ManagedCluster, its sets, set bindings and claims."""

from api.kinds.kind_helpers import decode, schema_error_fields, with_schema_defaults
from trimtab.api.kinds.ocm_clusters import ClusterClaim, ManagedCluster, ManagedClusterSet


def test_lease_duration_and_selector_type_have_defaults() -> None:
    assert with_schema_defaults(ManagedCluster, {"spec": {}})["spec"]["leaseDurationSeconds"] == 60
    assert with_schema_defaults(ManagedClusterSet, {})["spec"] == {
        "clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}
    }


def test_taint_effects_and_keys_are_limited() -> None:
    taints = [{"key": "a", "effect": "NoSelect"}, {"key": "a b", "effect": "NoSchedule"}]
    assert sorted(schema_error_fields(ManagedCluster, {"spec": {"taints": taints}})) == [
        "spec.taints[1].effect",
        "spec.taints[1].key",
    ]


def test_acceptance_and_claims_are_decoded() -> None:
    assert decode(ManagedCluster, {"spec": {"hubAcceptsClient": True}}).spec.hub_accepts_client
    assert decode(ClusterClaim, {"spec": {"value": "eu"}}).spec.value == "eu"
