"""`trimtab uncordon-cluster NAME`: opens a cluster again that was closed or drained."""

import click

from trimtab.cli.drain_cluster import marked
from trimtab.cli.shared import kubeconfig_options, with_client
from trimtab.client.client import Client


@click.command()
@click.argument("cluster")
@kubeconfig_options
def command(cluster: str, kubeconfig: str, context: str) -> None:
    """Let CLUSTER take workloads again; what left it comes back with a rebalance or a failback."""

    async def work(client: Client) -> None:
        await marked(client, cluster, drain=False, cordon=False)

    with_client(kubeconfig, context, work)
    click.echo(f"cluster/{cluster} opened")
