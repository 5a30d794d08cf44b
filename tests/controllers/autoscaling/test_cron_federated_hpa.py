"""Rules that set replicas by schedule, and their history."""

from datetime import timedelta
from typing import Any

import msgspec
from builders import NOON, deployment
from views import FakeView

from trimtab.api.kinds.autoscaling import CronFederatedHPA, FederatedHPA
from trimtab.api.profile import UPSTREAM
from trimtab.controllers.autoscaling.cron_federated_hpa import cron_federated_hpa
from trimtab.controllers.contract import Ensure, ReconcileFault, RecordEvent, RequeueAfter

MINUTE = timedelta(minutes=1)


def cron(target: str = "Deployment", version: str = "apps/v1", next_run: Any = None, **rule: Any) -> CronFederatedHPA:
    rules = [{"name": "up", "schedule": "*/1 * * * *", **rule}]
    history = [{"ruleName": "up", "nextExecutionTime": next_run.isoformat()}] if next_run else []
    return msgspec.convert(
        {
            "metadata": {"namespace": "demo", "name": "c"},
            "spec": {"scaleTargetRef": {"apiVersion": version, "kind": target, "name": "web"}, "rules": rules},
            "status": {"executionHistories": history},
        },
        CronFederatedHPA,
        strict=False,
    )


def run(subject: CronFederatedHPA, *objects: Any, **options: Any) -> tuple[list[Any], CronFederatedHPA]:
    effects = list(cron_federated_hpa(subject, FakeView([subject, *objects], **options)))
    return effects, next((one for one in effects if isinstance(one, CronFederatedHPA)), subject)


def test_a_new_rule_is_planned_and_not_run() -> None:
    effects, after = run(cron(targetReplicas=5), raws=[deployment("web", 3)])
    assert [one for one in effects if isinstance(one, Ensure)] == []
    assert after.status.execution_histories[0].next_execution_time == NOON + MINUTE
    assert RequeueAfter(60.0) in effects


def test_a_due_rule_scales_and_is_recorded() -> None:
    effects, after = run(cron(next_run=NOON, targetReplicas=5), raws=[deployment("web", 3)])
    (scaled,) = (one for one in effects if isinstance(one, Ensure))
    assert scaled.wanted["spec"]["replicas"] == 5
    (history,) = after.status.execution_histories
    assert history.successful_executions[0].applied_replicas == 5
    assert history.successful_executions[0].schedule_time == NOON
    assert history.next_execution_time == NOON + MINUTE


def test_a_suspended_rule_has_no_next_time() -> None:
    effects, after = run(cron(next_run=NOON, targetReplicas=5, suspend=True), raws=[deployment("web", 3)])
    assert [type(one) for one in effects] == [CronFederatedHPA]
    assert after.status.execution_histories[0].next_execution_time is None


def test_a_changed_schedule_is_planned_again() -> None:
    subject = cron(next_run=NOON - MINUTE, targetReplicas=5, schedule="30 * * * *")
    effects, after = run(subject, raws=[deployment("web", 3)])
    assert not any(isinstance(one, Ensure) for one in effects)
    assert after.status.execution_histories[0].next_execution_time == NOON + 30 * MINUTE


def test_a_missing_target_and_a_failing_write_are_recorded_as_failures() -> None:
    effects, after = run(cron(next_run=NOON, targetReplicas=5))
    assert "does not exist" in after.status.execution_histories[0].failed_executions[0].message
    assert any(isinstance(one, RecordEvent) and one.reason == "ScaleFailed" for one in effects)
    fault = ReconcileFault(409, "Conflict", "no luck", "", 3)
    _, after = run(cron(next_run=NOON, targetReplicas=5), raws=[deployment("web", 3)], fault=fault)
    assert after.status.execution_histories[0].failed_executions[0].message == "no luck"


def test_limits_of_a_federated_hpa_are_set() -> None:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 5}
    autoscaler = msgspec.convert({"metadata": {"namespace": "demo", "name": "web"}, "spec": spec}, FederatedHPA)
    subject = cron("FederatedHPA", "autoscaling.karmada.io/v1alpha1", NOON, targetMinReplicas=2, targetMaxReplicas=9)
    effects, _ = run(subject, autoscaler)
    (scaled,) = (one for one in effects if isinstance(one, FederatedHPA))
    assert (scaled.spec.min_replicas, scaled.spec.max_replicas) == (2, 9)


def test_a_missed_rule_runs_late_in_our_profile_only() -> None:
    subject = cron(next_run=NOON - 5 * MINUTE, targetReplicas=5)
    effects, _ = run(subject, raws=[deployment("web", 3)])
    assert any(isinstance(one, Ensure) for one in effects)
    effects, after = run(subject, raws=[deployment("web", 3)], profile=UPSTREAM)
    assert not any(isinstance(one, Ensure) for one in effects)
    assert after.status.execution_histories[0].next_execution_time == NOON + MINUTE


def test_history_is_limited() -> None:
    subject = cron(next_run=NOON, targetReplicas=5, successfulHistoryLimit=1)
    _, once = run(subject, raws=[deployment("web", 3)])
    later = FakeView([once], now=NOON + MINUTE, raws=[deployment("web", 5)])
    twice = next(one for one in cron_federated_hpa(once, later) if isinstance(one, CronFederatedHPA))
    (execution,) = twice.status.execution_histories[0].successful_executions
    assert execution.schedule_time == NOON + MINUTE
