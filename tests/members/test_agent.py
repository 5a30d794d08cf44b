"""A Pull cluster, which the host cannot reach, is served by its agent."""

import asyncio

import pytest

from trimtab.app import ControlPlane
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.clusters.health import PROBE
from trimtab.members.agent import CONTROLLERS, Heartbeat
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")


async def create_objects(user: LocalClient) -> None:
    """A Pull cluster, and a ConfigMap that a policy propagates to it."""
    spec = {"syncMode": "Pull"}
    await user.create(
        CLUSTERS,
        {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": "edge"}, "spec": spec},
    )
    await user.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}})
    await user.create(
        CONFIGS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "demo"},
            "data": {"k": "v"},
        },
    )
    selector = {"apiVersion": "v1", "kind": "ConfigMap"}
    await user.create(
        POLICIES,
        {
            "apiVersion": POLICIES.api_version,
            "kind": "PropagationPolicy",
            "metadata": {"name": "p", "namespace": "demo"},
            "spec": {"resourceSelectors": [selector], "placement": {}},
        },
    )


@pytest.mark.parametrize("with_agent", [True, False])
def test_works_reach_a_pull_cluster_only_through_its_agent(with_agent) -> None:
    async def scenario() -> None:
        clock = LoopClock()
        host, member = (ApiServer(Store(), ApiServerSettings(clock=clock)) for _ in range(2))
        await host.start()
        await member.start()
        user = LocalClient(host)
        plane = ControlPlane(LocalClient(host), clock=clock)
        agent = ControlPlane(
            LocalClient(host),
            clock=clock,
            settings={"agent": "edge"},
            connect=lambda cluster: LocalClient(member) if cluster.name == "edge" else None,
            is_enabled=lambda controller: controller.name in CONTROLLERS,
        )
        heartbeat = asyncio.ensure_future(Heartbeat(LocalClient(host), "edge", clock).run()) if with_agent else None
        await plane.start()
        if with_agent:
            await agent.start()
        await create_objects(user)
        await asyncio.sleep(90)
        applied = [obj["metadata"]["name"] for obj in (await LocalClient(member).list(CONFIGS, "demo")).items]
        cluster = await user.get(CLUSTERS, "", "edge")
        ready = next(c for c in cluster["status"]["conditions"] if c["type"] == "Ready")
        assert (applied, ready["status"]) == ((["c"], "True") if with_agent else ([], "Unknown"))
        if heartbeat is not None:
            heartbeat.cancel()
            await agent.stop()
        await plane.stop()
        await host.stop()
        await member.stop()

    run_virtually(scenario())


def test_an_agent_changes_no_cluster_but_its_own() -> None:
    """A Push cluster, and a Pull cluster with an agent of its own, beside the agent of another cluster."""

    async def scenario() -> None:
        clock = LoopClock()
        host, member = (ApiServer(Store(), ApiServerSettings(clock=clock)) for _ in range(2))
        await host.start()
        await member.start()
        user = LocalClient(host)
        for name, mode in (("edge", "Pull"), ("far", "Pull"), ("near", "Push")):
            spec = {"syncMode": mode}
            metadata = {"name": name}
            await user.create(
                CLUSTERS,
                {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": metadata, "spec": spec},
            )
        others = {name: await user.get(CLUSTERS, "", name) for name in ("far", "near")}
        agent = ControlPlane(
            LocalClient(host),
            clock=clock,
            settings={"agent": "edge"},
            connect=lambda cluster: LocalClient(member) if cluster.name == "edge" else None,
            is_enabled=lambda controller: controller.name in CONTROLLERS,
        )
        await agent.start()
        await asyncio.sleep(600)
        probed = set(agent.state.memory.keys(PROBE))
        assert probed == {"edge"}
        assert others == {name: await user.get(CLUSTERS, "", name) for name in others}
        await agent.stop()
        await host.stop()
        await member.stop()

    run_virtually(scenario())


def test_an_agent_leaves_the_works_of_other_clusters_alone() -> None:
    """Also those of a cluster that no longer exists: the control plane removes their finalizers."""

    async def scenario() -> None:
        clock = LoopClock()
        host = ApiServer(Store(), ApiServerSettings(clock=clock))
        await host.start()
        user = LocalClient(host)
        space = "karmada-es-gone"
        await user.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        work = {
            "apiVersion": WORKS.api_version,
            "kind": "Work",
            "metadata": {"name": "w", "namespace": space, "finalizers": ["karmada.io/execution-controller"]},
            "spec": {"workload": {"manifests": []}},
        }
        await user.create(WORKS, work)
        await user.delete(WORKS, space, "w")
        agent = ControlPlane(
            LocalClient(host),
            clock=clock,
            settings={"agent": "edge"},
            is_enabled=lambda controller: controller.name in CONTROLLERS,
        )
        await agent.start()
        await asyncio.sleep(60)
        assert (await user.get(WORKS, space, "w"))["metadata"]["finalizers"]
        await agent.stop()
        plane = ControlPlane(LocalClient(host), clock=clock)
        await plane.start()
        await asyncio.sleep(60)
        assert not (await user.list(WORKS, space)).items
        await plane.stop()
        await host.stop()

    run_virtually(scenario())
