"""What commands share that run until they are stopped: the event loop and leader election."""

import gc
import os
import platform
import uuid
from collections.abc import Coroutine
from typing import Any

from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.runtime.leader_election import Election

SELDOM = (50_000, 10, 10)
"""When a server that lives long looks for cycles: at the usual pace it took a quarter of a busy control plane's time."""


def live_long(work: Coroutine[Any, Any, None]) -> None:
    """Run the whole life of a server: on the fast loop, and without looking for garbage among what it always needs."""
    import uvloop  # noqa: PLC0415 - the other commands need not pay for it

    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    uvloop.run(work)


def elected(client: Client, *, name: str, namespace: str = "kube-system", lease_seconds: float) -> Election:
    """One that stands for election under a name that no other process has, ever."""
    return Election(
        client,
        WallClock(),
        f"{platform.node()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
        namespace=namespace,
        name=name,
        lease_seconds=lease_seconds,
        renew_deadline_seconds=lease_seconds * 2 / 3,
        retry_seconds=max(0.2, lease_seconds / 7.5),
    )
