"""`trimtab release`: let the controllers run after a restore."""

import click

from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.runtime.observe_only import end_observing


@click.command()
@kubeconfig_options
def command(kubeconfig: str, context: str) -> None:
    """Let the controllers run on a host that was restored; see `trimtab observe` for what they will write."""
    was_held = with_client(kubeconfig, context, end_observing)
    click.echo("the controllers start" if was_held else "nothing to release: the controllers may run")
