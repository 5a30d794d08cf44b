"""`trimtab delete pod`: a pod goes through its budgets unless one says otherwise."""

import asyncio

import click

from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.client import Client
from trimtab.errors import ApiFault, InternalError, TooManyRequests, Unclassified
from trimtab.rescheduling.drain import RETRY_SECONDS
from trimtab.rescheduling.eviction_client import PODS, evict, eviction, why_here


@click.group()
def command() -> None:
    """Delete things with care."""


@command.command("pod")
@click.argument("names", nargs=-1, required=True)
@click.option("--namespace", "-n", default="default", show_default=True)
@click.option("--direct", is_flag=True, help="Delete at once, whatever budgets say.")
@click.option("--wait", is_flag=True, help="Ask again until the budgets allow it.")
@click.option(
    "--grace-period", type=click.IntRange(min=-1), default=-1, help="Seconds that pods get to end; -1 is what they say."
)
@kubeconfig_options
def pod(
    names: tuple[str, ...],
    namespace: str,
    direct: bool,
    wait: bool,
    grace_period: int,
    kubeconfig: str,
    context: str,
) -> int:
    """Evict pods; with --direct, delete them."""
    grace = None if grace_period < 0 else grace_period

    async def go(client: Client, name: str) -> bool:
        if direct:
            await client.delete(PODS, namespace, name, grace_seconds=grace)
            click.echo(f"pod/{name} deleted")
            return True
        seen = await client.get(PODS, namespace, name)
        while True:
            try:
                await evict(client, seen, eviction(seen, by="delete", grace=grace))
            except (TooManyRequests, InternalError, Unclassified) as refused:
                later = f" (again in {refused.retry_after} s)" if refused.retry_after else ""
                click.echo(f"pod/{name} stays: {await why_here(client, seen, refused)}{later}", err=True)
                if not wait:
                    return False
                await asyncio.sleep(refused.retry_after or RETRY_SECONDS)
            else:
                click.echo(f"pod/{name} evicted")
                return True

    async def tried(client: Client, name: str) -> bool:
        """One that cannot go does not keep the others."""
        try:
            return await go(client, name)
        except ApiFault as fault:
            click.echo(f"trimtab: {fault.message}", err=True)
            return False

    async def work(client: Client) -> bool:
        return all(await asyncio.gather(*(tried(client, name) for name in dict.fromkeys(names))))

    return 0 if with_client(kubeconfig, context, work) else 1
