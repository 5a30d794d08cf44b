"""`trimtab thaw`: allow moves again after `trimtab freeze`."""

import click

from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.client.client import Client
from trimtab.client.freeze import find_disruption_policy, thaw_moves
from trimtab.decide.freeze import freeze_of


@click.command()
@kubeconfig_options
def command(kubeconfig: str, context: str) -> None:
    """Allow moves again. What waited begins within its budgets."""

    async def work(client: Client) -> bool:
        was_frozen = freeze_of(await find_disruption_policy(client)) is not None
        if was_frozen:
            await thaw_moves(client)
        return was_frozen

    was_frozen = with_client(kubeconfig, context, work)
    click.echo("Moves may begin again." if was_frozen else "Moves are not frozen.")
