"""Karmada's working papers: the binding that says where an object goes, and the Work that takes it there."""

from datetime import datetime
from typing import Annotated

from trimtab.api.admission.raw import at, mapping
from trimtab.api.admission.work import check_binding, rename_creation
from trimtab.api.kind import Column, OtherVersion, kind
from trimtab.api.kinds.cluster import Toleration
from trimtab.api.kinds.policy import PURGE_MODES, FailoverBehavior, Placement, SuspendClusters
from trimtab.api.value import Condition, Field, Int32, Int64, MicroTime, Object, QuantityText, Raw, Value, always

_HEALTH = ("Healthy", "Unhealthy", "Unknown")


class ObjectReference(Value):
    """The template that a binding is about."""

    api_version: Annotated[str, Field("Group and version of the template.", required=True)] = always("")
    kind: Annotated[str, Field("Kind of the template.", required=True)] = always("")
    namespace: Annotated[str, Field("Namespace of the template; empty when it is cluster-wide.")] = ""
    name: Annotated[str, Field("Name of the template.", required=True)] = always("")
    uid: Annotated[str, Field("Uid of the template when it was last looked at.")] = ""
    resource_version: Annotated[str, Field("Version of the template when it was last looked at.")] = ""


class NodeSelectorRequirement(Value):
    key: Annotated[str, Field("The label or field of the node.", required=True)] = always("")
    operator: Annotated[
        str, Field("How it and the values relate: In, NotIn, Exists, DoesNotExist, Gt or Lt.", required=True)
    ] = always("")
    values: Annotated[tuple[str, ...], Field("The values to compare with.", list_type="atomic")] = ()


class NodeSelectorTerm(Value):
    match_expressions: Annotated[
        tuple[NodeSelectorRequirement, ...], Field("Rules about labels of the node.", list_type="atomic")
    ] = ()
    match_fields: Annotated[
        tuple[NodeSelectorRequirement, ...], Field("Rules about fields of the node.", list_type="atomic")
    ] = ()


class NodeSelector(Value):
    node_selector_terms: Annotated[
        tuple[NodeSelectorTerm, ...],
        Field("A node fits when all rules of any one term hold.", required=True, list_type="atomic"),
    ] = always(())


class NodeClaim(Value):
    """What a replica asks of its node."""

    hard_node_affinity: Annotated[NodeSelector | None, Field("Which nodes it may run on.")] = None
    node_selector: Annotated[dict[str, str], Field("Which labels the node must have.")] = {}
    tolerations: Annotated[tuple[Toleration, ...], Field("Which taints of nodes it tolerates.")] = ()


class ReplicaRequirements(Value):
    """What one replica needs."""

    node_claim: Annotated[NodeClaim | None, Field("What it asks of its node.")] = None
    resource_request: Annotated[dict[str, QuantityText], Field("What resources it asks for.")] = {}
    namespace: Annotated[str, Field("Its namespace, whose quota may limit it.")] = ""
    priority_class_name: Annotated[str, Field("Its priority class, which quotas may look at.")] = ""


class ComponentReplicaRequirements(Value):
    """What one replica of a component needs."""

    node_claim: Annotated[NodeClaim | None, Field("What it asks of its node.")] = None
    resource_request: Annotated[dict[str, QuantityText], Field("What resources it asks for.")] = {}
    priority_class_name: Annotated[str, Field("Its priority class, which quotas may look at.")] = ""


class Component(Value):
    """One of several pod templates of a workload."""

    name: Annotated[str, Field("The name of the component.", required=True, max_length=32)] = always("")
    replicas: Annotated[Int32, Field("How many replicas it has.", required=True)] = always(0)
    replica_requirements: Annotated[ComponentReplicaRequirements | None, Field("What one replica of it needs.")] = None


class TargetComponent(Value):
    name: Annotated[str, Field("The name of the component.", required=True)] = always("")
    replicas: Annotated[Int32, Field("Its replicas in this cluster.", required=True)] = always(0)


class TargetCluster(Value):
    """A cluster and its share."""

    name: Annotated[str, Field("The cluster.", required=True)] = always("")
    replicas: Annotated[Int32, Field("Its share of the replicas.")] = 0
    components: Annotated[tuple[TargetComponent, ...], Field("Its share, component by component.")] = ()


class GracefulEvictionTask(Value):
    """A cluster that is being left."""

    from_cluster: Annotated[str, Field("The cluster that is left.", required=True)] = always("")
    purge_mode: Annotated[str, Field("What becomes of the copy there.", enum=PURGE_MODES)] = ""
    replicas: Annotated[Int32 | None, Field("How many replicas it had.")] = None
    reason: Annotated[
        str,
        Field(
            "Why, in one CamelCase word for machines.",
            required=True,
            min_length=1,
            max_length=32,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ] = always("")
    message: Annotated[str, Field("Why, in words for people.", max_length=1024)] = ""
    producer: Annotated[str, Field("Who asked for it.", required=True)] = always("")
    grace_period_seconds: Annotated[Int32 | None, Field("The longest wait before the copy goes.")] = None
    suppress_deletion: Annotated[
        bool | None, Field("True holds the copy until somebody decides; false removes it now.")
    ] = None
    preserved_label_state: Annotated[dict[str, str], Field("Labels that tell the new copy about the old one.")] = {}
    creation_timestamp: Annotated[datetime | None, Field("When the task was made.")] = None
    clusters_before_failover: Annotated[tuple[str, ...], Field("Where the workload was before.")] = ()


class ActiveEviction(Value):
    """A cluster that was left because the workload was unhealthy there."""

    cluster_name: Annotated[str, Field("The cluster that was left.", required=True)] = always("")
    creation_timestamp: Annotated[datetime | None, Field("When it was left.")] = None
    create_timestamp: Annotated[datetime | None, Field("The old spelling of creationTimestamp.")] = None


class BindingSnapshot(Value):
    """Another binding that needs this one's object."""

    namespace: Annotated[str, Field("The namespace of the other binding; empty when cluster-wide.")] = ""
    name: Annotated[str, Field("The name of the other binding.", required=True)] = always("")
    clusters: Annotated[tuple[TargetCluster, ...], Field("Where the other one goes.")] = ()


class BindingSuspension(Value):
    """What is paused."""

    dispatching: Annotated[bool | None, Field("Send nothing to any cluster.")] = None
    dispatching_on_clusters: Annotated[SuspendClusters | None, Field("Send nothing to these clusters.")] = None
    scheduling: Annotated[bool | None, Field("Choose no clusters.")] = None


class BindingSchedulePriority(Value):
    priority: Annotated[Int32, Field("Who is scheduled first; higher first.", default=0)] = always(0)


class WorkloadAffinityGroups(Value):
    affinity_group: Annotated[str, Field("The group to stay with, as `key=value`.")] = ""
    anti_affinity_group: Annotated[str, Field("The group to keep apart from, as `key=value`.")] = ""


class BindingSpec(Value):
    resource: Annotated[ObjectReference, Field("The template.", required=True)] = always(ObjectReference())
    propagate_deps: Annotated[bool, Field("Take along what the template needs.")] = False
    replica_requirements: Annotated[ReplicaRequirements | None, Field("What one replica needs.")] = None
    replicas: Annotated[Int32, Field("How many replicas the template asks for.")] = 0
    components: Annotated[tuple[Component, ...], Field("The pod templates of a workload that has several.")] = ()
    clusters: Annotated[tuple[TargetCluster, ...], Field("Where it goes.")] = ()
    placement: Annotated[Placement | None, Field("The rules it is placed by; absent when it only follows others.")] = (
        None
    )
    graceful_eviction_tasks: Annotated[tuple[GracefulEvictionTask, ...], Field("Clusters that are being left.")] = ()
    active_eviction_history: Annotated[
        tuple[ActiveEviction, ...], Field("Clusters left by an unhealthy workload, which are blocked for a while.")
    ] = ()
    required_by: Annotated[tuple[BindingSnapshot, ...], Field("Bindings that need this object.")] = ()
    scheduler_name: Annotated[str, Field("Which scheduler chooses the clusters.")] = ""
    failover: Annotated[FailoverBehavior | None, Field("When and how it leaves a cluster by itself.")] = None
    conflict_resolution: Annotated[
        str, Field("What to do when a cluster has the object already.", enum=("Abort", "Overwrite"), default="Abort")
    ] = ""
    reschedule_triggered_at: Annotated[datetime | None, Field("When somebody last asked for a fresh decision.")] = None
    suspension: Annotated[BindingSuspension | None, Field("What is paused.")] = None
    preserve_resources_on_deletion: Annotated[
        bool | None, Field("Keep the copies in the clusters when the template is deleted.")
    ] = None
    schedule_priority: Annotated[BindingSchedulePriority | None, Field("Who is scheduled first.")] = None
    workload_affinity_groups: Annotated[
        WorkloadAffinityGroups | None, Field("The groups of workloads it stays with or keeps apart from.")
    ] = None


class AggregatedStatusItem(Value):
    """What one cluster says about its copy."""

    cluster_name: Annotated[str, Field("The cluster.", required=True)] = always("")
    status: Annotated[Raw | None, Field("The copy's status as the cluster reports it.", preserve_unknown=True)] = None
    applied: Annotated[bool, Field("The cluster has the copy as it should be.")] = False
    applied_message: Annotated[str, Field("Why not.")] = ""
    health: Annotated[str, Field("Whether the copy does well.", enum=_HEALTH)] = ""
    settled: Annotated[bool, Field("The copy was healthy at least once since it was placed there.")] = False
    creation_timestamp: Annotated[datetime | None, Field("When its status was first collected.")] = None
    create_timestamp: Annotated[datetime | None, Field("The old spelling of creationTimestamp.")] = None


class Hold(Value):
    """Replicas that stay in a cluster until their replacement is ready elsewhere."""

    cluster: Annotated[str, Field("The cluster that keeps them.", required=True)] = always("")
    replicas: Annotated[Int32, Field("How many are kept beyond the cluster's share.", required=True)] = always(0)
    since: Annotated[datetime | None, MicroTime(), Field("Since when.")] = None
    until: Annotated[datetime | None, MicroTime(), Field("When the move is given up and undone.")] = None
    reason: Annotated[str, Field("What the move is for, such as Rebalance or Failback.")] = ""


class Replacement(Value):
    """What was there when replicas began to move, so that arrivals can be told from what was there, or all be undone."""

    before: Annotated[tuple[TargetCluster, ...], Field("Where the replicas were.")] = ()
    ready: Annotated[tuple[TargetCluster, ...], Field("How many of them were ready.")] = ()
    affinity_name: Annotated[str, Field("The affinity group that was in use.")] = ""


class UnhealthyCluster(Value):
    """Since when a copy is unhealthy, so that a restart of ours does not begin to count anew."""

    cluster_name: Annotated[str, Field("The cluster.", required=True)] = always("")
    since: Annotated[datetime | None, MicroTime(), Field("Since when, without a break.")] = None


class Rollout(Value):
    """When the template last changed, to tell a bad roll-out from a bad cluster."""

    fingerprint: Annotated[str, Field("What the template says, its number of replicas aside.", required=True)] = always(
        ""
    )
    since: Annotated[datetime | None, MicroTime(), Field("Since when; absent when it was so from the beginning.")] = (
        None
    )


class PreviousPlacement(Value):
    """Where the workload was before a failover, to find the way home."""

    clusters: Annotated[tuple[TargetCluster, ...], Field("Where it was.")] = ()
    affinity_name: Annotated[str, Field("The affinity group it was in.")] = ""
    since: Annotated[datetime | None, MicroTime(), Field("When it left.")] = None
    healthy_since: Annotated[
        datetime | None, MicroTime(), Field("Since when the old place is healthy again, without a break.")
    ] = None
    undone: Annotated[
        Int32, Field("How many returns in a row were undone; each makes the next wait longer.", minimum=0)
    ] = 0


class Challenger(Value):
    """A better answer by score that has not been better for long enough yet."""

    clusters: Annotated[tuple[TargetCluster, ...], Field("The better answer.")] = ()
    since: Annotated[datetime | None, MicroTime(), Field("Since when it is better, without a break.")] = None


class RefusedClusters(Value):
    """Clusters that one rule turned down."""

    rule: Annotated[str, Field("The filter that objected first.", required=True)] = always("")
    message: Annotated[str, Field("What it said of the first of them.")] = ""
    count: Annotated[Int32, Field("How many they are.", required=True)] = always(0)
    clusters: Annotated[tuple[str, ...], Field("The first of them, by name.")] = ()


class DecisionRecord(Value):
    """Why the last decision was as it was, in few words, for whoever asks later or elsewhere."""

    time: Annotated[datetime | None, MicroTime(), Field("When it was decided.")] = None
    mode: Annotated[str, Field("Steady keeps what is placed as far as it can; Fresh thinks anew.")] = ""
    rule: Annotated[str, Field("How replicas were shared out.")] = ""
    considered: Annotated[Int32, Field("How many clusters there were.", required=True)] = always(0)
    feasible: Annotated[Int32, Field("How many of them nothing spoke against.", required=True)] = always(0)
    refused: Annotated[tuple[RefusedClusters, ...], Field("Why the others were not.")] = ()


class BindingStatus(Value):
    scheduler_observed_generation: Annotated[Int64, Field("The generation that was last scheduled.")] = 0
    scheduler_observing_affinity_name: Annotated[str, Field("The affinity group that is in use.")] = ""
    last_scheduled_time: Annotated[datetime | None, Field("When it was last scheduled with success.")] = None
    conditions: Annotated[tuple[Condition, ...], Field("What was observed: Scheduled and FullyApplied.")] = ()
    aggregated_status: Annotated[tuple[AggregatedStatusItem, ...], Field("What each cluster says.")] = ()
    holds: Annotated[tuple[Hold, ...], Field("Replicas that stay until their replacement is ready.")] = ()
    replacement: Annotated[
        Replacement | None, Field("What was there when the replicas that are held began to move.")
    ] = None
    unhealthy_clusters: Annotated[tuple[UnhealthyCluster, ...], Field("Clusters where the copy is unhealthy.")] = ()
    rollout: Annotated[Rollout | None, Field("When the template last changed; kept where a failover looks at it.")] = (
        None
    )
    previous_placement: Annotated[PreviousPlacement | None, Field("Where it was before a failover.")] = None
    challenger: Annotated[Challenger | None, Field("A better answer by score that waits for its time.")] = None
    followed: Annotated[
        tuple[str, ...], Field("The clusters of the referenced Placement when it was last followed.", list_type="set")
    ] = ()
    decision: Annotated[DecisionRecord | None, Field("Why it was placed as it is, or not placed.")] = None


class Binding(Object):
    """What both bindings are; the cluster-wide one has no namespace."""

    spec: Annotated[BindingSpec, Field("What goes where.", required=True)] = always(BindingSpec())
    status: Annotated[BindingStatus, Field("How far it has come.")] = BindingStatus()


class ObjectReferenceV1Alpha1(Value):
    """The template that a binding is about, with its replicas."""

    api_version: Annotated[str, Field("Group and version of the template.", required=True)] = always("")
    kind: Annotated[str, Field("Kind of the template.", required=True)] = always("")
    namespace: Annotated[str, Field("Namespace of the template; empty when it is cluster-wide.")] = ""
    name: Annotated[str, Field("Name of the template.", required=True)] = always("")
    resource_version: Annotated[str, Field("Version of the template when it was last looked at.")] = ""
    resource_per_replicas: Annotated[dict[str, QuantityText], Field("What resources one replica asks for.")] = {}
    replicas: Annotated[Int32, Field("How many replicas the template asks for.")] = 0


class BindingSpecV1Alpha1(Value):
    resource: Annotated[ObjectReferenceV1Alpha1, Field("The template.", required=True)] = always(
        ObjectReferenceV1Alpha1()
    )
    clusters: Annotated[tuple[TargetCluster, ...], Field("Where it goes.")] = ()


class BindingStatusV1Alpha1(Value):
    conditions: Annotated[tuple[Condition, ...], Field("What was observed.")] = ()
    aggregated_status: Annotated[tuple[AggregatedStatusItem, ...], Field("What each cluster says.")] = ()


class BindingV1Alpha1(Object):
    """A binding as it was first written; served for old readers."""

    spec: Annotated[BindingSpecV1Alpha1, Field("What goes where.", required=True)] = always(BindingSpecV1Alpha1())
    status: Annotated[BindingStatusV1Alpha1, Field("How far it has come.")] = BindingStatusV1Alpha1()


def _binding_from_v1alpha1(old: Raw) -> Raw:
    """Replicas and what they need move from the template's reference into the binding itself."""
    spec = mapping(old.get("spec"))
    resource = dict(mapping(spec.get("resource")))
    replicas, request = resource.pop("replicas", None), resource.pop("resourcePerReplicas", None)
    new: Raw = {**spec, "resource": resource}
    if replicas:
        new["replicas"] = replicas
    if request:
        new["replicaRequirements"] = {"resourceRequest": request}
    return {**old, "spec": new}


def _binding_to_v1alpha1(new: Raw) -> Raw:
    spec = mapping(new.get("spec"))
    resource = {key: value for key, value in mapping(spec.get("resource")).items() if key != "uid"}
    if spec.get("replicas"):
        resource["replicas"] = spec["replicas"]
    if request := at(spec, "replicaRequirements", "resourceRequest"):
        resource["resourcePerReplicas"] = request
    old: Raw = {**new, "spec": {"resource": resource}}
    if "clusters" in spec:
        old["spec"]["clusters"] = spec["clusters"]
    if "status" in new:
        kept = ("conditions", "aggregatedStatus")
        old["status"] = {key: value for key, value in mapping(new["status"]).items() if key in kept}
    return old


_V1ALPHA1 = {"v1alpha1": OtherVersion(BindingV1Alpha1, _binding_from_v1alpha1, _binding_to_v1alpha1)}
_BINDING_COLUMNS = (
    Column("SCHEDULED", '.status.conditions[?(@.type=="Scheduled")].status'),
    Column("FULLYAPPLIED", '.status.conditions[?(@.type=="FullyApplied")].status'),
    Column("AGE", ".metadata.creationTimestamp", "date"),
)


@kind(
    group="work.karmada.io",
    version="v1alpha2",
    other_versions=_V1ALPHA1,
    plural="resourcebindings",
    short=("rb",),
    categories=("karmada-io",),
    status=True,
    columns=_BINDING_COLUMNS,
    spelling=(rename_creation,),
    admission_validators=(check_binding,),
    text="Says where one object of its namespace goes and how far it has come.",
)
class ResourceBinding(Binding):
    pass


@kind(
    group="work.karmada.io",
    version="v1alpha2",
    other_versions=_V1ALPHA1,
    plural="clusterresourcebindings",
    short=("crb",),
    categories=("karmada-io",),
    namespaced=False,
    status=True,
    columns=_BINDING_COLUMNS,
    spelling=(rename_creation,),
    admission_validators=(check_binding,),
    text="Says where one cluster-wide object goes and how far it has come.",
)
class ClusterResourceBinding(Binding):
    pass


class WorkloadTemplate(Value):
    manifests: Annotated[
        tuple[Annotated[Raw, Field(preserve_unknown=True, embedded=True)], ...], Field("The objects to apply.")
    ] = ()


class WorkSpec(Value):
    workload: Annotated[WorkloadTemplate, Field("What the cluster shall have.")] = WorkloadTemplate()
    suspend_dispatching: Annotated[bool | None, Field("Do not send it for now.")] = None
    preserve_resources_on_deletion: Annotated[
        bool | None, Field("Keep the objects in the cluster when this Work is deleted.")
    ] = None


class ResourceIdentifier(Value):
    ordinal: Annotated[int, Field("Which of the Work's objects, counted from 0.", required=True)] = always(0)
    group: Annotated[str, Field("Its group.")] = ""
    version: Annotated[str, Field("Its version.", required=True)] = always("")
    kind: Annotated[str, Field("Its kind.", required=True)] = always("")
    resource: Annotated[str, Field("Its plural name.", required=True)] = always("")
    namespace: Annotated[str, Field("Its namespace.")] = ""
    name: Annotated[str, Field("Its name.", required=True)] = always("")


class ManifestStatus(Value):
    identifier: Annotated[ResourceIdentifier, Field("Which object.", required=True)] = always(ResourceIdentifier())
    status: Annotated[Raw | None, Field("Its status as the cluster reports it.", preserve_unknown=True)] = None
    health: Annotated[str, Field("Whether it does well.", enum=_HEALTH)] = ""


class WorkStatus(Value):
    conditions: Annotated[tuple[Condition, ...], Field("What was observed: Applied and Dispatching.")] = ()
    manifest_statuses: Annotated[tuple[ManifestStatus, ...], Field("What the cluster says, object by object.")] = ()


@kind(
    group="work.karmada.io",
    version="v1alpha1",
    plural="works",
    short=("wk",),
    categories=("karmada-io",),
    status=True,
    columns=(
        Column("WORKLOAD-KIND", ".spec.workload.manifests[*].kind"),
        Column("APPLIED", '.status.conditions[?(@.type=="Applied")].status'),
        Column("AGE", ".metadata.creationTimestamp", "date"),
    ),
    text="Objects that one cluster shall have; its namespace says which cluster.",
)
class Work(Object):
    spec: Annotated[WorkSpec, Field("What the cluster shall have.", required=True)] = always(WorkSpec())
    status: Annotated[WorkStatus, Field("How far it has come.")] = WorkStatus()
