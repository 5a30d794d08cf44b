"""Validation of ClusterTaintPolicies."""

from api.admission.admission_helpers import errors_of


def test_no_execute_taints_are_forbidden() -> None:
    spec = {"taints": [{"key": "a", "effect": "NoExecute"}]}
    assert errors_of("clustertaintpolicies.policy.karmada.io", {"spec": spec})[0].startswith(
        "spec.taints[0].effect: Forbidden"
    )
