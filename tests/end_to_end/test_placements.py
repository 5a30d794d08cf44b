"""OCM Placements with the real server, store, cache and controllers in virtual time, without member clusters."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from trimtab.api.kind import find_kind
from trimtab.api.value import Raw
from trimtab.app import ControlPlane
from trimtab.client.client import Client, Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

GROUP = "cluster.open-cluster-management.io"
VERSIONS = {
    "ManagedCluster": "v1",
    "ManagedClusterSet": "v1beta2",
    "ManagedClusterSetBinding": "v1beta2",
    "Placement": "v1beta1",
    "PlacementDecision": "v1beta1",
    "AddOnPlacementScore": "v1alpha1",
}
Steps = Callable[[Client], Awaitable[None]]


def resource_for(kind: str) -> Resource:
    declared = find_kind(f"{GROUP}/{VERSIONS[kind]}", kind)
    assert declared is not None
    return resource_of(declared)


async def create(client: Client, kind: str, name: str, namespace: str = "", **rest: Any) -> Raw:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    status = rest.pop("status", None)
    raw = {"apiVersion": f"{GROUP}/{VERSIONS[kind]}", "kind": kind, "metadata": metadata, **rest}
    created = await client.create(resource_for(kind), raw)
    if status is not None:
        created = await client.patch(resource_for(kind), namespace, name, {"status": status}, subresource="status")
    return created


async def selected_clusters(client: Client) -> list[str]:
    await asyncio.sleep(2)
    pages = (await client.list(resource_for("PlacementDecision"), "default")).items
    return [entry["clusterName"] for page in pages for entry in page.get("status", {}).get("decisions", ())]


def run_scenario(steps: Steps) -> None:
    async def run() -> None:
        clock = LoopClock()
        server = ApiServer(Store(), ApiServerSettings(clock=clock))
        await server.start()
        plane = ControlPlane(LocalClient(server), clock=clock)
        await plane.start()
        client = LocalClient(server)
        try:
            for name in ("a", "b", "c"):
                await client.create(
                    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
                )
                await create(client, "ManagedCluster", name, spec={"hubAcceptsClient": True})
            await create(client, "ManagedClusterSetBinding", "global", "default", spec={"clusterSet": "global"})
            await steps(client)
        finally:
            await plane.stop()
            await server.stop()

    run_virtually(run())


def test_a_placement_gets_decisions_follows_taints_and_is_cleaned_up() -> None:
    async def steps(client: Client) -> None:
        await create(client, "Placement", "p", "default", spec={"numberOfClusters": 2})
        assert await selected_clusters(client) == ["a", "b"]
        placement = await client.get(resource_for("Placement"), "default", "p")
        assert placement["status"]["numberOfSelectedClusters"] == 2
        taint = {"key": f"{GROUP}/unreachable", "effect": "NoSelect"}
        await client.patch(resource_for("ManagedCluster"), "", "a", {"spec": {"taints": [taint]}})
        assert await selected_clusters(client) == ["b", "c"]
        await client.delete(resource_for("Placement"), "default", "p")
        await asyncio.sleep(10)
        assert await selected_clusters(client) == []

    run_scenario(steps)


def test_default_cluster_sets_are_created_and_recreated_after_deletion() -> None:
    async def steps(client: Client) -> None:
        await asyncio.sleep(2)
        found = {one["metadata"]["name"]: one for one in (await client.list(resource_for("ManagedClusterSet"))).items}
        assert set(found) == {"default", "global"}
        assert found["global"]["status"]["conditions"][0]["message"] == "3 ManagedClusters selected"
        await client.delete(resource_for("ManagedClusterSet"), "", "global")
        await asyncio.sleep(2)
        assert await client.get(resource_for("ManagedClusterSet"), "", "global")

    run_scenario(steps)


def test_scores_rank_clusters_and_an_expired_score_updates_the_decisions() -> None:
    async def steps(client: Client) -> None:
        add_on = {"type": "AddOn", "addOn": {"resourceName": "cost", "scoreName": "s"}}
        policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": add_on, "weight": 1}]}
        await create(client, "Placement", "p", "default", spec={"numberOfClusters": 1, "prioritizerPolicy": policy})
        assert await selected_clusters(client) == ["a"]
        ends = (LoopClock().now() + timedelta(seconds=60)).isoformat().replace("+00:00", "Z")
        scores = [{"name": "s", "value": 50}]
        await create(client, "AddOnPlacementScore", "cost", "c", status={"scores": scores, "validUntil": ends})
        assert await selected_clusters(client) == ["c"]
        await asyncio.sleep(65)
        assert await selected_clusters(client) == ["a"], "an expired score counts 0, so the name decides"

    run_scenario(steps)


def test_a_v1alpha1_placement_is_converted() -> None:
    async def steps(client: Client) -> None:
        old = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "Placement",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {
                "numberOfClusters": 1,
                "prioritizerPolicy": {
                    "mode": "Exact",
                    "configurations": [
                        {
                            "name": "AddOn",
                            "scoreCoordinate": {
                                "type": "AddOn",
                                "addOn": {"resourceName": "default", "scoreName": "cpuratio"},
                            },
                            "weight": -1,
                        }
                    ],
                },
            },
        }
        for name, value in (("a", 50), ("b", -50), ("c", 0)):
            status = {"scores": [{"name": "cpuratio", "value": value}]}
            await create(client, "AddOnPlacementScore", "default", name, status=status)
        await client.create(Resource(GROUP, "v1alpha1", "placements", "Placement"), old)
        assert await selected_clusters(client) == ["b"]

    run_scenario(steps)
