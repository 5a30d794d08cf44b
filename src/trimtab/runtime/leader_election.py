"""Leader election by Lease: of several control planes on one API server, one runs its controllers.

A Lease does not stop a former leader by itself. Three rules keep it from writing after another process has taken over:

- Every attempt to renew is bounded by the renew deadline, counted from the *start* of the last successful attempt. A call that
  hangs cannot outlive the Lease, because others count its duration from a later moment: when they saw the renewal.
- `check_held` raises when that deadline has passed. Clients call it before every write, so a process that was stopped
  (SIGSTOP, a paused machine) and continues does not write before its loop notices the loss.
- Writes carry the resourceVersion, and deletions the uid and resourceVersion, of the object that was read. What was on its way
  when the process stopped fails on every object that the next leader wrote.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import Clock, SteadyClock
from trimtab.errors import AlreadyExists, ApiError, NotFound, Unavailable
from trimtab.tasks import stop_tasks
from trimtab.telemetry import Sample

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
VERSION_ANNOTATION = "trimtab.dev/version"
"""On the Leases of controllers and agents: the version of the process, for `trimtab doctor`."""
log = logging.getLogger("trimtab.election")


def micro_time(at: datetime) -> str:
    """The time as a Kubernetes MicroTime."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LeaseLost(Unavailable):
    """This process does not hold the Lease any more, so it may not write."""


class LeaderElector:
    """Acquires, renews and releases one Lease."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        identity: str,
        *,
        namespace: str = "kube-system",
        name: str = "trimtab-controllers",
        lease_seconds: float = 15.0,
        renew_deadline_seconds: float = 10.0,
        retry_seconds: float = 2.0,
        monotonic: Callable[[], float] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """`annotations` are written on the Lease.

        `monotonic` is read before every write; the default, the time of the loop, is late after a pause of the process.
        """
        self._client = client
        self._clock = clock
        self._steady_clock = SteadyClock(clock)
        self.identity = identity
        self._namespace = namespace
        self._name = name
        self._lease_seconds = lease_seconds
        self._renew_deadline = renew_deadline_seconds
        self._retry_seconds = retry_seconds
        self._last_change: tuple[str, datetime] | None = None
        self._monotonic = monotonic or (lambda: asyncio.get_running_loop().time())
        self._held_until: float | None = None
        self._transitions: int | None = None
        self._annotations = annotations or {}

    def samples(self) -> Iterator[Sample]:
        """How often the Lease has changed hands, as this process saw it last."""
        if self._transitions is not None:
            yield Sample("trimtab_lease_transitions_total", self._transitions)

    def check_held(self) -> None:
        """Raise `LeaseLost` unless this process holds the Lease; to be called before every write."""
        if self._seconds_left() <= 0:
            raise LeaseLost("this process does not hold the lease any more; it writes nothing")

    async def run_as_leader(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait to become leader, run `work`, and stop it at once when the lease is lost."""
        await self._acquire()
        log.info("leading as %s", self.identity)
        task = asyncio.ensure_future(work())
        renewal = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({task, renewal}, return_when=asyncio.FIRST_COMPLETED)
            if renewal.done() and not task.done():
                log.error("lost the lease; stopping")
        finally:
            task.cancel()
            await stop_tasks((renewal,), log)
            await asyncio.wait({task})
            await self._release()
        if not task.cancelled() and (failure := task.exception()):
            raise failure

    async def _acquire(self) -> None:
        while True:
            if await self._try_claim(self._renew_deadline):
                return
            await asyncio.sleep(self._retry_seconds)

    async def _renew(self) -> None:
        """Returns when the lease could not be renewed in time, or when another process holds it."""
        while (left := self._seconds_left()) > 0:
            await asyncio.sleep(min(self._retry_seconds, left))
            if (left := self._seconds_left()) > 0:
                await self._try_claim(left)

    def _seconds_left(self) -> float:
        return self._held_until - self._monotonic() if self._held_until is not None else 0.0

    async def _try_claim(self, limit: float) -> bool:
        """Take or renew the lease within `limit` seconds."""
        started = self._monotonic()
        try:
            async with asyncio.timeout(limit):
                claimed = await self._claim()
        except (ApiError, OSError, TimeoutError) as fault:
            log.warning("cannot take or renew the lease: %s", str(fault) or "the API server does not answer in time")
            return False
        # The holder is read before anything is written: without a claim the lease belongs to another process.
        self._held_until = started + self._renew_deadline if claimed else None
        return claimed

    async def _claim(self) -> bool:
        now = self._clock.now()
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name)
        except NotFound:
            return await self._create(now)
        spec = lease.get("spec") or {}
        self._transitions = int(spec.get("leaseTransitions") or 0)
        holder = spec.get("holderIdentity", "")
        if holder not in ("", self.identity) and not self._is_expired(lease, self._steady_clock.now()):
            return False
        mine = holder == self.identity
        metadata = lease["metadata"]
        if self._annotations:
            metadata = metadata | {"annotations": {**(metadata.get("annotations") or {}), **self._annotations}}
        claimed = lease | {"metadata": metadata, "spec": self._spec(spec, now, is_holder=mine)}
        await self._client.replace(LEASES, claimed)
        return True

    def _is_expired(self, lease: Raw, now: datetime) -> bool:
        """Measured since the lease was last seen to change: clocks of two machines may differ, and may be set."""
        version = lease["metadata"]["resourceVersion"]
        if self._last_change is None or self._last_change[0] != version:
            self._last_change = (version, now)
        seconds = float((lease.get("spec") or {}).get("leaseDurationSeconds") or self._lease_seconds)
        return now - self._last_change[1] > timedelta(seconds=seconds)

    def _spec(self, old: Raw, now: datetime, *, is_holder: bool) -> Raw:
        transitions = int(old.get("leaseTransitions") or 0)
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, int(self._lease_seconds)),
            "acquireTime": old.get("acquireTime", micro_time(now)) if is_holder else micro_time(now),
            "renewTime": micro_time(now),
            "leaseTransitions": transitions if is_holder else transitions + 1,
        }

    async def _create(self, now: datetime) -> bool:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self._namespace, "name": self._name, "annotations": {**self._annotations}},
            "spec": self._spec({"leaseTransitions": -1}, now, is_holder=False),
        }
        try:
            await self._client.create(LEASES, lease)
        except AlreadyExists:
            return False
        return True

    async def _release(self) -> None:
        """Clear the holder, so that the next leader need not wait; if this fails, it waits until the lease expires."""
        self._held_until = None
        try:
            async with asyncio.timeout(self._retry_seconds):
                lease = await self._client.get(LEASES, self._namespace, self._name)
                spec = lease.get("spec") or {}
                if spec.get("holderIdentity") == self.identity:
                    released = spec | {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.replace(LEASES, lease | {"spec": released})
        except (ApiError, OSError, TimeoutError) as fault:
            log.warning("cannot release the lease: %s", str(fault) or "the API server does not answer in time")
