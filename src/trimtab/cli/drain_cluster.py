"""`trimtab drain-cluster NAME`: empties a cluster, replacement first and within every budget."""

import asyncio
from typing import cast

import click

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Raw
from trimtab.cli.shared import kubeconfig_options, with_client
from trimtab.cli.shared_moves import everything
from trimtab.client.client import Client, resource_of
from trimtab.clock import WallClock
from trimtab.controllers.marks import DRAIN
from trimtab.controllers.moves import stalled_because

CORDON = "cluster.karmada.io/unschedulable"
POLL_SECONDS = 1.0
BAR = 30


@click.command()
@click.argument("cluster")
@click.option("--abort", is_flag=True, help="Stop emptying it; it stays closed until it is uncordoned.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Stay and show how far it is.")
@click.option("--timeout", type=float, default=3600.0, show_default=True, help="Seconds to wait at most.")
@kubeconfig_options
def command(cluster: str, abort: bool, wait: bool, timeout: float, kubeconfig: str, context: str) -> int:
    """Close CLUSTER for new workloads and move those that it has elsewhere."""

    async def work(client: Client) -> int:
        if abort:
            await marked(client, cluster, drain=False, cordon=True)
            click.echo(f"cluster/{cluster} is no longer being emptied; it is still closed")
            return 0
        await marked(client, cluster, drain=True, cordon=True)
        click.echo(f"cluster/{cluster} closed")
        return await watched(client, cluster, timeout) if wait else 0

    return with_client(kubeconfig, context, work)


async def marked(client: Client, name: str, *, drain: bool, cordon: bool) -> None:
    """Set or take away the two marks, whatever else is on the cluster."""
    resource = resource_of(kind_of(Cluster))
    raw = await client.get(resource, "", name)
    since = WallClock().now().isoformat(timespec="seconds") if drain else None
    patch: Raw = {
        "metadata": {"annotations": {DRAIN: since}, "resourceVersion": raw["metadata"]["resourceVersion"]},
        "spec": {"taints": taints_after(raw, cordon=cordon)},
    }
    await client.patch(resource, "", name, patch)


def taints_after(raw: Raw, *, cordon: bool) -> list[Raw] | None:
    taints = [taint for taint in raw["spec"].get("taints") or [] if taint["key"] != CORDON]
    if cordon:
        taints.append({"key": CORDON, "effect": "NoSchedule"})
    return taints or None


async def watched(client: Client, cluster: str, seconds: float) -> int:
    """Show how far it is, until nothing is left, nobody wants it emptied any more, or time is over."""
    total = 0
    told = ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                left = await inhabitants(client, cluster)
                total = max(total, len(left))
                line = progress(total - len(left), total, left)
                if line != told:
                    click.echo(line)
                    told = line
                if not left:
                    click.echo(f"cluster/{cluster} drained")
                    return 0
                if not await is_wanted(client, cluster):
                    click.echo("given up: somebody aborted it")
                    return 1
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        click.echo(
            f"not drained within {seconds:.0f} seconds; it goes on. To stop: trimtab drain-cluster {cluster} --abort"
        )
        return 1


async def is_wanted(client: Client, name: str) -> bool:
    kind = kind_of(Cluster)
    cluster = cast("Cluster", kind.decode(await client.get(resource_of(kind), "", name)))
    return DRAIN in cluster.metadata.annotations


async def inhabitants(client: Client, cluster: str) -> list[Binding]:
    """Bindings that have something in the cluster, placed there or held; those that only follow others leave with them."""
    found: list[Binding] = [
        *await everything(client, ResourceBinding),
        *await everything(client, ClusterResourceBinding),
    ]
    return [
        binding
        for binding in found
        if binding.spec.placement is not None
        and (
            any(target.name == cluster for target in binding.spec.clusters)
            or any(hold.cluster == cluster for hold in binding.status.holds)
        )
    ]


def progress(done: int, total: int, left: list[Binding]) -> str:
    filled = BAR * done // total if total else BAR
    bar = "#" * filled + "." * (BAR - filled)
    stuck = [(binding, why) for binding in left if (why := stalled_because(binding)) is not None]
    waiting = f"; {stuck[0][0].spec.resource.name}: {stuck[0][1].message}" if stuck else ""
    return f"[{bar}] {done} of {total} workloads have left{waiting}"
