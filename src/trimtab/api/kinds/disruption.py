"""Trimtab's own kinds: how much may be disrupted at once, who matters more, and the log of every move."""

from datetime import datetime
from typing import Annotated

import msgspec

from trimtab.api.admission.disruption import check_budget, check_order, check_policy, fill_budget
from trimtab.api.duration import DURATION
from trimtab.api.kind import Column, kind
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Field, Int32, Int64, IntOrString, MicroTime, Object, Value, always

GROUP = "trimtab.dev"
REASONS = ("Rebalance", "Failback", "PolicyChange", "ScoreChange", "Drain", "Preemption", "Reschedule", "Delete")
CAUSES = (*REASONS, "Scale", "ClusterFailover", "ApplicationFailover", "Eviction")

Conditions = Annotated[
    tuple[Condition, ...],
    Field("What was observed: Ready, Reconciling and Stalled.", list_type="map", map_keys=("type",)),
]


class Rate(Value):
    """At most so many disruptions in any stretch of time of this length."""

    disruptions: Annotated[Int32, Field("How many.", required=True, minimum=1, maximum=1000)] = always(1)
    period: Annotated[str, Field("In how long, as in `1h`.", required=True, pattern=DURATION)] = always("1h")


class Window(Value):
    """When disruptions are allowed at all."""

    schedule: Annotated[str, Field("When the window opens, as a cron schedule.", required=True)] = always("")
    duration: Annotated[str, Field("How long it stays open, as in `2h`.", required=True, pattern=DURATION)] = always(
        "1h"
    )
    time_zone: Annotated[str, Field("The time zone of the schedule.", default="UTC")] = "UTC"


class DisruptionBudgetSpec(Value):
    target: Annotated[
        str,
        Field(
            "What the selector selects: workload templates, counted in replicas over all clusters, or pods of this cluster.",
            enum=("Workloads", "Pods"),
        ),
    ] = ""
    selector: Annotated[
        LabelSelector | None, Field("Whom the budget protects; empty means all in the namespace, absent means none.")
    ] = None
    min_available: Annotated[
        IntOrString | None, Field("How many must stay available, as number or percent of what is desired.")
    ] = None
    max_unavailable: Annotated[
        IntOrString | None, Field("How many may be unavailable, as number or percent of what is desired.")
    ] = None
    rate: Annotated[Rate | None, Field("How many disruptions there may be over time.")] = None
    max_concurrent: Annotated[Int32 | None, Field("How many moves may be in flight at once.", minimum=1)] = None
    windows: Annotated[tuple[Window, ...], Field("When disruptions are allowed; none means always.")] = ()
    reasons: Annotated[
        tuple[Annotated[str, Field(enum=REASONS)], ...], Field("Which disruptions it counts; none means all.")
    ] = ()
    unhealthy_pod_eviction_policy: Annotated[
        str,
        Field("When pods that are not healthy may be evicted.", enum=("IfHealthyBudget", "AlwaysAllow")),
    ] = ""
    surge: Annotated[
        str, Field("May a blocked disruption start its replacement first.", enum=("Never", "Allowed"), default="Never")
    ] = ""


class Down(Value):
    voluntary: Annotated[Int32, Field("Because somebody moved them.")] = 0
    involuntary: Annotated[Int32, Field("Because something broke.")] = 0


class RecentDisruption(Value):
    object: Annotated[str, Field("What was disrupted.", required=True)] = always("")
    at: Annotated[datetime | None, MicroTime(), Field("When.")] = None
    by: Annotated[str, Field("Who did it.")] = ""
    reason: Annotated[str, Field("What for.")] = ""


class RateStatus(Value):
    in_window: Annotated[Int32, Field("How many disruptions count right now.")] = 0
    limit: Annotated[Int32, Field("How many there may be.")] = 0
    recent: Annotated[tuple[RecentDisruption, ...], Field("Those that count right now.")] = ()


class InFlight(Value):
    """A disruption that was granted and is not over yet."""

    object: Annotated[str, Field("What is disrupted.", required=True)] = always("")
    replicas: Annotated[Int32, Field("How many replicas of it.")] = 0
    from_: Annotated[str, Field("The cluster that is left.")] = msgspec.field(default="", name="from")
    since: Annotated[datetime | None, MicroTime(), Field("Since when.")] = None
    by: Annotated[str, Field("Who does it.")] = ""
    reason: Annotated[str, Field("What for.")] = ""


class EffectiveBudget(Value):
    """What holds after defaults and floors."""

    min_available: Annotated[IntOrString | None, Field("How many must stay available.")] = None
    max_unavailable: Annotated[IntOrString | None, Field("How many may be unavailable.")] = None
    rate: Annotated[Rate | None, Field("How many disruptions there may be over time.")] = None
    source: Annotated[str, Field("Where it comes from, when not from this budget alone.")] = ""


class DisruptionBudgetStatus(Value):
    observed_generation: Annotated[Int64, Field("The generation this status is about.")] = 0
    conditions: Conditions = ()
    allowed_now: Annotated[Int32 | None, Field("How many disruptions are allowed right now.")] = None
    next_allowed_at: Annotated[datetime | None, MicroTime(), Field("When the next one is allowed.")] = None
    desired: Annotated[Int32 | None, Field("How many replicas there should be.")] = None
    available: Annotated[Int32 | None, Field("How many are available.")] = None
    down: Annotated[Down | None, Field("How many are missing, and why.")] = None
    rate: Annotated[RateStatus | None, Field("How the rate stands.")] = None
    in_flight: Annotated[tuple[InFlight, ...], Field("Disruptions that are going on.")] = ()
    effective: Annotated[EffectiveBudget | None, Field("What holds after defaults and floors.")] = None
    disrupted_pods: Annotated[
        dict[str, datetime], Field("Pods whose eviction was granted and is not seen yet, with the time of it.")
    ] = {}
    current_healthy: Annotated[Int32, Field("How many pods are healthy.")] = 0
    desired_healthy: Annotated[Int32, Field("How many must be.")] = 0
    expected_pods: Annotated[Int32, Field("How many pods there should be.")] = 0
    disruptions_allowed: Annotated[Int32, Field("How many pods may be evicted right now.")] = 0


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
        Column("NEXT", ".status.nextAllowedAt", "date"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    validators=(check_budget,),
    admission_defaults=(fill_budget,),
    text="Limits how much of an application may be disrupted at once and over time.",
)
class DisruptionBudget(Object):
    spec: Annotated[DisruptionBudgetSpec, Field("Whom it protects and how much it allows.", required=True)] = always(
        DisruptionBudgetSpec()
    )
    status: Annotated[DisruptionBudgetStatus, Field("What it allows right now.")] = DisruptionBudgetStatus()


class ConditionsStatus(Value):
    observed_generation: Annotated[Int64, Field("The generation this status is about.")] = 0
    conditions: Conditions = ()


class PriorityOrderSpec(Value):
    names: Annotated[
        tuple[str, ...], Field("Priority classes, the one that matters most first.", required=True, list_type="set")
    ] = always(())


@kind(
    group=GROUP,
    version="v1alpha1",
    plural="priorityorders",
    categories=("trimtab",),
    namespaced=False,
    status=True,
    validators=(check_order,),
    text="Says which priority classes matter more than which; there is only one, called default.",
)
class PriorityOrder(Object):
    spec: Annotated[PriorityOrderSpec, Field("The order.", required=True)] = always(PriorityOrderSpec())
    status: Annotated[ConditionsStatus, Field("Whether it is in force.")] = ConditionsStatus()


class DefaultBudget(Value):
    """The budget of those who have none."""

    priority_class_name: Annotated[str, Field("For pods of this priority class; empty means all others.")] = ""
    max_unavailable: Annotated[IntOrString | None, Field("How many may be unavailable, as number or percent.")] = None
    rate: Annotated[Rate | None, Field("How many disruptions there may be over time.")] = None


class Floor(Value):
    """What a budget must allow at least."""

    namespace_selector: Annotated[LabelSelector | None, Field("In which namespaces; absent means all.")] = None
    at_or_below_priority: Annotated[str, Field("For this priority class and those that matter less.")] = ""
    min_max_unavailable: Annotated[IntOrString | None, Field("So many may always be unavailable.")] = None
    min_rate: Annotated[Rate | None, Field("So many disruptions are always allowed.")] = None


class ComponentQuota(Value):
    """How much one component may disrupt."""

    component: Annotated[str, Field("The component, by the name it writes under.", required=True)] = always("")
    users: Annotated[
        tuple[str, ...], Field("Users who count as this component, whatever their evictions say.", list_type="set")
    ] = ()
    scope: Annotated[
        str,
        Field("Counted over the whole cluster or in each namespace.", enum=("Cluster", "Namespace"), default="Cluster"),
    ] = ""
    rate: Annotated[Rate | None, Field("How many disruptions over time.")] = None
    max_in_flight: Annotated[Int32 | None, Field("How many at once.", minimum=1)] = None


class PriorityRule(Value):
    """Which priority class pods without one get."""

    namespace_selector: Annotated[LabelSelector | None, Field("In which namespaces; absent means all.")] = None
    pod_selector: Annotated[LabelSelector | None, Field("Which pods; absent means all.")] = None
    service_account: Annotated[str, Field("Of which service account; empty means any.")] = ""
    priority_class_name: Annotated[str, Field("The priority class they get.", required=True)] = always("")


class Storm(Value):
    """When so many clusters are not ready that moving workloads would make it worse."""

    slow_above: Annotated[
        IntOrString, Field("Evict slowly when more clusters than this are not ready.", default="30%")
    ] = "30%"
    stop_above: Annotated[
        IntOrString, Field("Evict nothing when more clusters than this are not ready.", default="60%")
    ] = "60%"
    at_least: Annotated[
        Int32,
        Field("So many clusters must be not ready at once; fewer are no storm, however small the fleet.", default=3),
    ] = 3


class EvictionRate(Value):
    per_second: Annotated[IntOrString, Field("How many evictions a second, such as `10` or `0.1`.", default=10)] = 10


class DisruptionPolicySpec(Value):
    default_budgets: Annotated[tuple[DefaultBudget, ...], Field("Budgets of those who have none.")] = ()
    floors: Annotated[tuple[Floor, ...], Field("What every budget must allow at least.")] = ()
    component_quotas: Annotated[tuple[ComponentQuota, ...], Field("How much single components may disrupt.")] = ()
    priority_rules: Annotated[tuple[PriorityRule, ...], Field("Which priority class pods without one get.")] = ()
    limited_priorities: Annotated[
        tuple[str, ...], Field("Priority classes that pods may have only where a quota speaks of them.")
    ] = ()
    delete_mode: Annotated[
        str,
        Field(
            "Whether a deletion by a person passes the budget as an eviction does.",
            enum=("Direct", "EvictForHumans"),
            default="Direct",
        ),
    ] = ""
    equal_priority_preemption: Annotated[
        str,
        Field(
            "Whether a pod may take the place of one that is as important, when its owner has less.",
            enum=("Never", "Fair"),
            default="Never",
        ),
    ] = ""
    preemption_budgets: Annotated[
        str,
        Field(
            "Whether budgets bind preemption, or are only kept where that is possible.",
            enum=("Enforce", "BestEffort"),
            default="Enforce",
        ),
    ] = ""
    storm: Annotated[Storm | None, Field("When losses are so many that evictions slow down or stop.")] = None
    eviction_rate: Annotated[EvictionRate | None, Field("How fast evictions go in quiet times.")] = None


class ComponentUse(Value):
    """How much of its quota a component has used."""

    component: Annotated[str, Field("The component.", required=True)] = always("")
    namespace: Annotated[str, Field("Where it is counted; empty is the whole cluster.")] = ""
    recent: Annotated[tuple[RecentDisruption, ...], Field("What counts against its rate.")] = ()
    in_flight: Annotated[tuple[InFlight, ...], Field("What it disrupted and has not ended yet.")] = ()


class DisruptionPolicyStatus(ConditionsStatus):
    components: Annotated[tuple[ComponentUse, ...], Field("What components have used of their quotas.")] = ()


@kind(
    group=GROUP,
    version="v1alpha1",
    plural="disruptionpolicies",
    categories=("trimtab",),
    namespaced=False,
    status=True,
    validators=(check_policy,),
    text="Settings for disruptions of all kinds; there is only one, called default.",
)
class DisruptionPolicy(Object):
    spec: Annotated[DisruptionPolicySpec, Field("The settings.", required=True)] = always(DisruptionPolicySpec())
    status: Annotated[DisruptionPolicyStatus, Field("Whether they are in force, and what was used of them.")] = (
        DisruptionPolicyStatus()
    )


class MovedObject(Value):
    """What moved."""

    api_version: Annotated[str, Field("Group and version of it.", required=True)] = always("")
    kind: Annotated[str, Field("Kind of it.", required=True)] = always("")
    namespace: Annotated[str, Field("Its namespace; empty when cluster-wide.")] = ""
    name: Annotated[str, Field("Its name.", required=True)] = always("")


class MoveTarget(Value):
    name: Annotated[str, Field("The cluster or node.", required=True)] = always("")
    replicas: Annotated[Int32, Field("How many replicas it gains.")] = 0


class BudgetUse(Value):
    """What a move took from a budget."""

    name: Annotated[str, Field("The budget.", required=True)] = always("")
    namespace: Annotated[str, Field("Its namespace.")] = ""
    disruptions: Annotated[Int32, Field("How many disruptions it was charged.")] = 0


class MoveSpec(Value):
    """What was decided; it never changes."""

    object: Annotated[MovedObject, Field("What moves.", required=True)] = always(MovedObject())
    cause: Annotated[str, Field("What for.", required=True, enum=CAUSES)] = always("")
    by: Annotated[str, Field("Who decided it: a component, or a person through one.")] = ""
    from_: Annotated[str, Field("The cluster or node that is left.", required=True)] = msgspec.field(
        default_factory=lambda: "", name="from"
    )
    to: Annotated[tuple[MoveTarget, ...], Field("Where the replacement goes; none when nothing replaces it.")] = ()
    replicas: Annotated[Int32, Field("How many replicas leave.", required=True)] = always(0)
    mode: Annotated[
        str,
        Field("The replacement is ready first, or the old replicas go at once.", enum=("ReplacementFirst", "AtOnce")),
    ] = ""
    budgets: Annotated[tuple[BudgetUse, ...], Field("Which budgets were charged.")] = ()
    message: Annotated[str, Field("Why, in words for people.")] = ""


class MoveStatus(Value):
    outcome: Annotated[
        str,
        Field("How it went; empty while it goes on.", enum=("Done", "Reverted", "Stalled", "Cancelled", "Superseded")),
    ] = ""
    started: Annotated[datetime | None, MicroTime(), Field("When it began.")] = None
    finished: Annotated[datetime | None, MicroTime(), Field("When it ended.")] = None
    message: Annotated[str, Field("The same in words for people.")] = ""
    observed_generation: Annotated[Int64, Field("The generation this status is about.")] = 0
    conditions: Conditions = ()


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
        Column("TO", ".spec.to[0].name"),
        Column("REPLICAS", ".spec.replicas", "integer"),
        Column("OUTCOME", ".status.outcome"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    text="One entry in the log of moves, written before the move begins.",
)
class Move(Object):
    spec: Annotated[MoveSpec, Field("What was decided.", required=True)] = always(MoveSpec())
    status: Annotated[MoveStatus, Field("How it went.")] = MoveStatus()
