"""What controllers tell reaches people once, is counted when it repeats, and never holds anybody up."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from trimtab.api.kinds.native import codec
from trimtab.api.value import Raw
from trimtab.client.client import EVENTS, Resource
from trimtab.clock import run_virtually
from trimtab.controllers.contract import Note, Ref
from trimtab.errors import Unavailable
from trimtab.runtime import event_recorder
from trimtab.runtime.event_recorder import Recorder, event_for
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


def note(name: str = "web", message: str = "all is well", namespace: str = "shop") -> Note:
    return Note(Ref("apps/v1", "Deployment", namespace, name, f"uid-{name}"), "Settled", message, "trimtab-test")


class Silent(LocalClient):
    """A server that takes its time, and sometimes fails."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.asked: list[int] = []
        self.seconds = 0.0
        self.failing = False
        self.refused = ""

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Raw, **more: Any) -> Raw:
        if self.refused and name.startswith(self.refused):
            raise Unavailable("not now")
        return await super().patch(resource, namespace, name, patch, **more)

    async def record(self, events: Sequence[Raw]) -> None:
        self.asked.append(len(events))
        await asyncio.sleep(self.seconds)
        if self.failing:
            raise Unavailable("not now")
        await super().record(events)


def tell(story: Callable[[Recorder, Silent], Awaitable[None]]) -> None:
    async def play() -> None:
        server = ApiServer(Store(), Settings())
        await server.start()
        client = Silent(server)
        await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        recorder = Recorder(client)
        await story(recorder, client)
        await recorder.close()
        await server.stop()

    run_virtually(play(), patience=60)


async def counts(client: LocalClient) -> dict[str, int]:
    found = (await client.list(EVENTS, "shop")).items
    return {f"{one['involvedObject']['name']}: {one['message']}": one["count"] for one in found}


def test_what_is_told_in_one_turn_is_written_in_one_go_and_all_of_it():
    async def story(recorder: Recorder, client: Silent) -> None:
        for number in range(5):
            recorder.tell(note(f"web-{number}"), NOW)
        assert not recorder.idle
        await recorder.written()
        assert recorder.idle
        assert client.asked == [5]
        assert await counts(client) == {f"web-{number}: all is well": 1 for number in range(5)}

    tell(story)


def test_what_repeats_is_counted_whether_it_was_written_yet_or_not():
    async def story(recorder: Recorder, client: Silent) -> None:
        recorder.tell(note(), NOW)
        recorder.tell(note(), NOW + timedelta(seconds=3))
        await recorder.written()
        assert await counts(client) == {"web: all is well": 2}
        for seconds in (60, 61, 62):
            recorder.tell(note(), NOW + timedelta(seconds=seconds))
        await recorder.written()
        assert await counts(client) == {"web: all is well": 5}
        [event] = (await client.list(EVENTS, "shop")).items
        assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2030-01-01T12:00:00Z", "2030-01-01T12:01:02Z")

    tell(story)


def test_an_event_that_has_been_cleaned_away_is_told_anew():
    async def story(recorder: Recorder, client: Silent) -> None:
        recorder.tell(note(), NOW)
        await recorder.written()
        await client.delete(EVENTS, "shop", (await client.list(EVENTS, "shop")).items[0]["metadata"]["name"])
        recorder.tell(note(), NOW + timedelta(hours=2))
        await recorder.written()
        assert await counts(client) == {"web: all is well": 1}

    tell(story)


def test_one_event_that_cannot_be_told_takes_no_other_with_it():
    async def story(recorder: Recorder, client: Silent) -> None:
        recorder.tell(note("first"), NOW)
        recorder.tell(note("lost", namespace="nowhere"), NOW)
        recorder.tell(note("last"), NOW)
        await recorder.written()
        assert await counts(client) == {"first: all is well": 1, "last: all is well": 1}

    tell(story)


def test_a_server_that_fails_costs_the_events_it_failed_on_and_no_later_ones():
    async def story(recorder: Recorder, client: Silent) -> None:
        client.failing = True
        recorder.tell(note("early"), NOW)
        await recorder.written()
        client.failing = False
        recorder.tell(note("early"), NOW)
        recorder.tell(note("late"), NOW)
        await recorder.written()
        assert await counts(client) == {"early: all is well": 1, "late: all is well": 1}

    tell(story)


def test_a_count_that_cannot_be_raised_keeps_no_other_from_being_raised():
    async def story(recorder: Recorder, client: Silent) -> None:
        for name in ("first", "second"):
            recorder.tell(note(name), NOW)
        await recorder.written()
        client.refused = "first"
        for name in ("first", "second"):
            recorder.tell(note(name), NOW)
        await recorder.written()
        assert await counts(client) == {"first: all is well": 1, "second: all is well": 2}

    tell(story)


def test_a_server_that_does_not_answer_is_not_told_more_than_it_can_ever_hear(monkeypatch):
    monkeypatch.setattr(event_recorder, "MOST_WAITING", 10)

    async def story(recorder: Recorder, client: Silent) -> None:
        client.seconds = 30.0
        recorder.tell(note("first"), NOW)
        await asyncio.sleep(1)
        for number in range(50):
            recorder.tell(note(f"web-{number}"), NOW)
        await recorder.written()
        assert client.asked == [1, 10]

    tell(story)


def test_whoever_stops_gives_the_last_words_a_moment_and_no_more():
    async def story(recorder: Recorder, client: Silent) -> None:
        client.seconds = 1.0
        recorder.tell(note("quick"), NOW)
        await recorder.close()
        client.seconds = 3600.0
        recorder.tell(note("slow"), NOW)
        before = asyncio.get_running_loop().time()
        await recorder.close()
        assert asyncio.get_running_loop().time() - before == event_recorder.LAST_WORDS_SECONDS
        assert await counts(client) == {"quick: all is well": 1}

    tell(story)


def test_an_event_is_whole_as_it_is_made():
    """The embedded server does not read it again: reading must find nothing to add and nothing to leave out."""
    for about in (note(), note(namespace=""), note(message="x" * 3000)):
        event = event_for(about, NOW)
        assert codec.read("core.v1.Event", event) == (event, [])
