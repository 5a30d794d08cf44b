"""Events are written once, counted when they repeat, and never block a controller."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from trimtab.api.kinds.native import codec
from trimtab.api.value import Raw
from trimtab.client.client import EVENTS, Resource
from trimtab.clock import run_virtually
from trimtab.controllers.contract import RecordEvent, Ref
from trimtab.errors import Unavailable
from trimtab.runtime.effects import event_recorder
from trimtab.runtime.effects.event_recorder import EventRecorder, event_for
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


def new_effect(name: str = "web", message: str = "all is well", namespace: str = "shop") -> RecordEvent:
    return RecordEvent(Ref("apps/v1", "Deployment", namespace, name, f"uid-{name}"), "Settled", message, "trimtab-test")


class FaultyClient(LocalClient):
    """A client that can be slow, fail, or reject patches of some events."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.batches: list[int] = []
        self.seconds = 0.0
        self.failing = False
        self.lost_answers = 0
        self.rejected = ""

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Raw, **more: Any) -> Raw:
        if self.rejected and name.startswith(self.rejected):
            raise Unavailable("not now")
        return await super().patch(resource, namespace, name, patch, **more)

    async def record(self, events: Sequence[Raw]) -> None:
        self.batches.append(len(events))
        await asyncio.sleep(self.seconds)
        if self.failing:
            raise Unavailable("not now")
        await super().record(events)
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionResetError("closed")


def run_scenario(scenario: Callable[[EventRecorder, FaultyClient], Awaitable[None]]) -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings())
        await server.start()
        client = FaultyClient(server)
        await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        recorder = EventRecorder(client)
        await scenario(recorder, client)
        await recorder.close()
        await server.stop()

    run_virtually(run(), timeout=60)


async def event_counts(client: LocalClient) -> dict[str, int]:
    found = (await client.list(EVENTS, "shop")).items
    return {f"{one['involvedObject']['name']}: {one['message']}": one["count"] for one in found}


def test_events_of_one_turn_are_written_in_one_batch():
    async def scenario(recorder: EventRecorder, client: FaultyClient) -> None:
        for number in range(5):
            recorder.record(new_effect(f"web-{number}"), NOW)
        assert not recorder.is_idle
        await recorder.wait_until_written()
        assert recorder.is_idle
        assert client.batches == [5]
        assert await event_counts(client) == {f"web-{number}: all is well": 1 for number in range(5)}

    run_scenario(scenario)


def test_repeated_event_raises_the_count_before_and_after_it_is_written():
    async def scenario(recorder: EventRecorder, client: FaultyClient) -> None:
        recorder.record(new_effect(), NOW)
        recorder.record(new_effect(), NOW + timedelta(seconds=3))
        await recorder.wait_until_written()
        assert await event_counts(client) == {"web: all is well": 2}
        for seconds in (60, 61, 62):
            recorder.record(new_effect(), NOW + timedelta(seconds=seconds))
        await recorder.wait_until_written()
        assert await event_counts(client) == {"web: all is well": 5}
        [event] = (await client.list(EVENTS, "shop")).items
        assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2030-01-01T12:00:00Z", "2030-01-01T12:01:02Z")

    run_scenario(scenario)


def test_deleted_event_is_recorded_again():
    async def scenario(recorder: EventRecorder, client: FaultyClient) -> None:
        recorder.record(new_effect(), NOW)
        await recorder.wait_until_written()
        await client.delete(EVENTS, "shop", (await client.list(EVENTS, "shop")).items[0]["metadata"]["name"])
        recorder.record(new_effect(), NOW + timedelta(hours=2))
        await recorder.wait_until_written()
        assert await event_counts(client) == {"web: all is well": 1}

    run_scenario(scenario)


def test_rejected_event_affects_no_other():
    async def scenario(recorder: EventRecorder, client: FaultyClient) -> None:
        recorder.record(new_effect("first"), NOW)
        recorder.record(new_effect("lost", namespace="nowhere"), NOW)
        recorder.record(new_effect("last"), NOW)
        await recorder.wait_until_written()
        assert await event_counts(client) == {"first: all is well": 1, "last: all is well": 1}

    run_scenario(scenario)


def test_events_are_dropped_only_while_the_server_fails():
    async def scenario(recorder: EventRecorder, client: FaultyClient) -> None:
        client.failing = True
        recorder.record(new_effect("early"), NOW)
        await recorder.wait_until_written()
        client.failing = False
        recorder.record(new_effect("early"), NOW)
        recorder.record(new_effect("late"), NOW)
        await recorder.wait_until_written()
        assert await event_counts(client) == {"early: all is well": 1, "late: all is well": 1}

    run_scenario(scenario)


def test_events_are_sent_again_when_the_connection_fails():
    async def scenario(recorder: EventRecorder, client: FaultyClient) -> None:
        client.lost_answers = 2
        recorder.record(new_effect(), NOW)
        await recorder.wait_until_written()
        assert client.batches == [1, 1, 1]
        assert await event_counts(client) == {"web: all is well": 1}
        client.lost_answers = 100
        recorder.record(new_effect("other"), NOW)
        await recorder.wait_until_written()
        assert len(client.batches) == 3 + event_recorder.MAX_ATTEMPTS

    run_scenario(scenario)


def test_failed_count_update_affects_no_other():
    async def scenario(recorder: EventRecorder, client: FaultyClient) -> None:
        for name in ("first", "second"):
            recorder.record(new_effect(name), NOW)
        await recorder.wait_until_written()
        client.rejected = "first"
        for name in ("first", "second"):
            recorder.record(new_effect(name), NOW)
        await recorder.wait_until_written()
        assert await event_counts(client) == {"first: all is well": 1, "second: all is well": 2}

    run_scenario(scenario)


def test_pending_events_are_bounded_while_the_server_does_not_respond(monkeypatch):
    monkeypatch.setattr(event_recorder, "MAX_PENDING_EVENTS", 10)

    async def scenario(recorder: EventRecorder, client: FaultyClient) -> None:
        client.seconds = 30.0
        recorder.record(new_effect("first"), NOW)
        await asyncio.sleep(1)
        for number in range(50):
            recorder.record(new_effect(f"web-{number}"), NOW)
        await recorder.wait_until_written()
        assert client.batches == [1, 10]

    run_scenario(scenario)


def test_close_writes_pending_events_for_a_limited_time():
    async def scenario(recorder: EventRecorder, client: FaultyClient) -> None:
        client.seconds = 1.0
        recorder.record(new_effect("quick"), NOW)
        await recorder.close()
        client.seconds = 3600.0
        recorder.record(new_effect("slow"), NOW)
        before = asyncio.get_running_loop().time()
        await recorder.close()
        assert asyncio.get_running_loop().time() - before == event_recorder.CLOSE_TIMEOUT_SECONDS
        assert await event_counts(client) == {"quick: all is well": 1}

    run_scenario(scenario)


def test_event_about_an_object_whose_name_is_no_dns_name_has_a_valid_name():
    for name, part in (("system:Node_Reader", "system-node-reader"), ("web.v1", "web.v1"), (":", "object")):
        event = event_for(new_effect(name), NOW)
        assert event["metadata"]["name"].startswith(f"{part}.")
        assert event["involvedObject"]["name"] == name


def test_event_is_complete_as_created():
    """The embedded server does not decode it: decoding must neither add nor drop a field."""
    for about in (new_effect(), new_effect(namespace=""), new_effect(message="x" * 3000)):
        event = event_for(about, NOW)
        assert codec.read("core.v1.Event", event) == (event, [])
