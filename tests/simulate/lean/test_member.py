"""Lean members serve the same API as others, and count replicas instead of running pods."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from trimtab.api.profile import TRIMTAB
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import InputError
from trimtab.simulate.fleet import parse_fleet
from trimtab.simulate.lean.member import LeanMember
from trimtab.simulate.world import World
from trimtab.store.keys import resource_prefix
from trimtab.store.txn import DeleteKey, PutKey

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


def deployment(name: str, replicas: int, cpu: str = "1", **template: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], **template}},
        },
    }


def run_member(act: Callable[[LeanMember], Awaitable[None]], **member: Any) -> None:
    async def run() -> None:
        plan = {"lean": True, "pace": "typical", "members": [{"name": "m1", "nodes": 2, "cpu": "4", **member}]}
        world = World(parse_fleet(plan), clock=LoopClock(), profile=TRIMTAB)
        await world.start()
        lean = world["m1"]
        assert isinstance(lean, LeanMember)
        await act(lean)
        await world.stop()

    run_virtually(run(), timeout=60)


async def status_of(member: LeanMember, name: str) -> dict[str, Any]:
    return (await member.client.get(DEPLOYMENTS, "default", name)).get("status") or {}


def test_replicas_become_ready_after_the_start_time() -> None:
    async def act(member: LeanMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("web", 3))
        await asyncio.sleep(1)
        assert (await status_of(member, "web"))["unavailableReplicas"] == 3
        await asyncio.sleep(20)
        status = await status_of(member, "web")
        assert (status["replicas"], status["readyReplicas"], status["observedGeneration"]) == (3, 3, 1)
        assert {one["type"]: one["status"] for one in status["conditions"]} == {
            "Available": "True",
            "Progressing": "True",
        }
        assert not (await member.client.list(PODS)).items
        assert member.is_idle

    run_member(act)


def test_only_replicas_that_fit_on_the_nodes_become_ready() -> None:
    async def act(member: LeanMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("big", 5, cpu="3"))
        await asyncio.sleep(30)
        assert (await status_of(member, "big"))["readyReplicas"] == 2
        summary = member.capacity(())
        assert summary.resources.allocated["cpu"] == "6"
        assert summary.resources.allocating["pods"] == "3"
        assert len(summary.unschedulable_pods) == 3
        await member.client.patch(DEPLOYMENTS, "default", "big", {"spec": {"replicas": 1}})
        await asyncio.sleep(30)
        assert (await status_of(member, "big"))["readyReplicas"] == 1
        assert member.capacity(()).unschedulable_pods == ()

    run_member(act)


def test_deletion_frees_capacity_for_replicas_that_wait() -> None:
    async def act(member: LeanMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("first", 2, cpu="4"))
        await member.client.create(DEPLOYMENTS, deployment("second", 1, cpu="4"))
        await asyncio.sleep(30)
        assert (await status_of(member, "second")).get("readyReplicas", 0) == 0
        await member.client.delete(DEPLOYMENTS, "default", "first")
        await asyncio.sleep(30)
        assert (await status_of(member, "second"))["readyReplicas"] == 1
        assert member.workloads.replicas == 1

    run_member(act)


def test_changes_are_seen_although_more_is_written_at_once_than_the_history_keeps() -> None:
    async def act(member: LeanMember) -> None:
        for name in ("scaled", "deleted", "other"):
            await member.client.create(DEPLOYMENTS, deployment(name, 1))
        await asyncio.sleep(30)
        store, prefix = member.server.store, resource_prefix("apps", "deployments")
        stored = {entry.key: entry.value for entry in store.list(prefix).entries}
        deleted, other, scaled = sorted(stored)
        changed = orjson.loads(stored[scaled])
        changed["spec"]["replicas"] = 2
        await store.commit([PutKey(scaled, orjson.dumps(changed)), DeleteKey(deleted)])
        for _ in range(100):  # without a turn of the event loop in between
            await store.commit([PutKey(other, stored[other])])
        await asyncio.sleep(30)
        assert (await status_of(member, "scaled"))["readyReplicas"] == 2
        assert member.workloads.replicas == 3

    run_member(act)


def test_node_selector_and_taints_are_respected() -> None:
    async def act(member: LeanMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("gpu", 1, nodeSelector={"gpu": "yes"}))
        await member.client.create(DEPLOYMENTS, deployment("plain", 1))
        await asyncio.sleep(30)
        assert (await status_of(member, "gpu")).get("readyReplicas", 0) == 0
        assert (await status_of(member, "plain"))["readyReplicas"] == 1

    pools = [{"nodes": 1, "cpu": "4"}, {"nodes": 1, "labels": {"gpu": "yes"}, "taints": [{"key": "gpu"}], "name": "g"}]
    run_member(act, nodes=None, pools=pools)


def test_job_completes_after_its_run_time() -> None:
    async def act(member: LeanMember) -> None:
        template = deployment("job", 1)["spec"]["template"]
        template["spec"]["restartPolicy"] = "Never"
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "job", "namespace": "default"},
            "spec": {"parallelism": 2, "completions": 2, "template": template},
        }
        await member.client.create(JOBS, job)
        await asyncio.sleep(120)
        status = (await member.client.get(JOBS, "default", "job"))["status"]
        assert (status["succeeded"], status["conditions"][0]["type"]) == (2, "Complete")

    run_member(act)


def test_stopped_member_reports_nothing_until_it_starts_again() -> None:
    async def act(member: LeanMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("web", 1))
        member.stop_api()
        with pytest.raises(OSError, match="refuses connections"):
            await status_of(member, "web")
        await asyncio.sleep(30)
        member.start_api()
        await asyncio.sleep(1)
        assert (await status_of(member, "web"))["readyReplicas"] == 1

    run_member(act)


def test_what_others_use_is_not_available() -> None:
    async def act(member: LeanMember) -> None:
        await member.occupy_nodes({"cpu": 3000})
        await member.client.create(DEPLOYMENTS, deployment("web", 4))
        await asyncio.sleep(30)
        assert (await status_of(member, "web"))["readyReplicas"] == 2
        assert member.capacity(()).resources.allocated["cpu"] == "8"

    run_member(act)


def test_nodes_and_pods_of_a_lean_member_cannot_be_changed() -> None:
    async def run() -> None:
        world = World(parse_fleet({"lean": True, "members": [{"name": "m1"}]}), clock=LoopClock())
        with pytest.raises(InputError, match="m1 is a lean member"):
            world.with_pods("m1")

    run_virtually(run(), timeout=60)
