"""FederatedResourceQuotas."""

from api.kinds.kind_helpers import decode, schema_error_fields
from trimtab.api.kinds.quota import FederatedResourceQuota


def test_amounts_may_be_numbers_or_quantities() -> None:
    assignment = {"clusterName": "m1", "hard": {"cpu": 1}}
    spec = decode(FederatedResourceQuota, {"spec": {"overall": {"cpu": "2"}, "staticAssignments": [assignment]}}).spec
    assert spec.overall == {"cpu": "2"}
    assert spec.static_assignments[0].hard == {"cpu": 1}


def test_invalid_quantities_are_rejected() -> None:
    assert schema_error_fields(FederatedResourceQuota, {"spec": {"overall": {"cpu": "2"}}}) == []
    assert schema_error_fields(FederatedResourceQuota, {"spec": {"overall": {"cpu": "many"}}}) == ["spec.overall.cpu"]
