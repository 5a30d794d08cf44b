"""`trimtab adopt`: take over a running Karmada in place, on its own API server, and give it back."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import click

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import Move
from trimtab.api.profile import PROFILES
from trimtab.api.schema.from_types import crd
from trimtab.cli.commands.crds import custom_kinds
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.karmada_leases import (
    KARMADA_LEASES,
    KARMADA_NAMESPACE,
    LeaseHolder,
    current_holders,
    holder_of,
)
from trimtab.cli.support.options.lease_namespace import (
    find_leases,
    lease_namespace_option,
    own_namespace_settings,
)
from trimtab.cli.support.options.settings import parse_settings
from trimtab.cli.support.rehearsal_report import report_lines
from trimtab.client.client import Client
from trimtab.client.kube import KubeClient
from trimtab.clock import WallClock
from trimtab.errors import InputError
from trimtab.rehearsal.host_copy import DEFINITIONS
from trimtab.rehearsal.rehearsal import Rehearsal, rehearse

OWN_GROUP = kind_of(Move).group
NEEDED = ("resourcebindings.work.karmada.io", "works.work.karmada.io", "propagationpolicies.policy.karmada.io")
NOT_READY = 3


class Situation(NamedTuple):
    """What the command found."""

    running: tuple[LeaseHolder, ...]
    missing_kinds: tuple[str, ...]
    """Kinds of Trimtab that the API server does not have yet."""
    rehearsal: Rehearsal


@click.command()
@kubeconfig_options
@click.option("--take-over", is_flag=True, help="Prepare the API server for Trimtab, if nothing would change.")
@click.option("--give-back", is_flag=True, help="Check instead what Karmada would change when it runs again.")
@click.option("--accept-changes", is_flag=True, help="Take over although the listed changes would happen.")
@click.option("--profile", type=click.Choice(["trimtab", "upstream"]), default="upstream", show_default=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Controller setting; can be repeated.")
@lease_namespace_option("which must not work while Karmada does, and in which nothing is propagated")
def command(
    kubeconfig: str,
    context: str,
    take_over: bool,
    give_back: bool,
    accept_changes: bool,
    profile: str,
    settings: tuple[str, ...],
    lease_namespace: str,
) -> int:
    """Check what would change if Trimtab ran in place of Karmada, on Karmada's API server; then take over.

    Without options nothing is written, and Karmada may run. All controllers of Trimtab run on a copy of the API server and read
    the members of the fleet. Exit codes: 0 nothing would change, 2 something would, 3 the other control plane runs, 1 error.
    """
    if take_over and give_back:
        raise click.UsageError("--take-over and --give-back exclude each other")
    chosen = PROFILES["upstream" if give_back else profile]
    given = parse_settings(settings)

    async def examine(client: KubeClient) -> Situation:
        served = {resource.id for resource in await client.resources()}
        if absent := [name for name in NEEDED if name not in served]:
            raise InputError(f"the API server does not serve {absent[0]}: it is not the one of a Karmada control plane")
        clock = WallClock()
        leases = await find_leases(client, lease_namespace)
        running = await current_holders(client, KARMADA_NAMESPACE, KARMADA_LEASES, clock.now())
        if give_back:
            running += [holder for lease in leases if (holder := holder_of(lease, clock.now()))]
        own = [kind for kind in custom_kinds() if kind.group == OWN_GROUP]
        found = await rehearse(
            client, clock, chosen, settings={**given, **own_namespace_settings(lease_namespace, leases)}
        )
        return Situation(tuple(running), tuple(kind.id for kind in own if kind.id not in served), found)

    found = with_client(kubeconfig, context, examine)
    for line in situation_lines(found, give_back=give_back):
        click.echo(line)
    if found.running and (take_over or give_back):
        return NOT_READY
    if not found.rehearsal.changes_nothing and not accept_changes:
        return 2
    if take_over:
        if not found.rehearsal.is_finished and not accept_changes:
            raise InputError("it is not known what would change: the controllers were not finished; try again")
        for name in with_client(kubeconfig, context, partial(install_own_kinds, names=found.missing_kinds)):
            click.echo(f"installed {name}")
        further = "".join(f" --set {text}" for text in settings)
        click.echo("Start Trimtab; it takes Karmada's Leases, so that only one of the two works:")
        click.echo(
            f"  trimtab controllers --kubeconfig {kubeconfig or '$KUBECONFIG'} --profile {profile} --replace-karmada{further}"
        )
    return 0


def situation_lines(found: Situation, *, give_back: bool) -> Iterator[str]:
    yield from report_lines(found.rehearsal)
    for lease, holder in found.running:
        yield f"runs: {lease} is held by {holder}"
    if found.running and not give_back:
        yield (
            "Before the takeover, scale the controller manager, the scheduler and the descheduler of Karmada to zero. Its "
            "webhook and its API servers go on."
        )
    if found.running and give_back:
        yield "Before Karmada starts again, stop the controllers of Trimtab; Karmada then takes its Leases back."
    if found.missing_kinds and not give_back:
        yield f"to install: {', '.join(found.missing_kinds)}"
    if give_back:
        yield "Kinds of Trimtab (budgets, moves, rebalancers with selectors) stay and have no effect under Karmada."


async def install_own_kinds(client: Client, names: tuple[str, ...]) -> list[str]:
    """Install the kinds that only Trimtab has. Kinds of Karmada stay as they are: its aggregated API server serves some."""
    installed = []
    for kind in custom_kinds():
        if kind.id in names:
            definition = crd(kind, None)
            name = definition["metadata"]["name"]
            await client.patch(DEFINITIONS, "", name, definition, type="apply", manager="trimtab-adopt", force=True)
            installed.append(name)
    return installed
