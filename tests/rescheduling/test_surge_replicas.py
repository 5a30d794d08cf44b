"""A replica that a drain adds is removed once, whatever response is lost."""

import asyncio

from trimtab.api.value import Raw
from trimtab.rescheduling.surge_replicas import DEPLOYMENTS, SurgeReplicas
from trimtab.server.apiserver import ApiServer
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

WEB: Raw = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


def test_what_was_added_is_removed_and_nothing_else() -> None:
    async def scenario() -> list[int]:
        server = ApiServer(Store())
        await server.start()
        client = LocalClient(server)
        await client.create(DEPLOYMENTS, WEB)
        surge, sizes = SurgeReplicas(client), list[int]()
        for change in (surge.add, surge.add, surge.remove, surge.remove, surge.remove):
            await change("default", "web")
            sizes.append((await client.get(DEPLOYMENTS, "default", "web"))["spec"]["replicas"])
        await surge.remove("default", "gone")
        await server.stop()
        return sizes

    assert asyncio.run(scenario()) == [3, 4, 3, 2, 2]
