"""Network kinds: Services, their endpoints, Ingresses, NetworkPolicies."""

import msgspec

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import network as network_defaults
from trimtab.api.kinds.native.rules import endpoints, network
from trimtab.api.value import IntOrString, Object, Value


class ServicePort(Value):
    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    target_port: IntOrString = 0
    node_port: int = 0


class ServiceSpec(Value):
    type: str = ""
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    external_name: str = ""


class LoadBalancerIngress(Value):
    ip: str = ""
    hostname: str = ""


class LoadBalancerStatus(Value):
    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(Value):
    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


@kind(
    group="",
    version="v1",
    plural="services",
    short=["svc"],
    categories=["all"],
    status=True,
    custom=False,
    defaults=[network_defaults.service],
    validators=[network.check_service],
)
class Service(Object):
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


@kind(
    group="",
    version="v1",
    plural="endpoints",
    short=["ep"],
    custom=False,
    defaults=[network_defaults.endpoints],
    validators=[endpoints.check_endpoints],
)
class Endpoints(Object):
    """No typed fields: nothing here reads them."""


@kind(
    group="discovery.k8s.io",
    version="v1",
    plural="endpointslices",
    custom=False,
    defaults=[network_defaults.endpoint_slice],
    validators=[endpoints.check_endpoint_slice],
)
class EndpointSlice(Object):
    """No typed fields: nothing here reads them."""


class IngressStatus(Value):
    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


@kind(
    group="networking.k8s.io",
    version="v1",
    plural="ingresses",
    short=["ing"],
    status=True,
    custom=False,
    validators=[network.check_ingress],
)
class Ingress(Object):
    status: IngressStatus = IngressStatus()


@kind(
    group="networking.k8s.io",
    version="v1",
    plural="ingressclasses",
    namespaced=False,
    custom=False,
    validators=[network.check_ingress_class],
)
class IngressClass(Object):
    """No typed fields: nothing here reads them."""


@kind(
    group="networking.k8s.io",
    version="v1",
    plural="networkpolicies",
    short=["netpol"],
    custom=False,
    defaults=[network_defaults.network_policy],
    validators=[network.check_network_policy],
)
class NetworkPolicy(Object):
    """No typed fields: nothing here reads them."""
