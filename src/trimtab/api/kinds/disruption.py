"""Trimtab's own kinds: disruption budgets, the order of priority classes, the disruption policy and the move log."""

from datetime import datetime
from typing import Annotated

import msgspec

from trimtab.api.admission.disruption import check_budget, check_disruption_policy, check_priority_order, fill_budget
from trimtab.api.duration import DURATION_PATTERN
from trimtab.api.kind import Column, kind
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Field, Int32, Int64, IntOrString, MicroTime, Object, Value, never_omit

GROUP = "trimtab.dev"
DISRUPTION_REASONS = (
    "Rebalance",
    "Failback",
    "PolicyChange",
    "ScoreChange",
    "Drain",
    "Preemption",
    "Reschedule",
    "Delete",
)
MOVE_CAUSES = (*DISRUPTION_REASONS, "Scale", "ClusterFailover", "ApplicationFailover", "Eviction")

StandardConditions = Annotated[
    tuple[Condition, ...],
    Field("Conditions: Ready, Reconciling and Stalled.", list_type="map", map_keys=("type",)),
]


class DisruptionRate(Value):
    """The maximum number of disruptions within any period of this length."""

    disruptions: Annotated[
        Int32,
        Field(
            "The number of disruptions: a move of a workload out of one cluster is one, however many replicas it has, "
            "and so is the eviction of a pod.",
            required=True,
            minimum=1,
            maximum=1000,
        ),
    ] = never_omit(1)
    period: Annotated[str, Field("The length of the period, as in `1h`.", required=True, pattern=DURATION_PATTERN)] = (
        never_omit("1h")
    )


class BudgetWindow(Value):
    """A time window in which disruptions are allowed."""

    schedule: Annotated[str, Field("When the window starts, as a cron schedule.", required=True)] = never_omit("")
    duration: Annotated[
        str, Field("How long the window lasts, as in `2h`.", required=True, pattern=DURATION_PATTERN)
    ] = never_omit("1h")
    time_zone: Annotated[str, Field("The time zone of the schedule.", default="UTC")] = "UTC"


class DisruptionBudgetSpec(Value):
    target: Annotated[
        str,
        Field(
            "What the selector selects: workload templates (replicas over all clusters), or pods of this cluster.",
            enum=("Workloads", "Pods"),
        ),
    ] = ""
    selector: Annotated[
        LabelSelector | None, Field("What the budget protects; empty means all in the namespace, absent means nothing.")
    ] = None
    min_available: Annotated[
        IntOrString | None, Field("The minimum that must stay available, as number or percent of the desired replicas.")
    ] = None
    max_unavailable: Annotated[
        IntOrString | None, Field("The maximum that may be unavailable, as number or percent of the desired replicas.")
    ] = None
    rate: Annotated[DisruptionRate | None, Field("The maximum number of disruptions per period.")] = None
    max_concurrent: Annotated[Int32 | None, Field("The maximum number of moves in flight.", minimum=1)] = None
    windows: Annotated[
        tuple[BudgetWindow, ...], Field("The time windows in which disruptions are allowed; empty means always.")
    ] = ()
    reasons: Annotated[
        tuple[Annotated[str, Field(enum=DISRUPTION_REASONS)], ...],
        Field("The reasons of disruptions that the budget counts; empty means all."),
    ] = ()
    unhealthy_pod_eviction_policy: Annotated[
        str,
        Field("When unhealthy pods may be evicted.", enum=("IfHealthyBudget", "AlwaysAllow")),
    ] = ""
    surge: Annotated[
        str,
        Field(
            "Whether a blocked disruption may start the replacement first.", enum=("Never", "Allowed"), default="Never"
        ),
    ] = ""
    approval: Annotated[
        str,
        Field("Whether voluntary moves of workloads wait until a person approves them.", enum=("Required",)),
    ] = ""


class UnavailableReplicas(Value):
    voluntary: Annotated[Int32, Field("The replicas that are unavailable because of moves and evictions.")] = 0
    involuntary: Annotated[Int32, Field("The replicas that are unavailable because of failures.")] = 0


class RecentDisruption(Value):
    object: Annotated[str, Field("The disrupted object.", required=True)] = never_omit("")
    at: Annotated[datetime | None, MicroTime(), Field("When it was disrupted.")] = None
    by: Annotated[str, Field("The component or user that disrupted it.")] = ""
    reason: Annotated[str, Field("The reason of the disruption.")] = ""


class RateStatus(Value):
    in_window: Annotated[Int32, Field("The number of disruptions within the current period.")] = 0
    limit: Annotated[Int32, Field("The maximum number of disruptions within a period.")] = 0
    recent: Annotated[tuple[RecentDisruption, ...], Field("The disruptions within the current period.")] = ()


class InFlightDisruption(Value):
    """A disruption that was admitted and has not ended yet."""

    object: Annotated[str, Field("The disrupted object.", required=True)] = never_omit("")
    replicas: Annotated[Int32, Field("The number of disrupted replicas.")] = 0
    from_: Annotated[str, Field("The cluster that the replicas leave.")] = msgspec.field(default="", name="from")
    since: Annotated[datetime | None, MicroTime(), Field("When the disruption was admitted.")] = None
    by: Annotated[str, Field("The component or user that disrupts it.")] = ""
    reason: Annotated[str, Field("The reason of the disruption.")] = ""


class EffectiveBudget(Value):
    """The limits after defaults and floors were applied."""

    min_available: Annotated[IntOrString | None, Field("The minimum that must stay available.")] = None
    max_unavailable: Annotated[IntOrString | None, Field("The maximum that may be unavailable.")] = None
    rate: Annotated[DisruptionRate | None, Field("The maximum number of disruptions per period.")] = None
    source: Annotated[str, Field("The source of the limits, when it is not this budget alone.")] = ""


class DisruptionBudgetStatus(Value):
    observed_generation: Annotated[Int64, Field("The generation that this status was computed for.")] = 0
    conditions: StandardConditions = ()
    allowed_now: Annotated[Int32 | None, Field("The number of disruptions that are allowed now.")] = None
    next_allowed_at: Annotated[datetime | None, MicroTime(), Field("When the next disruption is allowed.")] = None
    desired: Annotated[Int32 | None, Field("The number of desired replicas.")] = None
    available: Annotated[Int32 | None, Field("The number of available replicas.")] = None
    unavailable: Annotated[UnavailableReplicas | None, Field("The number of unavailable replicas, by cause.")] = None
    rate: Annotated[RateStatus | None, Field("The use of the rate.")] = None
    in_flight: Annotated[tuple[InFlightDisruption, ...], Field("The disruptions in flight.")] = ()
    effective: Annotated[EffectiveBudget | None, Field("The limits after defaults and floors were applied.")] = None
    disrupted_pods: Annotated[
        dict[str, datetime], Field("Pods whose eviction was admitted but not observed yet, with the time of admission.")
    ] = {}
    current_healthy: Annotated[Int32, Field("The number of healthy pods.")] = 0
    desired_healthy: Annotated[Int32, Field("The minimum number of healthy pods.")] = 0
    expected_pods: Annotated[Int32, Field("The number of expected pods.")] = 0
    disruptions_allowed: Annotated[Int32, Field("The number of pods that may be evicted now.")] = 0


@kind(
    group=GROUP,
    version="v1alpha1",
    plural="disruptionbudgets",
    short=("dbudget",),
    categories=("trimtab",),
    status=True,
    columns=(
        Column("TARGET", ".spec.target"),
        Column("MIN", ".spec.minAvailable"),
        Column("MAX", ".spec.maxUnavailable"),
        Column("ALLOWED", ".status.allowedNow", "integer"),
        Column("NEXT", ".status.nextAllowedAt"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    validators=(check_budget,),
    admission_defaults=(fill_budget,),
    text="Limits how much of an application may be disrupted at once and per period.",
)
class DisruptionBudget(Object):
    spec: Annotated[DisruptionBudgetSpec, Field("What the budget protects and the limits.", required=True)] = (
        never_omit(DisruptionBudgetSpec())
    )
    status: Annotated[DisruptionBudgetStatus, Field("What the budget allows now.")] = DisruptionBudgetStatus()


class ConditionsStatus(Value):
    observed_generation: Annotated[Int64, Field("The generation that this status was computed for.")] = 0
    conditions: StandardConditions = ()


class PriorityOrderSpec(Value):
    names: Annotated[
        tuple[str, ...], Field("Priority classes, the most important first.", required=True, list_type="set")
    ] = never_omit(())


@kind(
    group=GROUP,
    version="v1alpha1",
    plural="priorityorders",
    categories=("trimtab",),
    namespaced=False,
    status=True,
    columns=(
        Column("READY", ".status.conditions[?(@.type=='Ready')].status"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    validators=(check_priority_order,),
    text="The order of priority classes by importance; the only object is named default.",
)
class PriorityOrder(Object):
    spec: Annotated[PriorityOrderSpec, Field("The order.", required=True)] = never_omit(PriorityOrderSpec())
    status: Annotated[ConditionsStatus, Field("Whether the order is in effect.")] = ConditionsStatus()


class DefaultBudget(Value):
    """The budget of pods that no budget selects."""

    priority_class_name: Annotated[str, Field("The priority class of the pods; empty means all others.")] = ""
    max_unavailable: Annotated[
        IntOrString | None, Field("The maximum that may be unavailable, as number or percent.")
    ] = None
    rate: Annotated[DisruptionRate | None, Field("The maximum number of disruptions per period.")] = None


class BudgetFloor(Value):
    """The minimum that every budget must allow."""

    namespace_selector: Annotated[LabelSelector | None, Field("The namespaces; absent means all.")] = None
    at_or_below_priority: Annotated[str, Field("Applies to this priority class and less important ones.")] = ""
    min_max_unavailable: Annotated[
        IntOrString | None, Field("The maxUnavailable that every budget must allow at least.")
    ] = None
    min_rate: Annotated[DisruptionRate | None, Field("The rate that every budget must allow at least.")] = None


class ComponentQuota(Value):
    """The limit of disruptions by one component."""

    component: Annotated[str, Field("The name of the component.", required=True)] = never_omit("")
    users: Annotated[
        tuple[str, ...],
        Field(
            "Users that count as this component, regardless of the component that their evictions name.",
            list_type="set",
        ),
    ] = ()
    scope: Annotated[
        str,
        Field(
            "Whether disruptions are counted per cluster or per namespace.",
            enum=("Cluster", "Namespace"),
            default="Cluster",
        ),
    ] = ""
    rate: Annotated[DisruptionRate | None, Field("The maximum number of disruptions per period.")] = None
    max_in_flight: Annotated[Int32 | None, Field("The maximum number of disruptions in flight.", minimum=1)] = None


class PriorityRule(Value):
    """Sets the priority class of pods that have none."""

    namespace_selector: Annotated[LabelSelector | None, Field("The namespaces; absent means all.")] = None
    pod_selector: Annotated[LabelSelector | None, Field("The pods; absent means all.")] = None
    service_account: Annotated[str, Field("The service account of the pods; empty means any.")] = ""
    priority_class_name: Annotated[str, Field("The priority class to set.", required=True)] = never_omit("")


class OutageThresholds(Value):
    """When so many clusters are not ready that evictions would make it worse."""

    slow_above: Annotated[
        IntOrString, Field("Evict at a reduced rate when more clusters than this are not ready.", default="30%")
    ] = "30%"
    stop_above: Annotated[
        IntOrString, Field("Evict nothing when more clusters than this are not ready.", default="60%")
    ] = "60%"
    min_unready_clusters: Annotated[
        Int32,
        Field(
            "The minimum number of clusters not ready; below it neither limit applies, even in a small fleet.",
            default=3,
        ),
    ] = 3


class EvictionRate(Value):
    per_second: Annotated[
        IntOrString, Field("The number of evictions per second, such as `10` or `0.1`.", default=10)
    ] = 10


class Freeze(Value):
    """Who stopped all moves, when and why."""

    since: Annotated[datetime | None, Field("When the moves were frozen.")] = None
    by: Annotated[str, Field("Who froze them.", max_length=1024)] = ""
    reason: Annotated[str, Field("Why, for people.", max_length=1024)] = ""


class DisruptionPolicySpec(Value):
    default_budgets: Annotated[tuple[DefaultBudget, ...], Field("Budgets of pods that no budget selects.")] = ()
    floors: Annotated[tuple[BudgetFloor, ...], Field("The minimum that every budget must allow.")] = ()
    component_quotas: Annotated[tuple[ComponentQuota, ...], Field("The limits of disruptions per component.")] = ()
    priority_rules: Annotated[tuple[PriorityRule, ...], Field("Sets the priority class of pods that have none.")] = ()
    limited_priorities: Annotated[
        tuple[str, ...], Field("Priority classes that pods may use only where a ResourceQuota covers them.")
    ] = ()
    delete_mode: Annotated[
        str,
        Field(
            "Whether a deletion by a person must pass the budgets as an eviction does.",
            enum=("Direct", "EvictForHumans"),
            default="Direct",
        ),
    ] = ""
    equal_priority_preemption: Annotated[
        str,
        Field(
            "Whether a pod may preempt one of equal priority whose owner has a larger share.",
            enum=("Never", "Fair"),
            default="Never",
        ),
    ] = ""
    preemption_budgets: Annotated[
        str,
        Field(
            "Whether preemption must obey budgets, or only avoids breaking them where possible.",
            enum=("Enforce", "BestEffort"),
            default="Enforce",
        ),
    ] = ""
    storm: Annotated[
        OutageThresholds | None, Field("When evictions slow down or stop because many clusters are not ready.")
    ] = None
    eviction_rate: Annotated[EvictionRate | None, Field("The eviction rate in normal operation.")] = None
    approval: Annotated[
        str,
        Field("Whether voluntary moves of workloads wait until a person approves them.", enum=("Required",)),
    ] = ""
    freeze: Annotated[
        Freeze | None,
        Field("While it is set, no move begins and none goes on, whatever its cause; `trimtab freeze` sets it."),
    ] = None


class ComponentQuotaUse(Value):
    """The used part of a component's quota."""

    component: Annotated[str, Field("The component.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("The namespace of the count; empty means the whole cluster.")] = ""
    recent: Annotated[tuple[RecentDisruption, ...], Field("The disruptions within the current period.")] = ()
    in_flight: Annotated[tuple[InFlightDisruption, ...], Field("The disruptions in flight.")] = ()


class DisruptionPolicyStatus(ConditionsStatus):
    components: Annotated[tuple[ComponentQuotaUse, ...], Field("The used part of the component quotas.")] = ()


@kind(
    group=GROUP,
    version="v1alpha1",
    plural="disruptionpolicies",
    categories=("trimtab",),
    namespaced=False,
    status=True,
    columns=(
        Column("READY", ".status.conditions[?(@.type=='Ready')].status"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    validators=(check_disruption_policy,),
    text="The settings for disruptions; the only object is named default.",
)
class DisruptionPolicy(Object):
    spec: Annotated[DisruptionPolicySpec, Field("The settings.", required=True)] = never_omit(DisruptionPolicySpec())
    status: Annotated[DisruptionPolicyStatus, Field("Whether the settings are in effect, and the used quotas.")] = (
        DisruptionPolicyStatus()
    )


class MovedObject(Value):
    """A reference to the moved object."""

    api_version: Annotated[str, Field("Group and version of the object.", required=True)] = never_omit("")
    kind: Annotated[str, Field("Kind of the object.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Its namespace; empty when cluster-wide.")] = ""
    name: Annotated[str, Field("Its name.", required=True)] = never_omit("")


class MoveTarget(Value):
    name: Annotated[str, Field("The cluster or node.", required=True)] = never_omit("")
    replicas: Annotated[Int32, Field("The number of replicas it gains.")] = 0


class BudgetUse(Value):
    """The disruptions that a move was charged for in one budget."""

    name: Annotated[str, Field("The budget.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Its namespace.")] = ""
    disruptions: Annotated[Int32, Field("The number of disruptions charged to the budget.")] = 0


class MoveSpec(Value):
    """The decision; immutable."""

    object: Annotated[MovedObject, Field("The moved object.", required=True)] = never_omit(MovedObject())
    cause: Annotated[str, Field("The reason of the disruption.", required=True, enum=MOVE_CAUSES)] = never_omit("")
    by: Annotated[str, Field("The component or user that decided it.")] = ""
    from_: Annotated[str, Field("The cluster or node that the replicas leave.", required=True)] = msgspec.field(
        default_factory=lambda: "", name="from"
    )
    to: Annotated[
        tuple[MoveTarget, ...], Field("The clusters or nodes of the replacement; empty when there is none.")
    ] = ()
    replicas: Annotated[Int32, Field("The number of replicas that move.", required=True)] = never_omit(0)
    mode: Annotated[
        str,
        Field(
            "Whether old replicas are removed after the replacement is ready, at once, or not before a person says so.",
            enum=("ReplacementFirst", "AtOnce", "Never"),
        ),
    ] = ""
    budgets: Annotated[tuple[BudgetUse, ...], Field("The charged budgets.")] = ()
    message: Annotated[str, Field("The details for people.")] = ""


class MoveStatus(Value):
    outcome: Annotated[
        str,
        Field(
            "The outcome; empty while the move is in progress.",
            enum=("Done", "Reverted", "Stalled", "Cancelled", "Superseded"),
        ),
    ] = ""
    started: Annotated[datetime | None, MicroTime(), Field("When the move started.")] = None
    finished: Annotated[datetime | None, MicroTime(), Field("When the move ended.")] = None
    message: Annotated[str, Field("The details for people.")] = ""
    observed_generation: Annotated[Int64, Field("The generation that this status was computed for.")] = 0
    conditions: StandardConditions = ()


@kind(
    group=GROUP,
    version="v1alpha1",
    plural="moves",
    categories=("trimtab",),
    status=True,
    columns=(
        Column("KIND", ".spec.object.kind"),
        Column("OBJECT", ".spec.object.name"),
        Column("CAUSE", ".spec.cause"),
        Column("FROM", ".spec.from"),
        Column("TO", ".spec.to[*].name", shows_all=True),
        Column("REPLICAS", ".spec.replicas", "integer"),
        Column("OUTCOME", ".status.outcome"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    text="An entry of the move log, written before the move starts.",
)
class Move(Object):
    spec: Annotated[MoveSpec, Field("The decision.", required=True)] = never_omit(MoveSpec())
    status: Annotated[MoveStatus, Field("The outcome.")] = MoveStatus()
