"""FederatedHPA and CronFederatedHPA."""

from api.kinds.kind_helpers import decode, schema_error_fields, with_schema_defaults
from trimtab.api.kinds.autoscaling import CronFederatedHPA, FederatedHPA

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def test_cron_rule_gets_history_limits_by_default() -> None:
    raw = {"spec": {"scaleTargetRef": TARGET, "rules": [{"name": "night", "schedule": "0 3 * * *"}]}}
    (rule,) = with_schema_defaults(CronFederatedHPA, raw)["spec"]["rules"]
    assert (rule["suspend"], rule["successfulHistoryLimit"], rule["failedHistoryLimit"]) == (False, 3, 3)


def test_cron_rule_names_are_limited_to_32_characters() -> None:
    rules = [{"name": "x" * 33, "schedule": "0 3 * * *"}]
    raw = {"spec": {"scaleTargetRef": TARGET, "rules": rules}}
    assert schema_error_fields(CronFederatedHPA, raw) == ["spec.rules[0].name"]


def test_metrics_are_kept_as_written() -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu"}}
    hpa = decode(FederatedHPA, {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, "metrics": [metric]}})
    assert hpa.spec.metrics == (metric,)
    assert hpa.spec.min_replicas is None
