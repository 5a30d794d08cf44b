"""`trimtab drain-cluster NAME`: empties a cluster, replacement first and within every budget."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import click

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Raw
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.progress_bar import Bar
from trimtab.client.client import Client, resource_of
from trimtab.client.lookups import everything
from trimtab.clock import WallClock
from trimtab.controllers.movement.binding_moves import stalled_because
from trimtab.controllers.well_known import DRAIN
from trimtab.errors import Conflict, InputFault, NotFound

CORDON = "cluster.karmada.io/unschedulable"
CLOSED_BEFORE = "closed-before"
"""In the mark of a drain: the cluster was closed already, and stays so when the drain is aborted."""
POLL_SECONDS = 1.0
INTERRUPTED = 130
MOST_LISTED = 20


@click.command()
@click.argument("cluster")
@click.option("--abort", is_flag=True, help="Stop emptying it and open it again; what has begun comes to its end.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Stay and show how far it is.")
@click.option("--timeout", type=float, default=3600.0, show_default=True, help="Seconds to wait at most.")
@kubeconfig_options
def command(cluster: str, abort: bool, wait: bool, timeout: float, kubeconfig: str, context: str) -> int:
    """Close CLUSTER for new workloads and move those that it has elsewhere. Ctrl-C while it waits aborts it."""

    async def work(client: Client) -> int:
        if abort:
            await aborted(client, cluster)
            return 0
        await begun(client, cluster)
        click.echo(f"cluster/{cluster} closed")
        if not wait:
            return 0
        try:
            return await watched(client, cluster, timeout)
        except asyncio.CancelledError:
            await aborted(client, cluster)
            return INTERRUPTED

    return with_client(kubeconfig, context, work)


async def begun(client: Client, name: str) -> None:
    """Mark the cluster as being emptied, and close it."""
    since = WallClock().now().isoformat(timespec="seconds")

    def mark(raw: Raw) -> Marks:
        fresh = f"{since} {CLOSED_BEFORE}" if is_closed(raw) else since
        return Marks(drain_of(raw) or fresh, closed=True)

    await marked(client, name, mark)


async def aborted(client: Client, name: str) -> None:
    """Take the marks away again; workloads that have begun to leave come to their end, the others stay."""

    def unmark(raw: Raw) -> Marks:
        mark = drain_of(raw)
        return Marks(None, closed=is_closed(raw) if mark is None else CLOSED_BEFORE in mark)

    closed = (await marked(client, name, unmark)).closed
    left = await inhabitants(client, name)
    leaving = sum(state_of(binding, name).moving for binding in left)
    how = "still closed, as it was before" if closed else "open again"
    click.echo(
        f"cluster/{name} is no longer being emptied and {how}; {len(left) - leaving} workloads stay, "
        f"{leaving} that have begun to leave come to their end"
    )


class Marks(NamedTuple):
    """What a drain writes on a cluster."""

    drain: str | None
    closed: bool


async def marked(client: Client, name: str, choose: Callable[[Raw], Marks]) -> Marks:
    """Set or take away the two marks, whatever else is on the cluster, and whoever else is writing it."""
    resource = resource_of(kind_of(Cluster))
    while True:
        raw = await cluster_named(client, name)
        marks = choose(raw)
        patch: Raw = {
            "metadata": {
                "annotations": {DRAIN: marks.drain},
                "resourceVersion": raw["metadata"]["resourceVersion"],
            },
            "spec": {"taints": taints_after(raw, closed=marks.closed)},
        }
        with contextlib.suppress(Conflict):
            await client.patch(resource, "", name, patch)
            return marks


async def cluster_named(client: Client, name: str) -> Raw:
    """The cluster as it is; who mistypes its name is told those that there are."""
    resource = resource_of(kind_of(Cluster))
    try:
        return await client.get(resource, "", name)
    except NotFound as fault:
        known = sorted(raw["metadata"]["name"] for raw in (await client.list(resource)).items)
        listed = ", ".join(known[:MOST_LISTED]) + (" and more" if len(known) > MOST_LISTED else "")
        raise InputFault(f"no cluster is called {name!r}; there are {listed or 'none: join one first'}") from fault


def drain_of(raw: Raw) -> str | None:
    """The mark of a drain, if there is one."""
    return (raw["metadata"].get("annotations") or {}).get(DRAIN)


def is_closed(raw: Raw) -> bool:
    return any(taint["key"] == CORDON for taint in raw["spec"].get("taints") or [])


def taints_after(raw: Raw, *, closed: bool) -> list[Raw] | None:
    taints = raw["spec"].get("taints") or []
    if closed:
        return taints if is_closed(raw) else [*taints, {"key": CORDON, "effect": "NoSchedule"}]
    return [taint for taint in taints if taint["key"] != CORDON] or None


async def watched(client: Client, cluster: str, seconds: float) -> int:
    """Show how far it is, until nothing is left, nobody wants it emptied any more, or time is over."""
    bar = Bar()
    try:
        async with asyncio.timeout(seconds):
            return await told_until_empty(client, cluster, bar)
    except TimeoutError:
        bar.clear()
        click.echo(
            f"not drained within {seconds:.0f} seconds; it goes on. To stop: trimtab drain-cluster {cluster} --abort"
        )
        return 1
    finally:
        bar.clear()


async def told_until_empty(client: Client, cluster: str, bar: Bar) -> int:
    told: dict[str, str] = {}
    while True:
        left = await inhabitants(client, cluster)
        for line in news(told, left, cluster):
            bar.clear()
            click.echo(line)
        done = len(told) - len(left)
        if not left:
            bar.clear()
            click.echo(f"cluster/{cluster} drained")
            return 0
        if not await is_wanted(client, cluster):
            bar.clear()
            click.echo("given up: somebody aborted it")
            return 1
        replicas = sum(state_of(binding, cluster).replicas for binding in left)
        bar.show(done / len(told), f"{len(left)} workloads with {replicas} replicas are left")
        await asyncio.sleep(POLL_SECONDS)


def news(told: dict[str, str], left: list[Binding], cluster: str) -> Iterator[str]:
    """What is to be said that was not said before, workload by workload; `told` keeps count of it."""
    states = {name_of(binding): state_of(binding, cluster).text for binding in left}
    states |= {name: "has left" for name in told if name not in states}
    for name, text in sorted(states.items()):
        if told.get(name) != text:
            told[name] = text
            done = sum(said == "has left" for said in told.values())
            count = f" ({done} of {len(states)} workloads)" if text == "has left" else ""
            yield f"{name} {text}{count}"


class State(NamedTuple):
    """How far one workload is."""

    text: str
    replicas: int
    moving: bool = False


def state_of(binding: Binding, cluster: str) -> State:
    placed = {target.name: target.replicas for target in binding.spec.clusters}.get(cluster, 0)
    hold = next((hold for hold in binding.status.holds if hold.cluster == cluster), None)
    if hold is not None:
        until = f", until {hold.until:%H:%M:%S} at most" if hold.until is not None else ""
        text = f"moves: {hold.replicas} replicas wait until their replacement is ready{until}"
        return State(text, placed + hold.replicas, moving=True)
    stuck = stalled_because(binding)
    if stuck is not None:
        return State(f"waits: {stuck.message}", placed)
    if not any(target.name == cluster for target in binding.spec.clusters):
        return State("is being removed", 0, moving=True)
    return State("is to leave", placed)


def name_of(binding: Binding) -> str:
    about = binding.spec.resource
    place = f"{about.namespace}/" if about.namespace else ""
    return f"{about.kind.lower()}/{place}{about.name}"


async def is_wanted(client: Client, name: str) -> bool:
    kind = kind_of(Cluster)
    cluster = cast("Cluster", kind.decode(await client.get(resource_of(kind), "", name)))
    return DRAIN in cluster.metadata.annotations


async def inhabitants(client: Client, cluster: str) -> list[Binding]:
    """Bindings that have something in the cluster; those that only follow others leave with them."""
    found: list[Binding] = [
        *await everything(client, ResourceBinding),
        *await everything(client, ClusterResourceBinding),
    ]
    return [binding for binding in found if binding.spec.placement is not None and lives_in(binding, cluster)]


def lives_in(binding: Binding, cluster: str) -> bool:
    """Placed there, held there, on its way out, or not yet known to be gone."""
    return (
        any(target.name == cluster for target in binding.spec.clusters)
        or any(hold.cluster == cluster for hold in binding.status.holds)
        or any(task.from_cluster == cluster for task in binding.spec.graceful_eviction_tasks)
        or any(item.cluster_name == cluster for item in binding.status.aggregated_status)
    )
