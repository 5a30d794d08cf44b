"""Observe-only: after a restore no controller runs until a person has seen what it would do, and releases it.

A restored host has an older state than its members. Controllers that start at once bring the members back to that state: they
delete what was placed later, and move what was moved since. So a restore leaves a mark on the host, and every control plane
and agent waits for its removal. `trimtab observe` lists what would be written, `trimtab release` removes the mark. It is an
annotation of the namespace kube-system, because agents may read namespaces, and nothing else that every host has.

The mark is read every few seconds, also while controllers run: a restore into a running host stops them. While it cannot be
read they write nothing in members: the host may come back with another state.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from trimtab.client.client import Client
from trimtab.controllers.control_plane_identity import ID_NAMESPACE
from trimtab.errors import ApiError, InputError, NotFound, Unavailable
from trimtab.runtime.control_plane_identity import NAMESPACES, draw_identity

OBSERVE_ONLY = "trimtab.dev/observe-only"
FILE_NAME = "restored"
"""In the data directory of an embedded server, from a restore to the next start: whether to observe."""
OBSERVE, RUN = "observe", "run"
POLL_SECONDS = 2.0
log = logging.getLogger("trimtab.observe_only")


def note_restore(directory: Path, *, observe: bool) -> None:
    """Let the next start of the server on this data directory begin to observe, or else run with an id of its own."""
    (directory / FILE_NAME).write_text(OBSERVE if observe else RUN)


async def continue_restore(directory: Path, client: Client) -> None:
    """Do at the start of a server what a restore of its data directory left to do."""
    file = directory / FILE_NAME
    if not file.exists():
        return
    if file.read_text() == RUN:
        await draw_identity(client)
    else:
        await begin_observing(client, "restored from a backup")
    file.unlink()


async def begin_observing(client: Client, reason: str) -> None:
    """Let no controller of this host run from now on."""
    if await reason_to_observe(client) is None:
        await _mark(client, reason)


async def begin_observing_and_wait(client: Client, reason: str) -> None:
    """The same, and return when the controllers that ran have stopped."""
    await begin_observing(client, reason)
    await asyncio.sleep(2 * POLL_SECONDS)


async def reason_to_observe(client: Client) -> str | None:
    """Why no controller runs; None when they may."""
    try:
        metadata = (await client.get(NAMESPACES, "", ID_NAMESPACE))["metadata"]
    except NotFound:
        return None
    mark = (metadata.get("annotations") or {}).get(OBSERVE_ONLY)
    return None if mark is None else mark or "it was requested"


async def end_observing(client: Client) -> None:
    """Let the controllers run."""
    await _mark(client, None)


async def _mark(client: Client, reason: str | None) -> None:
    change = {"metadata": {"annotations": {OBSERVE_ONLY: reason}}}
    await client.patch(NAMESPACES, "", ID_NAMESPACE, change, manager="trimtab-restore")


async def check_released(client: Client, what: str) -> None:
    """Raise InputError if the host only observes; `what` cannot be done then."""
    if reason := await reason_to_observe(client):
        raise InputError(
            f"{what} while the host only observes ({reason}); run `trimtab observe`, then `trimtab release`"
        )


class ReleaseGuard:
    """Whether the host allowed writes in members when it was last asked."""

    def __init__(self) -> None:
        self.is_released = False

    def check(self) -> None:
        """Raise `Unavailable` unless writes are allowed; to be called before every write in a member."""
        if not self.is_released:
            raise Unavailable("it cannot be read whether controllers may run; nothing is written in members")


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
    client: Client,
    work: Callable[[], Awaitable[None]],
    on_wait: Callable[[str], None] = lambda _: None,
    guard: ReleaseGuard | None = None,
) -> None:
    """Run `work` while controllers may run; it is cancelled when they may not, and started again afterwards."""
    guard = guard or ReleaseGuard()
    while True:
        await wait_for_release(client, on_wait)
        guard.is_released = True
        task = asyncio.ensure_future(work())
        stopping = asyncio.ensure_future(_wait_for_mark(client, guard))
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


async def _wait_for_mark(client: Client, guard: ReleaseGuard) -> None:
    while True:
        await asyncio.sleep(POLL_SECONDS)
        try:
            guard.is_released = await reason_to_observe(client) is None
            if not guard.is_released:
                return
        except (ApiError, OSError, TimeoutError) as fault:
            guard.is_released = False
            log.debug("cannot read whether controllers may run: %s", str(fault) or type(fault).__name__)
