"""Several processes share the members: each member has a Lease, and only its holder writes to the member.

Leases are claimed, not computed. A computed split needs all processes to agree on who is alive; where they do not, a member is
served twice, or by nobody without anybody noticing. Here a member without an owner is visible: its Lease has no holder.

- Every process announces itself with a Lease of its own. It claims members up to an equal share plus one, so that the members
  of a process that ends find owners at once.
- A Lease is taken only when it has no holder, or when it has not changed for its whole duration as seen from here. Writes carry
  the resourceVersion: of two that try, one gets it.
- The holder may write until the renew deadline after the *start* of its last renewal, which is before the Lease ends for others.
- When another process has less than its share, the excess is handed over: the member is served to the end of its current
  reconciles, and only then is the Lease released.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple, Protocol

from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.clock import Clock, SteadyClock
from trimtab.controllers.clusters.ownership import LEASE_PREFIX, member_lease
from trimtab.errors import AlreadyExists, ApiError, Conflict, NotFound
from trimtab.runtime.leader_election import LEASES, LeaseLost, micro_time

ROLE_LABEL = "trimtab.dev/lease"
PROCESS, MEMBER = "push-process", "member"
PROCESS_PREFIX = "trimtab-push-"
log = logging.getLogger("trimtab.claims")


class ClaimTimes(NamedTuple):
    """How long a Lease is valid, how long its holder may write after a renewal, and how often it renews."""

    lease_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0


class MemberService(Protocol):
    """What serves members in this process."""

    def push_members(self) -> Collection[str]:
        """The names of all members, whoever serves them."""
        ...

    def start_serving(self, member: str) -> None: ...

    async def stop_serving(self, member: str) -> None:
        """Begin nothing more in the member; returns when no reconcile of it is in progress."""
        ...


class NoService:
    """Stands for the service before there is one."""

    def push_members(self) -> Collection[str]:
        return ()

    def start_serving(self, member: str) -> None:
        """Never called: there are no members."""

    async def stop_serving(self, member: str) -> None:
        """Never called: there are no members."""


class MemberClaims:
    """The members that one process holds."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        identity: str,
        *,
        namespace: str,
        times: ClaimTimes | None = None,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._steady_clock = SteadyClock(clock)
        self.identity = identity
        self._namespace = namespace
        self._service: MemberService = NoService()
        self._times = times or ClaimTimes()
        self._monotonic = monotonic or (lambda: asyncio.get_running_loop().time())
        self._held_until: dict[str, float] = {}
        self._changes: dict[str, tuple[str, datetime]] = {}
        """By the name of a Lease: its last version, and when it was first seen here."""

    @property
    def held_members(self) -> list[str]:
        return sorted(self._held_until)

    def check_held(self, member: str) -> None:
        """Raise `LeaseLost` unless this process holds the member; called before every write to it."""
        if self._monotonic() >= self._held_until.get(member, 0.0):
            raise LeaseLost(f"this process does not hold the lease of {member} any more; it writes nothing there")

    async def run(self, service: "MemberService") -> None:
        """Claim and renew for the service until cancelled; then stop serving and release everything."""
        self._service = service
        try:
            while True:
                await self._step()
                await asyncio.sleep(self._times.retry_seconds)
        finally:
            await asyncio.shield(self._release_all())

    async def _step(self) -> None:
        """One round: announce, renew, hand over, claim."""
        try:
            async with asyncio.timeout(self._times.renew_deadline_seconds):
                leases = await self._read_leases()
                await self._announce(leases)
                await self._renew(leases)
                await self._hand_over(leases)
                await self._claim(leases)
        except (ApiError, OSError, TimeoutError) as fault:
            log.warning(
                "cannot renew the leases of members: %s", str(fault) or "the API server does not answer in time"
            )
        await self._drop_expired()

    # reading

    async def _read_leases(self) -> dict[str, Raw]:
        """All Leases of processes and members by name; notes when each last changed."""
        found = (await self._client.list(LEASES, self._namespace, labels=ROLE_LABEL)).items
        now = self._steady_clock.now()
        leases = {lease["metadata"]["name"]: lease for lease in found}
        for name, lease in leases.items():
            version = lease["metadata"]["resourceVersion"]
            if name not in self._changes or self._changes[name][0] != version:
                self._changes[name] = (version, now)
        for gone in self._changes.keys() - leases.keys():
            del self._changes[gone]
        return leases

    def _is_expired(self, lease: Raw) -> bool:
        """Measured since it was last seen to change: the clocks of two machines may differ."""
        seconds = float((lease.get("spec") or {}).get("leaseDurationSeconds") or self._times.lease_seconds)
        seen = self._changes[lease["metadata"]["name"]][1]
        return self._steady_clock.now() - seen > timedelta(seconds=seconds)

    def _live_processes(self, leases: dict[str, Raw]) -> set[str]:
        live = {
            _holder(lease)
            for name, lease in leases.items()
            if name.startswith(PROCESS_PREFIX) and _holder(lease) and not self._is_expired(lease)
        }
        return {*live, self.identity}

    # writing

    def _spec(self, holder: str, old: Raw | None = None) -> Raw:
        now, before = micro_time(self._clock.now()), (old or {}).get("spec") or {}
        kept = before.get("holderIdentity") == holder and bool(holder)
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, int(self._times.lease_seconds)) if holder else 1,
            "acquireTime": before.get("acquireTime", now) if kept else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if kept or not holder else 1),
        }

    async def _write(self, name: str, role: str, old: Raw | None, holder: str) -> Raw | None:
        """Create or replace a Lease; None if another process was faster."""
        spec = self._spec(holder, old)
        try:
            if old is not None:
                return await self._client.replace(LEASES, old | {"spec": spec})
            metadata = {"namespace": self._namespace, "name": name, "labels": {ROLE_LABEL: role}}
            lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            return await self._client.create(LEASES, lease)
        except (AlreadyExists, Conflict, NotFound):
            return None

    async def _announce(self, leases: dict[str, Raw]) -> None:
        name = f"{PROCESS_PREFIX}{self.identity}".lower().replace("_", "-")[:200]
        await self._write(name, PROCESS, leases.get(name), self.identity)
        for other, lease in leases.items():
            if other.startswith(PROCESS_PREFIX) and other != name and self._is_expired(lease):
                await self._forget_process(lease)

    async def _forget_process(self, lease: Raw) -> None:
        """Remove the Lease of a process that ended without doing so."""
        metadata = lease["metadata"]
        try:
            await self._client.delete(
                LEASES, self._namespace, metadata["name"], uid=metadata["uid"], revision=metadata["resourceVersion"]
            )
        except (Conflict, NotFound):
            return

    async def _renew(self, leases: dict[str, Raw]) -> None:
        known = set(self._service.push_members())
        for member in self.held_members:
            lease = leases.get(member_lease(member))
            if member not in known:
                await self._release(member)
                continue
            started = self._monotonic()
            mine = lease is not None and _holder(lease) == self.identity
            written = await self._write(member_lease(member), MEMBER, lease, self.identity) if mine else None
            if written is None:
                log.error("lost the lease of %s", member)
                await self._lose(member)
            else:
                leases[member_lease(member)] = written
                self._held_until[member] = started + self._times.renew_deadline_seconds

    async def _hand_over(self, leases: dict[str, Raw]) -> None:
        """Release members above an equal share while another process has less than its own."""
        live = self._live_processes(leases)
        share = len(self._service.push_members()) / len(live)
        held_by = dict.fromkeys(live, 0)
        for name, lease in leases.items():
            if name.startswith(LEASE_PREFIX) and _holder(lease) in held_by:
                held_by[_holder(lease)] += 1
        needed = sum(max(0, int(share) - count) for process, count in held_by.items() if process != self.identity)
        for member in self.held_members[::-1][: max(0, min(needed, len(self.held_members) - ceil(share)))]:
            log.info("handing %s over to another process", member)
            await self._release(member)

    async def _claim(self, leases: dict[str, Raw]) -> None:
        live = self._live_processes(leases)
        wanted = sorted(self._service.push_members())
        limit = ceil(len(wanted) / len(live)) + 1
        # Every process starts elsewhere, so that they rarely try the same one.
        offset = sum(self.identity.encode()) % max(1, len(wanted))
        for member in [*wanted[offset:], *wanted[:offset]]:
            if len(self._held_until) >= limit:
                return
            lease = leases.get(member_lease(member))
            if member in self._held_until or (lease is not None and _holder(lease) and not self._is_expired(lease)):
                continue
            started = self._monotonic()
            if await self._write(member_lease(member), MEMBER, lease, self.identity) is not None:
                log.info("serving %s", member)
                self._held_until[member] = started + self._times.renew_deadline_seconds
                self._service.start_serving(member)

    async def _release(self, member: str) -> None:
        """Finish what is in progress for the member, then clear the holder of its Lease."""
        await self._service.stop_serving(member)
        self._held_until.pop(member, None)
        try:
            lease = await self._client.get(LEASES, self._namespace, member_lease(member))
        except NotFound:
            return
        if _holder(lease) == self.identity:
            await self._write(member_lease(member), MEMBER, lease, "")

    async def _drop_expired(self) -> None:
        """Stop serving members whose Lease could not be renewed in time."""
        for member, until in list(self._held_until.items()):
            if self._monotonic() >= until:
                log.error("could not renew the lease of %s in time; stopping", member)
                await self._lose(member)

    async def _lose(self, member: str) -> None:
        self._held_until.pop(member, None)
        await self._service.stop_serving(member)

    async def _release_all(self) -> None:
        try:
            async with asyncio.timeout(self._times.renew_deadline_seconds):
                for member in self.held_members:
                    await self._release(member)
                for name, lease in (await self._read_leases()).items():
                    if name.startswith(PROCESS_PREFIX) and _holder(lease) == self.identity:
                        await self._forget_process(lease)
        except (ApiError, OSError, TimeoutError) as fault:
            log.warning("cannot release the leases of members: %s", str(fault) or "the API server does not answer")


def _holder(lease: Raw) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
