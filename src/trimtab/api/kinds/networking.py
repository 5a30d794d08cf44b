"""Services and ingresses that reach over many clusters."""

from typing import Annotated

from trimtab.api.admission.networking import check_service
from trimtab.api.kind import Column, kind
from trimtab.api.value import Condition, Field, Int32, Object, Raw, Value, always


class ExposurePort(Value):
    name: Annotated[str, Field("The name of the port.")] = ""
    port: Annotated[Int32, Field("The number of the port.", required=True)] = always(0)


class ExposureRange(Value):
    cluster_names: Annotated[tuple[str, ...], Field("The clusters; none means all.")] = ()


class ClusterSelectorByName(Value):
    name: Annotated[str, Field("The cluster.", required=True)] = always("")


class MultiClusterServiceSpec(Value):
    types: Annotated[
        tuple[Annotated[str, Field(enum=("CrossCluster", "LoadBalancer"))], ...],
        Field("How the service is offered: between clusters, or to the outside.", required=True),
    ] = always(())
    ports: Annotated[tuple[ExposurePort, ...], Field("Which ports; none means all of the service's.")] = ()
    range: Annotated[ExposureRange, Field("The old way to name clusters.")] = ExposureRange()
    provider_clusters: Annotated[
        tuple[ClusterSelectorByName, ...], Field("The clusters that answer; none means all.")
    ] = ()
    consumer_clusters: Annotated[
        tuple[ClusterSelectorByName, ...], Field("The clusters that may ask; none means all.")
    ] = ()
    service_provision_clusters: Annotated[tuple[str, ...], Field("The old name of providerClusters.")] = ()
    service_consumption_clusters: Annotated[tuple[str, ...], Field("The old name of consumerClusters.")] = ()


class LoadBalancerPort(Value):
    port: Annotated[Int32, Field("The port.", required=True)] = always(0)
    protocol: Annotated[str, Field("Its protocol.", required=True)] = always("")
    error: Annotated[str | None, Field("What is wrong with it.")] = None


class LoadBalancerIngress(Value):
    ip: Annotated[str, Field("The address as a number.")] = ""
    ip_mode: Annotated[str | None, Field("How the address is used.")] = None
    hostname: Annotated[str, Field("The address as a name.")] = ""
    ports: Annotated[tuple[LoadBalancerPort, ...], Field("The ports.", list_type="atomic")] = ()


class LoadBalancerStatus(Value):
    ingress: Annotated[tuple[LoadBalancerIngress, ...], Field("Where it is reached.", list_type="atomic")] = ()


class ServiceLikeStatus(Value):
    load_balancer: Annotated[LoadBalancerStatus, Field("The balancer in front.")] = LoadBalancerStatus()
    conditions: Annotated[tuple[Condition, ...], Field("What was observed.", list_type="map", map_keys=("type",))] = ()


@kind(
    group="networking.karmada.io",
    version="v1alpha1",
    plural="multiclusterservices",
    short=("mcs",),
    categories=("karmada-io",),
    status=True,
    admission_validators=(check_service,),
    text="Offers a service over cluster borders.",
)
class MultiClusterService(Object):
    spec: Annotated[MultiClusterServiceSpec, Field("What is offered where.", required=True)] = always(
        MultiClusterServiceSpec()
    )
    status: Annotated[ServiceLikeStatus, Field("How it is reached.")] = ServiceLikeStatus()


class MultiClusterIngressStatus(Value):
    load_balancer: Annotated[LoadBalancerStatus, Field("The balancer in front.")] = LoadBalancerStatus()


@kind(
    group="networking.karmada.io",
    version="v1alpha1",
    plural="multiclusteringresses",
    short=("mci",),
    categories=("karmada-io",),
    status=True,
    text="An ingress for a service that runs in many clusters.",
)
class MultiClusterIngress(Object):
    spec: Annotated[Raw, Field("As in networking.k8s.io/v1 Ingress.", preserve_unknown=True)] = {}
    status: Annotated[MultiClusterIngressStatus, Field("How it is reached.")] = MultiClusterIngressStatus()


class ServiceExportStatus(Value):
    conditions: Annotated[tuple[Condition, ...], Field("What was observed.", list_type="map", map_keys=("type",))] = ()


@kind(
    group="multicluster.x-k8s.io",
    version="v1alpha1",
    plural="serviceexports",
    short=("svcex",),
    status=True,
    columns=(Column("Age", ".metadata.creationTimestamp", "date"),),
    text="Says that the service of the same name may be used from other clusters.",
)
class ServiceExport(Object):
    status: Annotated[ServiceExportStatus, Field("Whether it is.")] = ServiceExportStatus()


class ImportedPort(Value):
    name: Annotated[str, Field("The name of the port.")] = ""
    protocol: Annotated[str, Field("Its protocol.", default="TCP")] = ""
    app_protocol: Annotated[str | None, Field("The protocol of the application.")] = None
    port: Annotated[Int32, Field("The number of the port.", required=True)] = always(0)


class ServiceImportSpec(Value):
    ports: Annotated[tuple[ImportedPort, ...], Field("The ports.", required=True, list_type="atomic")] = always(())
    ips: Annotated[tuple[str, ...], Field("The addresses.", max_items=1)] = ()
    type: Annotated[
        str, Field("One address for all, or one for each pod.", required=True, enum=("ClusterSetIP", "Headless"))
    ] = always("")
    session_affinity: Annotated[str, Field("Whether a client stays with one pod.")] = ""
    session_affinity_config: Annotated[Raw | None, Field("How a client stays with one pod.", preserve_unknown=True)] = (
        None
    )


class ImportedCluster(Value):
    cluster: Annotated[str, Field("A cluster that offers it.", required=True)] = always("")


class ServiceImportStatus(Value):
    clusters: Annotated[
        tuple[ImportedCluster, ...], Field("The clusters that offer it.", list_type="map", map_keys=("cluster",))
    ] = ()


@kind(
    group="multicluster.x-k8s.io",
    version="v1alpha1",
    plural="serviceimports",
    short=("svcim",),
    status=True,
    columns=(
        Column("Type", ".spec.type"),
        Column("IP", ".spec.ips"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    text="A service of other clusters that may be used here.",
)
class ServiceImport(Object):
    spec: Annotated[ServiceImportSpec, Field("What it offers.")] = ServiceImportSpec()
    status: Annotated[ServiceImportStatus, Field("Who offers it.")] = ServiceImportStatus()
