"""A server killed during evictions has debited the budget exactly for the evicted pods."""

import asyncio
import random
from pathlib import Path
from typing import Any

from server.storage.test_durability import ApiServerProcess
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.errors import ApiError

PODS = Resource("", "v1", "pods", "Pod")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
COUNT, ALLOWED = 40, 25
ROUNDS = 3


async def create_pods_and_budget(client: KubeClient) -> None:
    for number in range(COUNT):
        spec = {"nodeName": "a", "containers": [{"name": "c", "image": "c"}]}
        metadata = {"name": f"web-{number}", "namespace": "default", "labels": {"app": "web"}}
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(PODS, "default", f"web-{number}", {"status": status}, subresource="status")
    metadata = {"name": "web", "namespace": "default"}
    spec = {"minAvailable": COUNT - ALLOWED, "selector": {"matchLabels": {"app": "web"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    await client.create(BUDGETS, budget)
    status = {"observedGeneration": 1, "disruptionsAllowed": ALLOWED, "currentHealthy": COUNT, "expectedPods": COUNT}
    status["desiredHealthy"] = COUNT - ALLOWED
    await client.patch(BUDGETS, "default", "web", {"status": status}, subresource="status")


async def evict(client: KubeClient, name: str) -> bool:
    """Whether the eviction was acknowledged."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    try:
        await client.submit(PODS, "default", name, "eviction", body)
    except (ApiError, OSError, TimeoutError, asyncio.IncompleteReadError):
        return False
    return True


async def terminating_pods(client: KubeClient) -> set[str]:
    pods = (await client.list(PODS, "default")).items
    return {pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")}


def test_killed_server_has_debited_exactly_the_evicted_pods(tmp_path: Path) -> None:
    async def scenario() -> None:
        rng = random.Random(7)
        granted: set[str] = set()
        server = ApiServerProcess(tmp_path)
        async with server as client:
            await create_pods_and_budget(client)
        for _ in range(ROUNDS):
            async with server as client:
                remaining = sorted({f"web-{number}" for number in range(COUNT)} - await terminating_pods(client))
                batch = rng.sample(remaining, 12)
                evictions = [asyncio.ensure_future(evict(client, name)) for name in batch]
                await asyncio.sleep(rng.uniform(0.0, 0.06))
                server.kill()
                results = await asyncio.gather(*evictions)
                granted |= {name for name, acknowledged in zip(batch, results, strict=True) if acknowledged}
            async with server as client:
                status: dict[str, Any] = (await client.get(BUDGETS, "default", "web"))["status"]
                terminating = await terminating_pods(client)
                assert granted <= terminating
                assert set(status.get("disruptedPods") or {}) == terminating
                assert ALLOWED - status["disruptionsAllowed"] == len(terminating)
        async with server as client:
            await asyncio.gather(*(evict(client, f"web-{number}") for number in range(COUNT)))
            assert len(await terminating_pods(client)) == ALLOWED

    asyncio.run(scenario())
