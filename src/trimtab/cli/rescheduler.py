"""`trimtab rescheduler`: keeps the pods of any cluster where its scheduler would put them today."""

import os
import socket

import click

from trimtab.api.profile import PROFILES
from trimtab.cli.reschedule import config_from
from trimtab.cli.shared import kubeconfig_options, with_client
from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.runtime.election import Election
from trimtab.runtime.rescheduler import NAME, NAMESPACE, Rescheduler


@click.command()
@click.option("--config", default="", help=f"Settings or a DeschedulerPolicy; else the ConfigMap {NAMESPACE}/{NAME}.")
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="trimtab", show_default=True)
@click.option("--leader-elect", is_flag=True, help="Of several that run, only one moves pods.")
@kubeconfig_options
def command(config: str, profile: str, leader_elect: bool, kubeconfig: str, context: str) -> None:
    """Run the rescheduler against a cluster, through its own eviction API, until interrupted."""

    async def work(client: Client) -> None:
        rescheduler = Rescheduler(client, clock=WallClock(), profile=PROFILES[profile], fixed=config_from(config))
        if not leader_elect:
            await rescheduler.run()
            return
        while True:  # whoever loses the lease waits for it again
            identity = f"{socket.gethostname()}_{os.getpid()}"
            await Election(client, WallClock(), identity, name=NAME).lead(rescheduler.run)

    with_client(kubeconfig, context, work)
