"""`trimtab observe`: what the controllers would write now, without a write."""

import click

from trimtab.api.profile import PROFILES
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.options.lease_namespace import (
    find_leases,
    lease_namespace_option,
    own_namespace_settings,
)
from trimtab.cli.support.options.settings import parse_settings
from trimtab.cli.support.output import format_structured, output_option
from trimtab.cli.support.rehearsal_report import as_document, changed_names, report_lines
from trimtab.client.kube import KubeClient
from trimtab.clock import WallClock
from trimtab.rehearsal.rehearsal import Rehearsal, rehearse

CHANGES = 2


@click.command()
@kubeconfig_options
@click.option("--profile", type=click.Choice(["trimtab", "upstream"]), default="trimtab", show_default=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Controller setting; can be repeated.")
@lease_namespace_option("in which nothing is propagated")
@output_option
def command(
    kubeconfig: str, context: str, profile: str, settings: tuple[str, ...], lease_namespace: str, output: str
) -> int:
    """List what the controllers would write in members, and which placements they would change. Nothing is written.

    All controllers run on a copy of the host in memory and read the real members. Use it before `trimtab release`, before an
    upgrade, or before other settings. Exit codes: 0 nothing changes, 2 something changes, 1 error.
    """
    given = parse_settings(settings)

    async def work(client: KubeClient) -> Rehearsal:
        own = own_namespace_settings(lease_namespace, await find_leases(client, lease_namespace))
        return await rehearse(client, WallClock(), PROFILES[profile], settings={**given, **own})

    found = with_client(kubeconfig, context, work)
    if output in ("json", "yaml"):
        click.echo(format_structured(as_document(found), output))
    elif output == "name":
        for name in changed_names(found):
            click.echo(name)
    else:
        click.echo("\n".join(report_lines(found, wide=output == "wide")))
    return 0 if found.changes_nothing else CHANGES
