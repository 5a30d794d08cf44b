"""`trimtab delete pod`: evict pods within their budgets, or delete them."""

import asyncio

import click

from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.options.namespace import namespace_option
from trimtab.client.client import Client
from trimtab.errors import ApiError, InternalError, TooManyRequests, Unclassified
from trimtab.rescheduling.eviction_client import PODS, RETRY_SECONDS, detailed_refusal_message, evict, eviction_body


@click.group()
def command() -> None:
    """Delete objects within their disruption budgets."""


@command.command("pod")
@click.argument("names", nargs=-1, required=True)
@namespace_option()
@click.option("--direct", is_flag=True, help="Delete at once and ignore budgets.")
@click.option("--wait", is_flag=True, help="Retry until the budgets allow it.")
@click.option(
    "--grace-period",
    type=click.IntRange(min=-1),
    default=-1,
    help="Seconds for pods to terminate; -1 uses the grace period of each pod.",
)
@kubeconfig_options
def delete_pods(
    names: tuple[str, ...],
    namespace: str,
    direct: bool,
    wait: bool,
    grace_period: int,
    kubeconfig: str,
    context: str,
) -> int:
    """Evict the pods NAMES; with --direct delete them."""
    grace = None if grace_period < 0 else grace_period

    async def remove(client: Client, name: str) -> bool:
        if direct:
            await client.delete(PODS, namespace, name, grace_seconds=grace)
            click.echo(f"pod/{name} deleted")
            return True
        found = await client.get(PODS, namespace, name)
        while True:
            try:
                await evict(client, found, eviction_body(found, by="delete", grace=grace))
            except (TooManyRequests, InternalError, Unclassified) as refused:
                later = f" (retry in {refused.retry_after} s)" if refused.retry_after else ""
                click.echo(
                    f"pod/{name} not evicted: {await detailed_refusal_message(client, found, refused)}{later}", err=True
                )
                if not wait:
                    return False
                await asyncio.sleep(refused.retry_after or RETRY_SECONDS)
            else:
                click.echo(f"pod/{name} evicted")
                return True

    async def try_remove(client: Client, name: str) -> bool:
        """An error for one pod does not stop the others."""
        try:
            return await remove(client, name)
        except ApiError as fault:
            click.echo(f"trimtab: {fault.message}", err=True)
            return False

    async def work(client: Client) -> bool:
        return all(await asyncio.gather(*(try_remove(client, name) for name in dict.fromkeys(names))))

    return 0 if with_client(kubeconfig, context, work) else 1
