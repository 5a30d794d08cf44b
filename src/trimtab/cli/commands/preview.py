"""`trimtab preview -f policy.yaml`: what an edit of a policy would move, before anybody applies it."""

from collections.abc import Sequence

import click

from trimtab.api.kinds.policy import Policy
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.dryrun.manifests import taken_in
from trimtab.dryrun.preview import previewed
from trimtab.errors import InputFault
from trimtab.runtime.declarations import learn_everything


@click.command()
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, help="A YAML or JSON file; `-` is standard input."
)
@kubeconfig_options
def command(files: Sequence[str], kubeconfig: str, context: str) -> None:
    """Show what propagation policies would move if they were applied as they are in these files. Nothing is written."""
    intake = taken_in(files)
    policies = [item.typed for item in intake.items if isinstance(item.typed, Policy)]
    others = [item for item in intake.items if not isinstance(item.typed, Policy)]
    if others:
        raise InputFault(
            f"{others[0].document.where}: {others[0].name} is not a propagation policy; preview takes only those"
        )

    async def work(client: Client) -> str:
        learn_everything()
        return await previewed(client, policies, WallClock().now())

    click.echo(with_client(kubeconfig, context, work))
