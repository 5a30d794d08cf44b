"""`trimtab rescheduler`: two processes against one cluster, of which one leads."""

import asyncio
import contextlib
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import yaml

from cli.processes import LIMIT, Page, fetch_page, running, until
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
    """The address of the endpoints, which is the first line of the output."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), LIMIT)).decode().rpartition(" ")[2].strip()


async def spread_of(client: KubeClient) -> Counter[str]:
    found: Counter[str] = Counter()
    for pod in (await client.list(PODS, "default")).items:
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())
        if ready and not pod["metadata"].get("deletionTimestamp"):
            found[pod["spec"]["nodeName"]] += 1
    return found


async def crowd(client: KubeClient) -> None:
    """Put eight pods on one of three nodes, two more than the limit."""
    others = [f"one-node-{number}" for number in (2, 3)]
    for node in others:
        await client.patch(NODES, "", node, {"spec": {"unschedulable": True}})
    await client.create(DEPLOYMENTS, deployment(replicas=8, cpu="900m"))

    async def is_crowded() -> bool:
        return await spread_of(client) == {CROWDED: 8}

    await until(is_crowded)
    for node in others:
        await client.patch(NODES, "", node, {"spec": {"unschedulable": None}})


async def rounds_of(address: str) -> int:
    text = (await fetch_page(f"{address}/metrics")).text
    return int(text.partition("\ntrimtab_rescheduler_rounds_total ")[2].split()[0])


async def holder(client: KubeClient) -> str:
    try:
        lease = await client.get(LEASES, "kube-system", "trimtab-rescheduler")
    except NotFound:
        return ""
    return str(lease["spec"].get("holderIdentity") or "")


async def moves(client: KubeClient) -> list[dict[str, Any]]:
    """The moves in the stored history, which the next leader reads."""
    try:
        state = await client.get(CONFIGS, "kube-system", "trimtab-rescheduler-state")
    except NotFound:
        return []
    found: list[dict[str, Any]] = orjson.loads(state["data"]["history.json"]).get("moves", [])
    return found


def test_second_rescheduler_continues_when_the_leader_is_killed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with member(tmp_path) as client:
            await crowd(client)
            words = ("--config", str(tmp_path / "settings.yaml"), "--leader-elect", "--lease-seconds", "15")
            words = (*words, "--health-address", "127.0.0.1:0")
            pair = [await started(tmp_path, *words) for _ in range(2)]
            try:
                await check_takeover(client, pair)
            finally:
                for process in pair:
                    if process.returncode is None:
                        process.kill()
                        await process.wait()

    asyncio.run(scenario())


async def check_takeover(client: KubeClient, pair: list[asyncio.subprocess.Process]) -> None:
    async def has_moved() -> bool:
        return len(await moves(client)) >= 1

    addresses = {process.pid: await address_of(process) for process in pair}
    await until(has_moved)
    first = await holder(client)
    (leader,) = [process for process in pair if f"_{process.pid}_" in first]
    (other,) = [process for process in pair if process is not leader]
    assert "trimtab_leading 1\n" in (await fetch_page(f"{addresses[leader.pid]}/metrics")).text
    assert await fetch_page(f"{addresses[other.pid]}/readyz") == Page(200, "ok: waiting for the lease\n")
    leader.kill()
    await leader.wait()

    async def has_taken_over() -> bool:
        return f"_{other.pid}_" in await holder(client)

    await until(has_taken_over)

    async def is_balanced() -> bool:
        spread = await spread_of(client)
        return spread[CROWDED] == 6 and sum(spread.values()) == 8

    await until(is_balanced)
    rounds = await rounds_of(addresses[other.pid])

    async def has_run_three_more_rounds() -> bool:
        return await rounds_of(addresses[other.pid]) >= rounds + 3

    await until(has_run_three_more_rounds)  # in which no pod moves
    assert await is_balanced()
    history = await moves(client)
    assert [(one["source"], one["outcome"]) for one in history] == [(CROWDED, "Done")] * 2
    events = [one for one in (await client.list(EVENTS, "default")).items if one["reason"] == "Evicted"]
    assert len(events) == 2
    assert 'trimtab_rescheduler_moves{outcome="Done"} 2\n' in (await fetch_page(f"{addresses[other.pid]}/metrics")).text
    other.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(other.wait(), LIMIT) == 0
    assert await holder(client) == ""  # released, so that the next leader need not wait


def test_invalid_settings_are_refused_at_start(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("preset: reckless")

    async def scenario() -> tuple[int | None, bytes]:
        words = ("rescheduler", "--kubeconfig", str(tmp_path / "none"), "--config", str(bad))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "trimtab", *words, stderr=asyncio.subprocess.PIPE
        )
        _, error = await process.communicate()
        return process.returncode, error

    code, error = asyncio.run(scenario())
    assert code not in (0, None)
    assert b"there is no preset 'reckless'" in error
