"""Endpoints of a service in one cluster are known in others, by MultiClusterService or by ServiceExport and ServiceImport."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.members.agent import Heartbeat
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import FleetPlan, pull_last_members, uniform_fleet
from trimtab.store.store import Store

SERVICES = Resource("", "v1", "services", "Service")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
MULTI = Resource("networking.karmada.io", "v1alpha1", "multiclusterservices", "MultiClusterService")
EXPORTS = Resource("multicluster.x-k8s.io", "v1alpha1", "serviceexports", "ServiceExport")
IMPORTS = Resource("multicluster.x-k8s.io", "v1alpha1", "serviceimports", "ServiceImport")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
CLUSTER_POLICIES = Resource(
    "policy.karmada.io", "v1alpha1", "clusterpropagationpolicies", "ClusterPropagationPolicy", namespaced=False
)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")
SPEC = {"selector": {"app": "web"}, "ports": [{"port": 80, "name": "http", "protocol": "TCP"}]}


def obj(resource: Resource, name: str, **body: Any) -> Raw:
    metadata = {"name": name, **({"namespace": "default"} if resource.namespaced else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **body}


def deployment(replicas: int) -> Raw:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return obj(DEPLOYMENTS, "web", spec=spec)


@asynccontextmanager
async def running_fleet(plan: FleetPlan) -> AsyncIterator[EmbeddedFleet]:
    host = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
    await host.start()
    fleet = EmbeddedFleet(plan, host=host, clock=LoopClock(), whole_clusters=True)
    await fleet.start()
    await asyncio.sleep(30)
    try:
        yield fleet
    finally:
        await fleet.stop()
        await host.stop()


def on_fleet(check: Callable[[EmbeddedFleet], Awaitable[None]], plan: FleetPlan | None = None) -> None:
    async def run() -> None:
        async with running_fleet(plan or uniform_fleet(3, 1)) as fleet:
            await check(fleet)

    run_virtually(run())


async def endpoints_in(client: Client, service: str) -> dict[str, int]:
    """The number of endpoints by slice."""
    found = (await client.list(SLICES, "default", labels=f"kubernetes.io/service-name={service}")).items
    return {one["metadata"]["name"]: len(one.get("endpoints") or ()) for one in found}


def member(fleet: EmbeddedFleet, number: int) -> Client:
    return fleet.world[f"member{number}"].client


def names(*numbers: int) -> list[Raw]:
    return [{"name": f"member{number}"} for number in numbers]


def test_consumers_get_the_slices_of_providers_and_follow_their_changes() -> None:
    async def check(fleet: EmbeddedFleet) -> None:
        await member(fleet, 1).create(DEPLOYMENTS, deployment(1))
        await fleet.client.create(SERVICES, obj(SERVICES, "web", spec=SPEC))
        spec = {"types": ["CrossCluster"], "providerClusters": names(1), "consumerClusters": names(2)}
        await fleet.client.create(MULTI, obj(MULTI, "web", spec=spec))
        await asyncio.sleep(20)
        (own,) = await endpoints_in(member(fleet, 1), "web")
        copied = await endpoints_in(member(fleet, 2), "web")
        assert copied[f"member1-{own}"] == 1
        assert not await endpoints_in(member(fleet, 3), "web")
        await member(fleet, 1).patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 3}})
        await asyncio.sleep(20)
        assert (await endpoints_in(member(fleet, 2), "web"))[f"member1-{own}"] == 3
        status = (await fleet.client.get(MULTI, "default", "web"))["status"]
        assert {one["type"]: one["status"] for one in status["conditions"]} == {
            "ServiceApplied": "True",
            "EndpointSliceDispatched": "True",
        }
        changed = {"spec": {"providerClusters": names(2), "consumerClusters": names(1)}}
        await fleet.client.patch(MULTI, "default", "web", changed)
        await asyncio.sleep(20)
        assert f"member1-{own}" not in await endpoints_in(member(fleet, 2), "web")
        assert any(name.startswith("member2-") for name in await endpoints_in(member(fleet, 1), "web"))

    on_fleet(check)


def test_without_named_clusters_every_cluster_gets_the_slices_of_every_other() -> None:
    async def check(fleet: EmbeddedFleet) -> None:
        await member(fleet, 1).create(DEPLOYMENTS, deployment(2))
        await fleet.client.create(SERVICES, obj(SERVICES, "web", spec=SPEC))
        await fleet.client.create(MULTI, obj(MULTI, "web", spec={"types": ["CrossCluster"]}))
        await asyncio.sleep(30)
        for number in (2, 3):
            found = await endpoints_in(member(fleet, number), "web")
            assert sum(found.values()) == 2
            assert len(found) == 3  # its own, and one of each other cluster
        await fleet.client.delete(MULTI, "default", "web")
        await asyncio.sleep(20)
        assert len(await endpoints_in(member(fleet, 2), "web")) == 1
        labels = (await fleet.client.get(SERVICES, "default", "web"))["metadata"].get("labels", {})
        assert "resourcetemplate.karmada.io/claimed-by" not in labels
        works = (await fleet.client.list(WORKS)).items
        assert not [one for one in works if "multiclusterservice.karmada.io/name" in one["metadata"].get("labels", {})]

    on_fleet(check)


def test_exported_endpoints_follow_the_import_to_its_cluster() -> None:
    async def check(fleet: EmbeddedFleet) -> None:
        for kind in ("serviceexports", "serviceimports"):
            selector = {"apiVersion": CRDS.api_version, "kind": CRDS.kind, "name": f"{kind}.multicluster.x-k8s.io"}
            policy = {"resourceSelectors": [selector], "placement": {}}
            await fleet.client.create(CLUSTER_POLICIES, obj(CLUSTER_POLICIES, kind, spec=policy))
        await member(fleet, 1).create(DEPLOYMENTS, deployment(1))
        await member(fleet, 1).create(SERVICES, obj(SERVICES, "web", spec=SPEC))
        await asyncio.sleep(40)
        await fleet.client.create(EXPORTS, obj(EXPORTS, "web"))
        imported = {"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP", "name": "http"}]}
        await fleet.client.create(IMPORTS, obj(IMPORTS, "web", spec=imported))
        for kind, cluster in (("ServiceExport", "member1"), ("ServiceImport", "member2")):
            selector = {"apiVersion": EXPORTS.api_version, "kind": kind}
            placement = {"clusterAffinity": {"clusterNames": [cluster]}}
            policy = {"resourceSelectors": [selector], "placement": placement, "propagateDeps": True}
            await fleet.client.create(POLICIES, obj(POLICIES, kind.lower(), spec=policy))
        await asyncio.sleep(40)
        assert sum((await endpoints_in(fleet.client, "derived-web")).values()) == 1
        assert sum((await endpoints_in(member(fleet, 2), "derived-web")).values()) == 1
        assert (await member(fleet, 2).get(SERVICES, "default", "derived-web"))["spec"]["ports"][0]["port"] == 80
        await member(fleet, 1).patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 2}})
        await asyncio.sleep(20)
        assert sum((await endpoints_in(member(fleet, 2), "derived-web")).values()) == 2
        await fleet.client.delete(EXPORTS, "default", "web")
        await fleet.client.delete(IMPORTS, "default", "web")
        await asyncio.sleep(40)
        assert not await endpoints_in(fleet.client, "derived-web")

    on_fleet(check)


def test_agent_of_a_pull_cluster_collects_the_slices_of_its_cluster() -> None:
    async def check(fleet: EmbeddedFleet) -> None:
        heartbeat = asyncio.get_running_loop().create_task(Heartbeat(fleet.client, "member3", LoopClock()).run())
        agent = fleet.make_agent("member3")
        await agent.start()
        await asyncio.sleep(60)
        await member(fleet, 3).create(DEPLOYMENTS, deployment(2))
        await fleet.client.create(SERVICES, obj(SERVICES, "web", spec=SPEC))
        spec = {"types": ["CrossCluster"], "providerClusters": names(3), "consumerClusters": names(1, 3)}
        await fleet.client.create(MULTI, obj(MULTI, "web", spec=spec))
        await asyncio.sleep(30)
        found = await endpoints_in(member(fleet, 1), "web")
        assert [count for name, count in found.items() if name.startswith("member3-")] == [2]
        heartbeat.cancel()
        await agent.stop()

    on_fleet(check, pull_last_members(uniform_fleet(3, 1), 1))
