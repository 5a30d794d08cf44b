"""`trimtab cordon-cluster NAME`: let no new workload into a cluster; what runs there stays."""

import click

from trimtab.cli.commands.drain_cluster import DrainMarks, drain_annotation, update_marks
from trimtab.cli.support.client import kubeconfig_options, with_client


@click.command()
@click.argument("cluster")
@kubeconfig_options
def command(cluster: str, kubeconfig: str, context: str) -> None:
    """Allow no new workloads in CLUSTER. What runs there stays; trimtab uncordon-cluster is the reverse."""
    with_client(
        kubeconfig,
        context,
        lambda client: update_marks(client, cluster, lambda raw: DrainMarks(drain_annotation(raw), cordoned=True)),
    )
    click.echo(f"cluster/{cluster} cordoned")
