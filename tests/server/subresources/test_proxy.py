import asyncio

import pytest

from simulate.fixtures import PODS, run_in_whole_cluster, workload
from trimtab.client.client import Resource
from trimtab.server.subresources.proxy import split_port
from trimtab.simulate.member import SimulatedMember

SERVICES = Resource("", "v1", "services", "Service")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("web", ("web", "")), ("web:80", ("web", "80")), ("https:web:443", ("web", "443")), ("http:web", ("web", ""))],
)
def test_name_scheme_and_port_are_separated(name: str, expected: tuple[str, str]) -> None:
    assert split_port(name) == expected


def test_pods_services_and_nodes_answer_proxied_requests() -> None:
    async def scenario(member: SimulatedMember) -> None:
        container = {"name": "main", "image": "registry.example/agnhost:2", "args": ["serve-hostname"]}
        pod = workload("Pod", "web", {"containers": [container]}, "v1")
        pod["metadata"]["labels"] = {"app": "web"}
        await member.client.create(PODS, pod)
        service = workload("Service", "web", {"selector": {"app": "web"}, "ports": [{"port": 80}]}, "v1")
        await member.client.create(SERVICES, service)
        await asyncio.sleep(5)
        base = "/api/v1/namespaces/default"
        for path in (f"{base}/pods/web/proxy/", f"{base}/pods/web:9376/proxy/", f"{base}/services/web:80/proxy/"):
            answer = await member.client.fetch(path)
            assert (answer.code, answer.body) == (200, b"web"), path
        node = member.pods[0].spec.node_name
        assert (await member.client.fetch(f"/api/v1/nodes/{node}/proxy/healthz")).body == b"ok"
        assert (await member.client.fetch(f"{base}/services/kubernetes/proxy/")).code == 503

    run_in_whole_cluster(scenario)
