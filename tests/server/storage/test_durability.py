"""Acknowledged writes survive SIGKILL; other writes are stored completely or not at all."""

import asyncio
import contextlib
import os
import random
import signal
import sys
from pathlib import Path

from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiError, Expired

ROUNDS = int(os.environ.get("DURABILITY_ROUNDS", "30"))
WRITERS = 6
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
LOST = (OSError, TimeoutError, asyncio.IncompleteReadError)


class ApiServerProcess:
    """`trimtab apiserver` in its own process, killed with SIGKILL and restarted on the same data."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def __aenter__(self) -> KubeClient:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "trimtab",
            "apiserver",
            "--data-dir",
            str(self._directory),
            "--port",
            "0",
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            while b"ready" not in (line := await self._process.stdout.readline()):
                assert line, "the server ended before it was ready"
        self.client = KubeClient(load(self._directory / "kubeconfig"))
        return self.client

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.kill()
        await self._process.wait()
        await self.client.close()


class WriteLog:
    """The responses to the writers, and the events of the watch."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}
        """The last acknowledged value by name."""
        self.unacknowledged: dict[str, str] = {}
        """Values that were sent but not acknowledged, by name."""
        self.watched: dict[str, str] = {}
        self.watched_revisions: list[int] = []
        self.revision = ""


async def write(client: KubeClient, log: WriteLog, writer: int, turn: int) -> None:
    """Create objects and change them, as fast as the server allows; each object has its value twice."""
    count = 0
    while True:
        name, value = f"w{writer}-{turn}-{count // 3}", f"{turn}.{writer}.{count}"
        data = {"one": value, "two": value}
        log.unacknowledged[name] = value
        if count % 3 == 0:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
            await client.create(CONFIGS, body | {"data": data})
        else:
            await client.patch(CONFIGS, "default", name, {"data": data})
        log.acknowledged[name] = value
        del log.unacknowledged[name]
        count += 1


async def watch(client: KubeClient, log: WriteLog) -> None:
    async for changes in client.watch(CONFIGS, revision=log.revision):
        for change in changes:
            log.revision = change.object["metadata"]["resourceVersion"]
            if change.type != "BOOKMARK" and change.object["metadata"]["namespace"] == "default":
                log.watched_revisions.append(int(log.revision))
                log.watched[change.object["metadata"]["name"]] = (change.object.get("data") or {}).get("one", "")


async def until_killed(work, *arguments) -> None:
    with contextlib.suppress(*LOST, ApiError):
        await work(*arguments)


async def stored_values(client: KubeClient) -> dict[str, str]:
    found = {}
    for obj in (await client.list(CONFIGS, "default")).items:
        data = obj.get("data") or {}
        if obj["metadata"]["name"].startswith("w"):
            assert data["one"] == data["two"], "part of a write is visible"
            found[obj["metadata"]["name"]] = data["one"]
    return found


def check(log: WriteLog, found: dict[str, str]) -> None:
    for name, value in log.acknowledged.items():
        allowed = {value, log.unacknowledged.get(name, value)}
        assert found.get(name) in allowed, f"{name} was acknowledged as {value} and is {found.get(name)}"
    for name in found.keys() - log.acknowledged.keys():
        assert found[name] == log.unacknowledged[name]


async def catch_up(client: KubeClient, log: WriteLog, found: dict[str, str]) -> None:
    """Resume the watch until it has returned every change."""
    watching = asyncio.ensure_future(watch(client, log))
    try:
        async with asyncio.timeout(20):
            while {name: log.watched.get(name) for name in found} != found:
                assert not watching.done() or watching.exception() is None
                await asyncio.sleep(0.01)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError, *LOST):
            await watching


def test_no_acknowledged_write_is_lost_when_the_server_is_killed(tmp_path) -> None:
    rng = random.Random(20260301)

    async def scenario() -> None:
        log = WriteLog()
        for turn in range(ROUNDS):
            server = ApiServerProcess(tmp_path / "data")
            async with server as client:
                found = await stored_values(client)
                check(log, found)
                log.acknowledged, log.unacknowledged = dict(found), {}
                if not log.revision:
                    log.revision = (await client.list(CONFIGS)).revision
                try:
                    await catch_up(client, log, found)
                except Expired:
                    raise AssertionError("a watch could not be resumed after a second") from None
                tasks = [
                    asyncio.ensure_future(until_killed(write, client, log, writer, turn)) for writer in range(WRITERS)
                ]
                tasks.append(asyncio.ensure_future(until_killed(watch, client, log)))
                await asyncio.sleep(rng.uniform(0.05, 0.4))
                server.kill()
                await asyncio.wait_for(asyncio.gather(*tasks), 30)
        assert len(log.acknowledged) > ROUNDS
        assert log.watched_revisions == sorted(set(log.watched_revisions)), "a change was sent twice or out of order"

    asyncio.run(scenario())
