"""Health, readiness and metrics endpoints of processes that serve no API."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import click

from trimtab.errors import InputError
from trimtab.runtime.leader_election import LeaderElector
from trimtab.telemetry import HistogramSeries, Sample, format_histograms, format_metrics, process_samples

health_option = click.option(
    "--health-address",
    default="",
    metavar="HOST:PORT",
    help="Serve /healthz, /readyz and /metrics at this address over plain HTTP. Default: off.",
)


class ObservedWork(Protocol):
    """What a process does, as the endpoints report it."""

    @property
    def is_ready(self) -> bool: ...

    def samples(self) -> Iterable[Sample]: ...

    def histograms(self) -> Iterable[HistogramSeries]: ...


class ProbeEndpoints:
    """The responses of the endpoints: about the work of the process, once it has started."""

    def __init__(
        self, *, decides: bool = True, more_samples: Callable[[], Iterable[Sample]] = tuple[Sample, ...]
    ) -> None:
        """`decides`: of the processes of this kind one leads, and the metric trimtab_leading counts it.

        `more_samples` returns metrics besides those of the work.
        """
        self._decides = decides
        self._more_samples = more_samples
        self.is_waiting_for_lease = False
        """Another process holds the Lease; a process that waits for it is ready."""
        self._hold_reason = ""
        self._work: ObservedWork | None = None

    def observe(self, work: ObservedWork) -> None:
        """Report about this work from now on; each term as leader starts new work."""
        self._work = work
        self._hold_reason = ""

    def wait_for_release(self, reason: str) -> None:
        """No controller may run on this host; the process is ready to, and a restart would not help."""
        self._work = None
        self._hold_reason = reason

    def healthz(self) -> tuple[int, str]:
        return 200, "ok\n"

    def readyz(self) -> tuple[int, str]:
        if self.is_waiting_for_lease:
            return 200, "ok: waiting for the lease\n"
        if self._hold_reason:
            return 200, f"ok: observe-only ({self._hold_reason}); run trimtab observe, then trimtab release\n"
        is_ready = self._work is not None and self._work.is_ready
        return (200, "ok\n") if is_ready else (503, "not ready: the caches are being filled\n")

    def metrics(self) -> tuple[int, str]:
        works = not self.is_waiting_for_lease and not self._hold_reason
        leads = [Sample("trimtab_leading", 1 if works else 0)] if self._decides else []
        samples, histograms = (self._work.samples(), self._work.histograms()) if self._work is not None else ((), ())
        return 200, format_metrics([*leads, *samples, *self._more_samples(), *process_samples()]) + format_histograms(
            histograms
        )


async def run_as_leader(
    work: Callable[[], Awaitable[None]], elections: Sequence[LeaderElector], probes: ProbeEndpoints
) -> None:
    """Run `work`; with elections only while this process holds the Leases of all of them."""
    if not elections:
        await work()
        return

    async def work_as_leader() -> None:
        probes.is_waiting_for_lease = False
        await work()

    held: Callable[[], Awaitable[None]] = work_as_leader
    for election in reversed(elections):
        held = partial(election.run_as_leader, held)
    while True:  # after losing a Lease the work starts from nothing when it is won again
        probes.is_waiting_for_lease = True
        await held()


@asynccontextmanager
async def serve_probes(probes: ProbeEndpoints, address: str) -> AsyncIterator[None]:
    """Serve the endpoints while the body runs; without an address only run the body."""
    if not address:
        yield
        return
    from trimtab.server.http.listener import Listener  # noqa: PLC0415 - load the server only when it is used
    from trimtab.server.http.probe_pages import ProbePages  # noqa: PLC0415

    host, port = split_address(address)
    pages = {"/healthz": probes.healthz, "/readyz": probes.readyz, "/metrics": probes.metrics}
    listener = Listener(ProbePages(pages), host, port, None, option_names="--health-address")
    await listener.start()
    click.echo(f"health and metrics are at http://{address.rpartition(':')[0] or 'localhost'}:{listener.port}")
    try:
        yield
    finally:
        await listener.stop()


def split_address(address: str) -> tuple[str, int]:
    """Host and port; an IPv6 address is written in brackets."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise InputError(f"--health-address {address}: expected HOST:PORT, such as 127.0.0.1:8081 or [::]:8081")
    return host.removeprefix("[").removesuffix("]"), int(port)
