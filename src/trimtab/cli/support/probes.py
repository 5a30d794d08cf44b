"""How a process without an API of its own says that it lives, whether it is ready, and what it has done."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import click

from trimtab.errors import InputFault
from trimtab.runtime.leader_election import Election
from trimtab.telemetry import Sample, exposition, process_samples

Tell = Callable[[], Iterable[Sample]]

pulse_option = click.option(
    "--health-address",
    default="",
    metavar="HOST:PORT",
    help="Serve /healthz, /readyz and /metrics there, over plain HTTP; off unless given.",
)


class Pulse:
    """What is told; the command says who works at the moment, if anybody does."""

    def __init__(self) -> None:
        self.standing_by = False
        """The lease is not ours, so there is nothing to do, and that is well."""
        self.ready: Callable[[], bool] = lambda: False
        self.tell: Tell = tuple

    def healthz(self) -> tuple[int, str]:
        return 200, "ok\n"

    def readyz(self) -> tuple[int, str]:
        if self.standing_by:
            return 200, "ok: waiting for the lease\n"
        return (200, "ok\n") if self.ready() else (503, "not yet: the caches are being filled\n")

    def metrics(self) -> tuple[int, str]:
        leads = Sample("trimtab_leading", 0 if self.standing_by else 1)
        return 200, exposition([leads, *self.tell(), *process_samples()])


async def lead(work: Callable[[], Awaitable[None]], election: Election | None, pulse: Pulse) -> None:
    """Run `work`; where there is an election, only while it is won."""
    if election is None:
        await work()
        return

    async def led() -> None:
        pulse.standing_by = False
        await work()

    while True:  # who loses the lease stops at once, forgets everything, and waits for its turn like any other
        pulse.standing_by = True
        await election.lead(led)


@asynccontextmanager
async def beating(pulse: Pulse, address: str) -> AsyncIterator[None]:
    """Serve the pulse while the body runs; with no address, just run it."""
    if not address:
        yield
        return
    from trimtab.server.http.listener import Listener  # noqa: PLC0415 - who serves nothing need not load a server
    from trimtab.server.http.probe_pages import Pages  # noqa: PLC0415

    host, port = split(address)
    pages = {"/healthz": pulse.healthz, "/readyz": pulse.readyz, "/metrics": pulse.metrics}
    listener = Listener(Pages(pages), host, port, None, options="--health-address")
    await listener.start()
    click.echo(f"health and metrics are at http://{address.rpartition(':')[0] or 'localhost'}:{listener.port}")
    try:
        yield
    finally:
        await listener.stop()


def split(address: str) -> tuple[str, int]:
    """Host and port; an IPv6 host stands in brackets."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise InputFault(f"--health-address {address}: HOST:PORT was expected, such as 127.0.0.1:8081 or [::]:8081")
    return host.removeprefix("[").removesuffix("]"), int(port)
