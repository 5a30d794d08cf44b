"""`trimtab agent`: runs in a member that the host cannot reach, applies its Works and reports their status."""

import asyncio
import base64
import logging
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import click

from trimtab.api.profile import PROFILES, Profile
from trimtab.app import ControlPlane
from trimtab.cli.commands.controllers import run_until_signalled
from trimtab.cli.support.options.traces import trace_options, trace_target
from trimtab.cli.support.probes import ProbeEndpoints, health_option, serve_probes
from trimtab.client.client import Client
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials, load
from trimtab.client.namespaced_reads import NamespacedReads
from trimtab.client.otlp import TraceTarget
from trimtab.clock import WallClock
from trimtab.errors import ApiError
from trimtab.members.agent import CONTROLLERS, Heartbeat
from trimtab.members.agent_access import namespaced_kinds
from trimtab.members.agent_credentials import AgentCredentials, HostAddress
from trimtab.members.left_objects import remove_before_first_report
from trimtab.runtime.control_plane_identity import read_identity
from trimtab.runtime.lua_worker import LuaWorker
from trimtab.runtime.observe_only import ReleaseGuard, run_when_released
from trimtab.telemetry import Sample, configure_logging

RETRY_SECONDS = 10.0

log = logging.getLogger("trimtab.agent")


@click.command()
@click.argument("name")
@click.option(
    "--kubeconfig",
    "member_config",
    default="",
    help="Kubeconfig of the member cluster; default: $KUBECONFIG, else the service account of the pod.",
)
@click.option("--context", "member_context", default="", help="Context in that kubeconfig.")
@click.option("--host-kubeconfig", default="", help="Kubeconfig of the control plane, instead of --host-server.")
@click.option("--host-context", default="")
@click.option("--host-server", default="", help="URL of the control plane, as `trimtab join-command` prints it.")
@click.option("--host-ca", default="", help="Its certificate authority, as base64 of PEM.")
@click.option(
    "--bootstrap-token",
    default="",
    help="The token of `trimtab join-command`; needed until the agent has credentials of its own.",
)
@click.option(
    "--token-secret",
    default="trimtab-system/trimtab-agent-token",
    show_default=True,
    metavar="NAMESPACE/NAME",
    help="Secret in this cluster in which the agent keeps its certificate and key, or its token.",
)
@click.option("--profile", type=click.Choice(["trimtab", "upstream"]), default="trimtab", show_default=True)
@health_option
@trace_options
@click.option("--verbose", "-v", count=True)
def command(
    name: str,
    member_config: str,
    member_context: str,
    host_kubeconfig: str,
    host_context: str,
    host_server: str,
    host_ca: str,
    bootstrap_token: str,
    token_secret: str,
    profile: str,
    health_address: str,
    trace_endpoint: str,
    trace_ratio: float,
    verbose: int,
) -> None:
    """Run the agent of the cluster NAME, which was joined with `trimtab join-command` or `trimtab join --mode pull`."""
    configure_logging(verbosity=verbose)
    if not host_kubeconfig and not host_server:
        raise click.UsageError("Missing option '--host-server' or '--host-kubeconfig'.")
    agent = AgentProcess(
        name=name,
        member=load(member_config or None, member_context),
        profile=PROFILES[profile],
        health_address=health_address,
        trace=trace_target(trace_endpoint, trace_ratio),
    )
    if host_kubeconfig:
        run_until_signalled(agent.serve(KubeClient(load(host_kubeconfig, host_context))))
    else:
        address = HostAddress(host_server.rstrip("/"), base64.b64decode(host_ca))
        run_until_signalled(agent.serve_with_own_credentials(address, token_secret, bootstrap_token))


class AgentProcess(NamedTuple):
    """One process of `trimtab agent`."""

    name: str
    member: Credentials
    profile: Profile
    health_address: str
    trace: TraceTarget | None

    async def serve_with_own_credentials(self, address: HostAddress, secret: str, bootstrap_token: str) -> None:
        """Obtain credentials of the host, kept in a Secret of the member, and renew them while the agent runs."""
        member = KubeClient(self.member)
        namespace, _, name = secret.partition("/")
        with tempfile.TemporaryDirectory(prefix="trimtab-agent-") as directory:
            file = Path(directory) / "kubeconfig"
            held = AgentCredentials(member, WallClock(), self.name, address, (namespace, name), file)
            await held.start(bootstrap_token)
            renewing = asyncio.ensure_future(held.run())
            host = NamespacedReads(KubeClient(load(file)), namespaced_kinds(self.name))
            try:
                await self.serve(host, held.samples)
            finally:
                renewing.cancel()
                await member.close()

    async def serve(self, host: Client, samples: Callable[[], Iterable[Sample]] = tuple) -> None:
        clock, scripts = WallClock(), LuaWorker()
        heartbeat = asyncio.ensure_future(Heartbeat(host, self.name, clock).run())
        probes, guard = ProbeEndpoints(more_samples=samples), ReleaseGuard()

        async def work() -> None:
            plane = ControlPlane(
                host,
                clock=clock,
                profile=self.profile,
                settings={"agent": self.name},
                connect=lambda cluster: self._member_client(guard) if cluster.name == self.name else None,
                scripts=scripts.submit,
                is_enabled=lambda controller: controller.name in CONTROLLERS,
                trace=self.trace,
            )
            probes.observe(plane)
            await self._remove_left_objects(host, guard)
            await plane.run()

        try:
            async with serve_probes(probes, self.health_address):
                click.echo(f"the agent of {self.name} is ready")
                await run_when_released(host, work, probes.wait_for_release, guard)
        finally:
            heartbeat.cancel()
            scripts.close()
            await host.close()

    def _member_client(self, guard: ReleaseGuard) -> KubeClient:
        return KubeClient(self.member, before_write=guard.check)

    async def _remove_left_objects(self, host: Client, guard: ReleaseGuard) -> None:
        """Remove what is left from before the cluster joined, before any Work is applied."""
        while True:
            member = self._member_client(guard)
            try:
                found = await remove_before_first_report(host, member, self.name, await read_identity(host))
            except (ApiError, OSError, TimeoutError) as fault:
                log.warning("cannot look for objects of earlier Works: %s", fault, extra={"cluster": self.name})
                await asyncio.sleep(RETRY_SECONDS)
            else:
                for name in found:
                    log.info("deleted %s, which was left in the cluster", name, extra={"cluster": self.name})
                return
            finally:
                await member.close()
