"""ClusterTaintPolicies."""

from api.kinds.kind_helpers import decode, schema_error_fields
from trimtab.api.kinds.taint_policy import ClusterTaintPolicy


def test_conditions_and_taints_are_decoded() -> None:
    condition = {"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}
    raw = {"spec": {"addOnConditions": [condition], "taints": [{"key": "down", "effect": "NoSchedule"}]}}
    spec = decode(ClusterTaintPolicy, raw).spec
    assert spec.add_on_conditions[0].status_values == ("False", "Unknown")
    assert spec.remove_on_conditions == ()
    assert spec.target_clusters is None


def test_at_least_one_taint_is_required() -> None:
    assert schema_error_fields(ClusterTaintPolicy, {"spec": {"taints": []}}) == ["spec.taints"]
