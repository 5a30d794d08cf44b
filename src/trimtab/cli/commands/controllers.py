"""`trimtab controllers`: run all controllers against any API server."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import click

from trimtab import __version__
from trimtab.api.profile import PROFILES, Profile
from trimtab.app import ControlPlane
from trimtab.cli.commands.crds import custom_kinds
from trimtab.cli.support.client import kubeconfig_options
from trimtab.cli.support.definitions import check_definitions
from trimtab.cli.support.karmada_leases import KARMADA_NAMESPACE, check_all_held, karmada_elections
from trimtab.cli.support.options.controller_selection import controllers_option, enabled_controllers
from trimtab.cli.support.options.namespace import check_namespace
from trimtab.cli.support.options.notifications import notification_options, webhook_target
from trimtab.cli.support.options.settings import parse_settings
from trimtab.cli.support.options.traces import trace_options, trace_target
from trimtab.cli.support.probes import ObservedWork, ProbeEndpoints, health_option, run_as_leader, serve_probes
from trimtab.cli.support.processes import new_election, new_member_claims, run_process
from trimtab.cli.support.roles import (
    DECIDE,
    DEFAULT_ROLES,
    PODS,
    PUSH,
    PodWork,
    PushWork,
    deciding_settings,
    is_push_controller,
    parse_roles,
    pushing_settings,
)
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials, load
from trimtab.clock import WallClock
from trimtab.controllers.selection import IsEnabled
from trimtab.observability import ObservabilitySettings
from trimtab.runtime.leader_election import VERSION_ANNOTATION, LeaderElector
from trimtab.runtime.lua_worker import LuaWorker
from trimtab.runtime.observe_only import ReleaseGuard, run_when_released
from trimtab.runtime.propagatable import EVERY_KIND, KindSelection, parse_kinds
from trimtab.telemetry import Sample, configure_logging


@click.command()
@kubeconfig_options
@controllers_option
@click.option("--profile", type=click.Choice(["trimtab", "upstream"]), default="trimtab", show_default=True)
@click.option(
    "--roles",
    default=DEFAULT_ROLES,
    show_default=True,
    help="What this process does: decide, push (serve members; every process some of them), pods (budgets of this cluster).",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=False,
    help="Run the controllers only while this process holds the Lease.",
)
@click.option("--leader-elect-resource-namespace", callback=check_namespace, default="kube-system", show_default=True)
@click.option(
    "--leader-elect-resource-name",
    default="",
    help="Name of the Lease. Default: by the role. Processes with different --controllers need different ones.",
)
@click.option(
    "--replace-karmada",
    is_flag=True,
    help=f"Also hold the Leases of Karmada in {KARMADA_NAMESPACE}, so that only one of the two works.",
)
@click.option(
    "--lease-seconds",
    default=15.0,
    show_default=True,
    help="Seconds after which a Lease without renewal counts as expired.",
)
@click.option(
    "--status-seconds", default=10.0, show_default=True, help="Seconds between two status checks of a member."
)
@click.option(
    "--kinds",
    default=EVERY_KIND,
    show_default=True,
    metavar="LIST",
    help="Kinds that may be propagated, such as default,widgets.example.com; others are not read. default: what "
    "applications consist of; *: every kind.",
)
@click.option(
    "--state-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for what the controllers know when they stop. A start that finds it works only on what has changed.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Controller setting; can be repeated.")
@health_option
@click.option(
    "--karmada-metrics", is_flag=True, help="Also serve metrics under the names that Karmada uses, for its dashboards."
)
@notification_options
@trace_options
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--verbose", "-v", count=True)
def command(
    kubeconfig: str,
    context: str,
    selected_controllers: str,
    profile: str,
    roles: str,
    leader_elect: bool,
    leader_elect_resource_namespace: str,
    leader_elect_resource_name: str,
    replace_karmada: bool,
    lease_seconds: float,
    status_seconds: float,
    kinds: str,
    state_file: Path | None,
    settings: tuple[str, ...],
    health_address: str,
    karmada_metrics: bool,
    notify_url: str,
    notify_secret_file: Path | None,
    trace_endpoint: str,
    trace_ratio: float,
    log_format: str,
    verbose: int,
) -> None:
    """Run controllers against the API server of a kubeconfig; all of the fleet by default."""
    configure_logging(verbosity=verbose, as_json=log_format == "json")
    chosen, given = parse_roles(roles), parse_settings(settings)
    is_enabled = enabled_controllers(selected_controllers)
    if PODS in chosen and len(chosen) > 1:
        raise click.UsageError(f"--roles {roles}: run the role {PODS} in a process of its own")
    process = ControllersProcess(
        credentials=load(kubeconfig or None, context),
        roles=chosen,
        profile=PROFILES[profile],
        settings=given,
        is_enabled=is_enabled,
        leases=LeaseOptions(
            elects=leader_elect or replace_karmada,
            replaces_karmada=replace_karmada,
            name=leader_elect_resource_name or ("trimtab-pods" if PODS in chosen else "trimtab-controllers"),
            namespace=leader_elect_resource_namespace,
            seconds=lease_seconds,
        ),
        status_seconds=status_seconds,
        kinds=parse_kinds(kinds),
        state_file=state_file,
        observability=ObservabilitySettings(
            karmada_metrics=karmada_metrics,
            notify=webhook_target(notify_url, notify_secret_file),
            trace=trace_target(trace_endpoint, trace_ratio),
        ),
    )
    run_until_signalled(process.serve(health_address))


class LeaseOptions(NamedTuple):
    """Which Leases a process must hold before it works."""

    elects: bool
    replaces_karmada: bool
    """Also those of Karmada's controllers."""
    name: str
    namespace: str
    seconds: float


class Work(ObservedWork, Protocol):
    """What a process does, until it is cancelled."""

    async def run(self) -> None: ...


class ControllersProcess(NamedTuple):
    """One process of `trimtab controllers`."""

    credentials: Credentials
    roles: frozenset[str]
    profile: Profile
    settings: dict[str, object]
    is_enabled: IsEnabled
    leases: LeaseOptions
    status_seconds: float
    kinds: KindSelection
    state_file: Path | None
    observability: ObservabilitySettings

    @property
    def shares_members(self) -> bool:
        """Whether it serves the members whose Leases it claims, and needs no other Lease."""
        return self.roles == {PUSH}

    async def serve(self, health_address: str) -> None:
        # Renewals have connections of their own: the work of the controllers does not delay them.
        lease_client = KubeClient(self.credentials, agent="trimtab-controllers")
        elections = self._elections(lease_client) if self.leases.elects and not self.shares_members else []
        check_lease = partial(check_all_held, elections) if elections else None
        guard = ReleaseGuard()
        client = KubeClient(self.credentials, agent="trimtab-controllers", before_write=check_lease)
        own_samples = elections[0].samples if elections else tuple[Sample, ...]
        scripts, probes = LuaWorker(), ProbeEndpoints(decides=DECIDE in self.roles, more_samples=own_samples)

        async def start_work() -> None:
            running = self._new_work(client, lease_client, scripts, check_lease, guard)
            probes.observe(running)
            click.echo("controllers are ready")
            await running.run()

        async def work() -> None:
            await run_when_released(lease_client, start_work, probes.wait_for_release, guard)

        try:
            async with serve_probes(probes, health_address):
                if DECIDE in self.roles and self.profile.replacement_first:
                    await check_definitions(lease_client, custom_kinds())
                await run_as_leader(work, elections, probes)
        finally:
            scripts.close()
            await client.close()
            await lease_client.close()

    def _elections(self, client: KubeClient) -> list[LeaderElector]:
        """The own Lease first, then those of Karmada if they are to be held, too."""
        leases = self.leases
        own = new_election(
            client,
            name=leases.name,
            namespace=leases.namespace,
            lease_seconds=leases.seconds,
            annotations={VERSION_ANNOTATION: __version__},
        )
        return [own, *karmada_elections(client, leases.seconds)] if leases.replaces_karmada else [own]

    def _new_work(
        self,
        client: KubeClient,
        lease_client: KubeClient,
        scripts: LuaWorker,
        check_lease: Callable[[], None] | None,
        guard: ReleaseGuard,
    ) -> Work:
        if PODS in self.roles:
            return PodWork(client, WallClock(), self.profile, self.settings)
        new_plane = partial(
            ControlPlane,
            client,
            profile=self.profile,
            scripts=scripts.submit,
            check_release=guard.check,
            probe_seconds=self.status_seconds,
            kinds=self.kinds,
            karmada_metrics=self.observability.karmada_metrics,
            trace=self.observability.trace,
        )
        if self.shares_members:
            return self._new_push_work(new_plane, lease_client)
        return new_plane(
            settings={**self.settings, **deciding_settings(self.roles, self.leases.namespace)},
            is_enabled=self.is_enabled,
            check_lease=check_lease,
            notify=self.observability.notify,
            state_file=self.state_file,
        )

    def _new_push_work(self, new_plane: Callable[..., ControlPlane], lease_client: KubeClient) -> PushWork:
        """Serve members whose Leases this process claims."""
        claims = new_member_claims(lease_client, namespace=self.leases.namespace, lease_seconds=self.leases.seconds)
        plane = new_plane(
            settings=pushing_settings(self.settings),
            is_enabled=lambda controller: is_push_controller(controller.name),
            check_member=claims.check_held,
        )
        return PushWork(plane, claims)


def run_until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run the coroutine; SIGINT and SIGTERM cancel it."""

    async def main() -> None:
        task = asyncio.ensure_future(work)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    run_process(main())
