"""`trimtab uncordon-cluster NAME`: uncordon a cluster and end its drain."""

import click

from trimtab.cli.commands.drain_cluster import DrainMarks, update_marks
from trimtab.cli.support.client import kubeconfig_options, with_client


@click.command()
@click.argument("cluster")
@kubeconfig_options
def command(cluster: str, kubeconfig: str, context: str) -> None:
    """Allow new workloads in CLUSTER again. Workloads return only with a rebalance or a failback."""
    with_client(
        kubeconfig, context, lambda client: update_marks(client, cluster, lambda _: DrainMarks(None, cordoned=False))
    )
    click.echo(f"cluster/{cluster} uncordoned")
