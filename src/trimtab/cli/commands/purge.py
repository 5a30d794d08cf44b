"""`trimtab purge KIND/NAME CLUSTER`: remove the old copy that a failover with purge mode Never has kept."""

import click

from trimtab.api.kinds.work import Binding
from trimtab.cli.commands.explain import find_binding
from trimtab.cli.commands.unblock import patch_spec_list
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.options.namespace import namespace_option
from trimtab.client.client import Client
from trimtab.controllers.movement import state
from trimtab.errors import InputError


@click.command()
@click.argument("target", metavar="KIND/NAME")
@click.argument("cluster")
@namespace_option()
@kubeconfig_options
def command(target: str, cluster: str, namespace: str, kubeconfig: str, context: str) -> None:
    """Delete the copy of KIND/NAME in CLUSTER that purge mode Never has kept."""

    async def work(client: Client) -> None:
        await allow_purge(client, await find_binding(client, target, namespace), cluster)

    with_client(kubeconfig, context, work)
    click.echo(f"the old copy of {target} in {cluster} is being deleted")


async def allow_purge(client: Client, binding: Binding, cluster: str) -> None:
    """Allow the eviction task of this cluster to finish."""
    tasks = binding.spec.graceful_eviction_tasks
    kept = [task.from_cluster for task in tasks if task.suppress_deletion]
    if cluster not in kept:
        raise InputError(f"there is no old copy in {cluster}; old copies are in: {', '.join(kept) or 'no cluster'}")
    ended = tuple(task.but(suppress_deletion=False) if task.from_cluster == cluster else task for task in tasks)
    await patch_spec_list(client, state.finish_tasks(binding, ended), "gracefulEvictionTasks")
