"""`trimtab freeze`: stop all moves at once."""

import click

from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.freeze import freeze_moves

MAX_REASON = 1024


@click.command()
@click.option("--reason", default="", help="Why, for those who find the freeze; at most 1024 characters.")
@kubeconfig_options
def command(reason: str, kubeconfig: str, context: str) -> None:
    """Stop all moves at once: rebalances, drains, policy changes, failovers and evictions of pods.

    What runs stays where it is. Scaling, first placements and new versions of workloads go on. `trimtab thaw` ends it. On a
    member cluster the command stops the evictions of its pods.
    """
    if len(reason) > MAX_REASON:
        raise click.UsageError(f"--reason has {len(reason)} characters; at most {MAX_REASON} are allowed")
    with_client(kubeconfig, context, lambda client: freeze_moves(client, reason))
    click.echo("All moves are frozen. Release them with: trimtab thaw")
