"""Health, readiness and metrics endpoints of processes that serve no API."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import click

from trimtab.errors import InputFault
from trimtab.runtime.leader_election import LeaderElector
from trimtab.telemetry import Sample, exposition, process_samples

Tell = Callable[[], Iterable[Sample]]

pulse_option = click.option(
    "--health-address",
    default="",
    metavar="HOST:PORT",
    help="Serve /healthz, /readyz and /metrics at this address over plain HTTP. Default: off.",
)


class Pulse:
    """The responses of the endpoints; the command sets `is_ready` and `collect_samples` when its work starts."""

    def __init__(self) -> None:
        self.standing_by = False
        """Another process holds the Lease; a process that waits for it is ready."""
        self.ready: Callable[[], bool] = lambda: False
        self.tell: Tell = tuple

    def healthz(self) -> tuple[int, str]:
        return 200, "ok\n"

    def readyz(self) -> tuple[int, str]:
        if self.standing_by:
            return 200, "ok: waiting for the lease\n"
        return (200, "ok\n") if self.ready() else (503, "not ready: the caches are being filled\n")

    def metrics(self) -> tuple[int, str]:
        leads = Sample("trimtab_leading", 0 if self.standing_by else 1)
        return 200, exposition([leads, *self.tell(), *process_samples()])


async def lead(work: Callable[[], Awaitable[None]], election: LeaderElector | None, pulse: Pulse) -> None:
    """Run `work`; with an election only while this process holds the Lease."""
    if election is None:
        await work()
        return

    async def work_as_leader() -> None:
        pulse.standing_by = False
        await work()

    while True:  # after losing the Lease the work starts from nothing when it is won again
        pulse.standing_by = True
        await election.run_as_leader(work_as_leader)


@asynccontextmanager
async def beating(pulse: Pulse, address: str) -> AsyncIterator[None]:
    """Serve the endpoints while the body runs; without an address only run the body."""
    if not address:
        yield
        return
    from trimtab.server.http.listener import Listener  # noqa: PLC0415 - load the server only when it is used
    from trimtab.server.http.probe_pages import ProbePages  # noqa: PLC0415

    host, port = split(address)
    pages = {"/healthz": pulse.healthz, "/readyz": pulse.readyz, "/metrics": pulse.metrics}
    listener = Listener(ProbePages(pages), host, port, None, option_names="--health-address")
    await listener.start()
    click.echo(f"health and metrics are at http://{address.rpartition(':')[0] or 'localhost'}:{listener.port}")
    try:
        yield
    finally:
        await listener.stop()


def split(address: str) -> tuple[str, int]:
    """Host and port; an IPv6 address is written in brackets."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise InputFault(f"--health-address {address}: expected HOST:PORT, such as 127.0.0.1:8081 or [::]:8081")
    return host.removeprefix("[").removesuffix("]"), int(port)
