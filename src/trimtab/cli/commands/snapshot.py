"""`trimtab snapshot -o FILE`: save the state of a fleet, for plans on another machine or on another day."""

from pathlib import Path

import click
import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.wording import plural
from trimtab.cli.support.client import kubeconfig_options, with_client
from trimtab.cli.support.server_state import fetch_state, profile_option
from trimtab.client.client import Client
from trimtab.dryrun.fleet_state import FleetState
from trimtab.dryrun.snapshot import snapshot_of
from trimtab.errors import InputError
from trimtab.runtime.declarations import load_kinds
from trimtab.store.files import replace_file

STANDARD_OUTPUT = Path("-")


@click.command()
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file; `-` is standard output.",
)
@click.option("--hash-names", is_flag=True, help="Replace the names of objects by hashes.")
@profile_option
@kubeconfig_options
def command(file: Path, hash_names: bool, profile: str | None, kubeconfig: str, context: str) -> None:
    """Save clusters, policies, placements, budgets, scores and workloads in a file; Secrets are left out.

    `trimtab plan --from FILE` makes plans of it without the fleet: what would an outage have done yesterday?
    """

    async def work(client: Client) -> FleetState:
        load_kinds()
        return await fetch_state(client, profile)

    state = with_client(kubeconfig, context, work)
    content = msgspec.json.encode(snapshot_of(state, hash_names=hash_names)) + b"\n"
    if file == STANDARD_OUTPUT:
        click.echo(content, nl=False)
        return
    try:
        replace_file(file, content)
    except OSError as fault:
        raise InputError(f"cannot write {file}: {fault.strerror or fault}") from fault
    click.echo(f"{file}: {plural(len(state.all(Cluster)), 'cluster')}, {plural(len(state.bindings), 'workload')}")
