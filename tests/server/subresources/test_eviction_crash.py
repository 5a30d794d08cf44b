"""A server that is killed in the middle of evictions has debited exactly what it ended: neither more nor less."""

import asyncio
import random
from pathlib import Path
from typing import Any

from server.storage.test_durability import Server
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.errors import ApiFault

PODS = Resource("", "v1", "pods", "Pod")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
COUNT, ALLOWED = 40, 25
LIVES = 3


async def prepared(client: KubeClient) -> None:
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


async def evicted(client: KubeClient, name: str) -> bool:
    """Whether it was granted, as far as anybody heard."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    try:
        await client.submit(PODS, "default", name, "eviction", body)
    except (ApiFault, OSError, TimeoutError, asyncio.IncompleteReadError):
        return False
    return True


async def ending(client: KubeClient) -> set[str]:
    pods = (await client.list(PODS, "default")).items
    return {pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")}


def test_a_server_killed_between_debit_and_end_has_done_both_or_neither(tmp_path: Path) -> None:
    async def life() -> None:
        dice = random.Random(7)
        granted: set[str] = set()
        server = Server(tmp_path)
        async with server as client:
            await prepared(client)
        for _ in range(LIVES):
            async with server as client:
                left = sorted({f"web-{number}" for number in range(COUNT)} - await ending(client))
                wave = dice.sample(left, 12)
                asked = [asyncio.ensure_future(evicted(client, name)) for name in wave]
                await asyncio.sleep(dice.uniform(0.0, 0.06))
                server.kill()
                answers = await asyncio.gather(*asked)
                granted |= {name for name, answer in zip(wave, answers, strict=True) if answer}
            async with server as client:
                status: dict[str, Any] = (await client.get(BUDGETS, "default", "web"))["status"]
                gone = await ending(client)
                assert granted <= gone
                assert set(status.get("disruptedPods") or {}) == gone
                assert ALLOWED - status["disruptionsAllowed"] == len(gone)
        async with server as client:
            await asyncio.gather(*(evicted(client, f"web-{number}") for number in range(COUNT)))
            assert len(await ending(client)) == ALLOWED

    asyncio.run(life())
