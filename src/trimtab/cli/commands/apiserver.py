"""`trimtab apiserver`: the API server without controllers and without policy admission."""

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.support.options.audit import audit_options, take_audit_settings
from trimtab.cli.support.options.encryption import encryption_option
from trimtab.cli.support.options.flow_control import flow_control_options, flow_limits
from trimtab.cli.support.options.serving import bind_option, new_data_dir_option, port_option
from trimtab.cli.support.processes import run_process
from trimtab.telemetry import configure_logging

if TYPE_CHECKING:
    from trimtab.server.flowcontrol.controller import FlowLimits
    from trimtab.server.http.audit import AuditSettings


@click.command()
@new_data_dir_option("trimtab-data")
@port_option(6443)
@bind_option
@flow_control_options
@audit_options
@encryption_option
def command(data_dir: Path, port: int, bind: str, encryption: Path | None, **options: Any) -> None:
    """Serve the Kubernetes API of all kinds of Trimtab, without controllers."""
    configure_logging()
    audit = take_audit_settings(options)
    run_process(_serve(data_dir, port, bind, flow_limits(**options), audit, encryption))


async def _serve(
    data_dir: Path,
    port: int,
    bind: str,
    limits: "FlowLimits",
    audit: "AuditSettings | None",
    encryption: Path | None,
) -> None:
    from trimtab.clock import WallClock  # noqa: PLC0415
    from trimtab.runtime.observe_only import continue_restore  # noqa: PLC0415
    from trimtab.server.background.certificate_signing import CertificateSigning  # noqa: PLC0415
    from trimtab.server.daemon import Daemon  # noqa: PLC0415
    from trimtab.server.local import LocalClient  # noqa: PLC0415

    daemon = Daemon(data_dir, bind, port, flow_control=limits, audit=audit, encryption=encryption)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopped.set)
    client, clock = LocalClient(daemon.api), WallClock()
    signing: asyncio.Task[None] | None = None
    try:
        await daemon.start()
        signing = loop.create_task(CertificateSigning(client, daemon.authority, clock.now).run(), name="signing")
        await continue_restore(daemon.directory, client)
        click.echo(f"trimtab apiserver is ready at {daemon.url}")
        click.echo(f"export KUBECONFIG={daemon.kubeconfig}")
        await stopped.wait()
    finally:
        if signing is not None:
            signing.cancel()
        await daemon.stop()
