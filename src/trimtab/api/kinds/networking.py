"""Multi-cluster services and ingresses of Karmada and the Multi-Cluster Services API."""

from typing import Annotated

from trimtab.api.admission.networking import check_service
from trimtab.api.kind import Column, kind
from trimtab.api.value import Condition, Field, Int32, Object, Raw, Value, never_omit


class ExposurePort(Value):
    name: Annotated[str, Field("The name of the port.")] = ""
    port: Annotated[Int32, Field("The number of the port.", required=True)] = never_omit(0)


class ExposureRange(Value):
    cluster_names: Annotated[tuple[str, ...], Field("The clusters; empty means all.")] = ()


class ClusterSelectorByName(Value):
    name: Annotated[str, Field("The cluster.", required=True)] = never_omit("")


class MultiClusterServiceSpec(Value):
    types: Annotated[
        tuple[Annotated[str, Field(enum=("CrossCluster", "LoadBalancer"))], ...],
        Field("How the service is exposed: between clusters, or to clients outside.", required=True),
    ] = never_omit(())
    ports: Annotated[tuple[ExposurePort, ...], Field("The exposed ports; empty means all ports of the service.")] = ()
    range: Annotated[ExposureRange, Field("Deprecated: the clusters.")] = ExposureRange()
    provider_clusters: Annotated[
        tuple[ClusterSelectorByName, ...], Field("The clusters whose endpoints provide the service; empty means all.")
    ] = ()
    consumer_clusters: Annotated[
        tuple[ClusterSelectorByName, ...], Field("The clusters whose clients may use the service; empty means all.")
    ] = ()
    service_provision_clusters: Annotated[tuple[str, ...], Field("Deprecated: use providerClusters.")] = ()
    service_consumption_clusters: Annotated[tuple[str, ...], Field("Deprecated: use consumerClusters.")] = ()


class LoadBalancerPort(Value):
    port: Annotated[Int32, Field("The port.", required=True)] = never_omit(0)
    protocol: Annotated[str, Field("Its protocol.", required=True)] = never_omit("")
    error: Annotated[str | None, Field("The error of the port.")] = None


class LoadBalancerIngress(Value):
    ip: Annotated[str, Field("The IP address.")] = ""
    ip_mode: Annotated[str | None, Field("How traffic to the IP address is delivered.")] = None
    hostname: Annotated[str, Field("The host name.")] = ""
    ports: Annotated[tuple[LoadBalancerPort, ...], Field("The ports.", list_type="atomic")] = ()


class LoadBalancerStatus(Value):
    ingress: Annotated[
        tuple[LoadBalancerIngress, ...], Field("The addresses of the load balancer.", list_type="atomic")
    ] = ()


class ServiceLikeStatus(Value):
    load_balancer: Annotated[LoadBalancerStatus, Field("The load balancer.")] = LoadBalancerStatus()
    conditions: Annotated[
        tuple[Condition, ...], Field("Conditions of the object.", list_type="map", map_keys=("type",))
    ] = ()


@kind(
    group="networking.karmada.io",
    version="v1alpha1",
    plural="multiclusterservices",
    short=("mcs",),
    categories=("karmada-io",),
    status=True,
    admission_validators=(check_service,),
    text="Exposes a service across clusters.",
)
class MultiClusterService(Object):
    spec: Annotated[MultiClusterServiceSpec, Field("The exposure and its clusters.", required=True)] = never_omit(
        MultiClusterServiceSpec()
    )
    status: Annotated[ServiceLikeStatus, Field("The load balancer and conditions.")] = ServiceLikeStatus()


class MultiClusterIngressStatus(Value):
    load_balancer: Annotated[LoadBalancerStatus, Field("The load balancer.")] = LoadBalancerStatus()


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
    status: Annotated[MultiClusterIngressStatus, Field("The load balancer and conditions.")] = (
        MultiClusterIngressStatus()
    )


class ServiceExportStatus(Value):
    conditions: Annotated[
        tuple[Condition, ...], Field("Conditions of the object.", list_type="map", map_keys=("type",))
    ] = ()


@kind(
    group="multicluster.x-k8s.io",
    version="v1alpha1",
    plural="serviceexports",
    short=("svcex",),
    status=True,
    columns=(Column("Age", ".metadata.creationTimestamp", "date"),),
    text="Exports the service of the same name to other clusters.",
)
class ServiceExport(Object):
    status: Annotated[ServiceExportStatus, Field("Whether the service is exported.")] = ServiceExportStatus()


class ImportedPort(Value):
    name: Annotated[str, Field("The name of the port.")] = ""
    protocol: Annotated[str, Field("Its protocol.", default="TCP")] = ""
    app_protocol: Annotated[str | None, Field("The protocol of the application.")] = None
    port: Annotated[Int32, Field("The number of the port.", required=True)] = never_omit(0)


class ServiceImportSpec(Value):
    ports: Annotated[tuple[ImportedPort, ...], Field("The ports.", required=True, list_type="atomic")] = never_omit(())
    ips: Annotated[tuple[str, ...], Field("The addresses.", max_items=1)] = ()
    type: Annotated[
        str, Field("One IP address for the service, or one per pod.", required=True, enum=("ClusterSetIP", "Headless"))
    ] = never_omit("")
    session_affinity: Annotated[str, Field("The session affinity of clients.")] = ""
    session_affinity_config: Annotated[
        Raw | None, Field("The settings of the session affinity.", preserve_unknown=True)
    ] = None


class ImportedCluster(Value):
    cluster: Annotated[str, Field("A cluster that exports the service.", required=True)] = never_omit("")


class ServiceImportStatus(Value):
    clusters: Annotated[
        tuple[ImportedCluster, ...],
        Field("The clusters that export the service.", list_type="map", map_keys=("cluster",)),
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
    text="A service that other clusters export.",
)
class ServiceImport(Object):
    spec: Annotated[ServiceImportSpec, Field("The imported service.")] = ServiceImportSpec()
    status: Annotated[ServiceImportStatus, Field("The exporting clusters.")] = ServiceImportStatus()
