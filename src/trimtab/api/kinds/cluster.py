"""A member cluster as Karmada describes it: how to reach it, where it stands, what it can still take."""

from datetime import datetime
from typing import Annotated

import msgspec

from trimtab.api.admission.cluster import check_cluster, fill_cluster
from trimtab.api.kind import Column, kind
from trimtab.api.value import Condition, Field, Int32, Int64, Object, QuantityText, Value, always

SyncModes = ("Push", "Pull")


class Taint(Value):
    """A mark on a cluster or a node that repels what does not tolerate it."""

    key: Annotated[str, Field("The name of the taint.", required=True)] = always("")
    value: Annotated[str, Field("The value that belongs to the key.")] = ""
    effect: Annotated[
        str, Field("What happens to those that do not tolerate it: NoSchedule or NoExecute.", required=True)
    ] = always("")
    time_added: Annotated[datetime | None, Field("When the taint was put there.")] = None


class Toleration(Value):
    """What lets something stay with a taint, as core/v1 has it."""

    key: Annotated[str, Field("The taint key that is tolerated; empty with Exists tolerates every key.")] = ""
    operator: Annotated[str, Field("How key and value relate: Exists, or Equal when empty.")] = ""
    value: Annotated[str, Field("The taint value that is tolerated; empty with Exists.")] = ""
    effect: Annotated[str, Field("The taint effect that is tolerated; empty means every effect.")] = ""
    toleration_seconds: Annotated[
        Int64 | None, Field("How long a NoExecute taint is borne; absent means for ever, 0 or less means not at all.")
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
    namespace: Annotated[str, Field("The namespace of the secret.", required=True)] = always("")
    name: Annotated[str, Field("The name of the secret.", required=True)] = always("")


class ResourceModelRange(Value):
    name: Annotated[str, Field("Which resource the range is about.", required=True)] = always("")
    min: Annotated[QuantityText, Field("The lower bound; belongs to the range.")] = always("0")
    max: Annotated[QuantityText, Field("The upper bound; does not belong to the range.")] = always("0")


class ResourceModel(Value):
    """A class of nodes by how much they have free."""

    grade: Annotated[int, Field("The number of the class; a higher one has more.", required=True, minimum=0)] = always(
        0
    )
    ranges: Annotated[tuple[ResourceModelRange, ...], Field("The ranges of this class.", required=True)] = always(())


class ClusterSpec(Value):
    id: Annotated[str, Field("What identifies the cluster for good, whatever it is called.", max_length=128000)] = ""
    sync_mode: Annotated[
        str,
        Field("Push: the control plane writes to the cluster; Pull: an agent fetches.", required=True, enum=SyncModes),
    ] = always("")
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
    proxy_url: Annotated[str, Field("A proxy on the way to the cluster: http, https or socks5.")] = msgspec.field(
        default="", name="proxyURL"
    )
    proxy_header: Annotated[dict[str, str], Field("Headers for the proxy; several values are joined by commas.")] = {}
    provider: Annotated[str, Field("Who runs the cluster.")] = ""
    region: Annotated[str, Field("The region the cluster stands in.")] = ""
    zone: Annotated[str, Field("The old way to name one zone; it moves into `zones`.")] = ""
    zones: Annotated[tuple[str, ...], Field("The zones the cluster stands in.")] = ()
    taints: Annotated[tuple[Taint, ...], Field("Taints that repel what does not tolerate them.")] = ()
    resource_models: Annotated[
        tuple[ResourceModel, ...], Field("Classes into which the cluster's nodes are counted by their free resources.")
    ] = ()


class APIResource(Value):
    name: Annotated[str, Field("The plural name.", required=True)] = always("")
    kind: Annotated[str, Field("The kind.", required=True)] = always("")


class APIEnablement(Value):
    group_version: Annotated[str, Field("A group and version that the cluster serves.", required=True)] = always("")
    resources: Annotated[tuple[APIResource, ...], Field("What it serves there.")] = ()


class NodeSummary(Value):
    total_num: Annotated[Int32, Field("How many nodes there are.")] = 0
    ready_num: Annotated[Int32, Field("How many of them are ready.")] = 0


class AllocatableModeling(Value):
    grade: Annotated[int, Field("The class of nodes.", required=True)] = always(0)
    count: Annotated[int, Field("How many nodes are of it.", required=True)] = always(0)


class ResourceSummary(Value):
    allocatable: Annotated[dict[str, QuantityText], Field("What all nodes together offer.")] = {}
    allocating: Annotated[dict[str, QuantityText], Field("What pods that are not bound yet ask for.")] = {}
    allocated: Annotated[dict[str, QuantityText], Field("What bound pods ask for.")] = {}
    allocatable_modelings: Annotated[
        tuple[AllocatableModeling, ...], Field("How many nodes there are of each class.")
    ] = ()


class ClusterStatus(Value):
    kubernetes_version: Annotated[str, Field("The version of the cluster's API server.")] = ""
    api_enablements: Annotated[tuple[APIEnablement, ...], Field("The APIs that the cluster serves.")] = ()
    conditions: Annotated[tuple[Condition, ...], Field("What was observed about the cluster.")] = ()
    node_summary: Annotated[NodeSummary | None, Field("The cluster's nodes, counted.")] = None
    resource_summary: Annotated[ResourceSummary | None, Field("The cluster's resources, summed up.")] = None
    remedy_actions: Annotated[tuple[str, ...], Field("What remedies ask for because of the cluster's conditions.")] = ()


@kind(
    group="cluster.karmada.io",
    version="v1alpha1",
    plural="clusters",
    namespaced=False,
    status=True,
    custom=False,
    defaults=(fill_cluster,),
    validators=(check_cluster,),
    text="A member cluster: how to reach it, where it stands and what it can still take.",
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
    spec: Annotated[ClusterSpec, Field("How to reach the cluster and where it stands.")] = ClusterSpec()
    status: Annotated[ClusterStatus, Field("What was last seen of the cluster.")] = ClusterStatus()
