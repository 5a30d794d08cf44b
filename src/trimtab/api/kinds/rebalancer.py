"""A request to decide anew where workloads belong, and what became of it."""

from datetime import datetime
from typing import Annotated

from trimtab.api.admission.rebalancer import check_namespaces, check_rebalancer, fill_rebalancer
from trimtab.api.kind import kind
from trimtab.api.kinds.work import TargetCluster
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Field, Int32, Int64, IntOrString, Object, Value, always


class WorkloadReference(Value):
    """Which workload."""

    api_version: Annotated[str, Field("Group and version of the workload.", required=True)] = always("")
    kind: Annotated[str, Field("Kind of the workload.", required=True)] = always("")
    namespace: Annotated[str, Field("Its namespace; empty when it is cluster-wide.")] = ""
    name: Annotated[str, Field("Its name.", required=True)] = always("")


class WorkloadSelector(Value):
    """Which workloads, by what they have in common."""

    api_version: Annotated[str, Field("Group and version of the workloads.", required=True)] = always("")
    kind: Annotated[str, Field("Kind of the workloads.", required=True)] = always("")
    namespace: Annotated[str, Field("Their namespace; empty means every namespace.")] = ""
    label_selector: Annotated[LabelSelector | None, Field("Which labels they must have; absent means any.")] = None


class MoveOptions(Value):
    """How replicas leave a cluster."""

    mode: Annotated[
        str,
        Field("The replacement is ready first, or the old replicas go at once.", enum=("ReplacementFirst", "AtOnce")),
    ] = ""
    timeout_seconds: Annotated[
        Int32, Field("How long to wait for the replacement before the move is undone.", default=600, minimum=1)
    ] = 600
    max_surge: Annotated[
        IntOrString, Field("How many replicas may run twice meanwhile, as number or percent.", default="100%")
    ] = "100%"


class Reschedule(Value):
    """The spelling of upstream's proposal."""

    preserve_available_replicas: Annotated[bool, Field("Same as the strategy PreserveAvailable.")] = False


class RebalancerSpec(Value):
    workloads: Annotated[tuple[WorkloadReference, ...], Field("The workloads, one by one.")] = ()
    selectors: Annotated[
        tuple[WorkloadSelector, ...],
        Field("The workloads by selectors, looked up once for each generation and each time of the schedule."),
    ] = ()
    ttl_seconds_after_finished: Annotated[
        Int32 | None, Field("Delete this so long after it has finished; absent keeps it.", minimum=0)
    ] = None
    schedule: Annotated[
        str,
        Field("Do it again and again, at these times in cron's notation, and not before the first of them."),
    ] = ""
    time_zone: Annotated[str, Field("The zone of the schedule, such as Europe/Berlin; UTC when empty.")] = ""
    suspend: Annotated[bool, Field("Begin with no further workload for now.")] = False
    cancel: Annotated[bool, Field("Stop for good and leave what is done.")] = False
    strategy: Annotated[
        str,
        Field(
            "Decide as if nothing were placed, which is meant when absent, or leave available replicas where they are.",
            enum=("Fresh", "PreserveAvailable"),
        ),
    ] = ""
    reschedule: Annotated[Reschedule | None, Field("The strategy in upstream's spelling.")] = None
    max_parallel: Annotated[Int32, Field("How many workloads move at once.", minimum=1)] = 10
    move: Annotated[MoveOptions | None, Field("How replicas leave a cluster.")] = None


class ObservedWorkload(Value):
    """What became of one workload."""

    workload: Annotated[WorkloadReference, Field("The workload.", required=True)] = always(WorkloadReference())
    result: Annotated[
        str, Field("Whether a new decision was asked for; empty while pending.", enum=("Successful", "Failed"))
    ] = ""
    reason: Annotated[str, Field("Why not, in one CamelCase word.")] = ""
    phase: Annotated[
        str,
        Field("How far the move is.", enum=("Pending", "Moving", "Done", "NoChange", "Blocked", "Failed", "Cancelled")),
    ] = ""
    before: Annotated[tuple[TargetCluster, ...], Field("Where it was.")] = ()
    after: Annotated[tuple[TargetCluster, ...], Field("Where it goes.")] = ()
    message: Annotated[str, Field("The same in words for people.")] = ""
    triggered_at: Annotated[datetime | None, Field("When the new decision was asked for.")] = None


class RebalancerStatus(Value):
    observed_workloads: Annotated[tuple[ObservedWorkload, ...], Field("Every workload, sorted.")] = ()
    observed_generation: Annotated[Int64, Field("The generation this status is about.")] = 0
    finish_time: Annotated[datetime | None, Field("When the last workload was done.")] = None
    last_schedule_time: Annotated[datetime | None, Field("The time of the schedule that this is about.")] = None
    next_schedule_time: Annotated[datetime | None, Field("When it begins anew, if it is done by then.")] = None
    conditions: Annotated[tuple[Condition, ...], Field("What was observed.", list_type="map", map_keys=("type",))] = ()


@kind(
    group="apps.karmada.io",
    version="v1alpha1",
    plural="workloadrebalancers",
    namespaced=False,
    status=True,
    validators=(check_rebalancer,),
    admission_defaults=(fill_rebalancer,),
    admission_validators=(check_namespaces,),
    text="Asks for a new decision about where workloads belong.",
)
class WorkloadRebalancer(Object):
    spec: Annotated[RebalancerSpec, Field("Which workloads, and how they move.", required=True)] = always(
        RebalancerSpec()
    )
    status: Annotated[RebalancerStatus, Field("What became of them.")] = RebalancerStatus()
