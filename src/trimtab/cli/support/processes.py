"""The event loop and the leader election of long-running commands."""

import os
import platform
import time
import uuid
from collections.abc import Coroutine, Mapping
from typing import Any

from trimtab.cli.support.allocator import map_large_buffers
from trimtab.cli.support.garbage_collection import SteppedCollection
from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.runtime.leader_election import LeaderElector
from trimtab.runtime.member_claims import ClaimTimes, MemberClaims


def run_process(work: Coroutine[Any, Any, None]) -> None:
    """Run a long-running process on uvloop, with garbage collection in short steps."""
    import uvloop  # noqa: PLC0415 - only long-running commands need it

    map_large_buffers()
    collection = SteppedCollection()
    collection.start()
    try:
        uvloop.run(work)
    finally:
        collection.stop()


def new_election(
    client: Client,
    *,
    name: str,
    namespace: str = "kube-system",
    lease_seconds: float,
    annotations: Mapping[str, str] | None = None,
) -> LeaderElector:
    """An election with an identity that is unique to this process."""
    return LeaderElector(
        client,
        WallClock(),
        process_identity(),
        namespace=namespace,
        name=name,
        lease_seconds=lease_seconds,
        renew_deadline_seconds=lease_seconds * 2 / 3,
        retry_seconds=max(0.2, lease_seconds / 7.5),
        monotonic=time.monotonic,
        annotations=annotations,
    )


def process_identity() -> str:
    """A name that no other process has, also not after a restart."""
    return f"{platform.node()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


def new_member_claims(client: Client, *, namespace: str, lease_seconds: float) -> MemberClaims:
    """Claims of members with an identity that is unique to this process."""
    return MemberClaims(
        client,
        WallClock(),
        process_identity(),
        namespace=namespace,
        times=ClaimTimes(lease_seconds, lease_seconds * 2 / 3, max(0.2, lease_seconds / 7.5)),
        monotonic=time.monotonic,
    )
