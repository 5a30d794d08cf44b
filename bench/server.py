"""Throughput and cost of `trimtab apiserver` beside kube-apiserver with etcd: `python -m bench.server [--peer]`.

Prints JSON. One client process, 32 concurrent requests over TLS, ConfigMaps with a label and 100 bytes; the store syncs
every commit (several writes share one). Compare CPU per request: rates depend on the load of the machine.
With `--peer` the real kube-apiserver and etcd of the test rig are measured in the same run; its etcd does not sync.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson
from bench.processes import ROOT, cpu_seconds, machine, mebibytes, run_process, trimtab

from trimtab.client.kubeconfig import Credentials, load

CONCURRENCY = 32
CONFIGMAPS_PATH = "/api/v1/namespaces/bench/configmaps"
KUBERNETES: dict[str, dict[str, float]] = {
    "create": {"perSecond": 388, "cpuMs": 1.92},
    "createOneByOne": {"perSecond": 238, "cpuMs": 3.77},
    "get": {"perSecond": 683, "cpuMs": 1.09},
    "mergePatch": {"perSecond": 356, "cpuMs": 2.34},
    "list5000": {"perSecond": 12.6, "cpuMs": 50.0},
    "watch1": {"perSecond": 381},
    "watch20": {"perSecond": 7121},
    "delete": {"perSecond": 421, "cpuMs": 1.83},
    "start": {"readySeconds": 4.2, "residentMiB": 341},
    "full": {"residentMiB": 413},
}
"""kube-apiserver with etcd, medians of three runs on a similar machine under load; memory is that of both."""


class ServerCosts(NamedTuple):
    """The CPU time and memory of one server's processes."""

    cpu: Callable[[], float]
    mebibytes: Callable[[], float]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--peer", action="store_true", help="also measure the kube-apiserver of the rig (make kube)")
    given = parser.parse_args(arguments)
    figures: dict[str, Any] = {
        "part": "server",
        "machine": machine(),
        "trimtab": measure_server(trimtab_server, given.objects),
    }
    if given.peer:
        figures["kube-apiserver"] = measure_server(kube_server, given.objects)
    figures["published"] = KUBERNETES
    print(json.dumps(figures, indent=1))


@contextmanager
def trimtab_server(folder: Path) -> Iterator[tuple[Credentials, ServerCosts, float]]:
    data = folder / "data"
    with run_process(trimtab("apiserver", "--port", "0", "--data-dir", str(data)), folder / "apiserver.log") as process:
        seconds = process.wait_for("KUBECONFIG")
        yield load(data / "kubeconfig"), ServerCosts(process.cpu_seconds, process.mebibytes), seconds


@contextmanager
def kube_server(folder: Path) -> Iterator[tuple[Credentials, ServerCosts, float]]:
    sys.path.insert(0, str(ROOT / "tests"))
    from kube.rig import RealControlPlane  # noqa: PLC0415 - only with --peer

    start = time.perf_counter()
    with RealControlPlane("bench", folder) as plane:
        seconds = time.perf_counter() - start
        pids = [program.running.pid for program in (plane.apiserver, plane.etcd)]
        yield load(plane.kubeconfig), ServerCosts(partial(cpu_seconds, *pids), partial(mebibytes, *pids)), seconds


def measure_server(server: Callable[[Path], Any], objects: int) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder,
        server(Path(folder)) as (credentials, costs, seconds),
    ):
        start = {"readySeconds": round(seconds, 2), "residentMiB": costs.mebibytes()}
        return {"start": start, **asyncio.run(LoadTest(credentials, costs, objects).run())}


class LoadTest:
    """Sends requests to one server and measures them."""

    def __init__(self, credentials: Credentials, costs: ServerCosts, objects: int) -> None:
        self._credentials, self._costs, self._objects = credentials, costs, objects
        self._results: dict[str, Any] = {}

    async def run(self) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        if self._credentials.token:
            headers["Authorization"] = f"Bearer {self._credentials.token}"
        connector = aiohttp.TCPConnector(limit=0, ssl=self._credentials.ssl_context() or False)
        async with aiohttp.ClientSession(
            self._credentials.server, connector=connector, headers=headers
        ) as self._session:
            await self._request("POST", "/api/v1/namespaces", {"metadata": {"name": "bench"}})
            await self._all()
        return self._results

    async def _all(self) -> None:
        many = self._objects
        await self._run_requests("createOneByOne", (create_request(f"s{i}") for i in range(many // 8)), 1)
        await self._run_requests("create", (create_request(f"a{i}") for i in range(many)))
        await self._run_requests("get", (("GET", f"{CONFIGMAPS_PATH}/a{i % many}", None) for i in range(2 * many)))
        await self._run_requests(
            "mergePatch", (("PATCH", f"{CONFIGMAPS_PATH}/a{i}", {"data": {"k": str(i)}}) for i in range(many // 2))
        )
        await self._measure_watches(1, many // 2)
        await self._measure_watches(20, many // 8)
        await self._run_requests("delete", (("DELETE", f"{CONFIGMAPS_PATH}/a{i}", None) for i in range(many)))
        here = many // 8 + many // 2 + many // 8
        await self._run_requests("fillTo5000", (create_request(f"f{i}") for i in range(5000 - here)))
        await self._run_requests("list5000", (("GET", CONFIGMAPS_PATH, None) for _ in range(8)), 1)
        await self._run_requests("fillTo10000", (create_request(f"g{i}") for i in range(5000)))
        self._results["full"] = {"configMaps": 10_000, "residentMiB": self._costs.mebibytes()}

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> bytes:
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        content = orjson.dumps(body) if body is not None else None
        async with self._session.request(method, path, data=content, headers={"Content-Type": media}) as response:
            text = await response.read()
            if response.status >= 400:
                raise RuntimeError(f"{method} {path}: {response.status} {text[:300]!r}")
            return text

    async def _run_requests(
        self, name: str, requests: Iterable[tuple[str, str, Any]], at_once: int = CONCURRENCY
    ) -> None:
        queue, latencies = iter(requests), []

        async def worker() -> None:
            for request in queue:
                begun = time.perf_counter()
                await self._request(*request)
                latencies.append(time.perf_counter() - begun)

        cpu, start = self._costs.cpu(), time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(at_once)))
        self._record(name, latencies, time.perf_counter() - start, self._costs.cpu() - cpu)

    def _record(self, name: str, latencies: list[float], seconds: float, cpu: float) -> None:
        latencies.sort()
        count = len(latencies)
        self._results[name] = {
            "requests": count,
            "perSecond": round(count / seconds, 1),
            "cpuMs": round(cpu / count * 1e3, 2),
            "p50Ms": round(latencies[count // 2] * 1e3, 1),
            "p99Ms": round(latencies[count * 99 // 100] * 1e3, 1),
        }

    async def _measure_watches(self, watchers: int, creates: int) -> None:
        """Every watcher receives every create; latency is the time from before the request until the event arrives."""
        revision = orjson.loads(await self._request("GET", f"{CONFIGMAPS_PATH}?limit=1", None))["metadata"][
            "resourceVersion"
        ]
        sent: dict[str, float] = {}
        seen: list[float] = []

        async def watcher() -> None:
            path = f"{CONFIGMAPS_PATH}?watch=true&resourceVersion={revision}&timeoutSeconds=300"
            left = creates
            async with self._session.get(path) as stream:
                async for line in stream.content:
                    name = orjson.loads(line)["object"]["metadata"]["name"]
                    if name in sent:
                        seen.append(time.perf_counter() - sent[name])
                        left -= 1
                    if not left:
                        return

        watching = [asyncio.create_task(watcher()) for _ in range(watchers)]
        await asyncio.sleep(1)
        names = iter([f"w{watchers}-{i}" for i in range(creates)])

        async def creator() -> None:
            for name in names:
                sent[name] = time.perf_counter()
                await self._request(*create_request(name))

        cpu, start = self._costs.cpu(), time.perf_counter()
        await asyncio.gather(*(creator() for _ in range(CONCURRENCY)), *watching)
        self._record(f"watch{watchers}", seen, time.perf_counter() - start, self._costs.cpu() - cpu)


def create_request(name: str) -> tuple[str, str, dict[str, Any]]:
    metadata = {"name": name, "labels": {"app": "bench"}}
    return (
        "POST",
        CONFIGMAPS_PATH,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v" * 100}},
    )


if __name__ == "__main__":
    main(sys.argv[1:])
