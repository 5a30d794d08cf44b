"""Requests of this version beside another one: `python -m bench.versions CHECKOUT [--blocks 50]`.

`CHECKOUT` is a directory with another version and its `.venv` (`git worktree add DIRECTORY COMMIT`, then `make setup` in it).
One `trimtab apiserver` of each version runs, and blocks of requests go to both in turn, in random order, over TLS, so that
both get the same share of a busy machine. Only the CPU time of the servers counts. Prints JSON: the milliseconds per
request of each version, and the ratio of this version to the other one by the sum and by the median of pairs.
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson
from bench.processes import ROOT, MeasuredProcess, machine, run_process

from trimtab.client.kubeconfig import load

CONFIGMAPS = "/api/v1/namespaces/bench/configmaps"
CONCURRENCY = 32
REQUESTS = 100
"""Requests of one block; half of the objects are deleted again, so that lists grow."""
WARM_UP_BLOCKS = 2
ONE_BY_ONE = 3
"""Lists of one block, one after the other."""
PAUSE_SECONDS = 0.005
"""After a block, for what the server does after its last response."""
MEDIA_TYPES = {"PATCH": "application/merge-patch+json"}


class PlannedRequest(NamedTuple):
    method: str
    path: str
    body: dict[str, Any] | None = None


class VersionServer:
    """The server of one version, and a client of it."""

    def __init__(self, process: MeasuredProcess, session: aiohttp.ClientSession) -> None:
        self._process, self._session = process, session

    async def send(self, request: PlannedRequest) -> None:
        content = orjson.dumps(request.body) if request.body is not None else None
        headers = {"Content-Type": MEDIA_TYPES.get(request.method, "application/json")}
        async with self._session.request(request.method, request.path, data=content, headers=headers) as response:
            text = await response.read()
            if response.status >= 400:
                raise RuntimeError(f"{request}: {response.status} {text[:300]!r}")

    async def run_block(self, requests: list[PlannedRequest], concurrency: int) -> float:
        """Milliseconds of the server's CPU per request."""
        places = asyncio.Semaphore(concurrency)

        async def send(request: PlannedRequest) -> None:
            async with places:
                await self.send(request)

        before = self._cpu_milliseconds()
        await asyncio.gather(*map(send, requests))
        await asyncio.sleep(PAUSE_SECONDS)
        return (self._cpu_milliseconds() - before) / len(requests)

    def _cpu_milliseconds(self) -> float:
        """CPU time of all threads; finer than the clock ticks of other figures."""
        spent = 0
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
                spent += int((thread / "schedstat").read_text().split()[0])
        return spent / 1e6


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="directory of the other version")
    parser.add_argument("--blocks", type=int, default=50)
    given = parser.parse_args(arguments)
    figures = asyncio.run(compare(given.checkout.absolute(), given.blocks))
    print(json.dumps({"part": "versions", "machine": machine(), "requests": figures}, indent=1))


async def compare(other: Path, blocks: int) -> dict[str, Any]:
    costs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    async with start_server(other) as before, start_server(ROOT) as now:
        for server in (before, now):
            await server.send(PlannedRequest("POST", "/api/v1/namespaces", {"metadata": {"name": "bench"}}))
        for block in range(blocks + WARM_UP_BLOCKS):
            for name, requests, concurrency in plan_block(block):
                spent: dict[VersionServer, float] = {}
                for server in random.sample((before, now), 2):
                    spent[server] = await server.run_block(requests, concurrency)
                if block >= WARM_UP_BLOCKS:
                    costs[name].append((spent[before], spent[now]))
    return {name: summary(pairs) for name, pairs in costs.items()}


def plan_block(block: int) -> Iterator[tuple[str, list[PlannedRequest], int]]:
    names = [f"block{block}-{number}" for number in range(REQUESTS)]
    labels, data = {"app": "bench"}, {"text": "x" * 100}
    yield (
        "create",
        [
            PlannedRequest("POST", CONFIGMAPS, {"metadata": {"name": name, "labels": labels}, "data": data})
            for name in names
        ],
        CONCURRENCY,
    )
    yield "get", [PlannedRequest("GET", f"{CONFIGMAPS}/{name}") for name in names], CONCURRENCY
    yield (
        "mergePatch",
        [PlannedRequest("PATCH", f"{CONFIGMAPS}/{name}", {"data": {"text": name}}) for name in names],
        CONCURRENCY,
    )
    yield "list500", [PlannedRequest("GET", f"{CONFIGMAPS}?limit=500")] * ONE_BY_ONE, 1
    yield "listAll", [PlannedRequest("GET", CONFIGMAPS)] * ONE_BY_ONE, 1
    yield "delete", [PlannedRequest("DELETE", f"{CONFIGMAPS}/{name}") for name in names[::2]], CONCURRENCY


def summary(pairs: list[tuple[float, float]]) -> dict[str, float]:
    before, now = zip(*pairs, strict=True)
    return {
        "beforeMs": round(statistics.mean(before), 3),
        "nowMs": round(statistics.mean(now), 3),
        "timesBySum": round(sum(now) / sum(before), 3),
        "timesByMedian": round(statistics.median(new / old for old, new in pairs), 3),
    }


@contextlib.asynccontextmanager
async def start_server(checkout: Path) -> AsyncIterator[VersionServer]:
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        data = Path(folder) / "data"
        command = [str(checkout / ".venv/bin/trimtab"), "apiserver", "--port", "0", "--data-dir", str(data)]
        with run_process(command, Path(folder) / "server.log") as process:
            process.wait_for("KUBECONFIG")
            credentials = load(data / "kubeconfig")
            headers = {"Accept": "application/json"}
            if credentials.token:
                headers["Authorization"] = f"Bearer {credentials.token}"
            connector = aiohttp.TCPConnector(limit=CONCURRENCY, ssl=credentials.ssl_context() or False)
            async with aiohttp.ClientSession(credentials.server, connector=connector, headers=headers) as session:
                yield VersionServer(process, session)


if __name__ == "__main__":
    main(sys.argv[1:])
