import asyncio

from trimtab.client.client import Resource
from trimtab.clock import EPOCH, LoopClock, run_virtually
from trimtab.runtime.cache import Cache
from trimtab.runtime.placement_snapshot import placement_snapshots_from
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

MANAGED_CLUSTERS = Resource(
    "cluster.open-cluster-management.io", "v1", "managedclusters", "ManagedCluster", namespaced=False
)


def test_snapshot_follows_created_and_deleted_clusters() -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        client, cache = LocalClient(server), Cache(LocalClient(server))
        snapshots = placement_snapshots_from(cache)
        body = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": "ManagedCluster"}
        for name in ("a", "b"):
            await client.create(MANAGED_CLUSTERS, {**body, "metadata": {"name": name}, "spec": {}})
        await asyncio.sleep(1)
        assert snapshots.snapshot(EPOCH).fleet.names == ["a", "b"]
        await client.delete(MANAGED_CLUSTERS, "", "a")
        await asyncio.sleep(1)
        assert snapshots.snapshot(EPOCH).fleet.names == ["b"]
        await cache.close()
        await server.stop()

    run_virtually(run())
