"""The order of fields in validation errors."""

from typing import Any

from api.admission.admission_helpers import errors_of
from trimtab.api.value import Raw

POLICIES = "propagationpolicies.policy.karmada.io"


def policy(**spec: Any) -> Raw:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}]
    return {"metadata": {"name": "p", "namespace": "shop"}, "spec": {"resourceSelectors": selectors, **spec}}


def test_error_quotes_the_value_with_fields_in_declared_order() -> None:
    (error,) = errors_of(
        POLICIES,
        policy(placement={"spreadConstraints": [{"minGroups": 3, "maxGroups": 2, "spreadByField": "cluster"}]}),
    )
    assert error == (
        'spec.placement.spreadConstraints[0]: Invalid value: {"spreadByField":"cluster","maxGroups":2,"minGroups":3}: '
        "maxGroups lower than minGroups is not allowed"
    )
