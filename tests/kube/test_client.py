"""A cache survives a kube-apiserver outage and catches up on missed changes."""

import asyncio
import signal
from typing import Any

import pytest
from kube.fleet import wait_until
from kube.rig import RealControlPlane

from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import Expired
from trimtab.runtime.cache import Cache, Table

CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACE = "kube-public"


def config(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": NAMESPACE, "name": name}}


async def has_entries(table: Table, *names: str) -> bool:
    return {name for namespace, name in table.entries if namespace == NAMESPACE} == set(names)


def test_restarted_server_without_old_revisions_is_listed_again(host: RealControlPlane) -> None:
    async def story(client: KubeClient) -> None:
        before = (await client.create(CONFIGS, config("stays")))["metadata"]["resourceVersion"]
        await client.create(CONFIGS, config("goes"))
        cache = Cache(client)
        table = cache.table(CONFIGS)
        await wait_until(lambda: has_entries(table, "stays", "goes"))
        side_door = KubeClient(load(await asyncio.to_thread(host.start_second_api)))
        await asyncio.to_thread(host.stop_apiserver, signal.SIGKILL)
        await side_door.delete(CONFIGS, NAMESPACE, "goes")
        await side_door.create(CONFIGS, config("comes"))
        await side_door.close()
        await asyncio.to_thread(host.start_apiserver)
        await asyncio.to_thread(host.stop_second_api)
        await wait_until(lambda: has_entries(table, "stays", "comes"))
        await cache.close()
        with pytest.raises(Expired):
            await anext(aiter(client.watch(CONFIGS, revision=before)))
        for name in ("stays", "comes"):
            await client.delete(CONFIGS, NAMESPACE, name)
        await client.close()

    async def main() -> None:
        await story(KubeClient(load(host.kubeconfig)))

    asyncio.run(main())
