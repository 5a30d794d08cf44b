"""Placements on the real server, store, cache and controllers, in virtual time; nobody runs any member here."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from trimtab.api.kind import find_kind
from trimtab.api.value import Raw
from trimtab.app import Plane
from trimtab.client.client import Client, Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, Settings
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
Story = Callable[[Client], Awaitable[None]]


def where(kind: str) -> Resource:
    declared = find_kind(f"{GROUP}/{VERSIONS[kind]}", kind)
    assert declared is not None
    return resource_of(declared)


async def make(client: Client, kind: str, name: str, namespace: str = "", **rest: Any) -> Raw:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    status = rest.pop("status", None)
    raw = {"apiVersion": f"{GROUP}/{VERSIONS[kind]}", "kind": kind, "metadata": metadata, **rest}
    made = await client.create(where(kind), raw)
    if status is not None:
        made = await client.patch(where(kind), namespace, name, {"status": status}, subresource="status")
    return made


async def chosen(client: Client) -> list[str]:
    await asyncio.sleep(2)
    pages = (await client.list(where("PlacementDecision"), "default")).items
    return [entry["clusterName"] for page in pages for entry in page.get("status", {}).get("decisions", ())]


def told(story: Story) -> None:
    async def run() -> None:
        clock = LoopClock()
        server = ApiServer(Store(), Settings(clock=clock))
        await server.start()
        plane = Plane(LocalClient(server), clock=clock)
        await plane.start()
        client = LocalClient(server)
        try:
            for name in ("a", "b", "c"):
                await client.create(
                    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
                )
                await make(client, "ManagedCluster", name, spec={"hubAcceptsClient": True})
            await make(client, "ManagedClusterSetBinding", "global", "default", spec={"clusterSet": "global"})
            await story(client)
        finally:
            await plane.stop()
            await server.stop()

    run_virtually(run())


def test_a_placement_is_answered_follows_taints_and_leaves_nothing_behind() -> None:
    async def story(client: Client) -> None:
        await make(client, "Placement", "p", "default", spec={"numberOfClusters": 2})
        assert await chosen(client) == ["a", "b"]
        placement = await client.get(where("Placement"), "default", "p")
        assert placement["status"]["numberOfSelectedClusters"] == 2
        taint = {"key": f"{GROUP}/unreachable", "effect": "NoSelect"}
        await client.patch(where("ManagedCluster"), "", "a", {"spec": {"taints": [taint]}})
        assert await chosen(client) == ["b", "c"]
        await client.delete(where("Placement"), "default", "p")
        await asyncio.sleep(10)
        assert await chosen(client) == []

    told(story)


def test_sets_that_every_fleet_has_come_with_the_first_cluster_and_come_again() -> None:
    async def story(client: Client) -> None:
        await asyncio.sleep(2)
        found = {one["metadata"]["name"]: one for one in (await client.list(where("ManagedClusterSet"))).items}
        assert set(found) == {"default", "global"}
        assert found["global"]["status"]["conditions"][0]["message"] == "3 ManagedClusters selected"
        await client.delete(where("ManagedClusterSet"), "", "global")
        await asyncio.sleep(2)
        assert await client.get(where("ManagedClusterSet"), "", "global")

    told(story)


def test_scores_rank_clusters_and_a_placement_wakes_when_one_expires() -> None:
    async def story(client: Client) -> None:
        add_on = {"type": "AddOn", "addOn": {"resourceName": "cost", "scoreName": "s"}}
        policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": add_on, "weight": 1}]}
        await make(client, "Placement", "p", "default", spec={"numberOfClusters": 1, "prioritizerPolicy": policy})
        assert await chosen(client) == ["a"]
        ends = (LoopClock().now() + timedelta(seconds=60)).isoformat().replace("+00:00", "Z")
        scores = [{"name": "s", "value": 50}]
        await make(client, "AddOnPlacementScore", "cost", "c", status={"scores": scores, "validUntil": ends})
        assert await chosen(client) == ["c"]
        await asyncio.sleep(65)
        assert await chosen(client) == ["a"], "what has expired counts nothing, and names decide"

    told(story)


def test_a_placement_of_the_first_version_is_read_as_the_document_wrote_it() -> None:
    async def story(client: Client) -> None:
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
            await make(client, "AddOnPlacementScore", "default", name, status=status)
        await client.create(Resource(GROUP, "v1alpha1", "placements", "Placement"), old)
        assert await chosen(client) == ["b"]

    told(story)
