from api.kinds.kind_helpers import decode, reencode
from trimtab.api.kinds.native.network import Ingress, Service


def test_service_keeps_its_cluster_ip_and_named_target_ports() -> None:
    spec = {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}]}
    service = decode(Service, {"metadata": {"name": "s"}, "spec": spec})
    assert service.spec.cluster_ip == "10.0.0.1"
    assert (service.spec.ports[0].port, service.spec.ports[0].target_port) == (80, "http")
    assert reencode(Service, {"metadata": {"name": "s"}, "spec": spec})["spec"]["clusterIP"] == "10.0.0.1"


def test_services_and_ingresses_keep_load_balancer_addresses() -> None:
    raw = {"metadata": {"name": "s"}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h"}]}}}
    for status in (decode(Service, raw).status, decode(Ingress, raw).status):
        assert [(one.ip, one.hostname) for one in status.load_balancer.ingress] == [("1.2.3.4", ""), ("", "h")]
