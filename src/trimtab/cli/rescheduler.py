"""`trimtab rescheduler`: keeps the pods of any cluster where its scheduler would put them today."""

import click

from trimtab.api.profile import PROFILES
from trimtab.cli.reschedule import config_from
from trimtab.cli.shared import kubeconfig_options, with_client
from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.runtime.rescheduler import NAME, NAMESPACE, Rescheduler


@click.command()
@click.option("--config", default="", help=f"Settings or a DeschedulerPolicy; else the ConfigMap {NAMESPACE}/{NAME}.")
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="trimtab", show_default=True)
@kubeconfig_options
def command(config: str, profile: str, kubeconfig: str, context: str) -> None:
    """Run the rescheduler against a cluster, through its own eviction API, until interrupted."""

    async def work(client: Client) -> None:
        rescheduler = Rescheduler(client, clock=WallClock(), profile=PROFILES[profile], fixed=config_from(config))
        click.echo("no source of CPU pressure: interference is not judged here", err=True)
        await rescheduler.run()

    with_client(kubeconfig, context, work)
