"""A fleet in one process: what a restart of its controllers writes."""

import asyncio
from typing import Any

import orjson
from builders import deployment

from collector import attributes_of, collecting
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.client.client import Resource, resource_of
from trimtab.client.otlp import TraceTarget
from trimtab.clock import LoopClock, WallClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.runtime.observers.tracing import trace_of
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.store.store import Store

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
POLICY = {
    "apiVersion": POLICIES.api_version,
    "kind": POLICIES.kind,
    "metadata": {"name": "all", "namespace": "shop"},
    "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
    },
}
PLAN = FleetPlan(members=(MemberPlan(name="m1"), MemberPlan(name="m2")), lean=True, pace="instant")


async def settle(fleet: EmbeddedFleet) -> None:
    await asyncio.sleep(60)
    assert fleet.plane is not None
    assert fleet.plane.is_idle
    assert all(member.is_idle for member in fleet.world)


async def revisions_after_restart(profile: Profile, changes: dict[str, Any] | None) -> tuple[list[int], list[Any]]:
    """How far a restart moves the revisions of the host and of each member; and the images that the members run.

    `changes` are made to the Deployment while no controller runs.
    """
    clock = LoopClock()
    host = ApiServer(Store(), ApiServerSettings(clock=clock, plugins=[PeerWebhooks()]))
    await host.start()
    fleet = EmbeddedFleet(PLAN, host=host, clock=clock, profile=profile)
    try:
        await fleet.start()
        await fleet.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await fleet.client.create(POLICIES, POLICY)
        web = deployment()
        name = web["metadata"]["name"]
        await fleet.client.create(DEPLOYMENTS, {**web, "metadata": {"name": name, "namespace": "shop"}})
        await settle(fleet)
        await fleet.stop_plane()
        if changes is not None:
            await fleet.client.patch(DEPLOYMENTS, "shop", name, changes, type="strategic")
        stores = [host.store, *(member.server.store for member in fleet.world)]
        before = [store.revision for store in stores]
        await fleet.start_plane()
        await settle(fleet)
        running = [(await member.client.get(DEPLOYMENTS, "shop", name))["spec"] for member in fleet.world]
        images = [one["template"]["spec"]["containers"][0]["image"] for one in running]
        return [store.revision - old for store, old in zip(stores, before, strict=True)], images
    finally:
        await fleet.stop()
        await host.stop()


def test_restart_of_the_controllers_writes_nothing() -> None:
    written, _ = run_virtually(revisions_after_restart(TRIMTAB, None))
    assert written == [0, 0, 0]


def test_restart_repeats_writes_and_events_in_the_profile_of_upstream() -> None:
    (on_host, *_), _ = run_virtually(revisions_after_restart(UPSTREAM, None))
    assert on_host > 0


def test_change_that_was_made_while_no_controller_ran_is_delivered() -> None:
    changes = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
    _, images = run_virtually(revisions_after_restart(TRIMTAB, changes))
    assert images == ["app:2", "app:2"]


async def spans_of_one_workload(ratio: float) -> tuple[list[dict[str, Any]], str]:
    """The spans of all traces with the template of a new Deployment, and the id that its trace should have."""
    host = ApiServer(Store(), ApiServerSettings(clock=WallClock(), plugins=[PeerWebhooks()]))
    await host.start()
    async with collecting() as collector:
        fleet = EmbeddedFleet(PLAN, host=host, clock=WallClock(), trace=TraceTarget(collector.endpoint, ratio))
        try:
            await fleet.start()
            await fleet.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
            await fleet.client.create(POLICIES, POLICY)
            web = deployment()
            web["metadata"] = {"name": "web", "namespace": "shop", "annotations": {"note": "confidential"}}
            await fleet.client.create(DEPLOYMENTS, web)
            bindings = resource_of(kind_of(ResourceBinding))

            async def is_healthy() -> bool:
                items = (await fleet.client.list(bindings, "shop")).items
                statuses = items[0].get("status", {}).get("aggregatedStatus", []) if items else []
                is_idle = fleet.plane is not None and fleet.plane.is_idle
                return is_idle and [one.get("health") for one in statuses] == ["Healthy", "Healthy"]

            while not await is_healthy():  # noqa: ASYNC110 - the status has no event
                await asyncio.sleep(0.05)
            template = (await fleet.client.get(DEPLOYMENTS, "shop", "web"))["metadata"]
        finally:
            await fleet.stop()
            await host.stop()
        return collector.spans, trace_of(template["uid"], template["generation"]).trace_id


def test_one_workload_gives_one_trace_with_its_hops_in_order() -> None:
    spans, trace_id = asyncio.run(spans_of_one_workload(1.0))
    own = sorted((span for span in spans if span["traceId"] == trace_id), key=lambda s: int(s["startTimeUnixNano"]))
    active = [span["name"] for span in own if attributes_of(span).get("trimtab.result") != "unchanged"]
    first = {name: position for position, name in reversed(list(enumerate(active)))}
    hops = ["apply", "detect", "schedule", "dispatch", "execute", "aggregate"]
    assert sorted(hops, key=first.__getitem__) == hops
    [root] = [span for span in own if "parentSpanId" not in span]
    assert root["name"] == "apply"
    assert len({span["traceId"] for span in spans if attributes_of(span)["trimtab.object.name"] == "web"}) == 1
    assert {span["parentSpanId"] for span in own if span is not root} == {root["spanId"]}
    assert len({span["spanId"] for span in own}) == len(own)
    [running] = [span for span in own if span["name"] == "running"]
    assert running["startTimeUnixNano"] == root["startTimeUnixNano"]
    executed = [attributes_of(span) for span in own if span["name"] == "execute"]
    assert {one["k8s.cluster.name"] for one in executed} == {"m1", "m2"}
    assert b"confidential" not in orjson.dumps(spans)
    assert all(span["traceId"] != trace_id for span in spans if attributes_of(span).get("trimtab.object.name") == "m1")


def test_nothing_is_sent_of_traces_that_are_not_sampled() -> None:
    spans, _ = asyncio.run(spans_of_one_workload(0.0))
    assert spans == []


async def health_reconciles_in_an_idle_minute() -> tuple[int, bool]:
    """How often the health of clusters is reconciled in a minute of six probes each; and whether a lost one is seen."""
    clock = LoopClock()
    host = ApiServer(Store(), ApiServerSettings(clock=clock, plugins=[PeerWebhooks()]))
    await host.start()
    fleet = EmbeddedFleet(PLAN, host=host, clock=clock)
    try:
        await fleet.start()
        await asyncio.sleep(60)
        assert fleet.plane is not None
        (health,) = [one for one in fleet.plane.manager.reconcilers if one.controller.name == "health"]
        before = health.reconciles
        await asyncio.sleep(60)
        idle = health.reconciles - before
        fleet.world["m1"].stop_api()
        await asyncio.sleep(60)
        lost = await fleet.client.get(resource_of(kind_of(Cluster)), "", "m1")
        ready = next(one for one in lost["status"]["conditions"] if one["type"] == "Ready")
        return idle, ready["status"] == "False"
    finally:
        await fleet.stop()
        await host.stop()


def test_settled_clusters_are_probed_without_a_reconcile() -> None:
    assert run_virtually(health_reconciles_in_an_idle_minute()) == (0, True)


async def lose_a_cluster() -> tuple[int, str]:
    """How often Works are reconciled in ten minutes while a cluster is lost; and the image that it runs afterwards."""
    clock = LoopClock()
    host = ApiServer(Store(), ApiServerSettings(clock=clock, plugins=[PeerWebhooks()]))
    await host.start()
    fleet = EmbeddedFleet(PLAN, host=host, clock=clock)
    try:
        await fleet.start()
        await fleet.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await fleet.client.create(POLICIES, POLICY)
        web = deployment()
        name = web["metadata"]["name"]
        await fleet.client.create(DEPLOYMENTS, {**web, "metadata": {"name": name, "namespace": "shop"}})
        await settle(fleet)
        fleet.world["m1"].stop_api()
        await asyncio.sleep(60)
        image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
        await fleet.client.patch(DEPLOYMENTS, "shop", name, image, type="strategic")
        await asyncio.sleep(600)
        assert fleet.plane is not None
        (execute,) = [one for one in fleet.plane.manager.reconcilers if one.controller.name == "execute"]
        before = execute.reconciles
        await asyncio.sleep(600)
        reconciles = execute.reconciles - before
        fleet.world["m1"].start_api()
        await settle(fleet)
        there = await fleet.world["m1"].client.get(DEPLOYMENTS, "shop", name)
        return reconciles, there["spec"]["template"]["spec"]["containers"][0]["image"]
    finally:
        await fleet.stop()
        await host.stop()


def test_works_of_an_evacuated_cluster_wait_without_a_reconcile_until_it_returns() -> None:
    assert run_virtually(lose_a_cluster()) == (0, "app:2")
