"""`trimtab drain-cluster NAME`: move all workloads out of a cluster, replacement first and within all budgets."""

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
from trimtab.client.lookups import list_typed
from trimtab.clock import WallClock
from trimtab.controllers.movement.binding_moves import stalled_condition_of
from trimtab.controllers.well_known import DRAIN
from trimtab.errors import Conflict, InputFault, NotFound

CORDON = "cluster.karmada.io/unschedulable"
CLOSED_BEFORE = "closed-before"
"""In the drain annotation: the cluster was cordoned before, and stays cordoned when the drain is aborted."""
POLL_SECONDS = 1.0
INTERRUPTED = 130
MOST_LISTED = 20


@click.command()
@click.argument("cluster")
@click.option("--abort", is_flag=True, help="Stop the drain and uncordon the cluster; moves in progress are completed.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait for the drain and show its progress.")
@click.option("--timeout", type=float, default=3600.0, show_default=True, help="Maximum number of seconds to wait.")
@kubeconfig_options
def command(cluster: str, abort: bool, wait: bool, timeout: float, kubeconfig: str, context: str) -> int:
    """Cordon CLUSTER and move its workloads to other clusters. Ctrl-C aborts the drain."""

    async def work(client: Client) -> int:
        if abort:
            await aborted(client, cluster)
            return 0
        await begun(client, cluster)
        click.echo(f"cluster/{cluster} cordoned")
        if not wait:
            return 0
        try:
            return await watched(client, cluster, timeout)
        except asyncio.CancelledError:
            await aborted(client, cluster)
            return INTERRUPTED

    return with_client(kubeconfig, context, work)


async def begun(client: Client, name: str) -> None:
    """Set the drain annotation and cordon the cluster."""
    since = WallClock().now().isoformat(timespec="seconds")

    def mark(raw: Raw) -> Marks:
        fresh = f"{since} {CLOSED_BEFORE}" if is_closed(raw) else since
        return Marks(drain_of(raw) or fresh, closed=True)

    await marked(client, name, mark)


async def aborted(client: Client, name: str) -> None:
    """Remove the annotation and the cordon; moves in progress are completed, the other workloads stay."""

    def unmark(raw: Raw) -> Marks:
        mark = drain_of(raw)
        return Marks(None, closed=is_closed(raw) if mark is None else CLOSED_BEFORE in mark)

    closed = (await marked(client, name, unmark)).closed
    left = await inhabitants(client, name)
    leaving = sum(state_of(binding, name).moving for binding in left)
    cordon = "stays cordoned, as before the drain" if closed else "uncordoned"
    click.echo(
        f"cluster/{name} drain aborted, {cordon}; {len(left) - leaving} workloads stay, "
        f"{leaving} moves in progress are completed"
    )


class Marks(NamedTuple):
    """What a drain writes to a cluster: the annotation and the cordon taint."""

    drain: str | None
    closed: bool


async def marked(client: Client, name: str, choose: Callable[[Raw], Marks]) -> Marks:
    """Set or remove annotation and taint; retried when the cluster was written meanwhile."""
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
    """The cluster; the error for a wrong name lists the existing clusters."""
    resource = resource_of(kind_of(Cluster))
    try:
        return await client.get(resource, "", name)
    except NotFound as fault:
        known = sorted(raw["metadata"]["name"] for raw in (await client.list(resource)).items)
        listed = ", ".join(known[:MOST_LISTED]) + (" and more" if len(known) > MOST_LISTED else "")
        raise InputFault(f"there is no cluster {name!r}; clusters: {listed or 'none'}") from fault


def drain_of(raw: Raw) -> str | None:
    """The value of the drain annotation."""
    return (raw["metadata"].get("annotations") or {}).get(DRAIN)


def is_closed(raw: Raw) -> bool:
    return any(taint["key"] == CORDON for taint in raw["spec"].get("taints") or [])


def taints_after(raw: Raw, *, closed: bool) -> list[Raw] | None:
    taints = raw["spec"].get("taints") or []
    if closed:
        return taints if is_closed(raw) else [*taints, {"key": CORDON, "effect": "NoSchedule"}]
    return [taint for taint in taints if taint["key"] != CORDON] or None


async def watched(client: Client, cluster: str, seconds: float) -> int:
    """Print the progress until the cluster is empty, the drain is aborted, or the time is over."""
    bar = Bar()
    try:
        async with asyncio.timeout(seconds):
            return await told_until_empty(client, cluster, bar)
    except TimeoutError:
        bar.clear()
        click.echo(
            f"not drained within {seconds:.0f} seconds; the drain continues. "
            f"To stop it: trimtab drain-cluster {cluster} --abort"
        )
        return 1
    finally:
        bar.clear()


async def told_until_empty(client: Client, cluster: str, bar: Bar) -> int:
    printed: dict[str, str] = {}
    while True:
        left = await inhabitants(client, cluster)
        for line in news(printed, left, cluster):
            bar.clear()
            click.echo(line)
        done = len(printed) - len(left)
        if not left:
            bar.clear()
            click.echo(f"cluster/{cluster} drained")
            return 0
        if not await is_wanted(client, cluster):
            bar.clear()
            click.echo("the drain was aborted")
            return 1
        replicas = sum(state_of(binding, cluster).replicas for binding in left)
        bar.show(done / len(printed), f"{len(left)} workloads with {replicas} replicas remain")
        await asyncio.sleep(POLL_SECONDS)


def news(printed: dict[str, str], left: list[Binding], cluster: str) -> Iterator[str]:
    """A line for every workload whose state changed; `printed` holds the states of the last call."""
    states = {name_of(binding): state_of(binding, cluster).text for binding in left}
    states |= {name: "moved" for name in printed if name not in states}
    for name, text in sorted(states.items()):
        if printed.get(name) != text:
            printed[name] = text
            done = sum(state == "moved" for state in printed.values())
            count = f" ({done} of {len(states)} workloads)" if text == "moved" else ""
            yield f"{name} {text}{count}"


class State(NamedTuple):
    """The progress of one workload."""

    text: str
    replicas: int
    moving: bool = False


def state_of(binding: Binding, cluster: str) -> State:
    placed = {target.name: target.replicas for target in binding.spec.clusters}.get(cluster, 0)
    hold = next((hold for hold in binding.status.holds if hold.cluster == cluster), None)
    if hold is not None:
        until = f" until {hold.until:%H:%M:%S} at the latest" if hold.until is not None else ""
        text = f"moving: {hold.replicas} replicas wait for their replacement{until}"
        return State(text, placed + hold.replicas, moving=True)
    stuck = stalled_condition_of(binding)
    if stuck is not None:
        return State(f"waiting: {stuck.message}", placed)
    if not any(target.name == cluster for target in binding.spec.clusters):
        return State("being removed", 0, moving=True)
    return State("not started", placed)


def name_of(binding: Binding) -> str:
    about = binding.spec.resource
    place = f"{about.namespace}/" if about.namespace else ""
    return f"{about.kind.lower()}/{place}{about.name}"


async def is_wanted(client: Client, name: str) -> bool:
    kind = kind_of(Cluster)
    cluster = cast("Cluster", kind.decode(await client.get(resource_of(kind), "", name)))
    return DRAIN in cluster.metadata.annotations


async def inhabitants(client: Client, cluster: str) -> list[Binding]:
    """Bindings that are present in the cluster; dependencies of other bindings leave with those."""
    found: list[Binding] = [
        *await list_typed(client, ResourceBinding),
        *await list_typed(client, ClusterResourceBinding),
    ]
    return [binding for binding in found if binding.spec.placement is not None and lives_in(binding, cluster)]


def lives_in(binding: Binding, cluster: str) -> bool:
    """Whether the binding is placed, held, being evicted, or still has a reported status in the cluster."""
    return (
        any(target.name == cluster for target in binding.spec.clusters)
        or any(hold.cluster == cluster for hold in binding.status.holds)
        or any(task.from_cluster == cluster for task in binding.spec.graceful_eviction_tasks)
        or any(item.cluster_name == cluster for item in binding.status.aggregated_status)
    )
