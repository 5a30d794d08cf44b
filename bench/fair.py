"""Latency of the controllers' writes while one user sends requests over 500 connections: `python -m bench.fair`.

Prints JSON. Three processes: the API server with a writer in its event loop (as the controllers of `trimtab up`), a writer
over TLS with the credentials of an administrator (as `trimtab controllers`), and the load: one service account with many
connections, each of which sends its next request as soon as the last one is answered, whatever the answer (`page`: without
credentials, for a page of the console). Each kind of load
is measured with and without flow control, next to the latency without load. The load runs with a lower priority, because on
a small machine it would otherwise take the processor from the server it measures. `inProcessServerCpu` is the CPU time of the
event loop during a write, `longestSlice` the longest CPU time without a break during a write and the pause after it. Unlike the
latency, the latter does not depend on what else the machine does. With `--real-time` all processes have a real-time priority (the
load a lower one than the others), so that other work on the machine does not count either; that needs the rights of root. Set
TMPDIR to a file system in memory to leave out the disk as well.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvloop
from bench.processes import MeasuredProcess, machine, run_process

from trimtab.api.kind import kind_of
from trimtab.cli.support.processes import run_process as run_command
from trimtab.client.client import resource_of
from trimtab.client.kubeconfig import Credentials, load
from trimtab.clock import WallClock

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
LOADS = ("get", "list", "create", "watch", "connect", "page")
MODES = ("limited", "unlimited")
PAUSE_SECONDS = 0.01
"""Between two writes of a controller."""
SERVER_PRIORITY, LOAD_PRIORITY = 20, 1
_LENGTH = re.compile(rb"content-length: (\d+)")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--objects", type=int, default=500, help="ConfigMaps in the namespace")
    parser.add_argument("--loads", nargs="*", default=LOADS, choices=LOADS)
    parser.add_argument("--modes", nargs="*", default=MODES, choices=MODES, help="with and without flow control")
    parser.add_argument(
        "--real-time", action="store_true", help="with real-time priorities: other processes do not count"
    )
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--flood", help=argparse.SUPPRESS)
    parser.add_argument("--unlimited", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve is not None and given.flood:
        uvloop.run(flood(given.serve, given.flood, given.connections, given.seconds))
    elif given.serve is not None:
        run_command(serve(given.serve, limited=not given.unlimited))
    else:
        print(json.dumps(measure_all(given), indent=1))


def measure_all(given: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, Any] = {"part": "fair", "machine": machine(), "connections": given.connections}
    if given.real_time:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(SERVER_PRIORITY))  # of the processes started from here
        figures["realTime"] = True
    for name in given.modes:
        flags = ["--unlimited"] if name == "unlimited" else []
        with tempfile.TemporaryDirectory(prefix="trimtab-fair-") as folder, server(Path(folder), flags) as process:
            figures[name] = asyncio.run(Measurement(Path(folder), process, given).run())
    return figures


@contextlib.contextmanager
def server(folder: Path, flags: list[str]) -> Iterator[MeasuredProcess]:
    command = [sys.executable, "-m", "bench.fair", "--serve", str(folder), *flags]
    with run_process(command, folder / "server.log") as process:
        process.wait_for("ready")
        yield process


# the server


async def serve(folder: Path, *, limited: bool) -> None:
    """An API server with a writer in its event loop, which writes its latencies to a file when it is asked to."""
    from trimtab.api.kinds.native.config import ConfigMap  # noqa: PLC0415
    from trimtab.server.daemon import Daemon, ServedApplications  # noqa: PLC0415
    from trimtab.server.flowcontrol.controller import FlowLimits  # noqa: PLC0415
    from trimtab.server.local import LocalClient  # noqa: PLC0415
    from trimtab.server.mount import Mount  # noqa: PLC0415

    daemon = Daemon(folder / "data", "127.0.0.1", 0, flow_control=FlowLimits() if limited else None)
    await daemon.start(ServedApplications(Mount(daemon.api.app, {"/console": paced_console(daemon)})))
    client, resource = LocalClient(daemon.api), resource_of(kind_of(ConfigMap))
    await client.create(resource, {"metadata": {"name": "controller", "namespace": "kube-system"}})
    stopped, latencies, loop = asyncio.Event(), list[tuple[float, float, float]](), asyncio.get_running_loop()
    slices = LoopSlices(loop)
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    loop.add_signal_handler(signal.SIGUSR1, lambda: dump(latencies, folder / "latencies.json"))
    print("ready", flush=True)
    count = 0
    while not stopped.is_set():
        count += 1
        begun, cpu = time.perf_counter(), time.thread_time()
        await client.patch(resource, "kube-system", "controller", {"data": {"count": str(count)}})
        latencies.append((time.perf_counter() - begun, time.thread_time() - cpu, slices.take_longest()))
        await asyncio.sleep(PAUSE_SECONDS)
    await daemon.stop()


def paced_console(daemon: Any) -> Any:
    """The console of `trimtab up` without data: its sign-in page is what anybody can ask for."""
    from trimtab.console.application import Console  # noqa: PLC0415
    from trimtab.console.permissions import LocalAuthority, UserClients  # noqa: PLC0415
    from trimtab.server.http.paced_application import PacedApplication  # noqa: PLC0415

    clients = UserClients(lambda: Credentials(daemon.url))
    authority = LocalAuthority(daemon.api.authenticator, daemon.api.authorizer, clients)
    console, flows = Console(authority, WallClock().now), daemon.api.flow_control
    return console if flows is None else PacedApplication(console, flows, console.user_of)


class LoopSlices:
    """The CPU time of the event loop between two moments at which it could do something else."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._longest, self._last = 0.0, time.thread_time()
        self._note()

    def _note(self) -> None:
        now = time.thread_time()
        self._longest, self._last = max(self._longest, now - self._last), now
        self._loop.call_later(0.001, self._note)

    def take_longest(self) -> float:
        """The longest time since the last call."""
        longest, self._longest = self._longest, 0.0
        return longest


def dump(latencies: list[tuple[float, float, float]], file: Path) -> None:
    """Write the latencies since the last time, and start again."""
    part = file.with_suffix(".part")
    part.write_bytes(orjson.dumps(latencies))
    part.rename(file)
    latencies.clear()


# the measurement


class Measurement:
    """Runs every load against one server and measures both writers."""

    def __init__(self, folder: Path, process: MeasuredProcess, given: argparse.Namespace) -> None:
        self._folder, self._process, self._given = folder, process, given
        self._credentials: Credentials = load(folder / "data" / "kubeconfig")

    async def run(self) -> dict[str, Any]:
        connector = aiohttp.TCPConnector(ssl=self._credentials.ssl_context() or False)
        headers = {"Authorization": f"Bearer {self._credentials.token}"} if self._credentials.token else {}
        async with aiohttp.ClientSession(self._credentials.server, connector=connector, headers=headers) as session:
            self._session = session
            await self._prepare()
            figures = {"idle": await self._measure("")}
            for name in self._given.loads:
                figures[name] = await self._measure(name)
            return figures

    async def _request(self, method: str, path: str, body: Any) -> Any:
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self._session.request(
            method, path, data=orjson.dumps(body), headers={"Content-Type": media}
        ) as response:
            text = await response.read()
            if response.status >= 400:
                raise RuntimeError(f"{method} {path}: {response.status} {text[:300]!r}")
            return orjson.loads(text)

    async def _prepare(self) -> None:
        """A service account that may do everything with ConfigMaps, its token, and some objects."""
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await self._request("POST", accounts, {"metadata": {"name": "load"}})
        rule = {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]}
        await self._request("POST", f"{rbac}/clusterroles", {"metadata": {"name": "load"}, "rules": [rule]})
        binding = {
            "metadata": {"name": "load"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "load"},
            "subjects": [{"kind": "ServiceAccount", "name": "load", "namespace": "default"}],
        }
        await self._request("POST", f"{rbac}/clusterrolebindings", binding)
        token = await self._request("POST", f"{accounts}/load/token", {"spec": {"expirationSeconds": 86400}})
        (self._folder / "token").write_text(token["status"]["token"])
        for number in range(self._given.objects):
            body = {"metadata": {"name": f"c{number}"}, "data": {"k": "v" * 100}}
            await self._request("POST", CONFIGMAPS, body)
        system = CONFIGMAPS.replace("default", "kube-system")
        await self._request("POST", system, {"metadata": {"name": "remote"}})

    async def _measure(self, name: str) -> dict[str, Any]:
        given = self._given
        if not name:
            return await self._measure_writers()
        command = [sys.executable, "-m", "bench.fair", "--serve", str(self._folder), "--flood", name]
        command += ["--connections", str(given.connections), "--seconds", str(given.seconds + 30)]
        with run_process(command, self._folder / "load.log") as flooding:
            await asyncio.to_thread(flooding.wait_for, "connected", 120.0)
            figures = await self._measure_writers()
        with contextlib.suppress(ValueError):  # a load that had to be killed printed nothing
            figures["load"] = json.loads(flooding.log.read_text().splitlines()[-1])
        await asyncio.sleep(2)
        return figures

    async def _measure_writers(self) -> dict[str, Any]:
        await self._collect()
        path = CONFIGMAPS.replace("default", "kube-system") + "/remote"
        latencies, ends, count = [], time.perf_counter() + self._given.seconds, 0
        while time.perf_counter() < ends:
            count += 1
            begun = time.perf_counter()
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):  # a failed write counts with the time it took
                await self._request("PATCH", path, {"data": {"count": str(count)}})
            latencies.append(time.perf_counter() - begun)
            await asyncio.sleep(PAUSE_SECONDS)
        found = await self._collect()
        return {
            "inProcess": quantiles([seconds for seconds, _, _ in found]),
            "inProcessServerCpu": quantiles([cpu for _, cpu, _ in found]),
            "longestSlice": quantiles([longest for _, _, longest in found]),
            "overTls": quantiles(latencies),
        }

    async def _collect(self) -> list[tuple[float, float, float]]:
        """The latencies, and what the server's CPU did meanwhile, of the writer in the server since the last call."""
        file = self._folder / "latencies.json"
        file.unlink(missing_ok=True)
        os.kill(self._process.pid, signal.SIGUSR1)
        while not file.exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
        found: list[tuple[float, float, float]] = orjson.loads(file.read_bytes())
        return found


def quantiles(latencies: list[float]) -> dict[str, float]:
    ordered = sorted(latencies) or [0.0]
    at = {"p50Ms": 50, "p90Ms": 90, "p99Ms": 99}
    figures = {name: round(ordered[len(ordered) * part // 100] * 1e3, 1) for name, part in at.items()}
    return {"writes": len(latencies), **figures}


# the load


class LoadConnection(asyncio.Protocol):
    """Sends a request, reads its response and sends the next one; counts the status codes."""

    def __init__(self, requests: Iterator[bytes], codes: Counter[str], closed: "asyncio.Future[None]") -> None:
        self._requests, self._codes, self._closed = requests, codes, closed
        self._received = bytearray()
        self._missing = 0
        self._is_chunked = False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._codes["connections"] += 1
        transport.write(next(self._requests))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self._is_chunked:
            if not data.endswith(b"\r\n0\r\n\r\n"):
                return
            self._is_chunked = False
        elif self._missing:
            self._missing -= len(data)
        else:
            self._received += data
            head, found, rest = bytes(self._received).partition(b"\r\n\r\n")
            if not found:
                return
            self._codes[head[9:12].decode()] += 1
            length = _LENGTH.search(head)
            self._received.clear()
            if length is None:  # a watch never ends, a large list does
                self._is_chunked = not rest.endswith(b"0\r\n\r\n")
                if self._is_chunked:
                    return
            else:
                self._missing = int(length[1]) - len(rest)
        if self._missing <= 0:
            self._missing = 0
            if not self._transport.is_closing():
                self._transport.write(next(self._requests))


def load_requests(name: str, token: str) -> Iterator[bytes]:
    method, path, number = ("POST" if name == "create" else "GET"), CONFIGMAPS, 0
    head = f"host: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n"
    while True:
        number += 1
        body = b""
        if name == "get":
            path = f"{CONFIGMAPS}/c{number % 100}"
        elif name == "create":
            body = orjson.dumps({"metadata": {"generateName": "load-"}, "data": {"k": "v" * 100}})
        elif name == "watch":
            path = "/api/v1/configmaps?watch=1&resourceVersion=0"
        elif name == "page":
            head, path = "host: x\r\n", "/console/login"
        elif name == "connect":
            head += "" if "close" in head else "connection: close\r\n"
        yield f"{method} {path} HTTP/1.1\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def flood(folder: Path, name: str, connections: int, seconds: float) -> None:
    credentials = load(folder / "data" / "kubeconfig")
    address = credentials.server.removeprefix("https://")
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if os.sched_getscheduler(0) == os.SCHED_FIFO:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(LOAD_PRIORITY))
    else:
        os.nice(10)
    requests, codes = load_requests(name, (folder / "token").read_text()), Counter[str]()
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)

    async def keep_connected() -> None:
        while not stopped.is_set():
            closed = loop.create_future()
            try:
                transport, _ = await loop.create_connection(
                    partial(LoadConnection, requests, codes, closed),
                    host,
                    int(port),
                    ssl=context,
                )
                await asyncio.wait({closed, stopping}, return_when=asyncio.FIRST_COMPLETED)
                transport.abort()
            except OSError:
                codes["failed connections"] += 1
                await asyncio.sleep(0.1)

    stopping = asyncio.create_task(stopped.wait())
    tasks = [asyncio.create_task(keep_connected()) for _ in range(connections)]
    latest = time.perf_counter() + 20  # without flow control it can take minutes until all are connected
    while codes["connections"] < connections and not stopped.is_set() and time.perf_counter() < latest:  # noqa: ASYNC110 - a counter
        await asyncio.sleep(0.1)
    print("connected", flush=True)
    begun = time.perf_counter()
    codes.clear()
    try:
        async with asyncio.timeout(seconds):
            await stopped.wait()
    except TimeoutError:
        stopped.set()
    elapsed = time.perf_counter() - begun
    await asyncio.gather(*tasks)
    print(json.dumps({f"{code} per second": round(count / elapsed, 1) for code, count in sorted(codes.items())}))


if __name__ == "__main__":
    main(sys.argv[1:])
