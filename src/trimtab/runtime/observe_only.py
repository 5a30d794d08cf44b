"""Observe-only: after a restore no controller runs until a person has seen what it would do, and releases it.

A restored host has an older state than its members. Controllers that start at once bring the members back to that state: they
delete what was placed later, and move what was moved since. So a restore leaves a mark on the host, a ConfigMap, and every
control plane waits for its removal. `trimtab observe` lists what would be written, `trimtab release` removes the mark.

The mark is read every few seconds, also while controllers run: a restore into a running host stops them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from trimtab.client.client import Client, Resource
from trimtab.clock import timestamp
from trimtab.errors import AlreadyExists, ApiError, NotFound

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACE, NAME = "kube-system", "trimtab-observe-only"
FILE_NAME = "observe-only"
"""In the data directory of an embedded server, from a restore to the next start."""
POLL_SECONDS = 2.0
log = logging.getLogger("trimtab.observe_only")


def request_observing(directory: Path) -> None:
    """Let the next start of the server on this data directory begin to observe."""
    (directory / FILE_NAME).write_text("")


async def begin_if_requested(directory: Path, client: Client, now: datetime) -> None:
    """Begin to observe if a restore asked for it."""
    if (directory / FILE_NAME).exists():
        await begin_observing(client, "restored from a backup", now)
        (directory / FILE_NAME).unlink()


async def begin_observing(client: Client, reason: str, now: datetime) -> None:
    """Let no controller of this host run from now on."""
    mark = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": NAMESPACE, "name": NAME},
        "data": {"reason": reason, "since": timestamp(now)},
    }
    try:
        await client.create(CONFIG_MAPS, mark, manager="trimtab-restore")
    except AlreadyExists:
        return


async def reason_to_observe(client: Client) -> str | None:
    """Why no controller runs; None when they may."""
    try:
        mark = await client.get(CONFIG_MAPS, NAMESPACE, NAME)
    except NotFound:
        return None
    return (mark.get("data") or {}).get("reason") or "it was requested"


async def end_observing(client: Client) -> bool:
    """Let the controllers run; False when they may already."""
    try:
        await client.delete(CONFIG_MAPS, NAMESPACE, NAME)
    except NotFound:
        return False
    return True


async def wait_for_release(client: Client, on_wait: Callable[[str], None] = lambda _: None) -> None:
    """Return when controllers may run; `on_wait` is called once with the reason if they may not yet."""
    is_reported = False
    while True:
        try:
            reason = await reason_to_observe(client)
        except (ApiError, OSError, TimeoutError) as fault:
            log.warning("cannot read whether controllers may run: %s", str(fault) or type(fault).__name__)
        else:
            if reason is None:
                return
            if not is_reported:
                log.warning("observe-only (%s): run `trimtab observe`, then `trimtab release`", reason)
                on_wait(reason)
                is_reported = True
        await asyncio.sleep(POLL_SECONDS)


async def run_when_released(
    client: Client, work: Callable[[], Awaitable[None]], on_wait: Callable[[str], None] = lambda _: None
) -> None:
    """Run `work` while controllers may run; it is cancelled when they may not, and started again afterwards."""
    while True:
        await wait_for_release(client, on_wait)
        task = asyncio.ensure_future(work())
        stopping = asyncio.ensure_future(_wait_for_mark(client))
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            was_done = task.done()
            task.cancel()
            await asyncio.wait({task})
        if was_done:
            task.result()
            return


async def _wait_for_mark(client: Client) -> None:
    while True:
        await asyncio.sleep(POLL_SECONDS)
        try:
            if await reason_to_observe(client) is not None:
                return
        except (ApiError, OSError, TimeoutError) as fault:
            log.debug("cannot read whether controllers may run: %s", str(fault) or type(fault).__name__)
