"""WorkloadRebalancer: a request to reschedule workloads, and its progress."""

from datetime import datetime
from typing import Annotated

from trimtab.api.admission.rebalancer import check_rebalancer, check_workload_namespaces, fill_rebalancer
from trimtab.api.kind import Column, kind
from trimtab.api.kinds.work import TargetCluster
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Field, Int32, Int64, IntOrString, Object, Value, never_omit


class WorkloadReference(Value):
    """A reference to a workload."""

    api_version: Annotated[str, Field("Group and version of the workload.", required=True)] = never_omit("")
    kind: Annotated[str, Field("Kind of the workload.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Its namespace; empty when it is cluster-wide.")] = ""
    name: Annotated[str, Field("Its name.", required=True)] = never_omit("")


class WorkloadSelector(Value):
    """Selects workloads by kind, namespace and labels."""

    api_version: Annotated[str, Field("Group and version of the workloads.", required=True)] = never_omit("")
    kind: Annotated[str, Field("Kind of the workloads.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Their namespace; empty means every namespace.")] = ""
    label_selector: Annotated[LabelSelector | None, Field("The labels they must have; absent means any.")] = None


class MoveOptions(Value):
    """How replicas move from one cluster to another."""

    mode: Annotated[
        str,
        Field(
            "Whether old replicas are removed after the replacement is ready, or at once.",
            enum=("ReplacementFirst", "AtOnce"),
        ),
    ] = ""
    timeout_seconds: Annotated[
        Int32, Field("How long to wait for the replacement before the move is reverted.", default=600, minimum=1)
    ] = 600
    max_surge: Annotated[
        IntOrString, Field("How many replicas may run twice during the move, as number or percent.", default="100%")
    ] = "100%"


class RescheduleOptions(Value):
    """The strategy as upstream's proposal spells it."""

    preserve_available_replicas: Annotated[bool, Field("Same as the strategy PreserveAvailable.")] = False


class RebalancerSpec(Value):
    workloads: Annotated[tuple[WorkloadReference, ...], Field("The workloads by name.")] = ()
    selectors: Annotated[
        tuple[WorkloadSelector, ...],
        Field("The workloads by selectors; evaluated once per generation and once per run of the schedule."),
    ] = ()
    ttl_seconds_after_finished: Annotated[
        Int32 | None, Field("Delete the rebalancer this long after it finished; absent keeps it.", minimum=0)
    ] = None
    schedule: Annotated[
        str,
        Field("Run repeatedly, as a cron schedule; the first run is at the first scheduled time."),
    ] = ""
    time_zone: Annotated[str, Field("The time zone of the schedule, such as Europe/Berlin; UTC when empty.")] = ""
    suspend: Annotated[bool, Field("Do not start further workloads.")] = False
    cancel: Annotated[bool, Field("Stop; moves that are done are not reverted.")] = False
    strategy: Annotated[
        str,
        Field(
            "Schedule as if nothing were placed (the default), or keep available replicas in their clusters.",
            enum=("Fresh", "PreserveAvailable"),
        ),
    ] = ""
    reschedule: Annotated[RescheduleOptions | None, Field("The strategy in upstream's spelling.")] = None
    max_parallel: Annotated[Int32, Field("How many workloads move at the same time.", minimum=1)] = 10
    move: Annotated[MoveOptions | None, Field("How replicas move from one cluster to another.")] = None


class ObservedWorkload(Value):
    """The progress of one workload."""

    workload: Annotated[WorkloadReference, Field("The workload.", required=True)] = never_omit(WorkloadReference())
    result: Annotated[
        str, Field("Whether rescheduling was requested; empty while pending.", enum=("Successful", "Failed"))
    ] = ""
    reason: Annotated[str, Field("The reason of a failure, in CamelCase.")] = ""
    phase: Annotated[
        str,
        Field(
            "The progress of the move.",
            enum=("Pending", "Moving", "Done", "NoChange", "Blocked", "Failed", "Cancelled"),
        ),
    ] = ""
    before: Annotated[tuple[TargetCluster, ...], Field("The clusters before the move.")] = ()
    after: Annotated[tuple[TargetCluster, ...], Field("The clusters after the move.")] = ()
    message: Annotated[str, Field("The details for people.")] = ""
    triggered_at: Annotated[datetime | None, Field("When rescheduling was requested.")] = None


class RebalancerStatus(Value):
    observed_workloads: Annotated[tuple[ObservedWorkload, ...], Field("The progress of each workload, sorted.")] = ()
    observed_generation: Annotated[Int64, Field("The generation that this status was computed for.")] = 0
    finish_time: Annotated[datetime | None, Field("When the last workload finished.")] = None
    last_schedule_time: Annotated[datetime | None, Field("The scheduled time of the current run.")] = None
    next_schedule_time: Annotated[
        datetime | None,
        Field("The scheduled time of the next run; it is skipped while the current run is in progress."),
    ] = None
    conditions: Annotated[
        tuple[Condition, ...], Field("Conditions of the rebalancer.", list_type="map", map_keys=("type",))
    ] = ()


@kind(
    group="apps.karmada.io",
    version="v1alpha1",
    plural="workloadrebalancers",
    namespaced=False,
    status=True,
    progress_columns=(
        Column("READY", ".status.conditions[?(@.type=='Ready')].status"),
        Column("STATE", ".status.conditions[?(@.type=='Reconciling')].reason"),
        Column("PROGRESS", ".status.conditions[?(@.type=='Ready')].message"),
        Column("SCHEDULE", ".spec.schedule", priority=1),
        Column("NEXT", ".status.nextScheduleTime", priority=1),
        Column("FINISHED", ".status.finishTime", "date", priority=1),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    validators=(check_rebalancer,),
    admission_defaults=(fill_rebalancer,),
    admission_validators=(check_workload_namespaces,),
    text="Requests that workloads are scheduled again.",
)
class WorkloadRebalancer(Object):
    spec: Annotated[RebalancerSpec, Field("The workloads and how they move.", required=True)] = never_omit(
        RebalancerSpec()
    )
    status: Annotated[RebalancerStatus, Field("The progress of the workloads.")] = RebalancerStatus()
