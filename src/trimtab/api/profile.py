"""The one table of switches: what Trimtab does otherwise than its peers, handed to the pure code as data."""

from typing import Annotated

from trimtab.api.value import Field, Value


class Profile(Value):
    """Every field is one switch; the two instances below are the two columns of the table that the docs print."""

    name: Annotated[str, Field("What the profile is called.", enum=("trimtab", "upstream"))]
    keep_what_is_placed: Annotated[
        bool, Field("When no cluster fits, the placement stays and is tried again; else it is withdrawn for good.")
    ]
    wrap_affinity_groups: Annotated[
        bool, Field("After the last affinity group the earlier ones are tried too; else only the later ones.")
    ]
    groups_need_room: Annotated[
        bool, Field("An affinity group must have room for the replicas with every strategy; else only where divided.")
    ]
    fresh_is_complete: Annotated[
        bool, Field("A fresh decision spares and prefers no cluster for being in use; else it does both.")
    ]
    reserve_capacity: Annotated[
        bool, Field("Room given away in a batch, or by a move in flight, is not given away again.")
    ]
    replacement_first: Annotated[bool, Field("Replicas leave a cluster when their replacement is ready; else at once.")]
    dependencies_leave_last: Annotated[
        bool, Field("What a workload needs stays in a cluster that is being left as long as it; else it goes at once.")
    ]
    evict_only_with_target: Annotated[
        bool, Field("An eviction waits while there is nowhere to go, and never takes the last copy.")
    ]
    recovery_cancels_eviction: Annotated[
        bool, Field("A recovered cluster keeps what was not yet evicted, and missed Works are sent at once.")
    ]
    applied_knows_generation: Annotated[bool, Field("FullyApplied looks at generations.")]
    unknown_health_when_not_ready: Annotated[
        bool, Field("Items of a cluster that is not ready have health Unknown; else what was seen last.")
    ]
    template_status_without_evicting: Annotated[
        bool, Field("The status of a template leaves out clusters that are being left.")
    ]
    evacuate_after_seconds: Annotated[
        int, Field("A cluster not ready for so long gets a NoExecute taint; 0 is never.", minimum=0)
    ]
    rebalancer_waits_for_moves: Annotated[
        bool,
        Field(
            "A rebalancer ends when every item's phase is terminal, and keeps its schedule; else when all are stamped."
        ),
    ]
    always_write_own_fields: Annotated[
        bool, Field("Fields that only we know are always written; else only where a policy uses them.")
    ]
    unknown_health_keeps_timers: Annotated[
        bool, Field("Health Unknown neither resets nor advances the timers of a failover; else it resets them.")
    ]
    failover_one_cluster_at_a_time: Annotated[
        bool, Field("A binding leaves one unhealthy cluster at a time; else all at once.")
    ]
    failover_toleration_seconds: Annotated[
        int, Field("How long a workload may be unhealthy when its policy does not say.", minimum=0)
    ]
    retry_when_the_fleet_changes: Annotated[
        bool,
        Field(
            "New clusters, newly served kinds, an uncordon or freed capacity wake bindings that could not be placed."
        ),
    ]
    all_budgets_hold: Annotated[bool, Field("Several budgets on one pod must all allow it; else that is an error.")]
    preemption_obeys_budgets: Annotated[
        bool, Field("Preemption never breaks a budget, system-critical pods excepted; else it only tries not to.")
    ]
    preemption_shares_the_burden: Annotated[
        bool,
        Field(
            "Preemption disrupts a tenth of an owner without a budget at once, among equals whoever bore least lately, "
            "and pods that nothing replaces last; else it looks at none of this."
        ),
    ]
    bind_what_was_seen: Annotated[
        bool, Field("A pod is bound only if nobody else bound to its node since it was chosen.")
    ]
    descheduler_looks_ahead: Annotated[
        bool, Field("The descheduler takes the lowest priority first, remembers its evictions, and asks: will it fit.")
    ]
    forget_stale_overrides: Annotated[
        bool, Field("A Work no longer lists overrides that do not apply any more; else they stay listed.")
    ]
    tell_routine: Annotated[
        bool, Field("Every step of a propagation is told as an event; else only those that people act on.")
    ]
    expired_scores_wake: Annotated[bool, Field("A score that expires wakes the Placements that use it.")]
    keep_decisions_when_misconfigured: Annotated[
        bool, Field("A Placement that cannot be understood keeps its decisions; else they are emptied.")
    ]
    decisions_sorted_by_score: Annotated[
        bool, Field("`sortBy: Score` orders decisions by total and writes it; else the field is ignored.")
    ]
    placements_spread: Annotated[
        bool, Field("`spreadPolicy` of a Placement spreads its clusters over regions; else the field is ignored.")
    ]
    unsatisfied_says_why: Annotated[
        bool, Field("A Placement that lacks clusters says how many each filter turned down; else only that they lack.")
    ]
    long_names_of_sets: Annotated[
        bool, Field("A ManifestWorkReplicaSet whose name fits no label is known to its works by a hash; else refused.")
    ]
    works_leave_within_budgets: Annotated[
        bool, Field("A ManifestWorkReplicaSet leaves a cluster after its replacement and within budgets; else at once.")
    ]
    decisions_gain_before_they_lose: Annotated[
        bool, Field("A cluster that moves to another PlacementDecision is in both for a moment; else in neither.")
    ]


TRIMTAB = Profile(
    name="trimtab",
    keep_what_is_placed=True,
    wrap_affinity_groups=True,
    groups_need_room=True,
    fresh_is_complete=True,
    reserve_capacity=True,
    replacement_first=True,
    dependencies_leave_last=True,
    evict_only_with_target=True,
    recovery_cancels_eviction=True,
    applied_knows_generation=True,
    unknown_health_when_not_ready=True,
    template_status_without_evicting=True,
    evacuate_after_seconds=300,
    rebalancer_waits_for_moves=True,
    always_write_own_fields=True,
    unknown_health_keeps_timers=True,
    failover_one_cluster_at_a_time=True,
    failover_toleration_seconds=10,
    retry_when_the_fleet_changes=True,
    all_budgets_hold=True,
    preemption_obeys_budgets=True,
    preemption_shares_the_burden=True,
    bind_what_was_seen=True,
    descheduler_looks_ahead=True,
    forget_stale_overrides=True,
    tell_routine=False,
    expired_scores_wake=True,
    keep_decisions_when_misconfigured=True,
    decisions_sorted_by_score=True,
    placements_spread=True,
    unsatisfied_says_why=True,
    long_names_of_sets=True,
    works_leave_within_budgets=True,
    decisions_gain_before_they_lose=True,
)
UPSTREAM = Profile(
    name="upstream",
    keep_what_is_placed=False,
    wrap_affinity_groups=False,
    groups_need_room=False,
    fresh_is_complete=False,
    reserve_capacity=False,
    replacement_first=False,
    dependencies_leave_last=False,
    evict_only_with_target=False,
    recovery_cancels_eviction=False,
    applied_knows_generation=False,
    unknown_health_when_not_ready=False,
    template_status_without_evicting=False,
    evacuate_after_seconds=0,
    rebalancer_waits_for_moves=False,
    always_write_own_fields=False,
    unknown_health_keeps_timers=False,
    failover_one_cluster_at_a_time=False,
    failover_toleration_seconds=300,
    retry_when_the_fleet_changes=False,
    all_budgets_hold=False,
    preemption_obeys_budgets=False,
    preemption_shares_the_burden=False,
    bind_what_was_seen=False,
    descheduler_looks_ahead=False,
    forget_stale_overrides=False,
    tell_routine=True,
    expired_scores_wake=False,
    keep_decisions_when_misconfigured=False,
    decisions_sorted_by_score=False,
    placements_spread=False,
    unsatisfied_says_why=False,
    long_names_of_sets=False,
    works_leave_within_budgets=False,
    decisions_gain_before_they_lose=False,
)
PROFILES = {profile.name: profile for profile in (TRIMTAB, UPSTREAM)}
