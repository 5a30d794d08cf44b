"""`trimtab migrate-storage`: store all objects in the current version of their kinds, after an upgrade of the definitions."""

import click

from trimtab.api.wording import plural
from trimtab.cli.commands.crds import custom_kinds
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.kube import KubeClient
from trimtab.client.storage_migration import DEFINITIONS, migrate, old_versions
from trimtab.errors import NotFound


@click.command()
@kubeconfig_options
@click.option("--dry-run", is_flag=True, help="Only list the kinds that have objects in old versions.")
def command(kubeconfig: str, context: str, dry_run: bool) -> None:
    """Rewrite the objects of Trimtab's, Karmada's and Open Cluster Management's kinds in their storage version.

    Afterwards an old version can be removed from its definition. Nothing in the objects changes. It can be interrupted and
    repeated, and controllers may run meanwhile.
    """

    async def work(client: KubeClient) -> list[str]:
        lines = []
        for kind in custom_kinds():
            try:
                definition = await client.get(DEFINITIONS, "", kind.id)
            except NotFound:
                continue
            versions = old_versions(definition)
            if not versions:
                continue
            if dry_run:
                lines.append(f"{kind.id}: has objects in {', '.join(versions)}")
            else:
                done = await migrate(client, definition)
                lines.append(
                    f"{done.definition}: {plural(done.objects, 'object')} rewritten, {', '.join(versions)} can be removed"
                )
        return lines

    click.echo("\n".join(with_client(kubeconfig, context, work)) or "all objects are stored in the current versions")
