"""Karmada's scaling over all clusters: by metrics, and by the clock."""

from datetime import datetime
from typing import Annotated

from trimtab.api.admission.autoscaling import check_cron
from trimtab.api.kind import Column, kind
from trimtab.api.value import Condition, Field, Int32, Int64, Object, Raw, Value, always


class CrossVersionObjectReference(Value):
    kind: Annotated[str, Field("Kind of what is scaled.", required=True)] = always("")
    name: Annotated[str, Field("Name of what is scaled.", required=True)] = always("")
    api_version: Annotated[str, Field("Group and version of what is scaled.")] = ""


class FederatedHPASpec(Value):
    scale_target_ref: Annotated[CrossVersionObjectReference, Field("What is scaled.", required=True)] = always(
        CrossVersionObjectReference()
    )
    min_replicas: Annotated[Int32 | None, Field("Never fewer replicas than this; 1 when absent.")] = None
    max_replicas: Annotated[Int32, Field("Never more replicas than this.", required=True)] = always(0)
    metrics: Annotated[
        tuple[Annotated[Raw, Field(preserve_unknown=True)], ...],
        Field("What is measured, as in autoscaling/v2.", list_type="atomic"),
    ] = ()
    behavior: Annotated[
        Raw | None, Field("How fast it may go up and down, as in autoscaling/v2.", preserve_unknown=True)
    ] = None


class FederatedHPAStatus(Value):
    observed_generation: Annotated[Int64 | None, Field("The generation this status is about.")] = None
    last_scale_time: Annotated[datetime | None, Field("When it was last scaled.")] = None
    current_replicas: Annotated[Int32, Field("How many replicas there were when last seen.")] = 0
    desired_replicas: Annotated[Int32, Field("How many replicas there should be.")] = always(0)
    current_metrics: Annotated[
        tuple[Annotated[Raw, Field(preserve_unknown=True)], ...], Field("What was last measured.", list_type="atomic")
    ] = ()
    conditions: Annotated[tuple[Condition, ...], Field("What was observed.", list_type="map", map_keys=("type",))] = ()


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
    text="Scales a workload by what is measured in all of its clusters.",
)
class FederatedHPA(Object):
    spec: Annotated[FederatedHPASpec, Field("What is scaled by what.", required=True)] = always(FederatedHPASpec())
    status: Annotated[FederatedHPAStatus, Field("How it stands.")] = FederatedHPAStatus()


class CronFederatedHPARule(Value):
    name: Annotated[str, Field("The name of the rule.", required=True, min_length=1, max_length=32)] = always("")
    schedule: Annotated[str, Field("When it applies, as a cron schedule.", required=True)] = always("")
    target_replicas: Annotated[Int32 | None, Field("How many replicas from then on.")] = None
    target_min_replicas: Annotated[Int32 | None, Field("The least of a FederatedHPA from then on.")] = None
    target_max_replicas: Annotated[Int32 | None, Field("The most of a FederatedHPA from then on.")] = None
    suspend: Annotated[bool, Field("Leave the rule out for now.", default=False)] = False
    time_zone: Annotated[str | None, Field("The time zone of the schedule.")] = None
    successful_history_limit: Annotated[
        Int32, Field("How many successes are remembered.", default=3, minimum=1, maximum=32)
    ] = 3
    failed_history_limit: Annotated[
        Int32, Field("How many failures are remembered.", default=3, minimum=0, maximum=32)
    ] = 3


class CronFederatedHPASpec(Value):
    scale_target_ref: Annotated[CrossVersionObjectReference, Field("What is scaled.", required=True)] = always(
        CrossVersionObjectReference()
    )
    rules: Annotated[tuple[CronFederatedHPARule, ...], Field("When and how.", required=True)] = always(())


class SuccessfulExecution(Value):
    schedule_time: Annotated[datetime | None, Field("When it was due.", required=True)] = None
    execution_time: Annotated[datetime | None, Field("When it was done.", required=True)] = None
    applied_replicas: Annotated[Int32 | None, Field("The replicas that were set.")] = None
    applied_min_replicas: Annotated[Int32 | None, Field("The least that was set.")] = None
    applied_max_replicas: Annotated[Int32 | None, Field("The most that was set.")] = None


class FailedExecution(Value):
    schedule_time: Annotated[datetime | None, Field("When it was due.", required=True)] = None
    execution_time: Annotated[datetime | None, Field("When it was tried.", required=True)] = None
    message: Annotated[str, Field("Why it failed.", required=True)] = always("")


class ExecutionHistory(Value):
    rule_name: Annotated[str, Field("The rule.", required=True)] = always("")
    next_execution_time: Annotated[datetime | None, Field("When it applies next.")] = None
    successful_executions: Annotated[tuple[SuccessfulExecution, ...], Field("What succeeded.")] = ()
    failed_executions: Annotated[tuple[FailedExecution, ...], Field("What failed.")] = ()


class CronFederatedHPAStatus(Value):
    execution_histories: Annotated[tuple[ExecutionHistory, ...], Field("What each rule did.")] = ()


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
    text="Scales a workload, or the bounds of a FederatedHPA, by the clock.",
)
class CronFederatedHPA(Object):
    spec: Annotated[CronFederatedHPASpec, Field("What is scaled when.", required=True)] = always(CronFederatedHPASpec())
    status: Annotated[CronFederatedHPAStatus, Field("What was done.")] = CronFederatedHPAStatus()
