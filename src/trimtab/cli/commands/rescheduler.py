"""`trimtab rescheduler`: run the rescheduler continuously against a cluster."""

import click

from trimtab.api.profile import PROFILES
from trimtab.cli.commands.controllers import run_until_signalled
from trimtab.cli.commands.reschedule import read_config_file
from trimtab.cli.support.client import kubeconfig_options
from trimtab.cli.support.probes import ProbeEndpoints, health_option, run_as_leader, serve_probes
from trimtab.cli.support.processes import new_election
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.rescheduling.configuration import NAME, NAMESPACE
from trimtab.rescheduling.rescheduler import Rescheduler
from trimtab.telemetry import configure_logging


@click.command()
@click.option(
    "--config",
    default="",
    help=f"File with settings or a DeschedulerPolicy. Default: the ConfigMap {NAMESPACE}/{NAME}.",
)
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="trimtab", show_default=True)
@click.option("--leader-elect", is_flag=True, help="Move pods only while this process holds the Lease.")
@click.option(
    "--lease-seconds",
    default=15.0,
    show_default=True,
    help="Seconds after which a Lease without renewal counts as expired.",
)
@health_option
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--verbose", "-v", count=True)
@kubeconfig_options
def command(
    config: str,
    profile: str,
    leader_elect: bool,
    lease_seconds: float,
    health_address: str,
    log_format: str,
    verbose: int,
    kubeconfig: str,
    context: str,
) -> None:
    """Run the rescheduler against a cluster until interrupted. It uses the eviction API of the cluster."""
    configure_logging(verbosity=verbose, as_json=log_format == "json")
    fixed = read_config_file(config)
    credentials = load(kubeconfig or None, context)
    probes = ProbeEndpoints()

    async def serve() -> None:
        lease_client = KubeClient(credentials, agent=NAME)
        election = new_election(lease_client, name=NAME, lease_seconds=lease_seconds) if leader_elect else None
        client = KubeClient(credentials, agent=NAME, before_write=election.check_held if election else None)

        async def work() -> None:
            """Each term starts with the stored history: the previous leader may have moved pods."""
            rescheduler = Rescheduler(client, clock=WallClock(), profile=PROFILES[profile], fixed_config=fixed)
            probes.observe(rescheduler)
            click.echo("the rescheduler is ready")
            await rescheduler.run()

        try:
            async with serve_probes(probes, health_address):
                await run_as_leader(work, [election] if election is not None else (), probes)
        finally:
            await client.close()
            await lease_client.close()

    run_until_signalled(serve())
