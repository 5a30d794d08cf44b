"""`trimtab taint cluster/NAME key=value:Effect[-]`: set or remove taints of clusters."""

import click

from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.cluster_taints import update_taints
from trimtab.client.client import Client
from trimtab.dryrun.change import parse_taint
from trimtab.errors import InputError


@click.command()
@click.argument("cluster", metavar="cluster/NAME")
@click.argument("taints", nargs=-1, required=True, metavar="KEY[=VALUE]:EFFECT[-]...")
@kubeconfig_options
def command(cluster: str, taints: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Set taints of a cluster; with a `-` at the end remove them, KEY- removes all effects of a key.

    Effects: NoSchedule keeps new workloads away, NoExecute also moves the present ones out unless they tolerate it.
    """
    word, slash, name = cluster.rpartition("/")
    if slash and word.lower() not in ("cluster", "clusters"):
        raise InputError(f"{cluster!r} is not a cluster; use cluster/NAME")
    changes = [parse_taint(f"{name}:{text}") for text in taints]

    async def work(client: Client) -> None:
        for change in changes:
            changed = await update_taints(client, change)
            verb = "untainted" if change.remove else "tainted"
            click.echo(f"cluster/{name} {verb if changed else 'unchanged'}")

    with_client(kubeconfig, context, work)
