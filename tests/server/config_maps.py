"""ConfigMaps for tests that send requests."""

from server.asgi import AsgiClient

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"n": name}}, "data": data}


async def create_config_maps(wire: AsgiClient, count: int) -> None:
    for index in range(count):
        assert (await wire("POST", CONFIG_MAPS, config_map(f"c{index}", k=str(index)))).status == 201
