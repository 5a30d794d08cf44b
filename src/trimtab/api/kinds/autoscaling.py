"""Karmada's autoscaling over all clusters: FederatedHPA (by metrics) and CronFederatedHPA (by schedule)."""

from datetime import datetime
from typing import Annotated

from trimtab.api.admission.autoscaling import check_cron
from trimtab.api.kind import Column, kind
from trimtab.api.value import Condition, Field, Int32, Int64, Object, Raw, Value, never_omit


class CrossVersionObjectReference(Value):
    kind: Annotated[str, Field("Kind of the scaled object.", required=True)] = never_omit("")
    name: Annotated[str, Field("Name of the scaled object.", required=True)] = never_omit("")
    api_version: Annotated[str, Field("Group and version of the scaled object.")] = ""


class FederatedHPASpec(Value):
    scale_target_ref: Annotated[CrossVersionObjectReference, Field("The object to scale.", required=True)] = never_omit(
        CrossVersionObjectReference()
    )
    min_replicas: Annotated[Int32 | None, Field("The lower limit of replicas; 1 when absent.")] = None
    max_replicas: Annotated[Int32, Field("The upper limit of replicas.", required=True)] = never_omit(0)
    metrics: Annotated[
        tuple[Annotated[Raw, Field(preserve_unknown=True)], ...],
        Field("The metrics to scale by, as in autoscaling/v2.", list_type="atomic"),
    ] = ()
    behavior: Annotated[
        Raw | None, Field("The rates of scaling up and down, as in autoscaling/v2.", preserve_unknown=True)
    ] = None


class FederatedHPAStatus(Value):
    observed_generation: Annotated[Int64 | None, Field("The generation that this status was computed for.")] = None
    last_scale_time: Annotated[datetime | None, Field("When the object was last scaled.")] = None
    current_replicas: Annotated[Int32, Field("The last observed number of replicas.")] = 0
    desired_replicas: Annotated[Int32, Field("The desired number of replicas.")] = never_omit(0)
    current_metrics: Annotated[
        tuple[Annotated[Raw, Field(preserve_unknown=True)], ...], Field("The last read metrics.", list_type="atomic")
    ] = ()
    conditions: Annotated[
        tuple[Condition, ...], Field("Conditions of the object.", list_type="map", map_keys=("type",))
    ] = ()


@kind(
    group="autoscaling.karmada.io",
    version="v1alpha1",
    plural="federatedhpas",
    short=("fhpa",),
    categories=("karmada-io",),
    status=True,
    columns=(
        Column("REFERENCE-KIND", ".spec.scaleTargetRef.kind"),
        Column("REFERENCE-NAME", ".spec.scaleTargetRef.name"),
        Column("MINPODS", ".spec.minReplicas", "integer"),
        Column("MAXPODS", ".spec.maxReplicas", "integer"),
        Column("REPLICAS", ".status.currentReplicas", "integer"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    text="Scales a workload by metrics of all its clusters.",
)
class FederatedHPA(Object):
    spec: Annotated[FederatedHPASpec, Field("The object to scale and the metrics to scale it by.", required=True)] = (
        never_omit(FederatedHPASpec())
    )
    status: Annotated[FederatedHPAStatus, Field("The last observed replicas and metrics.")] = FederatedHPAStatus()


class CronFederatedHPARule(Value):
    name: Annotated[str, Field("The name of the rule.", required=True, min_length=1, max_length=32)] = never_omit("")
    schedule: Annotated[str, Field("When the rule runs, as a cron schedule.", required=True)] = never_omit("")
    target_replicas: Annotated[Int32 | None, Field("The number of replicas to set.")] = None
    target_min_replicas: Annotated[Int32 | None, Field("The minReplicas to set on a FederatedHPA.")] = None
    target_max_replicas: Annotated[Int32 | None, Field("The maxReplicas to set on a FederatedHPA.")] = None
    suspend: Annotated[bool, Field("Do not run the rule.", default=False)] = False
    time_zone: Annotated[str | None, Field("The time zone of the schedule.")] = None
    successful_history_limit: Annotated[
        Int32, Field("How many successful executions to keep in status.", default=3, minimum=1, maximum=32)
    ] = 3
    failed_history_limit: Annotated[
        Int32, Field("How many failed executions to keep in status.", default=3, minimum=0, maximum=32)
    ] = 3


class CronFederatedHPASpec(Value):
    scale_target_ref: Annotated[CrossVersionObjectReference, Field("The object to scale.", required=True)] = never_omit(
        CrossVersionObjectReference()
    )
    rules: Annotated[
        tuple[CronFederatedHPARule, ...], Field("The schedules and the replicas they set.", required=True)
    ] = never_omit(())


class SuccessfulExecution(Value):
    schedule_time: Annotated[datetime | None, Field("When the execution was due.", required=True)] = None
    execution_time: Annotated[datetime | None, Field("When it ran.", required=True)] = None
    applied_replicas: Annotated[Int32 | None, Field("The replicas it set.")] = None
    applied_min_replicas: Annotated[Int32 | None, Field("The minReplicas it set.")] = None
    applied_max_replicas: Annotated[Int32 | None, Field("The maxReplicas it set.")] = None


class FailedExecution(Value):
    schedule_time: Annotated[datetime | None, Field("When the execution was due.", required=True)] = None
    execution_time: Annotated[datetime | None, Field("When it ran.", required=True)] = None
    message: Annotated[str, Field("Why it failed.", required=True)] = never_omit("")


class ExecutionHistory(Value):
    rule_name: Annotated[str, Field("The rule.", required=True)] = never_omit("")
    next_execution_time: Annotated[datetime | None, Field("When the rule runs next.")] = None
    successful_executions: Annotated[tuple[SuccessfulExecution, ...], Field("The latest successful executions.")] = ()
    failed_executions: Annotated[tuple[FailedExecution, ...], Field("The latest failed executions.")] = ()


class CronFederatedHPAStatus(Value):
    execution_histories: Annotated[tuple[ExecutionHistory, ...], Field("The execution history of each rule.")] = ()


@kind(
    group="autoscaling.karmada.io",
    version="v1alpha1",
    plural="cronfederatedhpas",
    short=("cronfhpa",),
    categories=("karmada-io",),
    status=True,
    columns=(
        Column("REFERENCE-KIND", ".spec.scaleTargetRef.kind"),
        Column("REFERENCE-NAME", ".spec.scaleTargetRef.name"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    admission_validators=(check_cron,),
    text="Scales a workload, or the limits of a FederatedHPA, by schedule.",
)
class CronFederatedHPA(Object):
    spec: Annotated[CronFederatedHPASpec, Field("The object to scale and the schedules.", required=True)] = never_omit(
        CronFederatedHPASpec()
    )
    status: Annotated[CronFederatedHPAStatus, Field("The execution history.")] = CronFederatedHPAStatus()
