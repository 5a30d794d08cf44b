"""Calls a function for every object of a kind, now and after each change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.errors import ApiError

RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0


async def follow(
    client: Client,
    resource: Resource,
    handle: Callable[[Raw], Awaitable[None]],
    log: logging.Logger,
    namespace: str = "",
) -> None:
    """Runs until it is cancelled; lists again when the watch ends, with growing pauses while the server refuses."""
    pause = RETRY_SECONDS
    while True:
        try:
            listing = await client.list(resource, namespace)
            for obj in listing.items:
                await handle(obj)
            pause = RETRY_SECONDS
            async for events in client.watch(resource, namespace, revision=listing.revision):
                for event in events:
                    if event.type in ("ADDED", "MODIFIED"):
                        await handle(event.object)
        except (ApiError, OSError, TimeoutError) as fault:
            log.warning("cannot follow %s: %s", resource.id, fault)
            pause = min(pause * 2, LONGEST_RETRY_SECONDS)
        await asyncio.sleep(pause)
