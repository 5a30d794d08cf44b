from typing import Any

from server.asgi import AsgiClient, with_asgi_client
from trimtab.client.client import Resource
from trimtab.server.local import LocalClient
from trimtab.simulate.components.cluster_objects import ApiServerAddress, api_server_objects
from trimtab.simulate.components.start_objects import create_start_objects

SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")


def test_objects_are_created_once_and_the_address_is_updated() -> None:
    async def scenario(client: AsgiClient) -> None:
        local = LocalClient(client.server)

        async def start(port: int) -> dict[str, Any]:
            unknown = {"apiVersion": "example.com/v1", "kind": "Unknown", "metadata": {"name": "x"}}
            objects = [unknown, *api_server_objects(ApiServerAddress("127.0.0.1", port, ""))]
            await create_start_objects(local, client.server.catalogue, objects, "kube-apiserver")
            assert (await local.get(ENDPOINTS, "default", "kubernetes"))["subsets"][0]["ports"][0]["port"] == port
            return await local.get(SERVICES, "default", "kubernetes")

        first, second = await start(6443), await start(7443)
        assert first == second
        assert first["spec"]["clusterIP"] == "10.96.0.1"

    with_asgi_client(scenario)
