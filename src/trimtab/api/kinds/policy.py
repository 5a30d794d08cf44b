"""Karmada's propagation policies: which objects go to which clusters, and when they leave them."""

from typing import Annotated

import msgspec

from trimtab.api.admission.propagation import (
    check_propagation,
    check_selector_namespaces,
    default_selector_namespaces,
    fill_propagation,
)
from trimtab.api.kind import Column, kind
from trimtab.api.kinds.cluster import Toleration
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Field, Int32, Int64, Object, Value, never_omit

PURGE_MODES = ("Directly", "Gracefully", "Never", "Immediately", "Graciously")
CLUSTER_PURGE_MODES = ("Directly", "Gracefully", "Immediately", "Graciously")


class ResourceSelector(Value):
    """Selects the objects of a policy."""

    api_version: Annotated[str, Field("Group and version of the objects.", required=True)] = never_omit("")
    kind: Annotated[str, Field("Kind of the objects.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Their namespace; empty means the policy's own, or any.")] = ""
    name: Annotated[str, Field("The name of a single object; the label selector is then ignored.")] = ""
    label_selector: Annotated[LabelSelector | None, Field("Which labels the objects must have.")] = None


class FieldSelectorRequirement(Value):
    key: Annotated[str, Field("The field of the cluster: provider, region or zone.", required=True)] = never_omit("")
    operator: Annotated[str, Field("How the field is compared with the values: In or NotIn.", required=True)] = (
        never_omit("")
    )
    values: Annotated[tuple[str, ...], Field("The values to compare with.", list_type="atomic")] = ()


class FieldSelector(Value):
    match_expressions: Annotated[
        tuple[FieldSelectorRequirement, ...], Field("Requirements on fields of the cluster; all must match.")
    ] = ()


class ClusterAffinity(Value):
    """Selects clusters; all parts must match."""

    label_selector: Annotated[LabelSelector | None, Field("The labels that the clusters must have.")] = None
    field_selector: Annotated[
        FieldSelector | None, Field("The provider, region or zone that the clusters must have.")
    ] = None
    cluster_names: Annotated[tuple[str, ...], Field("Only these clusters; empty means all.")] = ()
    exclude: Annotated[tuple[str, ...], Field("Clusters to exclude; overrides everything else.")] = ()


class OverflowAffinity(ClusterAffinity):
    """Clusters added to a group when the group alone has too little capacity."""

    affinity_name: Annotated[
        str, Field("The name of these clusters among the affinities.", required=True, min_length=1, max_length=32)
    ] = never_omit("")


class ClusterAffinityTerm(ClusterAffinity):
    """One of several cluster groups, tried in order."""

    affinity_name: Annotated[
        str, Field("The name of the group, shown in the binding's status.", required=True, min_length=1, max_length=32)
    ] = never_omit("")
    overflow_affinities: Annotated[
        tuple[OverflowAffinity, ...], Field("Clusters added one after another while the group has too little capacity.")
    ] = ()


class SpreadConstraint(Value):
    """The number of cluster groups to spread over."""

    spread_by_field: Annotated[
        str, Field("The field that groups clusters.", enum=("cluster", "region", "zone", "provider"))
    ] = ""
    spread_by_label: Annotated[str, Field("The label that groups clusters; alternative to spreadByField.")] = ""
    max_groups: Annotated[int, Field("The maximum number of groups; 0 selects none.")] = 0
    min_groups: Annotated[int, Field("The minimum number of groups.")] = 0


class StaticClusterWeight(Value):
    target_cluster: Annotated[ClusterAffinity, Field("The clusters with this weight.", required=True)] = never_omit(
        ClusterAffinity()
    )
    weight: Annotated[Int64, Field("Their weight when replicas are divided.", required=True, minimum=1)] = never_omit(0)


class ClusterPreferences(Value):
    static_weight_list: Annotated[tuple[StaticClusterWeight, ...], Field("Fixed weights.")] = ()
    dynamic_weight: Annotated[
        str,
        Field(
            "Weights from the clusters' available replicas or score; staticWeightList is then ignored.",
            enum=("AvailableReplicas", "Score"),
        ),
    ] = ""


class ReplicaSchedulingStrategy(Value):
    replica_scheduling_type: Annotated[
        str,
        Field(
            "Whether every cluster gets all replicas, or the replicas are divided.",
            enum=("Duplicated", "Divided"),
            default="Divided",
        ),
    ] = ""
    replica_division_preference: Annotated[
        str,
        Field("Whether to divide into as few clusters as possible, or by weight.", enum=("Aggregated", "Weighted")),
    ] = ""
    weight_preference: Annotated[ClusterPreferences | None, Field("The weights for a division by weight.")] = None


class WorkloadAffinityTerm(Value):
    group_by_label_key: Annotated[
        str, Field("Workloads with the same value of this label belong together.", required=True)
    ] = never_omit("")


class WorkloadAffinity(Value):
    affinity: Annotated[WorkloadAffinityTerm | None, Field("Schedule workloads of one group to the same clusters.")] = (
        None
    )
    anti_affinity: Annotated[
        WorkloadAffinityTerm | None, Field("Schedule workloads of one group to different clusters.")
    ] = None


class Failback(Value):
    """Automatic failback after a failover."""

    after: Annotated[
        str, Field("How long the preferred clusters must have been healthy without interruption, as in `10m`.")
    ] = ""
    to: Annotated[
        str,
        Field(
            "The target: the first affinity group that fits, or the clusters before the failover.",
            enum=("PreferredGroup", "Previous"),
            default="PreferredGroup",
        ),
    ] = ""


class AddOnScore(Value):
    resource_name: Annotated[str, Field("The AddOnPlacementScore in each cluster's namespace.", required=True)] = (
        never_omit("")
    )
    score_name: Annotated[str, Field("The score inside that object.", required=True)] = never_omit("")


class ScoreCoordinate(Value):
    """A reference to a score."""

    type: Annotated[
        str,
        Field("A built-in score, or one from an AddOnPlacementScore.", enum=("BuiltIn", "AddOn"), default="BuiltIn"),
    ] = ""
    built_in: Annotated[
        str, Field("The built-in score: Balance, Steady, ResourceAllocatableCPU or ResourceAllocatableMemory.")
    ] = ""
    build_in: Annotated[str, Field("Deprecated: use builtIn.")] = ""
    add_on: Annotated[AddOnScore | None, Field("The location of the add-on's score.")] = None


class PrioritizerConfig(Value):
    name: Annotated[str, Field("Deprecated: the name of a built-in score; use scoreCoordinate.")] = ""
    score_coordinate: Annotated[ScoreCoordinate | None, Field("The score.", required=True)] = None
    weight: Annotated[
        Int32 | None,
        Field("The weight; negative weights invert the score, 0 disables it.", default=1, minimum=-10, maximum=10),
    ] = None


class PrioritizerPolicy(Value):
    """How clusters are prioritized."""

    mode: Annotated[
        str,
        Field(
            "Additive adds the configurations to the default scores; Exact uses only the configurations.",
            default="Additive",
        ),
    ] = ""
    configurations: Annotated[tuple[PrioritizerConfig, ...], Field("The scores and their weights.")] = ()


class PlacementReference(Value):
    name: Annotated[str, Field("The name of the Placement.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Its namespace; empty means the policy's own.")] = ""


class ScoreHysteresis(Value):
    """How much better, and for how long, another placement must be before a score change moves replicas."""

    margin: Annotated[
        int,
        Field(
            "The minimum difference of the total score, which ranges from -100 to 100.",
            default=10,
            minimum=0,
            maximum=200,
        ),
    ] = 10
    for_: Annotated[str, Field("How long without interruption, as in `5m`.", default="5m")] = msgspec.field(
        default="5m", name="for"
    )


class Placement(Value):
    """Where and how an object is placed."""

    cluster_affinity: Annotated[ClusterAffinity | None, Field("The clusters to select from.")] = None
    cluster_affinities: Annotated[
        tuple[ClusterAffinityTerm, ...], Field("Cluster groups in order; the first that fits is used.")
    ] = ()
    cluster_tolerations: Annotated[tuple[Toleration, ...], Field("Tolerations of cluster taints.")] = ()
    spread_constraints: Annotated[
        tuple[SpreadConstraint, ...], Field("How many clusters, regions, zones or providers to spread over.")
    ] = ()
    replica_scheduling: Annotated[
        ReplicaSchedulingStrategy | None,
        Field("How replicas are divided; absent means every cluster gets all replicas."),
    ] = None
    workload_affinity: Annotated[WorkloadAffinity | None, Field("Which workloads are scheduled together or apart.")] = (
        None
    )
    failback: Annotated[Failback | None, Field("Automatic failback after a failover; absent means none.")] = None
    prioritizer_policy: Annotated[
        PrioritizerPolicy | None, Field("Scores that rank the clusters before any other rule.")
    ] = None
    placement_ref: Annotated[PlacementReference | None, Field("Select only from the decisions of this Placement.")] = (
        None
    )
    score_hysteresis: Annotated[
        ScoreHysteresis | None, Field("How much better a score must be, and for how long, before it moves replicas.")
    ] = None


class ApplicationPreConditions(Value):
    """What must hold before a failover is considered."""

    delay_seconds: Annotated[Int32 | None, Field("The wait after the first status from the cluster.", minimum=0)] = None
    healthy_state: Annotated[
        str, Field("The workload must have been in this state in the cluster at least once.", enum=("Healthy",))
    ] = ""


class DecisionConditions(Value):
    """When an unhealthy workload is evicted."""

    toleration_seconds: Annotated[
        Int32 | None, Field("How long the workload may be unhealthy; 0 evicts it at once.")
    ] = None
    healthy_state: Annotated[tuple[str, ...], Field("The states that count; only Unhealthy when absent.")] = ()


class StatePreservationRule(Value):
    alias_label_name: Annotated[str, Field("The label that passes the value to the new cluster.", required=True)] = (
        never_omit("")
    )
    json_path: Annotated[str, Field("The JSON path of the value in the status of the old object.", required=True)] = (
        never_omit("")
    )


class StatePreservation(Value):
    rules: Annotated[
        tuple[StatePreservationRule, ...],
        Field("Values of the old object's status to pass to the new object.", required=True),
    ] = never_omit(())


class PurgeDeadline(Value):
    """How long a new object waits for deletion of the old one in an unreachable cluster, and what happens then."""

    seconds: Annotated[Int32, Field("How long to wait.", default=600, minimum=0)] = 600
    then: Annotated[
        str,
        Field(
            "Keep waiting, or start although the old object may still run.", enum=("Hold", "Proceed"), default="Hold"
        ),
    ] = "Hold"


class ApplicationFailoverBehavior(Value):
    pre_conditions: Annotated[
        ApplicationPreConditions | None, Field("What must hold before a failover is considered.")
    ] = None
    decision_conditions: Annotated[DecisionConditions | None, Field("When the workload is evicted.", required=True)] = (
        None
    )
    purge_mode: Annotated[
        str,
        Field(
            "What happens to the old object: deleted at once, deleted when the new one is healthy, or kept.",
            enum=PURGE_MODES,
            default="Gracefully",
        ),
    ] = ""
    grace_period_seconds: Annotated[
        Int32 | None, Field("The maximum wait for the new object before the old one is deleted.")
    ] = None
    block_predecessor_seconds: Annotated[
        Int32 | None, Field("How long the evicted cluster may not be selected again; 0 means forever.", minimum=0)
    ] = None
    state_preservation: Annotated[
        StatePreservation | None, Field("State of the old object to pass to the new one.")
    ] = None
    purge_deadline: Annotated[
        PurgeDeadline | None,
        Field("With Directly: what to do when the old object cannot be deleted because its cluster is unreachable."),
    ] = None


class ClusterFailoverBehavior(Value):
    purge_mode: Annotated[
        str,
        Field("What happens to the object in the failed cluster.", enum=CLUSTER_PURGE_MODES, default="Gracefully"),
    ] = ""
    state_preservation: Annotated[
        StatePreservation | None, Field("State of the old object to pass to the new one.")
    ] = None
    purge_deadline: Annotated[
        PurgeDeadline | None,
        Field("With Directly: what to do when the old object cannot be deleted because its cluster is unreachable."),
    ] = None


class FailoverBehavior(Value):
    """When and how a workload fails over to another cluster."""

    application: Annotated[
        ApplicationFailoverBehavior | None, Field("When the workload itself is unhealthy; absent means no failover.")
    ] = None
    cluster: Annotated[ClusterFailoverBehavior | None, Field("When the cluster fails; absent means the defaults.")] = (
        None
    )


class SuspendClusters(Value):
    cluster_names: Annotated[tuple[str, ...], Field("The clusters to which dispatching is suspended.")] = ()


class Suspension(Value):
    """What is suspended."""

    dispatching: Annotated[bool | None, Field("Suspend dispatching to all clusters.")] = None
    dispatching_on_clusters: Annotated[SuspendClusters | None, Field("Suspend dispatching to these clusters.")] = None


class SchedulePriority(Value):
    priority_class_source: Annotated[
        str, Field("The source of the priority class.", required=True, enum=("KubePriorityClass",))
    ] = never_omit("")
    priority_class_name: Annotated[str, Field("The priority class.", required=True)] = never_omit("")


class PropagationSpec(Value):
    resource_selectors: Annotated[
        tuple[ResourceSelector, ...], Field("The objects to propagate.", required=True, min_items=1)
    ] = never_omit(())
    association: Annotated[bool, Field("Deprecated: use propagateDeps.")] = False
    propagate_deps: Annotated[
        bool, Field("Propagate the dependencies of the objects as well, such as ConfigMaps and Secrets.")
    ] = False
    placement: Annotated[Placement, Field("Where the objects are placed.")] = Placement()
    priority: Annotated[
        Int32 | None, Field("The priority among policies that match the same object; the highest wins.", default=0)
    ] = None
    preemption: Annotated[
        str,
        Field(
            "Whether this policy may take over objects of a policy with lower priority.",
            enum=("Always", "Never"),
            default="Never",
        ),
    ] = ""
    dependent_overrides: Annotated[tuple[str, ...], Field("Override policies that must exist before propagation.")] = ()
    scheduler_name: Annotated[
        str, Field("The scheduler that selects the clusters; immutable.", default="default-scheduler")
    ] = ""
    failover: Annotated[FailoverBehavior | None, Field("When and how objects fail over to another cluster.")] = None
    conflict_resolution: Annotated[
        str,
        Field("What to do when the object already exists in a cluster.", enum=("Abort", "Overwrite"), default="Abort"),
    ] = ""
    activation_preference: Annotated[
        str, Field("Lazy: a change of the policy takes effect at the next change of the object.", enum=("Lazy",))
    ] = ""
    suspension: Annotated[Suspension | None, Field("What is suspended.")] = None
    preserve_resources_on_deletion: Annotated[
        bool | None, Field("Keep the objects in the clusters when the template is deleted.")
    ] = None
    schedule_priority: Annotated[SchedulePriority | None, Field("The priority in the scheduling queue.")] = None


class Policy(Object):
    """The common type of both propagation policy kinds; the cluster-wide one has no namespace."""

    spec: Annotated[PropagationSpec, Field("The objects and their placement.", required=True)] = never_omit(
        PropagationSpec()
    )


_POLICY_COLUMNS = (
    Column("CONFLICT-RESOLUTION", ".spec.conflictResolution"),
    Column("PRIORITY", ".spec.priority"),
    Column("AGE", ".metadata.creationTimestamp", "date"),
)


@kind(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="propagationpolicies",
    short=("pp",),
    categories=("karmada-io",),
    columns=_POLICY_COLUMNS,
    admission_defaults=(default_selector_namespaces, fill_propagation),
    admission_validators=(check_selector_namespaces, check_propagation),
    text="Propagates objects of its namespace to clusters.",
)
class PropagationPolicy(Policy):
    pass


@kind(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="clusterpropagationpolicies",
    short=("cpp",),
    categories=("karmada-io",),
    namespaced=False,
    columns=_POLICY_COLUMNS,
    admission_defaults=(fill_propagation,),
    admission_validators=(check_propagation,),
    text="Propagates cluster-wide objects and objects of any namespace to clusters.",
)
class ClusterPropagationPolicy(Policy):
    pass
