"""Karmada's ResourceBinding (where an object is scheduled) and Work (the objects to apply in one cluster)."""

from datetime import datetime
from typing import Annotated

from trimtab.api.admission.work import check_binding, rename_create_timestamps
from trimtab.api.kind import Column, OtherVersion, kind
from trimtab.api.kinds.cluster import Toleration
from trimtab.api.kinds.policy import PURGE_MODES, FailoverBehavior, Placement, SuspendClusters
from trimtab.api.paths import object_at, value_at
from trimtab.api.value import Condition, Field, Int32, Int64, MicroTime, Object, QuantityText, Raw, Value, never_omit

_HEALTH = ("Healthy", "Unhealthy", "Unknown")


class ObjectReference(Value):
    """A reference to the template of a binding."""

    api_version: Annotated[str, Field("Group and version of the template.", required=True)] = never_omit("")
    kind: Annotated[str, Field("Kind of the template.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Namespace of the template; empty when it is cluster-wide.")] = ""
    name: Annotated[str, Field("Name of the template.", required=True)] = never_omit("")
    uid: Annotated[str, Field("The last observed uid of the template.")] = ""
    resource_version: Annotated[str, Field("The last observed resourceVersion of the template.")] = ""


class NodeSelectorRequirement(Value):
    key: Annotated[str, Field("The label or field of the node.", required=True)] = never_omit("")
    operator: Annotated[
        str, Field("How it is compared with the values: In, NotIn, Exists, DoesNotExist, Gt or Lt.", required=True)
    ] = never_omit("")
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
    ] = never_omit(())


class NodeClaim(Value):
    """What a replica requires of its node."""

    hard_node_affinity: Annotated[NodeSelector | None, Field("Which nodes it may run on.")] = None
    node_selector: Annotated[dict[str, str], Field("Which labels the node must have.")] = {}
    tolerations: Annotated[tuple[Toleration, ...], Field("Which taints of nodes it tolerates.")] = ()


class ReplicaRequirements(Value):
    """The requirements of one replica."""

    node_claim: Annotated[NodeClaim | None, Field("What it requires of its node.")] = None
    resource_request: Annotated[dict[str, QuantityText], Field("The resource requests.")] = {}
    namespace: Annotated[str, Field("Its namespace, whose quotas apply to it.")] = ""
    priority_class_name: Annotated[str, Field("Its priority class, which quotas may select.")] = ""


class ComponentReplicaRequirements(Value):
    """The requirements of one replica of a component."""

    node_claim: Annotated[NodeClaim | None, Field("What it requires of its node.")] = None
    resource_request: Annotated[dict[str, QuantityText], Field("The resource requests.")] = {}
    priority_class_name: Annotated[str, Field("Its priority class, which quotas may select.")] = ""


class Component(Value):
    """One of several pod templates of a workload."""

    name: Annotated[str, Field("The name of the component.", required=True, max_length=32)] = never_omit("")
    replicas: Annotated[Int32, Field("The number of replicas of the component.", required=True)] = never_omit(0)
    replica_requirements: Annotated[ComponentReplicaRequirements | None, Field("The requirements of one replica.")] = (
        None
    )


class TargetComponent(Value):
    name: Annotated[str, Field("The name of the component.", required=True)] = never_omit("")
    replicas: Annotated[Int32, Field("Its replicas in this cluster.", required=True)] = never_omit(0)


class TargetCluster(Value):
    """A target cluster and its share of the replicas."""

    name: Annotated[str, Field("The cluster.", required=True)] = never_omit("")
    replicas: Annotated[Int32, Field("Its share of the replicas.")] = 0
    components: Annotated[tuple[TargetComponent, ...], Field("Its share, component by component.")] = ()


class GracefulEvictionTask(Value):
    """A cluster from which the workload is being evicted."""

    from_cluster: Annotated[str, Field("The cluster to evict from.", required=True)] = never_omit("")
    purge_mode: Annotated[str, Field("What happens to the object in that cluster.", enum=PURGE_MODES)] = ""
    replicas: Annotated[Int32 | None, Field("The number of replicas it had there.")] = None
    reason: Annotated[
        str,
        Field(
            "The reason, in CamelCase.",
            required=True,
            min_length=1,
            max_length=32,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ] = never_omit("")
    message: Annotated[str, Field("The details for people.", max_length=1024)] = ""
    producer: Annotated[str, Field("The controller or user that requested the eviction.", required=True)] = never_omit(
        ""
    )
    grace_period_seconds: Annotated[Int32 | None, Field("The maximum wait before the object is deleted.")] = None
    suppress_deletion: Annotated[
        bool | None, Field("True keeps the object until this is changed; false deletes it now.")
    ] = None
    preserved_label_state: Annotated[
        dict[str, str], Field("Labels that pass state of the old object to the new one.")
    ] = {}
    creation_timestamp: Annotated[datetime | None, Field("When the task was created.")] = None
    clusters_before_failover: Annotated[
        tuple[str, ...], Field("The clusters of the workload before the failover.")
    ] = ()


class ActiveEviction(Value):
    """An eviction from a cluster because the workload was unhealthy there."""

    cluster_name: Annotated[str, Field("The cluster that the workload was evicted from.", required=True)] = never_omit(
        ""
    )
    creation_timestamp: Annotated[datetime | None, Field("When the eviction started.")] = None
    create_timestamp: Annotated[datetime | None, Field("Deprecated: use creationTimestamp.")] = None


class BindingSnapshot(Value):
    """Another binding that depends on the object of this one."""

    namespace: Annotated[str, Field("The namespace of the other binding; empty when cluster-wide.")] = ""
    name: Annotated[str, Field("The name of the other binding.", required=True)] = never_omit("")
    clusters: Annotated[tuple[TargetCluster, ...], Field("The clusters of the other binding.")] = ()


class BindingSuspension(Value):
    """What is suspended."""

    dispatching: Annotated[bool | None, Field("Suspend dispatching to all clusters.")] = None
    dispatching_on_clusters: Annotated[SuspendClusters | None, Field("Suspend dispatching to these clusters.")] = None
    scheduling: Annotated[bool | None, Field("Suspend scheduling.")] = None


class BindingSchedulePriority(Value):
    priority: Annotated[Int32, Field("The priority in the scheduling queue; higher first.", default=0)] = never_omit(0)


class WorkloadAffinityGroups(Value):
    affinity_group: Annotated[str, Field("The group to be scheduled together with, as `key=value`.")] = ""
    anti_affinity_group: Annotated[str, Field("The group to be scheduled apart from, as `key=value`.")] = ""


class BindingSpec(Value):
    resource: Annotated[ObjectReference, Field("The template.", required=True)] = never_omit(ObjectReference())
    propagate_deps: Annotated[bool, Field("Propagate the dependencies of the template as well.")] = False
    replica_requirements: Annotated[ReplicaRequirements | None, Field("The requirements of one replica.")] = None
    replicas: Annotated[Int32, Field("The desired replicas of the template.")] = 0
    components: Annotated[tuple[Component, ...], Field("The pod templates of a workload that has several.")] = ()
    clusters: Annotated[tuple[TargetCluster, ...], Field("The target clusters.")] = ()
    placement: Annotated[
        Placement | None, Field("The placement rules; absent when the object is only a dependency of others.")
    ] = None
    graceful_eviction_tasks: Annotated[tuple[GracefulEvictionTask, ...], Field("Evictions in progress.")] = ()
    active_eviction_history: Annotated[
        tuple[ActiveEviction, ...],
        Field("Evictions of the unhealthy workload; their clusters are blocked for a while."),
    ] = ()
    required_by: Annotated[tuple[BindingSnapshot, ...], Field("Bindings that depend on this object.")] = ()
    scheduler_name: Annotated[str, Field("The scheduler that selects the clusters.")] = ""
    failover: Annotated[FailoverBehavior | None, Field("When and how the workload fails over to another cluster.")] = (
        None
    )
    conflict_resolution: Annotated[
        str,
        Field("What to do when the object already exists in a cluster.", enum=("Abort", "Overwrite"), default="Abort"),
    ] = ""
    reschedule_triggered_at: Annotated[datetime | None, Field("When rescheduling was last requested.")] = None
    suspension: Annotated[BindingSuspension | None, Field("What is suspended.")] = None
    preserve_resources_on_deletion: Annotated[
        bool | None, Field("Keep the objects in the clusters when the template is deleted.")
    ] = None
    schedule_priority: Annotated[BindingSchedulePriority | None, Field("The priority in the scheduling queue.")] = None
    workload_affinity_groups: Annotated[
        WorkloadAffinityGroups | None, Field("The groups of workloads to be scheduled together with or apart from.")
    ] = None


class AggregatedStatusItem(Value):
    """The status of the object in one cluster."""

    cluster_name: Annotated[str, Field("The cluster.", required=True)] = never_omit("")
    status: Annotated[
        Raw | None, Field("The status of the object as reported by the cluster.", preserve_unknown=True)
    ] = None
    applied: Annotated[bool, Field("Whether the object is applied in the cluster.")] = False
    applied_message: Annotated[str, Field("Why it is not applied.")] = ""
    health: Annotated[str, Field("The health of the object.", enum=_HEALTH)] = ""
    settled: Annotated[bool, Field("Whether the object was healthy at least once since it was scheduled there.")] = (
        False
    )
    creation_timestamp: Annotated[datetime | None, Field("When the status was first collected.")] = None
    create_timestamp: Annotated[datetime | None, Field("Deprecated: use creationTimestamp.")] = None


class HeldReplicas(Value):
    """Replicas that are kept in a cluster until their replacement is ready elsewhere."""

    cluster: Annotated[str, Field("The cluster that keeps the replicas.", required=True)] = never_omit("")
    replicas: Annotated[Int32, Field("The number of replicas beyond the cluster's share.", required=True)] = never_omit(
        0
    )
    since: Annotated[datetime | None, MicroTime(), Field("Since when.")] = None
    until: Annotated[datetime | None, MicroTime(), Field("When the move times out and is reverted.")] = None
    reason: Annotated[str, Field("The reason of the move, such as Rebalance or Failback.")] = ""


class StateBeforeMove(Value):
    """The state when a move started: to count new replicas against it, and to revert to it."""

    before: Annotated[tuple[TargetCluster, ...], Field("The clusters of the replicas.")] = ()
    ready: Annotated[tuple[TargetCluster, ...], Field("The ready replicas of each cluster.")] = ()
    affinity_name: Annotated[str, Field("The affinity group that was in use.")] = ""


class UnhealthyCluster(Value):
    """The start of an unhealthy period; stored so that a controller restart does not restart the timer."""

    cluster_name: Annotated[str, Field("The cluster.", required=True)] = never_omit("")
    since: Annotated[
        datetime | None, MicroTime(), Field("When the object became unhealthy, without interruption since.")
    ] = None


class TemplateRollout(Value):
    """When the template last changed: distinguishes a bad rollout from a bad cluster."""

    template_hash: Annotated[str, Field("A hash of the template without its number of replicas.", required=True)] = (
        never_omit("")
    )
    since: Annotated[datetime | None, MicroTime(), Field("When it last changed; absent when it never changed.")] = None


class PreviousPlacement(Value):
    """The placement before a failover, for failback."""

    clusters: Annotated[tuple[TargetCluster, ...], Field("The clusters before the failover.")] = ()
    affinity_name: Annotated[str, Field("The affinity group that was in use.")] = ""
    since: Annotated[datetime | None, MicroTime(), Field("When the failover happened.")] = None
    healthy_since: Annotated[
        datetime | None, MicroTime(), Field("When the previous clusters became healthy, without interruption since.")
    ] = None
    reverted_failbacks: Annotated[
        Int32, Field("The number of consecutive reverted failbacks; each prolongs the wait for the next.", minimum=0)
    ] = 0


class BetterPlacement(Value):
    """A placement with a better score that has not been better for long enough yet."""

    clusters: Annotated[tuple[TargetCluster, ...], Field("The clusters of the better placement.")] = ()
    since: Annotated[datetime | None, MicroTime(), Field("When it became better, without interruption since.")] = None


class PendingApproval(Value):
    """A move that waits for a person."""

    cause: Annotated[str, Field("The reason of the move.", required=True)] = never_omit("")
    clusters: Annotated[tuple[TargetCluster, ...], Field("The clusters after the move.")] = ()
    since: Annotated[datetime | None, MicroTime(), Field("Since when a move with this cause waits.")] = None


class RejectedClusters(Value):
    """Clusters that one filter rejected."""

    filter: Annotated[str, Field("The first filter that rejected them.", required=True)] = never_omit("")
    message: Annotated[str, Field("The message about the first of them.")] = ""
    count: Annotated[Int32, Field("The number of rejected clusters.", required=True)] = never_omit(0)
    clusters: Annotated[tuple[str, ...], Field("The first of them, by name.")] = ()


class DecisionRecord(Value):
    """A summary of the last scheduling decision, for `trimtab explain`."""

    time: Annotated[datetime | None, MicroTime(), Field("When the decision was made.")] = None
    mode: Annotated[
        str, Field("Steady keeps the current placement as far as possible; Fresh schedules from scratch.")
    ] = ""
    division_strategy: Annotated[str, Field("How replicas were divided.")] = ""
    total_clusters: Annotated[Int32, Field("The number of clusters.", required=True)] = never_omit(0)
    feasible_clusters: Annotated[Int32, Field("The number of clusters that passed all filters.", required=True)] = (
        never_omit(0)
    )
    rejected: Annotated[tuple[RejectedClusters, ...], Field("The rejected clusters by filter.")] = ()


class BindingStatus(Value):
    scheduler_observed_generation: Annotated[Int64, Field("The generation that was last scheduled.")] = 0
    scheduler_observing_affinity_name: Annotated[str, Field("The affinity group that is in use.")] = ""
    last_scheduled_time: Annotated[datetime | None, Field("When scheduling last succeeded.")] = None
    conditions: Annotated[tuple[Condition, ...], Field("Conditions: Scheduled and FullyApplied.")] = ()
    aggregated_status: Annotated[
        tuple[AggregatedStatusItem, ...], Field("The status of the object in each cluster.")
    ] = ()
    holds: Annotated[tuple[HeldReplicas, ...], Field("Replicas that are kept until their replacement is ready.")] = ()
    replacement: Annotated[StateBeforeMove | None, Field("The state when the move of the held replicas started.")] = (
        None
    )
    unhealthy_clusters: Annotated[tuple[UnhealthyCluster, ...], Field("Clusters where the object is unhealthy.")] = ()
    rollout: Annotated[
        TemplateRollout | None, Field("When the template last changed; recorded where a failover policy needs it.")
    ] = None
    previous_placement: Annotated[PreviousPlacement | None, Field("The placement before a failover.")] = None
    better_placement: Annotated[
        BetterPlacement | None, Field("A placement with a better score that waits for the hysteresis to pass.")
    ] = None
    pending_approval: Annotated[PendingApproval | None, Field("A move that waits until a person approves it.")] = None
    placement_ref_clusters: Annotated[
        tuple[str, ...], Field("The clusters of the referenced Placement at the last scheduling.", list_type="set")
    ] = ()
    decision: Annotated[DecisionRecord | None, Field("A summary of the last scheduling decision.")] = None


class Binding(Object):
    """The common type of both binding kinds; the cluster-wide one has no namespace."""

    spec: Annotated[BindingSpec, Field("The object and its target clusters.", required=True)] = never_omit(
        BindingSpec()
    )
    status: Annotated[BindingStatus, Field("The progress in the clusters.")] = BindingStatus()


class ObjectReferenceV1Alpha1(Value):
    """A reference to the template of a binding, with its replicas."""

    api_version: Annotated[str, Field("Group and version of the template.", required=True)] = never_omit("")
    kind: Annotated[str, Field("Kind of the template.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Namespace of the template; empty when it is cluster-wide.")] = ""
    name: Annotated[str, Field("Name of the template.", required=True)] = never_omit("")
    resource_version: Annotated[str, Field("The last observed resourceVersion of the template.")] = ""
    resource_per_replicas: Annotated[dict[str, QuantityText], Field("The resource requests of one replica.")] = {}
    replicas: Annotated[Int32, Field("The desired replicas of the template.")] = 0


class BindingSpecV1Alpha1(Value):
    resource: Annotated[ObjectReferenceV1Alpha1, Field("The template.", required=True)] = never_omit(
        ObjectReferenceV1Alpha1()
    )
    clusters: Annotated[tuple[TargetCluster, ...], Field("The target clusters.")] = ()


class BindingStatusV1Alpha1(Value):
    conditions: Annotated[tuple[Condition, ...], Field("Conditions of the binding.")] = ()
    aggregated_status: Annotated[
        tuple[AggregatedStatusItem, ...], Field("The status of the object in each cluster.")
    ] = ()


class BindingV1Alpha1(Object):
    """The binding of v1alpha1; served for old clients."""

    spec: Annotated[BindingSpecV1Alpha1, Field("The object and its target clusters.", required=True)] = never_omit(
        BindingSpecV1Alpha1()
    )
    status: Annotated[BindingStatusV1Alpha1, Field("The progress in the clusters.")] = BindingStatusV1Alpha1()


def _binding_from_v1alpha1(old: Raw) -> Raw:
    """Replicas and their requirements are moved from the template reference to the binding's spec."""
    spec = object_at(old, "spec")
    resource = dict(object_at(spec, "resource"))
    replicas, request = resource.pop("replicas", None), resource.pop("resourcePerReplicas", None)
    new: Raw = {**spec, "resource": resource}
    if replicas:
        new["replicas"] = replicas
    if request:
        new["replicaRequirements"] = {"resourceRequest": request}
    return {**old, "spec": new}


def _binding_to_v1alpha1(new: Raw) -> Raw:
    spec = object_at(new, "spec")
    resource = {key: value for key, value in object_at(spec, "resource").items() if key != "uid"}
    if spec.get("replicas"):
        resource["replicas"] = spec["replicas"]
    if request := value_at(spec, "replicaRequirements", "resourceRequest"):
        resource["resourcePerReplicas"] = request
    old: Raw = {**new, "spec": {"resource": resource}}
    if "clusters" in spec:
        old["spec"]["clusters"] = spec["clusters"]
    if "status" in new:
        kept = ("conditions", "aggregatedStatus")
        old["status"] = {key: value for key, value in object_at(new["status"]).items() if key in kept}
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
    normalizers=(rename_create_timestamps,),
    large_part="placement",
    admission_validators=(check_binding,),
    text="The scheduling result of one namespaced object and its progress.",
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
    normalizers=(rename_create_timestamps,),
    large_part="placement",
    admission_validators=(check_binding,),
    text="The scheduling result of one cluster-wide object and its progress.",
)
class ClusterResourceBinding(Binding):
    pass


class WorkloadTemplate(Value):
    manifests: Annotated[
        tuple[Annotated[Raw, Field(preserve_unknown=True, embedded=True)], ...], Field("The objects to apply.")
    ] = ()


class WorkSpec(Value):
    workload: Annotated[WorkloadTemplate, Field("The objects to apply in the cluster.")] = WorkloadTemplate()
    suspend_dispatching: Annotated[bool | None, Field("Suspend dispatching to the cluster.")] = None
    preserve_resources_on_deletion: Annotated[
        bool | None, Field("Keep the objects in the cluster when this Work is deleted.")
    ] = None


class ResourceIdentifier(Value):
    ordinal: Annotated[int, Field("The index of the object in the Work, from 0.", required=True)] = never_omit(0)
    group: Annotated[str, Field("Its group.")] = ""
    version: Annotated[str, Field("Its version.", required=True)] = never_omit("")
    kind: Annotated[str, Field("Its kind.", required=True)] = never_omit("")
    resource: Annotated[str, Field("Its plural name.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Its namespace.")] = ""
    name: Annotated[str, Field("Its name.", required=True)] = never_omit("")


class ManifestStatus(Value):
    identifier: Annotated[ResourceIdentifier, Field("The object.", required=True)] = never_omit(ResourceIdentifier())
    status: Annotated[Raw | None, Field("Its status as reported by the cluster.", preserve_unknown=True)] = None
    health: Annotated[str, Field("The health of the object.", enum=_HEALTH)] = ""


class WorkStatus(Value):
    conditions: Annotated[tuple[Condition, ...], Field("Conditions: Applied and Dispatching.")] = ()
    manifest_statuses: Annotated[tuple[ManifestStatus, ...], Field("The status of each object.")] = ()


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
    text="Objects to apply in one cluster; the namespace of the Work determines the cluster.",
)
class Work(Object):
    spec: Annotated[WorkSpec, Field("The objects to apply in the cluster.", required=True)] = never_omit(WorkSpec())
    status: Annotated[WorkStatus, Field("The progress in the clusters.")] = WorkStatus()
