"""`trimtab delete pod`: a pod goes through its budgets unless one says otherwise."""

import asyncio

import click

from trimtab.cli.shared import kubeconfig_options, with_client
from trimtab.client.client import Client
from trimtab.errors import TooManyRequests
from trimtab.runtime.evicting import PODS, evict, eviction, why


@click.group()
def command() -> None:
    """Delete things with care."""


@command.command("pod")
@click.argument("names", nargs=-1, required=True)
@click.option("--namespace", "-n", default="default", show_default=True)
@click.option("--direct", is_flag=True, help="Delete at once, whatever budgets say.")
@click.option("--wait", is_flag=True, help="Ask again until the budgets allow it.")
@click.option("--grace-period", type=int, default=None)
@kubeconfig_options
def pod(
    names: tuple[str, ...],
    namespace: str,
    direct: bool,
    wait: bool,
    grace_period: int | None,
    kubeconfig: str,
    context: str,
) -> int:
    """Evict pods; with --direct, delete them."""

    async def go(client: Client, name: str) -> bool:
        if direct:
            await client.delete(PODS, namespace, name, grace_seconds=grace_period)
            click.echo(f"pod/{name} deleted")
            return True
        seen = await client.get(PODS, namespace, name)
        while True:
            try:
                await evict(client, seen, eviction(seen, by="delete", grace=grace_period))
            except TooManyRequests as refused:
                pause = refused.retry_after or 5
                later = f" (again in {refused.retry_after} s)" if refused.retry_after else ""
                click.echo(f"pod/{name} stays: {why(refused)}{later}", err=True)
                if not wait:
                    return False
                await asyncio.sleep(pause)
            else:
                click.echo(f"pod/{name} evicted")
                return True

    async def work(client: Client) -> bool:
        return all([await go(client, name) for name in names])

    return 0 if with_client(kubeconfig, context, work) else 1
