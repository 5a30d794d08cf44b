"""Deletes finished Jobs of the control plane after their `ttlSecondsAfterFinished`.

The Jobs in members are copies of these and have no such time, so that they are not deleted before their template.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.batch import Job
from trimtab.client.client import Client, resource_of
from trimtab.errors import ApiError
from trimtab.runtime.cache import Cache, CacheEntry

JOBS = resource_of(kind_of(Job))
RETRY_SECONDS = 10.0


class FinishedJobs:
    """One timer for each finished Job that has such a time."""

    def __init__(self, cache: Cache, client: Client, now: Callable[[], datetime]) -> None:
        self._cache, self._client, self._now = cache, client, now
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def start(self) -> None:
        jobs = self._cache.table(JOBS)
        await jobs.synced.wait()
        jobs.add_listener(self._on_change)

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    def _on_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        entry = new or old
        if entry is None:
            return
        if (task := self._tasks.pop(entry.name, None)) is not None:
            task.cancel()
        if new is not None and isinstance(new.typed, Job) and expiry_of(new.typed) is not None:
            self._tasks[entry.name] = asyncio.get_running_loop().create_task(self._delete_when_expired(new.typed))

    async def _delete_when_expired(self, job: Job) -> None:
        while (expiry := expiry_of(job)) is not None:
            await asyncio.sleep(max(0.0, (expiry - self._now()).total_seconds()))
            metadata = job.metadata
            with contextlib.suppress(ApiError):  # deleted or changed meanwhile: its event starts another timer
                await self._client.delete(
                    JOBS, metadata.namespace, metadata.name, uid=metadata.uid, revision=metadata.resource_version
                )
            await asyncio.sleep(RETRY_SECONDS)


def expiry_of(job: Job) -> datetime | None:
    """When a finished Job is to be deleted."""
    keep = job.spec.ttl_seconds_after_finished
    if keep is None or job.metadata.deletion_timestamp is not None:
        return None
    ends = (
        one.last_transition_time
        for one in job.status.conditions
        if one.type in ("Complete", "Failed") and one.status == "True"
    )
    end = next((one for one in ends if one is not None), None)
    return None if end is None else end + timedelta(seconds=keep)
