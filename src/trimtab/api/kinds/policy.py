"""Karmada's policies: what is propagated where, what is changed on the way, and what taints a cluster."""

from typing import Annotated, Any

import msgspec

from trimtab.api.admission.override import check_override, fill_override
from trimtab.api.admission.policy import check_quota, check_taint_policy
from trimtab.api.admission.propagation import check_own_namespace, check_propagation, fill_propagation, own_namespace
from trimtab.api.kind import Column, kind
from trimtab.api.kinds.cluster import Toleration
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Field, Int32, Int64, Object, QuantityText, Value, always

PURGE_MODES = ("Directly", "Gracefully", "Never", "Immediately", "Graciously")
CLUSTER_PURGE_MODES = ("Directly", "Gracefully", "Immediately", "Graciously")


class ResourceSelector(Value):
    """Which objects a policy is about."""

    api_version: Annotated[str, Field("Group and version of the objects.", required=True)] = always("")
    kind: Annotated[str, Field("Kind of the objects.", required=True)] = always("")
    namespace: Annotated[str, Field("Their namespace; empty means the policy's own, or any.")] = ""
    name: Annotated[str, Field("The one object meant; then the label selector is not looked at.")] = ""
    label_selector: Annotated[LabelSelector | None, Field("Which labels the objects must have.")] = None


class FieldSelectorRequirement(Value):
    key: Annotated[str, Field("The field of the cluster: provider, region or zone.", required=True)] = always("")
    operator: Annotated[str, Field("How field and values relate: In or NotIn.", required=True)] = always("")
    values: Annotated[tuple[str, ...], Field("The values to compare with.", list_type="atomic")] = ()


class FieldSelector(Value):
    match_expressions: Annotated[
        tuple[FieldSelectorRequirement, ...], Field("Rules about the cluster's fields, all of which must hold.")
    ] = ()


class ClusterAffinity(Value):
    """Which clusters may be chosen; all parts must hold."""

    label_selector: Annotated[LabelSelector | None, Field("Which labels the clusters must have.")] = None
    field_selector: Annotated[FieldSelector | None, Field("Which provider, region or zone they must have.")] = None
    cluster_names: Annotated[tuple[str, ...], Field("Only these clusters; empty means all.")] = ()
    exclude: Annotated[tuple[str, ...], Field("Never these clusters, whatever else says so.")] = ()


class OverflowAffinity(ClusterAffinity):
    """Clusters added to a group when the group alone has too little room."""

    affinity_name: Annotated[
        str, Field("The name of these clusters among the affinities.", required=True, min_length=1, max_length=32)
    ] = always("")


class ClusterAffinityTerm(ClusterAffinity):
    """One of several groups of clusters, tried in order."""

    affinity_name: Annotated[
        str, Field("The name of the group, shown in the binding's status.", required=True, min_length=1, max_length=32)
    ] = always("")
    overflow_affinities: Annotated[
        tuple[OverflowAffinity, ...], Field("Clusters added one after another while the group has too little room.")
    ] = ()


class SpreadConstraint(Value):
    """Into how many groups of clusters the replicas go."""

    spread_by_field: Annotated[
        str, Field("The field that groups clusters.", enum=("cluster", "region", "zone", "provider"))
    ] = ""
    spread_by_label: Annotated[str, Field("The label that groups clusters; instead of a field.")] = ""
    max_groups: Annotated[int, Field("At most so many groups; 0 is none at all.")] = 0
    min_groups: Annotated[int, Field("At least so many groups.")] = 0


class StaticClusterWeight(Value):
    target_cluster: Annotated[ClusterAffinity, Field("Which clusters have this weight.", required=True)] = always(
        ClusterAffinity()
    )
    weight: Annotated[Int64, Field("Their weight when replicas are divided.", required=True, minimum=1)] = always(0)


class ClusterPreferences(Value):
    static_weight_list: Annotated[tuple[StaticClusterWeight, ...], Field("Weights that the author fixes.")] = ()
    dynamic_weight: Annotated[
        str,
        Field(
            "Weights that follow the clusters: their free replicas, or their score; the fixed list is then not used.",
            enum=("AvailableReplicas", "Score"),
        ),
    ] = ""


class ReplicaSchedulingStrategy(Value):
    replica_scheduling_type: Annotated[
        str,
        Field(
            "Every cluster gets all replicas, or they are divided.", enum=("Duplicated", "Divided"), default="Divided"
        ),
    ] = ""
    replica_division_preference: Annotated[
        str,
        Field("Divide into as few clusters as can be, or by weight.", enum=("Aggregated", "Weighted")),
    ] = ""
    weight_preference: Annotated[ClusterPreferences | None, Field("The weights for a division by weight.")] = None


class WorkloadAffinityTerm(Value):
    group_by_label_key: Annotated[
        str, Field("Workloads with the same value of this label belong together.", required=True)
    ] = always("")


class WorkloadAffinity(Value):
    affinity: Annotated[WorkloadAffinityTerm | None, Field("Put workloads of one group into the same clusters.")] = None
    anti_affinity: Annotated[WorkloadAffinityTerm | None, Field("Keep workloads of one group apart.")] = None


class Failback(Value):
    """Going home by itself after a failover."""

    after: Annotated[str, Field("How long the better place must have been healthy without a break, as in `10m`.")] = ""
    to: Annotated[
        str,
        Field(
            "Where to: the first affinity group that fits, or exactly where the workload was before.",
            enum=("PreferredGroup", "Previous"),
            default="PreferredGroup",
        ),
    ] = ""


class AddOnScore(Value):
    resource_name: Annotated[str, Field("The AddOnPlacementScore in each cluster's namespace.", required=True)] = (
        always("")
    )
    score_name: Annotated[str, Field("The score inside that object.", required=True)] = always("")


class ScoreCoordinate(Value):
    """Which score is meant."""

    type: Annotated[
        str, Field("A score of ours, or one that an add-on writes.", enum=("BuiltIn", "AddOn"), default="BuiltIn")
    ] = ""
    built_in: Annotated[
        str, Field("Which one of ours: Balance, Steady, ResourceAllocatableCPU or ResourceAllocatableMemory.")
    ] = ""
    build_in: Annotated[str, Field("The first spelling of builtIn.")] = ""
    add_on: Annotated[AddOnScore | None, Field("Where the add-on's score is found.")] = None


class PrioritizerConfig(Value):
    name: Annotated[str, Field("The first way to name one of our scores.")] = ""
    score_coordinate: Annotated[ScoreCoordinate | None, Field("The score.", required=True)] = None
    weight: Annotated[
        Int32 | None,
        Field("How much it counts; below zero turns it round, zero leaves it out.", default=1, minimum=-10, maximum=10),
    ] = None


class PrioritizerPolicy(Value):
    """How clusters are ranked."""

    mode: Annotated[
        str,
        Field("Additive keeps the default scores beside those given; Exact uses only those given.", default="Additive"),
    ] = ""
    configurations: Annotated[tuple[PrioritizerConfig, ...], Field("The scores and what they weigh.")] = ()


class PlacementReference(Value):
    name: Annotated[str, Field("The name of the Placement.", required=True)] = always("")
    namespace: Annotated[str, Field("Its namespace; empty means the policy's own.")] = ""


class ScoreHysteresis(Value):
    """How much better and for how long another answer must be before scores move anything."""

    margin: Annotated[
        int, Field("By how many points of the total, which runs from -100 to 100.", default=10, minimum=0, maximum=200)
    ] = 10
    for_: Annotated[str, Field("How long without a break, as in `5m`.", default="5m")] = msgspec.field(
        default="5m", name="for"
    )


class Placement(Value):
    """Where something goes."""

    cluster_affinity: Annotated[ClusterAffinity | None, Field("The one group of clusters to choose from.")] = None
    cluster_affinities: Annotated[
        tuple[ClusterAffinityTerm, ...], Field("Groups of clusters in order; the first that fits is used.")
    ] = ()
    cluster_tolerations: Annotated[tuple[Toleration, ...], Field("Which taints of clusters are tolerated.")] = ()
    spread_constraints: Annotated[
        tuple[SpreadConstraint, ...], Field("Into how many clusters, regions, zones or providers it is spread.")
    ] = ()
    replica_scheduling: Annotated[
        ReplicaSchedulingStrategy | None, Field("How replicas are shared out; absent means all of them everywhere.")
    ] = None
    workload_affinity: Annotated[
        WorkloadAffinity | None, Field("Which workloads keep together and which keep apart.")
    ] = None
    failback: Annotated[Failback | None, Field("Go home by itself after a failover; absent means stay.")] = None
    prioritizer_policy: Annotated[
        PrioritizerPolicy | None, Field("Scores that rank the clusters before any other rule does.")
    ] = None
    placement_ref: Annotated[
        PlacementReference | None, Field("Choose only from the clusters that this Placement decided for.")
    ] = None
    score_hysteresis: Annotated[
        ScoreHysteresis | None, Field("How much better scores must be, and how long, before they move anything.")
    ] = None


class ApplicationPreConditions(Value):
    """What must hold before a failover is thought of at all."""

    delay_seconds: Annotated[
        Int32 | None, Field("Wait so long after the first status came from the cluster.", minimum=0)
    ] = None
    healthy_state: Annotated[str, Field("The workload must have been in this state there once.", enum=("Healthy",))] = (
        ""
    )


class DecisionConditions(Value):
    """When an unhealthy workload is moved."""

    toleration_seconds: Annotated[Int32 | None, Field("How long it may be unhealthy; 0 moves it at once.")] = None
    healthy_state: Annotated[tuple[str, ...], Field("Which states count; Unhealthy alone when absent.")] = ()


class StatePreservationRule(Value):
    alias_label_name: Annotated[str, Field("The label that carries the value to the new cluster.", required=True)] = (
        always("")
    )
    json_path: Annotated[str, Field("Where the value is found in the status of the old copy.", required=True)] = always(
        ""
    )


class StatePreservation(Value):
    rules: Annotated[
        tuple[StatePreservationRule, ...],
        Field("Values of the old copy's status that the new copy is told.", required=True),
    ] = always(())


class PurgeDeadline(Value):
    """How long a new copy waits for the old one to be gone, when its cluster does not answer, and what then."""

    seconds: Annotated[Int32, Field("How long it waits.", default=600, minimum=0)] = 600
    then: Annotated[
        str,
        Field("Go on waiting, or start although the old copy may still run.", enum=("Hold", "Proceed"), default="Hold"),
    ] = "Hold"


class ApplicationFailoverBehavior(Value):
    pre_conditions: Annotated[
        ApplicationPreConditions | None, Field("What must hold before a failover is thought of.")
    ] = None
    decision_conditions: Annotated[DecisionConditions | None, Field("When the workload is moved.", required=True)] = (
        None
    )
    purge_mode: Annotated[
        str,
        Field(
            "What becomes of the old copy: gone at once, gone when the new one is healthy, or left alone.",
            enum=PURGE_MODES,
            default="Gracefully",
        ),
    ] = ""
    grace_period_seconds: Annotated[
        Int32 | None, Field("The longest wait for the new copy before the old one goes.")
    ] = None
    block_predecessor_seconds: Annotated[
        Int32 | None, Field("How long the cluster that was left may not be chosen again; 0 is for ever.", minimum=0)
    ] = None
    state_preservation: Annotated[StatePreservation | None, Field("What the new copy is told about the old one.")] = (
        None
    )
    purge_deadline: Annotated[
        PurgeDeadline | None,
        Field("With Directly: what to do when the old copy cannot be removed because its cluster does not answer."),
    ] = None


class ClusterFailoverBehavior(Value):
    purge_mode: Annotated[
        str,
        Field("What becomes of the copy in the failed cluster.", enum=CLUSTER_PURGE_MODES, default="Gracefully"),
    ] = ""
    state_preservation: Annotated[StatePreservation | None, Field("What the new copy is told about the old one.")] = (
        None
    )
    purge_deadline: Annotated[
        PurgeDeadline | None,
        Field("With Directly: what to do when the old copy cannot be removed because its cluster does not answer."),
    ] = None


class FailoverBehavior(Value):
    """When and how a workload leaves a cluster that does it no good."""

    application: Annotated[
        ApplicationFailoverBehavior | None, Field("When the workload itself is unhealthy; absent means it stays.")
    ] = None
    cluster: Annotated[
        ClusterFailoverBehavior | None, Field("When the cluster fails; absent means by the defaults.")
    ] = None


class SuspendClusters(Value):
    cluster_names: Annotated[tuple[str, ...], Field("The clusters to which nothing is sent.")] = ()


class Suspension(Value):
    """What is paused."""

    dispatching: Annotated[bool | None, Field("Send nothing to any cluster.")] = None
    dispatching_on_clusters: Annotated[SuspendClusters | None, Field("Send nothing to these clusters.")] = None


class SchedulePriority(Value):
    priority_class_source: Annotated[
        str, Field("Where the priority class is found.", required=True, enum=("KubePriorityClass",))
    ] = always("")
    priority_class_name: Annotated[str, Field("The priority class.", required=True)] = always("")


class PropagationSpec(Value):
    resource_selectors: Annotated[
        tuple[ResourceSelector, ...], Field("Which objects are propagated.", required=True, min_items=1)
    ] = always(())
    association: Annotated[bool, Field("The old name of propagateDeps.")] = False
    propagate_deps: Annotated[bool, Field("Take along what the objects need, such as ConfigMaps and Secrets.")] = False
    placement: Annotated[Placement, Field("Where they go.")] = Placement()
    priority: Annotated[Int32 | None, Field("Which policy wins where several match; higher wins.", default=0)] = None
    preemption: Annotated[
        str,
        Field(
            "May this policy take over objects of a policy with lower priority.",
            enum=("Always", "Never"),
            default="Never",
        ),
    ] = ""
    dependent_overrides: Annotated[
        tuple[str, ...], Field("Override policies that must exist before anything is propagated.")
    ] = ()
    scheduler_name: Annotated[
        str, Field("Which scheduler chooses the clusters; cannot be changed.", default="default-scheduler")
    ] = ""
    failover: Annotated[FailoverBehavior | None, Field("When and how objects leave a cluster by themselves.")] = None
    conflict_resolution: Annotated[
        str,
        Field("What to do when a cluster has the object already.", enum=("Abort", "Overwrite"), default="Abort"),
    ] = ""
    activation_preference: Annotated[
        str, Field("Lazy: an edit of the policy waits for the next edit of the object.", enum=("Lazy",))
    ] = ""
    suspension: Annotated[Suspension | None, Field("What is paused.")] = None
    preserve_resources_on_deletion: Annotated[
        bool | None, Field("Keep the copies in the clusters when the object here is deleted.")
    ] = None
    schedule_priority: Annotated[SchedulePriority | None, Field("Who is scheduled first.")] = None


class Policy(Object):
    """What both propagation policies are; the cluster-wide one has no namespace."""

    spec: Annotated[PropagationSpec, Field("What goes where.", required=True)] = always(PropagationSpec())


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
    admission_defaults=(own_namespace, fill_propagation),
    admission_validators=(check_own_namespace, check_propagation),
    text="Says which objects of its namespace go to which clusters.",
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
    text="Says which objects of any namespace, or of none, go to which clusters.",
)
class ClusterPropagationPolicy(Policy):
    pass


class PlaintextOverrider(Value):
    path: Annotated[str, Field("The place in the object, as a JSON pointer.", required=True)] = always("")
    operator: Annotated[str, Field("What to do there.", required=True, enum=("add", "remove", "replace"))] = always("")
    value: Annotated[Any, Field("The value to put there.", preserve_unknown=True)] = None


class ImagePredicate(Value):
    path: Annotated[str, Field("The place of the image, as a JSON pointer.", required=True)] = always("")


class ImageOverrider(Value):
    predicate: Annotated[ImagePredicate | None, Field("Which image; absent means all images of the workload.")] = None
    component: Annotated[
        str, Field("Which part of the image.", required=True, enum=("Registry", "Repository", "Tag"))
    ] = always("")
    operator: Annotated[str, Field("What to do with it.", required=True, enum=("add", "remove", "replace"))] = always(
        ""
    )
    value: Annotated[str, Field("The new part.")] = ""


class CommandArgsOverrider(Value):
    container_name: Annotated[str, Field("The container.", required=True)] = always("")
    operator: Annotated[str, Field("What to do with its words.", required=True, enum=("add", "remove"))] = always("")
    value: Annotated[tuple[str, ...], Field("The words.")] = ()


class LabelAnnotationOverrider(Value):
    operator: Annotated[
        str, Field("What to do with the entries.", required=True, enum=("add", "remove", "replace"))
    ] = always("")
    value: Annotated[dict[str, str], Field("The entries.", required=True)] = always({})


class FieldPatchOperation(Value):
    sub_path: Annotated[str, Field("The place inside the document, as a JSON pointer.", required=True)] = always("")
    operator: Annotated[str, Field("What to do there.", required=True, enum=("add", "remove", "replace"))] = always("")
    value: Annotated[Any, Field("The value to put there.", preserve_unknown=True)] = None


class FieldOverrider(Value):
    field_path: Annotated[str, Field("The text field that holds a document, as a JSON pointer.", required=True)] = (
        always("")
    )
    json: Annotated[tuple[FieldPatchOperation, ...], Field("Changes to a JSON document.")] = ()
    yaml: Annotated[tuple[FieldPatchOperation, ...], Field("Changes to a YAML document.")] = ()


class Overriders(Value):
    """Changes that are made on the way to a cluster, in this order of kinds."""

    plaintext: Annotated[tuple[PlaintextOverrider, ...], Field("Changes by JSON patch.")] = ()
    image_overrider: Annotated[tuple[ImageOverrider, ...], Field("Changes of image names.")] = ()
    command_overrider: Annotated[tuple[CommandArgsOverrider, ...], Field("Changes of containers' commands.")] = ()
    args_overrider: Annotated[tuple[CommandArgsOverrider, ...], Field("Changes of containers' arguments.")] = ()
    labels_overrider: Annotated[tuple[LabelAnnotationOverrider, ...], Field("Changes of labels.")] = ()
    annotations_overrider: Annotated[tuple[LabelAnnotationOverrider, ...], Field("Changes of annotations.")] = ()
    field_overrider: Annotated[
        tuple[FieldOverrider, ...], Field("Changes inside documents that a text field holds.")
    ] = ()


class RuleWithCluster(Value):
    target_cluster: Annotated[ClusterAffinity | None, Field("For which clusters; absent means all.")] = None
    overriders: Annotated[Overriders, Field("What changes.", required=True)] = always(Overriders())


class OverrideSpec(Value):
    resource_selectors: Annotated[tuple[ResourceSelector, ...], Field("Which objects change; empty means all.")] = ()
    override_rules: Annotated[tuple[RuleWithCluster, ...], Field("What changes for which clusters, in order.")] = ()
    target_cluster: Annotated[ClusterAffinity | None, Field("The old place of a single rule's clusters.")] = None
    overriders: Annotated[Overriders, Field("The old place of a single rule's changes.")] = Overriders()


class Override(Object):
    """What both override policies are; the cluster-wide one has no namespace."""

    spec: Annotated[OverrideSpec, Field("What changes where.", required=True)] = always(OverrideSpec())


@kind(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="overridepolicies",
    short=("op",),
    categories=("karmada-io",),
    admission_defaults=(own_namespace, fill_override),
    admission_validators=(check_own_namespace, check_override),
    text="Says how objects of its namespace differ from cluster to cluster.",
)
class OverridePolicy(Override):
    pass


@kind(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="clusteroverridepolicies",
    short=("cop",),
    categories=("karmada-io",),
    namespaced=False,
    admission_defaults=(fill_override,),
    admission_validators=(check_override,),
    text="Says how objects of any namespace, or of none, differ from cluster to cluster.",
)
class ClusterOverridePolicy(Override):
    pass


class MatchCondition(Value):
    condition_type: Annotated[str, Field("The type of the cluster's condition.", required=True)] = always("")
    operator: Annotated[str, Field("How its status and the values relate.", required=True, enum=("In", "NotIn"))] = (
        always("")
    )
    status_values: Annotated[tuple[str, ...], Field("The statuses to compare with.", required=True)] = always(())


class PolicyTaint(Value):
    key: Annotated[str, Field("The name of the taint.", required=True)] = always("")
    effect: Annotated[str, Field("Its effect: NoSchedule or NoExecute.", required=True)] = always("")
    value: Annotated[str, Field("Its value.")] = ""


class ClusterTaintPolicySpec(Value):
    target_clusters: Annotated[ClusterAffinity | None, Field("For which clusters; absent means all.")] = None
    add_on_conditions: Annotated[
        tuple[MatchCondition, ...], Field("The taints are set when all of these hold; none sets them never.")
    ] = ()
    remove_on_conditions: Annotated[
        tuple[MatchCondition, ...], Field("The taints are taken away when all of these hold; none leaves them.")
    ] = ()
    taints: Annotated[tuple[PolicyTaint, ...], Field("The taints.", required=True, min_items=1)] = always(())


@kind(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="clustertaintpolicies",
    namespaced=False,
    admission_validators=(check_taint_policy,),
    text="Says which conditions of a cluster set or take away taints.",
)
class ClusterTaintPolicy(Object):
    spec: Annotated[ClusterTaintPolicySpec, Field("Which conditions, which taints.", required=True)] = always(
        ClusterTaintPolicySpec()
    )


class StaticClusterAssignment(Value):
    cluster_name: Annotated[str, Field("The cluster.", required=True)] = always("")
    hard: Annotated[dict[str, QuantityText], Field("Its share.", required=True)] = always({})


class FederatedResourceQuotaSpec(Value):
    overall: Annotated[dict[str, QuantityText], Field("What the namespace may use in all clusters.", required=True)] = (
        always({})
    )
    static_assignments: Annotated[
        tuple[StaticClusterAssignment, ...], Field("Which part of it belongs to which cluster.")
    ] = ()


class ClusterQuotaStatus(Value):
    cluster_name: Annotated[str, Field("The cluster.", required=True)] = always("")
    hard: Annotated[dict[str, QuantityText], Field("What may be used there.")] = {}
    used: Annotated[dict[str, QuantityText], Field("What is used there.")] = {}


class FederatedResourceQuotaStatus(Value):
    overall: Annotated[dict[str, QuantityText], Field("What may be used in all clusters.")] = {}
    overall_used: Annotated[dict[str, QuantityText], Field("What is used in all clusters.")] = {}
    aggregated_status: Annotated[tuple[ClusterQuotaStatus, ...], Field("The same, cluster by cluster.")] = ()


@kind(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="federatedresourcequotas",
    categories=("karmada-io",),
    status=True,
    columns=(Column("OVERALL", ".status.overall"), Column("OVERALL_USED", ".status.overallUsed")),
    admission_validators=(check_quota,),
    text="Limits what a namespace may use in all clusters together.",
)
class FederatedResourceQuota(Object):
    spec: Annotated[FederatedResourceQuotaSpec, Field("The limits.", required=True)] = always(
        FederatedResourceQuotaSpec()
    )
    status: Annotated[FederatedResourceQuotaStatus, Field("What is used.")] = FederatedResourceQuotaStatus()
