"""Validation of FederatedResourceQuotas."""

from api.admission.admission_helpers import errors_of


def test_overall_must_cover_the_static_assignments() -> None:
    spec = {
        "overall": {"cpu": "2"},
        "staticAssignments": [{"clusterName": "m1", "hard": {"cpu": "1500m", "memory": "1Gi"}}] * 2,
    }
    errors = errors_of("federatedresourcequotas.policy.karmada.io", {"metadata": {"name": "q"}, "spec": spec})
    assert len(errors) == 3
    assert errors[-1].startswith("spec.overall.cpu: ")
