"""Profiles: every deliberate difference from Karmada, OCM, Kubernetes and the descheduler, as a switch."""

from typing import Annotated

from trimtab.api.value import Field, Value


class Profile(Value):
    """Every field is one switch; docs/reference/profiles.md prints the two instances below as a table."""

    name: Annotated[str, Field("The name of the profile.", enum=("trimtab", "upstream"))]
    keep_placement_when_unschedulable: Annotated[
        bool,
        Field("When no cluster fits, the placement is kept and scheduling retried; else the placement is removed."),
    ]
    wrap_affinity_groups: Annotated[
        bool, Field("After the last affinity group the earlier ones are tried again; else only the later ones.")
    ]
    affinity_groups_need_capacity: Annotated[
        bool,
        Field("An affinity group must have capacity for the replicas with every strategy; else only where divided."),
    ]
    fresh_ignores_current_clusters: Annotated[
        bool, Field("A fresh decision neither exempts nor prefers clusters that are in use; else it does both.")
    ]
    taints_limit_clusters_in_use: Annotated[
        bool,
        Field(
            "A cluster that has a taint which a divided workload does not tolerate keeps its replicas and gets no more; "
            "else it can get more if the workload already runs there."
        ),
    ]
    reserve_capacity: Annotated[
        bool, Field("Capacity assigned in a batch, or to a move in flight, is not assigned twice.")
    ]
    replacement_first: Annotated[
        bool, Field("Replicas are removed from a cluster when their replacement is ready; else at once.")
    ]
    drain_before_leaving: Annotated[
        bool,
        Field(
            "A deleted Cluster is drained first, within budgets and without loss of the last copy; else its Works are "
            "deleted at once."
        ),
    ]
    dependencies_removed_last: Annotated[
        bool, Field("Dependencies stay in an evicted cluster as long as their workload; else they are removed at once.")
    ]
    evict_only_with_target: Annotated[
        bool, Field("An eviction waits while no other cluster fits, and never removes the last copy.")
    ]
    recovery_cancels_eviction: Annotated[
        bool, Field("A recovered cluster keeps what was not yet evicted, and missed Works are dispatched at once.")
    ]
    fully_applied_checks_generation: Annotated[bool, Field("FullyApplied compares generations.")]
    unknown_health_when_not_ready: Annotated[
        bool, Field("Items of a cluster that is not ready have health Unknown; else the last observed health.")
    ]
    template_status_counts_leaving: Annotated[
        bool,
        Field(
            "The status of a template counts the ready replicas of a cluster that is being left until its copy is gone, "
            "at most the desired number; else it is the sum of all clusters."
        ),
    ]
    capacity_from_nodes: Annotated[
        bool,
        Field(
            "The capacity of a cluster is what fits on its nodes as they are, with the selectors, tolerations and "
            "affinity of the pod template; else resource models (the minimum of a grade) or the sum of all nodes."
        ),
    ]
    mark_control_plane: Annotated[
        bool, Field("Objects in members carry the id of the control plane; one with another id is a conflict.")
    ]
    evacuate_after_seconds: Annotated[
        int, Field("A cluster that is not ready for this long gets a NoExecute taint; 0 means never.", minimum=0)
    ]
    rebalancer_waits_for_moves: Annotated[
        bool,
        Field(
            "A rebalancer finishes when all phases are terminal, and supports schedules; else when all are triggered."
        ),
    ]
    always_write_own_fields: Annotated[
        bool, Field("Fields that only Trimtab has are always written; else only where a policy uses them.")
    ]
    unknown_health_keeps_timers: Annotated[
        bool, Field("Health Unknown neither resets nor advances the timers of a failover; else it resets them.")
    ]
    failover_one_cluster_at_a_time: Annotated[
        bool, Field("A binding is evicted from one unhealthy cluster at a time; else from all at once.")
    ]
    failover_toleration_seconds: Annotated[
        int, Field("How long a workload may be unhealthy when its policy does not set it.", minimum=0)
    ]
    retry_on_fleet_change: Annotated[
        bool,
        Field("New clusters, newly served kinds, an uncordon or freed capacity requeue unschedulable bindings."),
    ]
    all_budgets_must_allow: Annotated[
        bool, Field("Several budgets of one pod must all allow the eviction; else several budgets are an error.")
    ]
    preemption_obeys_budgets: Annotated[
        bool, Field("Preemption never breaks a budget, system-critical pods excepted; else it only tries not to.")
    ]
    preemption_spreads_disruptions: Annotated[
        bool,
        Field(
            "Preemption disrupts at most a tenth of an owner without a budget at once, prefers owners with the fewest "
            "recent disruptions, and takes pods without a controller last; else it considers none of this."
        ),
    ]
    bind_only_if_node_unchanged: Annotated[
        bool, Field("A pod is bound only if no other pod was bound to its node since the decision; else always.")
    ]
    descheduler_simulates_moves: Annotated[
        bool,
        Field(
            "The descheduler evicts the lowest priority first, records its evictions, and simulates whether a pod fits."
        ),
    ]
    drop_stale_overrides: Annotated[
        bool, Field("A Work no longer lists overrides that do not apply any more; else they remain listed.")
    ]
    overrides_keep_identity: Annotated[
        bool,
        Field(
            "An OverridePolicy that changes the kind, name or namespace of an object is an error; else it is applied."
        ),
    ]
    search_needs_read_access: Annotated[
        bool,
        Field(
            "Reading through the search cache needs the right to read the resource in the control plane as well; else "
            "the right to search is enough for everything that is cached."
        ),
    ]
    record_routine_events: Annotated[
        bool, Field("Every step of a propagation is recorded as an event; else only those that people act on.")
    ]
    silent_restarts: Annotated[
        bool,
        Field(
            "Controllers that start on settled workloads write nothing; else every binding gets the current "
            "`resourceVersion` of its template, and events are repeated."
        ),
    ]
    skip_empty_steps: Annotated[
        bool,
        Field(
            "Steps that decide nothing are left out: an eviction task has its time from the start, Works of clusters that "
            "are no longer targets are not reported, and a probe that finds the same as before causes no reconcile; else "
            "every step is taken, in the order of Karmada."
        ),
    ]
    create_with_decision: Annotated[
        bool,
        Field(
            "A new binding is decided before it is created, and created with its clusters; else it is created without, and "
            "the scheduler adds them."
        ),
    ]
    expired_scores_requeue: Annotated[bool, Field("An expired score requeues the Placements that use it.")]
    keep_decisions_when_misconfigured: Annotated[
        bool, Field("A misconfigured Placement keeps its decisions; else they are emptied.")
    ]
    decisions_sorted_by_score: Annotated[
        bool, Field("`sortBy: Score` orders decisions by total and writes it; else the field is ignored.")
    ]
    placements_obey_spread_policy: Annotated[
        bool, Field("`spreadPolicy` of a Placement spreads its clusters over regions; else the field is ignored.")
    ]
    unsatisfied_reports_filters: Annotated[
        bool,
        Field(
            "An unsatisfied Placement reports how many clusters each filter rejected; else only that some are missing."
        ),
    ]
    hash_long_replicaset_names: Annotated[
        bool,
        Field(
            "A ManifestWorkReplicaSet whose name is too long for a label is labelled by a hash; else it is rejected."
        ),
    ]
    replicaset_summary_counts_updates: Annotated[
        bool,
        Field(
            "The status of a ManifestWorkReplicaSet counts the selected clusters and the updated works; else these two "
            "fields are 0, and only works with the current template are counted."
        ),
    ]
    works_removed_within_budgets: Annotated[
        bool,
        Field(
            "A ManifestWorkReplicaSet is removed from a cluster after its replacement and within budgets; else at once."
        ),
    ]
    decisions_add_before_remove: Annotated[
        bool, Field("A cluster that moves to another PlacementDecision is briefly in both; else briefly in neither.")
    ]
    run_missed_schedules: Annotated[
        bool, Field("A CronFederatedHPA runs a rule late that was due while no control plane ran; else never.")
    ]
    show_progress_columns: Annotated[
        bool,
        Field(
            "`kubectl get` shows state and progress of WorkloadRebalancers; else only their age, as the definition of the "
            "peer has no columns."
        ),
    ]
    flink_memory_units: Annotated[
        bool,
        Field(
            "The memory of a FlinkDeployment is read in the units of Flink (`100m` is 100 MiB); else as a quantity of "
            "Kubernetes (a tenth of a byte)."
        ),
    ]
    rollouts_need_generations: Annotated[
        bool,
        Field(
            "A ManifestWorkReplicaSet goes on when the conditions of a work are of its current generation; else also when "
            "they name no generation, as OCM 1.0 does."
        ),
    ]
    generated_objects_stay: Annotated[
        bool,
        Field(
            "Objects that every cluster makes for itself (Service `default/kubernetes`, ConfigMap `kube-root-ca.crt`) are "
            "not propagated; else a policy for all Services or ConfigMaps selects them, too."
        ),
    ]


TRIMTAB = Profile(
    name="trimtab",
    keep_placement_when_unschedulable=True,
    wrap_affinity_groups=True,
    affinity_groups_need_capacity=True,
    fresh_ignores_current_clusters=True,
    taints_limit_clusters_in_use=True,
    reserve_capacity=True,
    replacement_first=True,
    drain_before_leaving=True,
    dependencies_removed_last=True,
    evict_only_with_target=True,
    recovery_cancels_eviction=True,
    fully_applied_checks_generation=True,
    unknown_health_when_not_ready=True,
    template_status_counts_leaving=True,
    capacity_from_nodes=True,
    mark_control_plane=True,
    evacuate_after_seconds=300,
    rebalancer_waits_for_moves=True,
    always_write_own_fields=True,
    unknown_health_keeps_timers=True,
    failover_one_cluster_at_a_time=True,
    failover_toleration_seconds=10,
    retry_on_fleet_change=True,
    all_budgets_must_allow=True,
    preemption_obeys_budgets=True,
    preemption_spreads_disruptions=True,
    bind_only_if_node_unchanged=True,
    descheduler_simulates_moves=True,
    drop_stale_overrides=True,
    overrides_keep_identity=True,
    search_needs_read_access=True,
    record_routine_events=False,
    silent_restarts=True,
    skip_empty_steps=True,
    create_with_decision=True,
    expired_scores_requeue=True,
    keep_decisions_when_misconfigured=True,
    decisions_sorted_by_score=True,
    placements_obey_spread_policy=True,
    unsatisfied_reports_filters=True,
    hash_long_replicaset_names=True,
    replicaset_summary_counts_updates=True,
    works_removed_within_budgets=True,
    decisions_add_before_remove=True,
    run_missed_schedules=True,
    show_progress_columns=True,
    flink_memory_units=True,
    rollouts_need_generations=True,
    generated_objects_stay=True,
)
UPSTREAM = Profile(
    name="upstream",
    keep_placement_when_unschedulable=False,
    wrap_affinity_groups=False,
    affinity_groups_need_capacity=False,
    fresh_ignores_current_clusters=False,
    taints_limit_clusters_in_use=False,
    reserve_capacity=False,
    replacement_first=False,
    drain_before_leaving=False,
    dependencies_removed_last=False,
    evict_only_with_target=False,
    recovery_cancels_eviction=False,
    fully_applied_checks_generation=False,
    unknown_health_when_not_ready=False,
    template_status_counts_leaving=False,
    capacity_from_nodes=False,
    mark_control_plane=False,
    evacuate_after_seconds=0,
    rebalancer_waits_for_moves=False,
    always_write_own_fields=False,
    unknown_health_keeps_timers=False,
    failover_one_cluster_at_a_time=False,
    failover_toleration_seconds=300,
    retry_on_fleet_change=False,
    all_budgets_must_allow=False,
    preemption_obeys_budgets=False,
    preemption_spreads_disruptions=False,
    bind_only_if_node_unchanged=False,
    descheduler_simulates_moves=False,
    drop_stale_overrides=False,
    overrides_keep_identity=False,
    search_needs_read_access=False,
    record_routine_events=True,
    silent_restarts=False,
    skip_empty_steps=False,
    create_with_decision=False,
    expired_scores_requeue=False,
    keep_decisions_when_misconfigured=False,
    decisions_sorted_by_score=False,
    placements_obey_spread_policy=False,
    unsatisfied_reports_filters=False,
    hash_long_replicaset_names=False,
    replicaset_summary_counts_updates=False,
    works_removed_within_budgets=False,
    decisions_add_before_remove=False,
    run_missed_schedules=False,
    show_progress_columns=False,
    flink_memory_units=False,
    rollouts_need_generations=False,
    generated_objects_stay=False,
)
PROFILES = {profile.name: profile for profile in (TRIMTAB, UPSTREAM)}
