"""`trimtab rescheduler` as people run it: processes of its own beside a cluster, of which one leads."""

import asyncio
import contextlib
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import yaml

from cli.commands.test_controllers import running
from cli.support.test_probes import Said, asked
from simulate.fixtures import DEPLOYMENTS, NODES, PODS, deployment
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import NotFound

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS = Resource("", "v1", "events", "Event")
FLEET = {"pace": "instant", "members": [{"name": "one", "nodes": 3, "cpu": "8"}]}
SETTINGS = {
    "preset": "aggressive",
    "interval": "1s",
    "minPodAge": "1s",
    "objectives": [{"name": "UnderutilisedNodes"}],
}
CROWDED = "one-node-1"


@contextlib.asynccontextmanager
async def member(directory: Path) -> AsyncIterator[KubeClient]:
    """A simulated cluster in a process of its own."""
    (directory / "fleet.yaml").write_text(yaml.safe_dump(FLEET))
    (directory / "settings.yaml").write_text(yaml.safe_dump(SETTINGS))
    words = ("--port", "0", "--data-dir", str(directory / "up"), "--fleet", str(directory / "fleet.yaml"))
    async with running("up", *words):
        client = KubeClient(load(directory / "up" / "kubeconfig", "one"))
        try:
            yield client
        finally:
            await client.close()


async def started(directory: Path, *words: str) -> asyncio.subprocess.Process:
    cluster = ("--kubeconfig", str(directory / "up" / "kubeconfig"), "--context", "one")
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "trimtab", "rescheduler", *cluster, *words, stdout=asyncio.subprocess.PIPE
    )


async def address_of(process: asyncio.subprocess.Process) -> str:
    """Where it tells how it is: the first thing it says."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().rpartition(" ")[2].strip()


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while True:
            if await true():
                return
            await asyncio.sleep(0.1)


async def spread_of(client: KubeClient) -> Counter[str]:
    found: Counter[str] = Counter()
    for pod in (await client.list(PODS, "default")).items:
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())
        if ready and not pod["metadata"].get("deletionTimestamp"):
            found[pod["spec"]["nodeName"]] += 1
    return found


async def crowd(client: KubeClient) -> None:
    """Eight pods on one of three nodes: two too many."""
    others = [f"one-node-{number}" for number in (2, 3)]
    for node in others:
        await client.patch(NODES, "", node, {"spec": {"unschedulable": True}})
    await client.create(DEPLOYMENTS, deployment(replicas=8, cpu="900m"))

    async def crowded() -> bool:
        return await spread_of(client) == {CROWDED: 8}

    await until(crowded)
    for node in others:
        await client.patch(NODES, "", node, {"spec": {"unschedulable": None}})


async def holder(client: KubeClient) -> str:
    try:
        lease = await client.get(LEASES, "kube-system", "trimtab-rescheduler")
    except NotFound:
        return ""
    return str(lease["spec"].get("holderIdentity") or "")


async def moves(client: KubeClient) -> list[dict[str, Any]]:
    """What is written down for whoever leads next."""
    try:
        state = await client.get(CONFIGS, "kube-system", "trimtab-rescheduler-state")
    except NotFound:
        return []
    found: list[dict[str, Any]] = orjson.loads(state["data"]["history.json"]).get("moves", [])
    return found


def test_of_two_reschedulers_one_leads_and_the_other_goes_on_when_it_is_killed(tmp_path: Path) -> None:
    async def story() -> None:
        async with member(tmp_path) as client:
            await crowd(client)
            words = ("--config", str(tmp_path / "settings.yaml"), "--leader-elect", "--lease-seconds", "3")
            words = (*words, "--health-address", "127.0.0.1:0")
            pair = [await started(tmp_path, *words) for _ in range(2)]
            try:
                await succession(client, pair)
            finally:
                for process in pair:
                    if process.returncode is None:
                        process.kill()
                        await process.wait()

    asyncio.run(story())


async def succession(client: KubeClient, pair: list[asyncio.subprocess.Process]) -> None:
    async def first_moved() -> bool:
        return len(await moves(client)) == 1

    addresses = {process.pid: await address_of(process) for process in pair}
    await until(first_moved)
    first = await holder(client)
    (leader,) = [process for process in pair if f"_{process.pid}_" in first]
    (other,) = [process for process in pair if process is not leader]
    assert "trimtab_leading 1\n" in (await asked(f"{addresses[leader.pid]}/metrics")).text
    assert await asked(f"{addresses[other.pid]}/readyz") == Said(200, "ok: waiting for the lease\n")
    leader.kill()
    await leader.wait()

    async def succeeded() -> bool:
        return f"_{other.pid}_" in await holder(client)

    await until(succeeded)

    async def relieved() -> bool:
        spread = await spread_of(client)
        return spread[CROWDED] == 6 and sum(spread.values()) == 8

    await until(relieved)
    await asyncio.sleep(5)  # several rounds more, in which nobody moves
    assert await relieved()
    made = await moves(client)
    assert [(one["source"], one["outcome"]) for one in made] == [(CROWDED, "Done")] * 2
    told = [one for one in (await client.list(EVENTS, "default")).items if one["reason"] == "Evicted"]
    assert len(told) == 2
    assert 'trimtab_rescheduler_moves{outcome="Done"} 2\n' in (await asked(f"{addresses[other.pid]}/metrics")).text
    other.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(other.wait(), 30) == 0
    assert await holder(client) == ""  # the next one need not wait


def test_settings_that_cannot_be_read_are_refused_before_anything_runs(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("preset: reckless")

    async def story() -> tuple[int | None, bytes]:
        words = ("rescheduler", "--kubeconfig", str(tmp_path / "none"), "--config", str(bad))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "trimtab", *words, stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
        return process.returncode, said

    code, said = asyncio.run(story())
    assert code not in (0, None)
    assert b"there is no preset 'reckless'" in said
