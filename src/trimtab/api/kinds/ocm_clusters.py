"""Kinds of Open Cluster Management that describe clusters: ManagedCluster, its sets, set bindings and claims."""

from datetime import datetime
from typing import Annotated

from trimtab.api.admission.ocm import (
    add_default_set_label,
    check_managed_cluster,
    check_set_binding,
    managed_cluster_requirements,
    set_binding_requirements,
    stamp_taints,
)
from trimtab.api.kind import Column, kind
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import (
    Condition,
    Field,
    Int32,
    Object,
    QuantityText,
    Value,
    never_omit,
)

CLUSTER_GROUP = "cluster.open-cluster-management.io"
TAINT_EFFECTS = ("NoSelect", "PreferNoSelect", "NoSelectIfNew")
KEY_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


Conditions = Annotated[tuple[Condition, ...], Field("Conditions of the object.", list_type="map", map_keys=("type",))]


class ClientConfig(Value):
    url: Annotated[str, Field("The address of the cluster's API server.", required=True)] = never_omit("")
    ca_bundle: Annotated[str, Field("The certificate authority of that server.", format="byte")] = ""


class ManagedClusterTaint(Value):
    """A taint of a managed cluster."""

    key: Annotated[str, Field("The name of the taint.", required=True, max_length=316, pattern=KEY_PATTERN)] = (
        never_omit("")
    )
    value: Annotated[str, Field("Its value.", max_length=1024)] = ""
    effect: Annotated[
        str, Field("The effect on placements that do not tolerate it.", required=True, enum=TAINT_EFFECTS)
    ] = never_omit("")
    time_added: Annotated[datetime | None, Field("When the taint was added.", nullable=True)] = None


class ManagedClusterSpec(Value):
    managed_cluster_client_configs: Annotated[tuple[ClientConfig, ...], Field("How to reach the cluster.")] = ()
    hub_accepts_client: Annotated[bool, Field("Whether the hub accepts the cluster.")] = False
    lease_duration_seconds: Annotated[Int32, Field("How often the agent renews its lease.", default=60)] = 0
    taints: Annotated[tuple[ManagedClusterTaint, ...], Field("The taints of the cluster.")] = ()


class ManagedClusterVersion(Value):
    kubernetes: Annotated[str, Field("The version of Kubernetes.")] = ""


class ManagedClusterClaim(Value):
    name: Annotated[str, Field("The name of the claim.", min_length=1, max_length=253)] = ""
    value: Annotated[str, Field("The value of the claim.", min_length=1, max_length=1024)] = ""


class ManagedNamespaceStatus(Value):
    cluster_set: Annotated[str, Field("The cluster set that requires the namespace.", required=True)] = never_omit("")
    name: Annotated[str, Field("The namespace.", required=True, max_length=63)] = never_omit("")
    conditions: Conditions = ()


class ManagedClusterStatus(Value):
    conditions: Conditions = ()
    capacity: Annotated[dict[str, QuantityText], Field("The capacity of all nodes.")] = {}
    allocatable: Annotated[dict[str, QuantityText], Field("The allocatable resources of all nodes.")] = {}
    version: Annotated[ManagedClusterVersion, Field("The versions of the cluster.")] = ManagedClusterVersion()
    cluster_claims: Annotated[tuple[ManagedClusterClaim, ...], Field("The claims of the cluster.")] = ()
    managed_namespaces: Annotated[
        tuple[ManagedNamespaceStatus, ...],
        Field("Namespaces that cluster sets require.", list_type="map", map_keys=("clusterSet", "name")),
    ] = ()


@kind(
    group=CLUSTER_GROUP,
    version="v1",
    plural="managedclusters",
    short=("mcl", "mcls"),
    namespaced=False,
    status=True,
    columns=(
        Column("Hub Accepted", ".spec.hubAcceptsClient", "boolean"),
        Column("Managed Cluster URLs", ".spec.managedClusterClientConfigs[*].url"),
        Column("Joined", '.status.conditions[?(@.type=="ManagedClusterJoined")].status'),
        Column("Available", '.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status'),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    admission_defaults=(add_default_set_label,),
    admission_validators=(check_managed_cluster,),
    admission_changes=(stamp_taints,),
    admission_requirements=(managed_cluster_requirements,),
    text="A member cluster of Open Cluster Management.",
)
class ManagedCluster(Object):
    spec: Annotated[
        ManagedClusterSpec, Field("The acceptance, connection and taints of the cluster.", required=True)
    ] = never_omit(ManagedClusterSpec())
    status: Annotated[ManagedClusterStatus, Field("The last observed state of the cluster.")] = ManagedClusterStatus()


class ManagedClusterSelector(Value):
    selector_type: Annotated[
        str,
        Field(
            "By the label that names one set, or by any label selector.",
            required=True,
            enum=("ExclusiveClusterSetLabel", "LabelSelector"),
            default="ExclusiveClusterSetLabel",
        ),
    ] = never_omit("")
    label_selector: Annotated[LabelSelector | None, Field("The selector; absent selects nothing.")] = None


class ManagedNamespace(Value):
    name: Annotated[
        str, Field("The namespace.", required=True, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    ] = never_omit("")


class ManagedClusterSetSpec(Value):
    cluster_selector: Annotated[
        ManagedClusterSelector,
        Field("The clusters of the set.", default={"selectorType": "ExclusiveClusterSetLabel"}),
    ] = ManagedClusterSelector()
    managed_namespaces: Annotated[
        tuple[ManagedNamespace, ...],
        Field("Namespaces to create in every cluster of the set.", list_type="map", map_keys=("name",)),
    ] = ()


class ConditionsOnlyStatus(Value):
    conditions: Conditions = ()


@kind(
    group=CLUSTER_GROUP,
    version="v1beta2",
    plural="managedclustersets",
    short=("mclset", "mclsets"),
    namespaced=False,
    status=True,
    columns=(
        Column("Empty", '.status.conditions[?(@.type=="ClusterSetEmpty")].status'),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    text="A set of managed clusters.",
)
class ManagedClusterSet(Object):
    spec: Annotated[
        ManagedClusterSetSpec,
        Field("The clusters of the set.", default={"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}),
    ] = ManagedClusterSetSpec()
    status: Annotated[ConditionsOnlyStatus, Field("Whether the set is empty.")] = ConditionsOnlyStatus()


class ManagedClusterSetBindingSpec(Value):
    cluster_set: Annotated[
        str, Field("The cluster set; the binding must have the same name.", required=True, min_length=1)
    ] = never_omit("")


@kind(
    group=CLUSTER_GROUP,
    version="v1beta2",
    plural="managedclustersetbindings",
    short=("mclsetbinding", "mclsetbindings"),
    status=True,
    admission_validators=(check_set_binding,),
    admission_requirements=(set_binding_requirements,),
    text="Allows placements of its namespace to use a cluster set.",
)
class ManagedClusterSetBinding(Object):
    spec: Annotated[ManagedClusterSetBindingSpec, Field("The cluster set.")] = ManagedClusterSetBindingSpec()
    status: Annotated[ConditionsOnlyStatus, Field("Whether the set exists.")] = ConditionsOnlyStatus()


class ClusterClaimSpec(Value):
    value: Annotated[str, Field("The value of the claim.", min_length=1, max_length=1024)] = ""


@kind(
    group=CLUSTER_GROUP,
    version="v1alpha1",
    plural="clusterclaims",
    namespaced=False,
    text="A property of the cluster, reported by its agent.",
)
class ClusterClaim(Object):
    spec: Annotated[ClusterClaimSpec, Field("The claim.")] = ClusterClaimSpec()
