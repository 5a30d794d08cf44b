import asyncio
from typing import Any

import pytest

from server.asgi import AsgiClient
from simulate.fixtures import PODS, run_in_whole_cluster, workload
from trimtab.client.client import Resource
from trimtab.server.subresources.proxy import split_port, with_links_below
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


def porter(*flags: str, **values: str) -> dict[str, Any]:
    environment = [{"name": name, "value": value} for name, value in values.items()]
    container = {"name": "main", "image": "agnhost", "command": ["/agnhost", "porter", *flags], "env": environment}
    pod = workload("Pod", "porter", {"containers": [container]}, "v1")
    pod["metadata"]["labels"] = {"app": "porter"}
    return pod


def test_each_port_of_a_program_is_reached_by_number_name_and_scheme() -> None:
    async def scenario(member: SimulatedMember) -> None:
        values = {"SERVE_PORT_80": "eighty", "SERVE_PORT_160": "foo", "SERVE_TLS_PORT_460": "tls"}
        await member.client.create(PODS, porter(**values))
        ports = [
            {"name": "first", "port": 8080, "targetPort": 80},
            {"name": "second", "port": 81, "targetPort": 160},
            {"name": "secure", "port": 443, "targetPort": 460},
        ]
        service = workload("Service", "porter", {"selector": {"app": "porter"}, "ports": ports}, "v1")
        await member.client.create(SERVICES, service)
        await asyncio.sleep(5)
        for target, body in {
            "pods/porter": "eighty",
            "pods/porter:160": "foo",
            "pods/https:porter:460": "tls",
            "services/porter:first": "eighty",
            "services/http:porter:81": "foo",
            "services/https:porter:secure": "tls",
        }.items():
            answer = await member.client.fetch(f"/api/v1/namespaces/default/{target}/proxy/")
            assert (answer.code, answer.body.decode()) == (200, body), target
        for target, code in {"pods/porter:460": 400, "pods/porter:1": 503, "services/porter:none": 503}.items():
            assert (await member.client.fetch(f"/api/v1/namespaces/default/{target}/proxy/")).code == code, target

    run_in_whole_cluster(scenario)


def test_address_without_a_slash_is_redirected() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(PODS, porter("--json-response", SERVE_PORT_80="foo"))
        await asyncio.sleep(5)
        address = "/api/v1/namespaces/default/pods/porter/proxy"
        assert (await member.client.fetch(f"{address}?method=GET")).code == 301
        answer = await member.client.fetch(f"{address}/some/path")
        assert (answer.code, answer.body) == (200, b'{"Method":"GET","Body":"foo"}')

    run_in_whole_cluster(scenario)


@pytest.mark.parametrize("method", ["DELETE", "OPTIONS", "PATCH", "POST", "PUT"])
def test_every_method_reaches_the_program(method: str) -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(PODS, porter("--json-response", SERVE_PORT_80="foo"))
        await asyncio.sleep(5)
        answer = await AsgiClient(member.server)(method, "/api/v1/namespaces/default/pods/porter/proxy/some/path")
        assert (answer.status, answer.json()) == (200, {"Method": method, "Body": "foo"})

    run_in_whole_cluster(scenario)


def test_links_of_pages_lead_through_the_proxy() -> None:
    page = '<p><a class="x" href="/rewrite">a</a> <img src=\'/i.png\'> <a href="//other/">b</a> <a href="c">c</a></p>'
    assert with_links_below("/proxy", page) == (
        '<p><a class="x" href="/proxy/rewrite">a</a> <img src=\'/proxy/i.png\'> <a href="//other/">b</a> <a href="c">c</a></p>'
    )
