"""CronFederatedHPA: sets the replicas of a template, or the limits of a FederatedHPA, by schedule."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.cron import next_time
from trimtab.api.kinds.autoscaling import (
    CronFederatedHPA,
    CronFederatedHPARule,
    ExecutionHistory,
    FailedExecution,
    FederatedHPA,
    SuccessfulExecution,
)
from trimtab.controllers import well_known
from trimtab.controllers.contract import Effect, Ensure, RecordEvent, Ref, RequeueAfter, View, controller, spec_changed

SOURCE = "cronfederatedhpa-controller"
MAX_ATTEMPTS = 3
"""A write that fails so often is recorded as a failed execution."""
LATE = timedelta(minutes=1)
"""A rule that is due longer than this was missed while no control plane ran."""


class Execution(NamedTuple):
    """What a rule does when it is due: effects, or the reason why it cannot."""

    effects: tuple[Effect, ...] = ()
    fault: str = ""


@controller(CronFederatedHPA, writes=["status", "FederatedHPA.spec"], predicate=spec_changed)
def cron_federated_hpa(cron: CronFederatedHPA, view: View) -> Iterator[Effect]:
    if cron.metadata.deletion_timestamp is not None:
        return
    known = {history.rule_name: history for history in cron.status.execution_histories}
    histories = []
    for rule in cron.spec.rules:
        history = known.get(rule.name, ExecutionHistory(rule_name=rule.name))
        due = history.next_execution_time if is_due(rule, history, view.now) else None
        if due is not None and (view.now - due < LATE or view.profile.run_missed_schedules):
            execution = execute(cron, rule, view)
            yield from execution.effects
            history = record(history, rule, due, execution.fault, view.now)
            if execution.fault:
                yield RecordEvent(well_known.ref_of(cron), "ScaleFailed", execution.fault, SOURCE, "Warning")
        histories.append(history.but(next_execution_time=next_execution(rule, history, view.now)))
    status = cron.status.but(execution_histories=tuple(histories))
    if status != cron.status:
        yield cron.but(status=status)
    times = [one.next_execution_time for one in histories if one.next_execution_time is not None]
    if times:
        yield RequeueAfter(max(0.0, (min(times) - view.now).total_seconds()))


def is_due(rule: CronFederatedHPARule, history: ExecutionHistory, now: datetime) -> bool:
    due = history.next_execution_time
    return not rule.suspend and due is not None and due <= now and is_on_schedule(rule, due)


def is_on_schedule(rule: CronFederatedHPARule, moment: datetime) -> bool:
    """Whether the rule runs at this time; not so when its schedule was changed since the time was computed."""
    return next_time(rule.schedule, rule.time_zone or "", moment - timedelta(seconds=1)) == moment


def next_execution(rule: CronFederatedHPARule, history: ExecutionHistory, now: datetime) -> datetime | None:
    """When the rule runs next; never while it is suspended."""
    if rule.suspend:
        return None
    planned = history.next_execution_time
    if planned is not None and planned > now and is_on_schedule(rule, planned):
        return planned
    return next_time(rule.schedule, rule.time_zone or "", now)


def execute(cron: CronFederatedHPA, rule: CronFederatedHPARule, view: View) -> Execution:
    if view.fault is not None and view.fault.attempts >= MAX_ATTEMPTS:
        return Execution(fault=view.fault.message)
    target = cron.spec.scale_target_ref
    if target.api_version == "autoscaling.karmada.io/v1alpha1":
        return scale_limits(cron, rule, view)
    template = view.raw(Ref(target.api_version, target.kind, cron.namespace, target.name))
    if template is None:
        return Execution(fault=f"{target.kind} {target.name} does not exist in the namespace {cron.namespace}")
    if template["spec"].get("replicas") == rule.target_replicas:
        return Execution()
    scaled = {**template, "spec": {**template["spec"], "replicas": rule.target_replicas}}
    return Execution((Ensure(scaled, seen=template),))


def scale_limits(cron: CronFederatedHPA, rule: CronFederatedHPARule, view: View) -> Execution:
    target = cron.spec.scale_target_ref
    if target.kind != "FederatedHPA":
        return Execution(fault=f"{target.kind} of {target.api_version} cannot be scaled")
    autoscaler = view.get(FederatedHPA, cron.namespace, target.name)
    if autoscaler is None:
        return Execution(fault=f'federatedhpas.autoscaling.karmada.io "{target.name}" not found')
    spec = autoscaler.spec
    if rule.target_min_replicas is not None:
        spec = spec.but(min_replicas=rule.target_min_replicas)
    if rule.target_max_replicas is not None:
        spec = spec.but(max_replicas=rule.target_max_replicas)
    return Execution((autoscaler.but(spec=spec),) if spec != autoscaler.spec else ())


def record(
    history: ExecutionHistory, rule: CronFederatedHPARule, due: datetime, fault: str, now: datetime
) -> ExecutionHistory:
    """The history with this execution first; older ones are dropped beyond the limits of the rule."""
    now = now.replace(microsecond=0)
    if fault:
        failed = FailedExecution(schedule_time=due, execution_time=now, message=fault)
        kept = (failed, *history.failed_executions)[: rule.failed_history_limit]
        return history.but(failed_executions=kept)
    done = SuccessfulExecution(
        schedule_time=due,
        execution_time=now,
        applied_replicas=rule.target_replicas,
        applied_min_replicas=rule.target_min_replicas,
        applied_max_replicas=rule.target_max_replicas,
    )
    return history.but(successful_executions=(done, *history.successful_executions)[: rule.successful_history_limit])
