import asyncio

from simulate.fixtures import run_in_whole_cluster
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember

SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)


def test_a_cluster_has_the_service_of_its_api_server_and_a_default_storage_class() -> None:
    async def scenario(member: SimulatedMember) -> None:
        service = await member.client.get(SERVICES, "default", "kubernetes")
        assert service["spec"]["clusterIP"] == "10.96.0.1"
        endpoints = await member.client.get(ENDPOINTS, "default", "kubernetes")
        assert endpoints["subsets"][0]["addresses"] == [{"ip": member.address.ip}]
        (only,) = (await member.client.list(CLASSES)).items
        assert only["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}

    run_in_whole_cluster(scenario)


def test_whole_cluster_has_the_objects_of_flow_control_and_restores_mandatory_ones() -> None:
    async def scenario(member: SimulatedMember) -> None:
        schemas = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False)
        assert "exempt" in [one["metadata"]["name"] for one in (await member.client.list(schemas)).items]
        await member.client.delete(schemas, "", "catch-all")
        await asyncio.sleep(1)
        await member.client.get(schemas, "", "catch-all")

    run_in_whole_cluster(scenario)
