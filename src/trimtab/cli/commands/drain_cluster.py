"""`trimtab drain-cluster NAME`: move all workloads out of a cluster, replacement first and within all budgets."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple, cast

import click

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import CORDON_TAINT, Cluster
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Raw
from trimtab.api.wording import plural, verb
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.clusters import get_cluster
from trimtab.cli.support.progress_bar import ProgressBar
from trimtab.client.client import Client, resource_of
from trimtab.client.lookups import list_typed
from trimtab.clock import WallClock
from trimtab.controllers.clusters.departure import LEAVE_MARK
from trimtab.controllers.movement.binding_moves import stalled_condition_of
from trimtab.controllers.well_known import DRAIN
from trimtab.errors import Conflict, InputError

CORDONED_BEFORE = "cordoned-before"
"""In the drain annotation: the cluster was cordoned before, and stays cordoned when the drain is aborted."""
POLL_SECONDS = 1.0
INTERRUPTED = 130


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
            if drain_annotation(await get_cluster(client, cluster)) is None:
                raise InputError(f"cluster {cluster} is not being drained")
            await abort_drain(client, cluster)
            return 0
        await start_drain(client, cluster)
        click.echo(f"cluster/{cluster} cordoned")
        if not wait:
            return 0
        try:
            return await wait_until_drained(client, cluster, timeout)
        except asyncio.CancelledError:
            await abort_drain(client, cluster)
            return INTERRUPTED

    return with_client(kubeconfig, context, work)


async def start_drain(client: Client, name: str, *, to_leave: bool = False, now: datetime | None = None) -> None:
    """Set the drain annotation and cordon the cluster."""
    since = (now or WallClock().now()).isoformat(timespec="seconds")

    def mark(raw: Raw) -> DrainMarks:
        fresh = f"{since} {CORDONED_BEFORE}" if is_cordoned(raw) else since
        words = (drain_annotation(raw) or fresh).split()
        if to_leave and LEAVE_MARK not in words:
            words.append(LEAVE_MARK)
        return DrainMarks(" ".join(words), cordoned=True)

    await update_marks(client, name, mark)


async def abort_drain(client: Client, name: str) -> None:
    """Undo the drain; moves in progress are completed, the other workloads stay."""
    closed = await undo_marks(client, name)
    left = await bindings_in(client, name)
    leaving = sum(drain_state(binding, name).is_moving for binding in left)
    cordon = "stays cordoned, as before the drain" if closed else "uncordoned"
    click.echo(
        f"cluster/{name} drain aborted, {cordon}; {plural(len(left) - leaving, 'workload')} {verb(len(left) - leaving, 'stays', 'stay')}, "
        f"{plural(leaving, 'move')} in progress {verb(leaving, 'is', 'are')} completed"
    )


async def undo_marks(client: Client, name: str) -> bool:
    """Remove the annotation and the cordon; returns whether the cluster stays cordoned, as before the drain."""

    def unmark(raw: Raw) -> DrainMarks:
        mark = drain_annotation(raw)
        return DrainMarks(None, cordoned=is_cordoned(raw) if mark is None else CORDONED_BEFORE in mark)

    return (await update_marks(client, name, unmark)).cordoned


class DrainMarks(NamedTuple):
    """What a drain writes to a cluster: the annotation and the cordon taint."""

    drain: str | None
    cordoned: bool


async def update_marks(client: Client, name: str, choose: Callable[[Raw], DrainMarks]) -> DrainMarks:
    """Set or remove annotation and taint; retried when the cluster was written meanwhile."""
    resource = resource_of(kind_of(Cluster))
    while True:
        raw = await get_cluster(client, name)
        marks = choose(raw)
        patch: Raw = {
            "metadata": {
                "annotations": {DRAIN: marks.drain},
                "resourceVersion": raw["metadata"]["resourceVersion"],
            },
            "spec": {"taints": taints_with_cordon(raw, cordoned=marks.cordoned)},
        }
        with contextlib.suppress(Conflict):
            await client.patch(resource, "", name, patch)
            return marks


def drain_annotation(raw: Raw) -> str | None:
    """The value of the drain annotation."""
    return (raw["metadata"].get("annotations") or {}).get(DRAIN)


def is_cordoned(raw: Raw) -> bool:
    return any(taint["key"] == CORDON_TAINT for taint in raw["spec"].get("taints") or [])


def taints_with_cordon(raw: Raw, *, cordoned: bool) -> list[Raw] | None:
    taints = raw["spec"].get("taints") or []
    if cordoned:
        return taints if is_cordoned(raw) else [*taints, {"key": CORDON_TAINT, "effect": "NoSchedule"}]
    return [taint for taint in taints if taint["key"] != CORDON_TAINT] or None


async def wait_until_drained(client: Client, cluster: str, seconds: float) -> int:
    """Print the progress until the cluster is empty, the drain is aborted, or the time is over."""
    bar = ProgressBar()
    try:
        async with asyncio.timeout(seconds):
            return await report_until_empty(client, cluster, bar)
    except TimeoutError:
        bar.clear()
        click.echo(
            f"not drained within {seconds:.0f} seconds; the drain continues. "
            f"To stop it: trimtab drain-cluster {cluster} --abort"
        )
        return 1
    finally:
        bar.clear()


async def report_until_empty(client: Client, cluster: str, bar: ProgressBar) -> int:
    printed: dict[str, str] = {}
    while True:
        left = await bindings_in(client, cluster)
        for line in changed_lines(printed, left, cluster):
            bar.clear()
            click.echo(line)
        done = len(printed) - len(left)
        if not left:
            bar.clear()
            click.echo(f"cluster/{cluster} drained")
            return 0
        if not await is_draining(client, cluster):
            bar.clear()
            click.echo("the drain was aborted")
            return 1
        replicas = sum(drain_state(binding, cluster).replicas for binding in left)
        bar.show(
            done / len(printed),
            f"{plural(len(left), 'workload')} with {plural(replicas, 'replica')} {verb(len(left), 'remains', 'remain')}",
        )
        await asyncio.sleep(POLL_SECONDS)


def changed_lines(printed: dict[str, str], remaining: list[Binding], cluster: str) -> Iterator[str]:
    """A line for every workload whose state changed; `printed` holds the states of the last call."""
    states = {workload_name(binding): drain_state(binding, cluster).text for binding in remaining}
    states |= {name: "moved" for name in printed if name not in states}
    for name, text in sorted(states.items()):
        if printed.get(name) != text:
            printed[name] = text
            done = sum(state == "moved" for state in printed.values())
            count = f" ({done} of {len(states)} workloads)" if text == "moved" else ""
            yield f"{name} {text}{count}"


class WorkloadDrainState(NamedTuple):
    """The progress of one workload."""

    text: str
    replicas: int
    is_moving: bool = False


def drain_state(binding: Binding, cluster: str) -> WorkloadDrainState:
    placed = {target.name: target.replicas for target in binding.spec.clusters}.get(cluster, 0)
    hold = next((hold for hold in binding.status.holds if hold.cluster == cluster), None)
    if hold is not None:
        until = f" until {hold.until:%H:%M:%S} at the latest" if hold.until is not None else ""
        who = "1 replica waits for its" if hold.replicas == 1 else f"{hold.replicas} replicas wait for their"
        text = f"moving: {who} replacement{until}"
        return WorkloadDrainState(text, placed + hold.replicas, is_moving=True)
    stuck = stalled_condition_of(binding)
    if stuck is not None:
        return WorkloadDrainState(f"waiting: {stuck.message}", placed)
    if not any(target.name == cluster for target in binding.spec.clusters):
        return WorkloadDrainState("being removed", 0, is_moving=True)
    return WorkloadDrainState("not started", placed)


def workload_name(binding: Binding) -> str:
    about = binding.spec.resource
    place = f"{about.namespace}/" if about.namespace else ""
    return f"{about.kind.lower()}/{place}{about.name}"


async def is_draining(client: Client, name: str) -> bool:
    kind = kind_of(Cluster)
    cluster = cast("Cluster", kind.decode(await client.get(resource_of(kind), "", name)))
    return DRAIN in cluster.metadata.annotations


async def bindings_in(client: Client, cluster: str) -> list[Binding]:
    """Bindings that are present in the cluster; dependencies of other bindings leave with those."""
    found: list[Binding] = [
        *await list_typed(client, ResourceBinding),
        *await list_typed(client, ClusterResourceBinding),
    ]
    return [binding for binding in found if binding.spec.placement is not None and is_present_in(binding, cluster)]


def is_present_in(binding: Binding, cluster: str) -> bool:
    """Whether the binding is placed, held, being evicted, or still has a reported status in the cluster."""
    return (
        any(target.name == cluster for target in binding.spec.clusters)
        or any(hold.cluster == cluster for hold in binding.status.holds)
        or any(task.from_cluster == cluster for task in binding.spec.graceful_eviction_tasks)
        or any(item.cluster_name == cluster for item in binding.status.aggregated_status)
    )
