"""`trimtab unjoin`: remove a cluster from the fleet."""

import asyncio

import click

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.client import Client, resource_of
from trimtab.errors import InputError, NotFound
from trimtab.members.join import delete_credentials, unjoin

POLL_SECONDS = 0.5


@click.command()
@click.argument("name")
@kubeconfig_options
@click.option("--wait/--no-wait", default=True, help="Wait until the cluster is removed.", show_default=True)
@click.option("--timeout", default=120.0, show_default=True, help="Maximum number of seconds to wait.")
def command(name: str, kubeconfig: str, context: str, wait: bool, timeout: float) -> None:
    """Remove the cluster NAME from the fleet: first its Works, then its credentials."""

    async def work(host: Client) -> None:
        try:
            await unjoin(host, name)
        except NotFound as fault:
            raise InputError(f"there is no cluster {name}; list the clusters with: trimtab fleet") from fault
        if wait:
            await wait_until_removed(host, name, timeout)
            await delete_credentials(host, name)

    with_client(kubeconfig, context, work)
    click.echo(f"cluster {name} {'removed' if wait else 'is being removed'}")


async def wait_until_removed(host: Client, name: str, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            while True:
                await host.get(resource_of(kind_of(Cluster)), "", name)
                await asyncio.sleep(POLL_SECONDS)
    except NotFound:
        return
    except TimeoutError as late:
        raise InputError(f"cluster {name} is not removed within {seconds:g} s; the removal continues") from late
