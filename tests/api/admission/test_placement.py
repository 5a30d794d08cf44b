"""Validation of placements in propagation policies."""

from typing import Any

from api.admission.admission_helpers import errors_of
from trimtab.api.value import Raw

POLICIES = "propagationpolicies.policy.karmada.io"


def policy(**spec: Any) -> Raw:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}]
    return {"metadata": {"name": "p", "namespace": "shop"}, "spec": {"resourceSelectors": selectors, **spec}}


def test_negative_group_limits_are_rejected_with_the_messages_of_the_webhook() -> None:
    spread = [{"spreadByField": "cluster", "minGroups": -1, "maxGroups": -2}]
    errors = errors_of(POLICIES, policy(placement={"spreadConstraints": spread}))
    assert [text.rpartition(": ")[2] for text in errors] == [
        "minGroups lower than 0 is not allowed",
        "maxGroups lower than 0 is not allowed",
    ]
