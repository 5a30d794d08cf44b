"""Cost of the console: `python -m bench.console`. Prints JSON.

A model of 100 clusters, 5,000 workloads, a budget for each namespace and 300 moves. First byte: CPU of a complete request, rendered and compressed, without the
connection. First paint: the same pages in a headless Chromium over TLS, where there is one. Open pages: the CPU share of a
core that 200 open pages cost while 20 workloads a second change; they show a mix of pages, and each gets at most one message
a second.
"""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from bench.processes import machine

from trimtab.api.kinds.cluster import Cluster, ClusterSpec, ClusterStatus, NodeSummary, ResourceSummary
from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionRate,
    Move,
    MovedObject,
    MoveSpec,
    MoveStatus,
    MoveTarget,
)
from trimtab.api.kinds.policy import Placement, ReplicaSchedulingStrategy
from trimtab.api.kinds.work import (
    AggregatedStatusItem,
    BindingSpec,
    BindingStatus,
    ObjectReference,
    ResourceBinding,
    TargetCluster,
)
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta
from trimtab.console.application import Console
from trimtab.console.sessions import COOKIE
from trimtab.runtime.declarations import load_declarations
from trimtab.server.auth.certificates import ensure_authority
from trimtab.server.http.listener import Listener
from trimtab.server.mount import Mount

CLUSTERS, WORKLOADS, PAGES, CHANGES, SECONDS = 100, 5000, 200, 20, 10
NAMESPACES, MOVES = 50, 300
DIVIDED = Placement(
    replica_scheduling=ReplicaSchedulingStrategy(
        replica_scheduling_type="Divided", replica_division_preference="Aggregated"
    )
)
PAINTED = "() => performance.getEntriesByType('paint').find(e => e.name === 'first-contentful-paint')?.startTime"
FIRST_BYTE = (
    "/",
    "/workloads",
    "/workloads?q=app-4",
    "/workloads/ns-7/Deployment/app-7",
    "/clusters/c-7",
    "/moves",
    "/rebalance",
    "/rebalance/plan",
    "/drill",
    "/budgets",
    "/placements",
    "/stories",
    "/search?q=app-4",
    "/incident?cluster=c-7",
    "/preview",
)
"""Every page; those that compute a plan are shown first, and filled when it is there."""


class Everything:
    """An authority that allows all."""

    async def identify(self, token: str) -> str | None:
        return "bench"

    async def allows(self, session: Any, actions: Any) -> list[bool]:
        return [True] * len(actions)

    def client(self, session: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        """There is nothing to close."""


def cluster(number: int) -> Cluster:
    summary = ResourceSummary(allocatable={"cpu": "160", "memory": "640Gi"}, allocated={"cpu": "60", "memory": "100Gi"})
    ready = Condition(type="Ready", status="True", last_transition_time=datetime(2026, 11, 16, tzinfo=UTC))
    return Cluster(
        metadata=Meta(name=f"c-{number}"),
        spec=ClusterSpec(sync_mode="Push", region=f"region-{number % 8}", provider="aws"),
        status=ClusterStatus(
            conditions=(ready,), resource_summary=summary, node_summary=NodeSummary(total_num=10, ready_num=10)
        ),
    )


def workload(number: int, ready: int = 2) -> ResourceBinding:
    places = [f"c-{(number * 7 + step) % CLUSTERS}" for step in range(3)]
    return ResourceBinding(
        metadata=Meta(name=f"app-{number}-deployment", namespace=f"ns-{number % NAMESPACES}"),
        spec=BindingSpec(
            resource=ObjectReference(
                api_version="apps/v1", kind="Deployment", namespace=f"ns-{number % NAMESPACES}", name=f"app-{number}"
            ),
            replicas=6,
            clusters=tuple(TargetCluster(name=place, replicas=2) for place in places),
            placement=DIVIDED,
        ),
        status=BindingStatus(
            aggregated_status=tuple(
                AggregatedStatusItem(cluster_name=place, applied=True, status={"readyReplicas": ready})
                for place in places
            )
        ),
    )


def budget(number: int) -> DisruptionBudget:
    rate = DisruptionRate(disruptions=20, period="1h")
    spec = DisruptionBudgetSpec(target="Workloads", selector=LabelSelector(), rate=rate)
    return DisruptionBudget(metadata=Meta(name="careful", namespace=f"ns-{number}"), spec=spec)


def move(number: int, now: datetime) -> Move:
    """One of the moves of the last half hour; every tenth is in progress."""
    began = now - timedelta(seconds=6 * (MOVES - number))
    status = MoveStatus(started=began, finished=began + timedelta(seconds=8), outcome="Done")
    namespace, name = f"ns-{number % NAMESPACES}", f"app-{number}"
    return Move(
        metadata=Meta(name=f"move-{number}", namespace=namespace, creation_timestamp=began),
        spec=MoveSpec(
            object=MovedObject(api_version="apps/v1", kind="Deployment", namespace=namespace, name=name),
            cause=("Rebalance", "Drain", "ClusterFailover")[number % 3],
            from_=f"c-{number % CLUSTERS}",
            to=(MoveTarget(name=f"c-{number * 7 % CLUSTERS}", replicas=2),),
            replicas=2,
        ),
        status=MoveStatus(started=began) if number % 10 == 0 else status,
    )


async def get(console: Console, path: str, cookie: str) -> int:
    """The size of a page as it is sent."""
    address, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": address,
        "query_string": query.encode(),
        "headers": [(b"cookie", f"{COOKIE}={cookie}".encode()), (b"accept-encoding", b"gzip")],
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    await console(scope, receive, send)
    assert sent[0]["status"] == 200, (path, sent)
    return len(sent[1]["body"])


async def open_page(console: Console, path: str, cookie: str, counts: list[int]) -> None:
    """Read the stream of one page until cancelled."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/events",
        "query_string": f"page=/console{path}&rev={console.hub.revision}".encode(),
        "headers": [(b"cookie", f"{COOKIE}={cookie}".encode())],
    }
    first = True

    async def receive() -> Any:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": b""}
        await asyncio.Event().wait()
        return None

    async def send(message: Any) -> None:
        if message.get("body", b"").startswith(b"event: patch"):
            counts[0] += 1

    await console(scope, receive, send)


async def measure() -> dict[str, Any]:
    load_declarations()
    console = Console(Everything(), lambda: datetime.now(UTC))
    began = time.process_time()
    for number in range(CLUSTERS):
        console.model.put_cluster(f"c-{number}", cluster(number))
    stored = {number: workload(number) for number in range(WORKLOADS)}
    for one in stored.values():
        console.model.put_binding(one, None)
    for number in range(NAMESPACES):
        console.model.put_budget(f"ns-{number}/careful", budget(number))
    for number in range(MOVES):
        console.model.put_move(f"ns-{number % NAMESPACES}/move-{number}", move(number, datetime.now(UTC)))
    loading = time.process_time() - began
    cookie = console.sessions.open("bench", "bench")
    pages: dict[str, Any] = {}
    for path in FIRST_BYTE:
        await get(console, path, cookie)
        began = time.process_time()
        size = 0
        for _ in range(5):
            size = await get(console, path, cookie)
        pages[path] = {"cpuMs": round((time.process_time() - began) / 5 * 1000, 1), "gzipKiB": round(size / 1024, 1)}
    painted = await measure_first_paint(console, cookie)
    live = await measure_open_pages(console, cookie, stored)
    return {
        **machine(),
        "loadModelCpuSeconds": round(loading, 2),
        "firstByte": pages,
        "firstPaint": painted,
        "openPages": live,
    }


async def measure_first_paint(console: Console, cookie: str) -> dict[str, Any]:
    """Milliseconds until a browser has painted each page; empty without a Chromium."""
    path = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := which(name))), None)
    if path is None:
        return {}
    with TemporaryDirectory() as directory:
        listener = Listener(
            Mount(console, {"/console": console}), "127.0.0.1", 0, ensure_authority(Path(directory), ["127.0.0.1"])
        )
        await listener.start()
        try:
            return await asyncio.to_thread(paint_pages, path, f"https://127.0.0.1:{listener.port}", cookie)
        finally:
            console.end_streams()
            await listener.stop()


def paint_pages(path: str, url: str, cookie: str) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a tool of development

    painted: dict[str, Any] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--headless", "--no-sandbox", "--disable-gpu"])
        context = browser.new_context(ignore_https_errors=True, viewport={"width": 1280, "height": 800})
        context.add_cookies([{"name": COOKIE, "value": cookie, "url": url, "secure": True}])
        page = context.new_page()
        for address in FIRST_BYTE:
            samples = []
            for _ in range(4):
                page.goto(f"{url}/console{address}", wait_until="load")
                page.wait_for_function(PAINTED)
                samples.append(page.evaluate(f"({PAINTED})()"))
            elements = page.evaluate("document.querySelectorAll('*').length")
            painted[address] = {"firstPaintMs": round(sorted(samples)[1]), "elements": elements}
        browser.close()
    return painted


async def measure_open_pages(console: Console, cookie: str, stored: dict[int, ResourceBinding]) -> dict[str, Any]:
    counts = [0]
    paths = [page_of(number) for number in range(PAGES)]
    cookies = [console.sessions.open("bench", "bench") for _ in range(8)]
    tasks = [
        asyncio.ensure_future(open_page(console, path, cookies[number % 8], counts))
        for number, path in enumerate(paths)
    ]
    await asyncio.sleep(3)
    idle = time.process_time()
    await asyncio.sleep(3)
    idle = time.process_time() - idle
    began, counts[0], started = time.process_time(), 0, time.monotonic()
    for step in range(SECONDS * CHANGES):
        number = step * 37 % WORKLOADS
        new = workload(number, ready=1 + step % 2)
        console.model.put_binding(new, stored[number])
        stored[number] = new
        await asyncio.sleep(max(0.0, started + (step + 1) / CHANGES - time.monotonic()))
    used, elapsed = time.process_time() - began, time.monotonic() - started
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "pages": PAGES,
        "changesPerSecond": round(SECONDS * CHANGES / elapsed, 1),
        "corePercent": round(100 * used / elapsed, 1),
        "idleCorePercent": round(100 * idle / 3, 2),
        "messagesPerPageAndSecond": round(counts[0] / PAGES / elapsed, 2),
    }


def page_of(number: int) -> str:
    """Half of the pages show the fleet or all workloads, the others one workload or cluster each."""
    if number % 4 == 0:
        return "/"
    if number % 4 == 1:
        return "/workloads"
    return (
        f"/clusters/c-{number % CLUSTERS}"
        if number % 4 == 2
        else f"/workloads/ns-{number % 50}/Deployment/app-{number}"
    )


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure()), indent=2))
