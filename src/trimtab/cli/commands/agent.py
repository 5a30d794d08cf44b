"""`trimtab agent`: runs in a member that the host cannot reach, applies its Works and reports their status."""

import asyncio

import click

from trimtab.api.profile import PROFILES
from trimtab.app import ControlPlane
from trimtab.cli.commands.controllers import run_until_signalled
from trimtab.cli.support.probes import ProbeEndpoints, health_option, serve_probes
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.members.agent import CONTROLLERS, Heartbeat
from trimtab.runtime.lua_worker import LuaWorker
from trimtab.telemetry import configure_logging


@click.command()
@click.argument("name")
@click.option(
    "--kubeconfig",
    "member_config",
    default="",
    help="Kubeconfig of the member cluster; default: $KUBECONFIG, else the service account of the pod.",
)
@click.option("--context", "member_context", default="", help="Context in that kubeconfig.")
@click.option("--host-kubeconfig", required=True, help="Kubeconfig of the control plane.")
@click.option("--host-context", default="")
@click.option("--profile", type=click.Choice(["trimtab", "upstream"]), default="trimtab", show_default=True)
@health_option
@click.option("--verbose", "-v", count=True)
def command(
    name: str,
    member_config: str,
    member_context: str,
    host_kubeconfig: str,
    host_context: str,
    profile: str,
    health_address: str,
    verbose: int,
) -> None:
    """Run the agent of the cluster NAME, which was joined with `trimtab join NAME --mode pull`."""
    configure_logging(verbosity=verbose)
    credentials = load(member_config or None, member_context)

    async def serve() -> None:
        host = KubeClient(load(host_kubeconfig, host_context))
        clock, scripts = WallClock(), LuaWorker()
        heartbeat = asyncio.ensure_future(Heartbeat(host, name, clock).run())
        plane = ControlPlane(
            host,
            clock=clock,
            profile=PROFILES[profile],
            settings={"agent": name},
            connect=lambda cluster: KubeClient(credentials) if cluster.name == name else None,
            scripts=scripts.submit,
            is_enabled=lambda controller: controller.name in CONTROLLERS,
        )
        probes = ProbeEndpoints()
        probes.observe(plane)
        click.echo(f"the agent of {name} is ready")
        try:
            async with serve_probes(probes, health_address):
                await plane.run()
        finally:
            heartbeat.cancel()
            scripts.close()
            await host.close()

    run_until_signalled(serve())
