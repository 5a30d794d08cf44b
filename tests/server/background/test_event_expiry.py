"""Events are deleted an hour after they were last observed, and sweeps read only those that may be due."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.clock import timestamp
from trimtab.server.background import event_expiry
from trimtab.server.background.event_expiry import EventExpiry

EVENTS = "/api/v1/namespaces/default/events"
HOUR, SWEEP = 3600, 301


def event(name: str, seen: str) -> dict[str, Any]:
    involved = {"kind": "Pod", "namespace": "default", "name": "p"}
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "involvedObject": involved, "lastTimestamp": seen, "reason": "Test"}


async def names(client: AsgiClient) -> list[str]:
    return [one["metadata"]["name"] for one in (await client("GET", EVENTS)).json()["items"]]


async def create(client: AsgiClient, name: str, minutes: int = 0) -> None:
    seen = client.server.resource_store.clock.now() + timedelta(minutes=minutes)
    assert (await client("POST", EVENTS, event(name, timestamp(seen)))).status == 201


def test_events_expire_an_hour_after_they_were_last_observed() -> None:
    async def scenario(client: AsgiClient) -> None:
        await create(client, "repeated", minutes=50)
        await create(client, "once")
        await asyncio.sleep(HOUR - SWEEP)
        await create(client, "young")
        assert await names(client) == ["once", "repeated", "young"]
        await asyncio.sleep(2 * SWEEP)
        assert await names(client) == ["repeated", "young"]
        await asyncio.sleep(HOUR + SWEEP)
        assert await names(client) == []

    with_asgi_client(scenario)


def test_events_that_were_there_at_the_start_expire_by_their_own_times() -> None:
    async def scenario(client: AsgiClient) -> None:
        await create(client, "written-again")
        for number in (2, 1, 0):
            await create(client, f"old-{number}")
            await asyncio.sleep(20 * 60 if number else 0)
        later = EventExpiry(client.server.store, client.server.resource_store.clock)
        await asyncio.sleep(10 * 60)
        await later.sweep()
        assert len(await names(client)) == 4
        again = {"count": 2}
        patched = await client("PATCH", f"{EVENTS}/written-again", again, content_type="application/merge-patch+json")
        assert patched.status == 200
        await asyncio.sleep(11 * 60)
        await later.sweep()
        assert await names(client) == ["old-0", "old-1", "written-again"]
        await asyncio.sleep(20 * 60)
        await later.sweep()
        assert await names(client) == ["old-0", "written-again"]

    with_asgi_client(scenario, garbage_collection=False)


def test_sweeps_decode_only_events_that_may_be_due(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    observed = event_expiry._last_observed

    def note(entry: Any) -> str:
        decoded.append(entry.key.rpartition("/")[2])
        return observed(entry)

    monkeypatch.setattr(event_expiry, "_last_observed", note)

    async def scenario(client: AsgiClient) -> None:
        await create(client, "first")
        await asyncio.sleep(HOUR - SWEEP)
        await create(client, "second")
        await asyncio.sleep(SWEEP - 10)
        assert decoded == []
        await asyncio.sleep(SWEEP + 10)
        assert decoded == ["first"]

    with_asgi_client(scenario)


def test_what_could_not_be_deleted_is_deleted_by_the_next_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(client: AsgiClient) -> None:
        store = client.server.store
        await create(client, "old")
        expiry = EventExpiry(store, client.server.resource_store.clock)
        await asyncio.sleep(HOUR + 60)
        with monkeypatch.context() as full:
            full.setattr(store, "transact", _refuse)
            with pytest.raises(OSError, match="full"):
                await expiry.sweep()
        assert await names(client) == ["old"]
        await expiry.sweep()
        assert await names(client) == []

    with_asgi_client(scenario, garbage_collection=False)


async def _refuse(_: object) -> None:
    raise OSError("full")
