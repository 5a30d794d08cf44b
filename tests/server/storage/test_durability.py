"""What was acknowledged survives a process that is killed without warning; what was not is there whole or not at all."""

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
from trimtab.errors import ApiFault, Expired

ROUNDS = int(os.environ.get("DURABILITY_ROUNDS", "30"))
WRITERS = 6
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
LOST = (OSError, TimeoutError, asyncio.IncompleteReadError)


class Server:
    """`trimtab apiserver` in a process of its own, killed with SIGKILL and started again on the same data."""

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


class Ledger:
    """What the writers were told, and what the watcher was shown."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}
        """Name to the last value that the server confirmed."""
        self.begun: dict[str, str] = {}
        """Name to a value that was sent and never answered."""
        self.shown: dict[str, str] = {}
        self.seen_revisions: list[int] = []
        self.revision = ""


async def write(client: KubeClient, ledger: Ledger, writer: int, turn: int) -> None:
    """Create objects and change them, as fast as the server takes them; a value stands twice in each object."""
    count = 0
    while True:
        name, value = f"w{writer}-{turn}-{count // 3}", f"{turn}.{writer}.{count}"
        data = {"one": value, "two": value}
        ledger.begun[name] = value
        if count % 3 == 0:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
            await client.create(CONFIGS, body | {"data": data})
        else:
            await client.patch(CONFIGS, "default", name, {"data": data})
        ledger.acknowledged[name] = value
        del ledger.begun[name]
        count += 1


async def watch(client: KubeClient, ledger: Ledger) -> None:
    async for changes in client.watch(CONFIGS, revision=ledger.revision):
        for change in changes:
            ledger.revision = change.object["metadata"]["resourceVersion"]
            if change.type != "BOOKMARK" and change.object["metadata"]["namespace"] == "default":
                ledger.seen_revisions.append(int(ledger.revision))
                ledger.shown[change.object["metadata"]["name"]] = (change.object.get("data") or {}).get("one", "")


async def until_killed(work, *arguments) -> None:
    with contextlib.suppress(*LOST, ApiFault):
        await work(*arguments)


async def state(client: KubeClient) -> dict[str, str]:
    found = {}
    for obj in (await client.list(CONFIGS, "default")).items:
        data = obj.get("data") or {}
        if obj["metadata"]["name"].startswith("w"):
            assert data["one"] == data["two"], "half of a write is visible"
            found[obj["metadata"]["name"]] = data["one"]
    return found


def check(ledger: Ledger, found: dict[str, str]) -> None:
    for name, value in ledger.acknowledged.items():
        allowed = {value, ledger.begun.get(name, value)}
        assert found.get(name) in allowed, f"{name} was acknowledged as {value} and is {found.get(name)}"
    for name in found.keys() - ledger.acknowledged.keys():
        assert found[name] == ledger.begun[name]


async def catch_up(client: KubeClient, ledger: Ledger, found: dict[str, str]) -> None:
    """The watcher goes on where it was: in the end it has been shown everything, each change once."""
    watching = asyncio.ensure_future(watch(client, ledger))
    try:
        async with asyncio.timeout(20):
            while {name: ledger.shown.get(name) for name in found} != found:
                assert not watching.done() or watching.exception() is None
                await asyncio.sleep(0.01)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError, *LOST):
            await watching


def test_no_acknowledged_write_is_lost_however_often_the_server_is_killed(tmp_path) -> None:
    dice = random.Random(20260301)

    async def story() -> None:
        ledger = Ledger()
        for turn in range(ROUNDS):
            server = Server(tmp_path / "data")
            async with server as client:
                found = await state(client)
                check(ledger, found)
                ledger.acknowledged, ledger.begun = dict(found), {}
                if not ledger.revision:
                    ledger.revision = (await client.list(CONFIGS)).revision
                try:
                    await catch_up(client, ledger, found)
                except Expired:
                    raise AssertionError("a watcher that was away for a second lost its place") from None
                tasks = [
                    asyncio.ensure_future(until_killed(write, client, ledger, writer, turn))
                    for writer in range(WRITERS)
                ]
                tasks.append(asyncio.ensure_future(until_killed(watch, client, ledger)))
                await asyncio.sleep(dice.uniform(0.05, 0.4))
                server.kill()
                await asyncio.wait_for(asyncio.gather(*tasks), 30)
        assert len(ledger.acknowledged) > ROUNDS
        assert ledger.seen_revisions == sorted(set(ledger.seen_revisions)), "a change was shown twice or out of order"

    asyncio.run(story())
