"""Remedies."""

from api.kinds.kind_helpers import decode, schema_error_fields
from trimtab.api.kinds.remedy import Remedy


def test_conditions_and_actions_are_decoded() -> None:
    match = {"conditionType": "ServiceDomainNameResolutionReady", "operator": "Equal", "conditionStatus": "False"}
    raw = {"spec": {"decisionMatches": [{"clusterConditionMatch": match}], "actions": ["TrafficControl"]}}
    spec = decode(Remedy, raw).spec
    condition = spec.decision_matches[0].cluster_condition_match
    assert condition is not None
    assert condition.condition_status == "False"
    assert spec.actions == ("TrafficControl",)
    assert schema_error_fields(Remedy, raw) == []


def test_unknown_actions_are_rejected() -> None:
    assert schema_error_fields(Remedy, {"spec": {"actions": ["Restart"]}}) == ["spec.actions[0]"]
