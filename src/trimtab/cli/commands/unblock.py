"""`trimtab unblock KIND/NAME`: allow a workload again in clusters from which it was evicted as unhealthy."""

import click

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.work import Binding
from trimtab.cli.commands.explain import find_binding
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.options.namespace import namespace_option
from trimtab.client.client import Client, resource_of
from trimtab.controllers.movement import state
from trimtab.errors import InputError


@click.command()
@click.argument("target", metavar="KIND/NAME")
@click.argument("clusters", nargs=-1)
@namespace_option()
@kubeconfig_options
def command(target: str, clusters: tuple[str, ...], namespace: str, kubeconfig: str, context: str) -> None:
    """Allow KIND/NAME again in CLUSTERS (default: all) where it failed. Nothing moves until the next decision."""

    async def work(client: Client) -> list[str]:
        return await unblock_clusters(client, await find_binding(client, target, namespace), clusters)

    for name in with_client(kubeconfig, context, work):
        click.echo(f"{target} can be placed in {name} again")


async def unblock_clusters(client: Client, binding: Binding, clusters: tuple[str, ...]) -> list[str]:
    """Remove the clusters from the block list, and return them."""
    blocked = [entry.cluster_name for entry in binding.spec.active_eviction_history]
    if unknown := set(clusters).difference(blocked):
        raise InputError(f"not blocked: {', '.join(sorted(unknown))}; blocked clusters: {', '.join(blocked) or 'none'}")
    freed = list(clusters or blocked)
    if not freed:
        raise InputError("the workload is not blocked in any cluster")
    await patch_spec_list(
        client,
        state.with_history(
            binding, (entry for entry in binding.spec.active_eviction_history if entry.cluster_name not in freed)
        ),
        "activeEvictionHistory",
    )
    return freed


async def patch_spec_list(client: Client, binding: Binding, field: str) -> None:
    """Patch one list of the binding's spec; fails when the binding was written meanwhile."""
    patch = {
        "metadata": {"resourceVersion": binding.metadata.resource_version},
        "spec": {field: to_wire(binding)["spec"].get(field)},
    }
    await client.patch(resource_of(kind_of(binding)), binding.namespace, binding.name, patch)
