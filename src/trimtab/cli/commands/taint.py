"""`trimtab taint cluster/NAME key=value:Effect[-]`: set or remove taints of clusters."""

import click

from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.cluster_taints import update_taints
from trimtab.client.client import Client
from trimtab.dryrun.change import TAINT_SYNTAX, TaintChange, parse_taint_of
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
    if not name:
        raise InputError(f"{cluster!r} names no cluster; use cluster/NAME")
    changes = [taint_of(name, text) for text in taints]

    async def work(client: Client) -> None:
        for change in changes:
            changed = await update_taints(client, change)
            verb = "untainted" if change.remove else "tainted"
            click.echo(f"cluster/{name} {verb if changed else 'unchanged'}")

    with_client(kubeconfig, context, work)


def taint_of(cluster: str, text: str) -> TaintChange:
    change = parse_taint_of(cluster, text)
    if change is None:
        raise InputError(f"{text!r} is not a taint; use {TAINT_SYNTAX}")
    return change
