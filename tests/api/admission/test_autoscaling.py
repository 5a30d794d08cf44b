"""Validation of CronFederatedHPAs."""

from typing import Any

from api.admission.admission_helpers import errors_of


def test_rule_fields_must_fit_the_kind_of_the_scale_target() -> None:
    def cron(kind: str, **rule: Any) -> list[str]:
        spec = {
            "scaleTargetRef": {"kind": kind, "name": "x"},
            "rules": [{"name": "a", "schedule": "0 8 * * *", **rule}],
        }
        return errors_of("cronfederatedhpas.autoscaling.karmada.io", {"spec": spec})

    assert cron("Deployment", targetReplicas=1) == []
    assert len(cron("Deployment")) == 1
    assert len(cron("FederatedHPA", targetMinReplicas=3, targetMaxReplicas=2)) == 1
    assert len(cron("Deployment", targetReplicas=1, schedule="daily", timeZone="Nowhere/Land")) == 2
