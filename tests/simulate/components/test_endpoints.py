import asyncio

from simulate.fixtures import DEPLOYMENTS, PODS, deployment, run_in_whole_cluster, workload
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")


def service(name: str = "web", **spec: object) -> dict[str, object]:
    return workload("Service", name, {"ports": [{"name": "http", "port": 80, "targetPort": 8080}], **spec}, "v1")


async def slices_of(member: SimulatedMember, name: str) -> list[dict[str, object]]:
    return list((await member.client.list(SLICES, "default", labels=f"kubernetes.io/service-name={name}")).items)


def test_a_service_has_endpoints_and_slices_of_its_ready_pods() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await member.client.create(SERVICES, service(selector={"app": "web"}))
        await asyncio.sleep(10)
        (subset,) = (await member.client.get(ENDPOINTS, "default", "web"))["subsets"]
        assert sorted(one["ip"] for one in subset["addresses"]) == sorted(pod.status.pod_ip for pod in member.pods)
        assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        (only,) = await slices_of(member, "web")
        assert all(one["conditions"]["ready"] for one in only["endpoints"])  # type: ignore[attr-defined]
        await member.client.delete(SERVICES, "default", "web")
        await asyncio.sleep(10)
        assert await slices_of(member, "web") == []
        assert not [
            one for one in (await member.client.list(ENDPOINTS, "default")).items if one["metadata"]["name"] == "web"
        ]

    run_in_whole_cluster(scenario)


def test_endpoints_that_somebody_writes_are_mirrored() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(SERVICES, service("own"))
        subset = {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}
        body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "own", "namespace": "default"}}
        await member.client.create(ENDPOINTS, {**body, "subsets": [subset]})
        await asyncio.sleep(5)
        (only,) = await slices_of(member, "own")
        assert only["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
        await member.client.delete(ENDPOINTS, "default", "own")
        await asyncio.sleep(5)
        assert await slices_of(member, "own") == []

    run_in_whole_cluster(scenario)


def test_endpoints_without_a_service_are_left_alone() -> None:
    async def scenario(member: SimulatedMember) -> None:
        body = {"metadata": {"name": "mine", "namespace": "default"}, "subsets": [{"addresses": [{"ip": "10.0.0.9"}]}]}
        await member.client.create(ENDPOINTS, body)
        await asyncio.sleep(5)
        assert (await member.client.get(ENDPOINTS, "default", "mine"))["subsets"][0]["addresses"] == [
            {"ip": "10.0.0.9"}
        ]

    run_in_whole_cluster(scenario)


def test_slices_that_somebody_deletes_are_made_again() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(SERVICES, service(selector={"app": "web"}))
        await member.client.create(SERVICES, service("own"))
        body = {"metadata": {"name": "own", "namespace": "default"}, "subsets": [{"addresses": [{"ip": "10.1.2.3"}]}]}
        await member.client.create(ENDPOINTS, body)
        await asyncio.sleep(5)
        for name in ("web", "own"):
            (first,) = await slices_of(member, name)
            await member.client.delete(SLICES, "default", first["metadata"]["name"])  # type: ignore[index]
            await asyncio.sleep(5)
            (again,) = await slices_of(member, name)
            assert again["metadata"]["uid"] != first["metadata"]["uid"]  # type: ignore[index]

    run_in_whole_cluster(scenario)


def test_a_named_port_is_that_of_the_same_protocol_on_each_pod() -> None:
    async def scenario(member: SimulatedMember) -> None:
        for name, number in (("one", 3000), ("two", 3001)):
            datagrams = {"name": "http", "containerPort": number + 1000, "protocol": "UDP"}
            containers = [
                {"name": f"main-{position}", "image": "web", "ports": [port]}
                for position, port in enumerate((datagrams, {"name": "http", "containerPort": number}))
            ]
            metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}}
            await member.client.create(PODS, {"metadata": metadata, "spec": {"containers": containers}})
        ports = [{"name": "http", "port": 80, "targetPort": "http"}]
        await member.client.create(SERVICES, service(selector={"app": "web"}, ports=ports))
        await asyncio.sleep(10)
        found = [one["ports"] for one in await slices_of(member, "web")]
        wanted = [[{"name": "http", "port": number, "protocol": "TCP"}] for number in (3000, 3001)]
        assert sorted(found, key=str) == wanted

    run_in_whole_cluster(scenario)
