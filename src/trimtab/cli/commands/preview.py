"""`trimtab preview -f policy.yaml`: show what an edited policy would move before it is applied."""

from collections.abc import Sequence

import click

from trimtab.api.kinds.policy import Policy
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.dryrun.manifests import read_manifests
from trimtab.dryrun.preview import preview_policies
from trimtab.errors import InputError
from trimtab.runtime.declarations import load_declarations


@click.command()
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, help="YAML or JSON file; `-` is standard input."
)
@kubeconfig_options
def command(files: Sequence[str], kubeconfig: str, context: str) -> None:
    """Show what the propagation policies in these files would move if they were applied. Nothing is written."""
    manifests = read_manifests(files)
    policies = [item.typed for item in manifests.items if isinstance(item.typed, Policy)]
    others = [item for item in manifests.items if not isinstance(item.typed, Policy)]
    if others:
        raise InputError(
            f"{others[0].document.location}: {others[0].name} is not a propagation policy; preview accepts only those"
        )

    async def work(client: Client) -> str:
        load_declarations()
        return await preview_policies(client, policies, WallClock().now())

    click.echo(with_client(kubeconfig, context, work))
