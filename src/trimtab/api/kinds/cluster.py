"""Karmada's Cluster: connection, location, taints and free capacity of a member cluster."""

from datetime import datetime
from typing import Annotated

import msgspec

from trimtab.api.admission.cluster import check_cluster, fill_cluster
from trimtab.api.kind import Column, kind
from trimtab.api.value import Condition, Field, Int32, Int64, Object, QuantityText, Value, never_omit

SYNC_MODES = ("Push", "Pull")
NOT_READY_TAINT = "cluster.karmada.io/not-ready"
UNREACHABLE_TAINT = "cluster.karmada.io/unreachable"
CORDON_TAINT = "cluster.karmada.io/unschedulable"


class Taint(Value):
    """A taint of a cluster or node, as in core/v1."""

    key: Annotated[str, Field("The name of the taint.", required=True)] = never_omit("")
    value: Annotated[str, Field("The value of the taint.")] = ""
    effect: Annotated[
        str, Field("The effect on what does not tolerate it: NoSchedule or NoExecute.", required=True)
    ] = never_omit("")
    time_added: Annotated[datetime | None, Field("When the taint was added.")] = None


class Toleration(Value):
    """A toleration of a taint, as in core/v1."""

    key: Annotated[str, Field("The tolerated taint key; empty with Exists tolerates every key.")] = ""
    operator: Annotated[str, Field("How the value is compared: Exists or Equal; empty means Equal.")] = ""
    value: Annotated[str, Field("The tolerated taint value; empty with Exists.")] = ""
    effect: Annotated[str, Field("The tolerated taint effect; empty means every effect.")] = ""
    toleration_seconds: Annotated[
        Int64 | None,
        Field("How long a NoExecute taint is tolerated; absent means forever, 0 or less means not at all."),
    ] = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and self.value == taint.value


class LocalSecretReference(Value):
    namespace: Annotated[str, Field("The namespace of the secret.", required=True)] = never_omit("")
    name: Annotated[str, Field("The name of the secret.", required=True)] = never_omit("")


class ResourceModelRange(Value):
    name: Annotated[str, Field("The resource of the range.", required=True)] = never_omit("")
    min: Annotated[QuantityText, Field("The lower bound, inclusive.")] = never_omit("0")
    max: Annotated[QuantityText, Field("The upper bound, exclusive.")] = never_omit("0")


class ResourceModel(Value):
    """A class of nodes by their free resources."""

    grade: Annotated[
        int, Field("The number of the class; a higher number means more free resources.", required=True, minimum=0)
    ] = never_omit(0)
    ranges: Annotated[tuple[ResourceModelRange, ...], Field("The ranges of this class.", required=True)] = never_omit(
        ()
    )


class ClusterSpec(Value):
    id: Annotated[str, Field("The permanent id of the cluster, independent of its name.", max_length=128000)] = ""
    sync_mode: Annotated[
        str,
        Field(
            "Push: the control plane writes to the cluster; Pull: an agent in the cluster fetches.",
            required=True,
            enum=SYNC_MODES,
        ),
    ] = never_omit("")
    api_endpoint: Annotated[str, Field("The address of the cluster's API server.")] = ""
    secret_ref: Annotated[
        LocalSecretReference | None, Field("The secret with `token` and `caBundle` for the cluster.")
    ] = None
    impersonator_secret_ref: Annotated[
        LocalSecretReference | None, Field("The secret with the token of the impersonator.")
    ] = None
    insecure_skip_tls_verification: Annotated[
        bool, Field("Do not check the certificate of the cluster's API server.")
    ] = msgspec.field(default=False, name="insecureSkipTLSVerification")
    proxy_url: Annotated[str, Field("The proxy to reach the cluster through: http, https or socks5.")] = msgspec.field(
        default="", name="proxyURL"
    )
    proxy_header: Annotated[dict[str, str], Field("Headers for the proxy; several values are joined by commas.")] = {}
    provider: Annotated[str, Field("The provider of the cluster.")] = ""
    region: Annotated[str, Field("The region of the cluster.")] = ""
    zone: Annotated[str, Field("Deprecated: a single zone; it is moved to `zones`.")] = ""
    zones: Annotated[tuple[str, ...], Field("The zones of the cluster.")] = ()
    taints: Annotated[tuple[Taint, ...], Field("Taints that repel what does not tolerate them.")] = ()
    resource_models: Annotated[
        tuple[ResourceModel, ...],
        Field("Classes of nodes by free resources; the cluster's nodes are counted per class."),
    ] = ()


class APIResource(Value):
    name: Annotated[str, Field("The plural name.", required=True)] = never_omit("")
    kind: Annotated[str, Field("The kind.", required=True)] = never_omit("")


class APIEnablement(Value):
    group_version: Annotated[str, Field("A group and version that the cluster serves.", required=True)] = never_omit("")
    resources: Annotated[tuple[APIResource, ...], Field("The resources of that group and version.")] = ()


class NodeSummary(Value):
    total_num: Annotated[Int32, Field("The number of nodes.")] = 0
    ready_num: Annotated[Int32, Field("The number of ready nodes.")] = 0


class AllocatableModeling(Value):
    grade: Annotated[int, Field("The class of nodes.", required=True)] = never_omit(0)
    count: Annotated[int, Field("The number of nodes in the class.", required=True)] = never_omit(0)


class ResourceSummary(Value):
    allocatable: Annotated[dict[str, QuantityText], Field("The allocatable resources of all nodes.")] = {}
    allocating: Annotated[dict[str, QuantityText], Field("The requests of pods that are not bound to a node yet.")] = {}
    allocated: Annotated[dict[str, QuantityText], Field("The requests of pods that are bound to a node.")] = {}
    allocatable_modelings: Annotated[tuple[AllocatableModeling, ...], Field("The number of nodes in each class.")] = ()


class EqualNodes(Value):
    count: Annotated[Int32, Field("The number of nodes.", required=True)] = never_omit(0)
    free: Annotated[dict[str, QuantityText], Field("What is free on each of them.")] = {}


class NodePool(Value):
    """Nodes with the same labels and taints."""

    labels: Annotated[dict[str, str], Field("The labels of the nodes, without their names.")] = {}
    taints: Annotated[tuple[Taint, ...], Field("The taints that keep pods away: NoSchedule and NoExecute.")] = ()
    nodes: Annotated[tuple[EqualNodes, ...], Field("The nodes, by what is free on them.")] = ()


class FreeNodes(Value):
    """What is free on the ready nodes of a cluster."""

    pools: Annotated[tuple[NodePool, ...], Field("The nodes by labels and taints; full nodes are left out.")] = ()
    omitted_labels: Annotated[tuple[str, ...], Field("Labels of nodes that the pools do not list.")] = ()
    waiting: Annotated[dict[str, QuantityText], Field("The requests of pods that are about to be bound.")] = {}


class ClusterStatus(Value):
    kubernetes_version: Annotated[str, Field("The version of the cluster's API server.")] = ""
    api_enablements: Annotated[tuple[APIEnablement, ...], Field("The APIs that the cluster serves.")] = ()
    conditions: Annotated[tuple[Condition, ...], Field("Conditions of the cluster.", unconstrained=True)] = ()
    node_summary: Annotated[NodeSummary | None, Field("The number of nodes of the cluster.")] = None
    resource_summary: Annotated[ResourceSummary | None, Field("The sum of the cluster's resources.")] = None
    free_nodes: Annotated[FreeNodes | None, Field("What is free on the nodes of the cluster.")] = None
    remedy_actions: Annotated[
        tuple[str, ...], Field("The actions that Remedies require because of the cluster's conditions.")
    ] = ()


@kind(
    group="cluster.karmada.io",
    version="v1alpha1",
    plural="clusters",
    namespaced=False,
    status=True,
    custom=False,
    defaults=(fill_cluster,),
    validators=(check_cluster,),
    text="A member cluster: its connection, location and free capacity.",
    columns=(
        Column("Version", ".status.kubernetesVersion"),
        Column("Mode", ".spec.syncMode"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("Zones", ".spec.zones", priority=1),
        Column("Region", ".spec.region", priority=1),
        Column("Provider", ".spec.provider", priority=1),
        Column("API-Endpoint", ".spec.apiEndpoint", priority=1),
        Column("Proxy-URL", ".spec.proxyURL", priority=1),
    ),
)
class Cluster(Object):
    spec: Annotated[ClusterSpec, Field("The connection, location and taints of the cluster.")] = ClusterSpec()
    status: Annotated[ClusterStatus, Field("The last observed state of the cluster.")] = ClusterStatus()
