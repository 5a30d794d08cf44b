import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from trimtab.client import following
from trimtab.client.client import Listing, Resource, WatchEvent
from trimtab.client.following import follow
from trimtab.errors import Forbidden

PODS = Resource("", "v1", "pods", "Pod")


class EndingWatches:
    """Every list has one more object, every watch has three events and ends; the first lists are refused."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.lists = 0

    async def list(self, resource: Resource, namespace: str) -> Listing:
        self.lists += 1
        if self.lists <= self.refusals:
            raise Forbidden("not yet")
        return Listing([{"name": f"listed {self.lists}"}], "1")

    async def watch(self, resource: Resource, namespace: str, *, revision: str) -> AsyncIterator[Sequence[WatchEvent]]:
        yield [WatchEvent("ADDED", {"name": "added"}), WatchEvent("DELETED", {"name": "deleted"})]
        yield [WatchEvent("MODIFIED", {"name": "modified"})]


def test_objects_and_changes_are_passed_on_also_after_a_refusal_and_the_end_of_a_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    seen: list[str] = []
    client: Any = EndingWatches(refusals=3)
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real_sleep(0)
        if len(pauses) == 6:
            raise asyncio.CancelledError

    async def handle(obj: dict[str, Any]) -> None:
        seen.append(obj["name"])

    monkeypatch.setattr(following.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(follow(client, PODS, handle, logging.getLogger("trimtab.test")))
    assert pauses == [2.0, 4.0, 8.0, 1.0, 1.0, 1.0]
    assert seen[:6] == ["listed 4", "added", "modified", "listed 5", "added", "modified"]
