"""`trimtab controllers`: all controllers, against any API server."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import click

from trimtab.api.profile import PROFILES
from trimtab.app import Plane
from trimtab.cli.support.client import kubeconfig_options
from trimtab.cli.support.probes import Pulse, beating, lead, pulse_option
from trimtab.cli.support.processes import elected, live_long
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.telemetry import speak


@click.command()
@kubeconfig_options
@click.option("--profile", type=click.Choice(["trimtab", "upstream"]), default="trimtab", show_default=True)
@click.option("--leader-elect/--no-leader-elect", default=False, help="Work only while holding the Lease.")
@click.option("--leader-elect-resource-namespace", default="kube-system", show_default=True)
@click.option("--lease-seconds", default=15.0, show_default=True, help="How long a Lease is believed.")
@click.option("--status-seconds", default=10.0, show_default=True, help="How often each member is looked at.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A controller setting; may be repeated.")
@pulse_option
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--verbose", "-v", count=True)
def command(
    kubeconfig: str,
    context: str,
    profile: str,
    leader_elect: bool,
    leader_elect_resource_namespace: str,
    lease_seconds: float,
    status_seconds: float,
    settings: tuple[str, ...],
    health_address: str,
    log_format: str,
    verbose: int,
) -> None:
    """Run every controller against the API server of a kubeconfig."""
    speak(verbosity=verbose, as_json=log_format == "json")

    pulse = Pulse()

    async def live() -> None:
        client = KubeClient(load(kubeconfig or None, context), agent="trimtab-controllers")

        async def work() -> None:
            plane = Plane(
                client,
                profile=PROFILES[profile],
                settings=read_settings(settings),
                probe_seconds=status_seconds,
            )
            pulse.ready, pulse.tell = lambda: plane.ready, plane.samples
            click.echo("controllers are ready")
            await plane.run()

        namespace = leader_elect_resource_namespace
        standing = elected(client, name="trimtab-controllers", namespace=namespace, lease_seconds=lease_seconds)
        try:
            async with beating(pulse, health_address):
                await lead(work, standing if leader_elect else None, pulse)
        finally:
            await client.close()

    run_until_told_to_stop(live())


def run_until_told_to_stop(work: Coroutine[Any, Any, None]) -> None:
    """Run the coroutine; an interrupt or a polite kill ends it cleanly."""

    async def main() -> None:
        task = asyncio.ensure_future(work)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    live_long(main())


def read_settings(pairs: tuple[str, ...]) -> dict[str, object]:
    """`name=value` pairs; numbers and true/false are read as such."""
    found: dict[str, object] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise click.UsageError(f"--set {pair}: NAME=VALUE was expected")
        found[name] = _read(text)
    return found


def _read(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text
