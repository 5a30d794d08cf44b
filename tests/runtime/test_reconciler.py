"""One small controller, end to end: watch, cache, queue, beat, commit; with the client in process and over TLS."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from builders import NOON

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap, Secret
from trimtab.api.kinds.work import ResourceBinding, TargetCluster
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Condition, Key, Meta
from trimtab.client.client import EVENTS, Client, resource_of
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import Clock, LoopClock, WallClock, run_virtually
from trimtab.controllers.contract import (
    Again,
    Controller,
    Gone,
    Note,
    Ref,
    Remember,
    View,
    Wake,
    Wish,
    controller,
    never,
)
from trimtab.registry import Registry
from trimtab.runtime.cache import Cache
from trimtab.runtime.manager import Manager
from trimtab.runtime.reconciler import Surroundings
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.daemon import Daemon
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

MAPS = resource_of(kind_of(ConfigMap))
SECRETS = resource_of(kind_of(Secret))
BINDINGS = resource_of(kind_of(ResourceBinding))
HEAD = {
    "apiVersion": "work.karmada.io/v1alpha2",
    "kind": "ResourceBinding",
    "metadata": {"name": "b", "namespace": "default"},
}

SECRET = {"apiVersion": "v1", "kind": "Secret"}


class Nobody:
    """A fleet without members."""

    def get(self, cluster: str) -> None:
        return None


def only(reconcile: Callable[..., Iterator[Wish]], *writes: str, wakes=(), **more) -> Controller:
    """A registry of one controller of ConfigMaps."""
    registry: Registry[Controller] = Registry("controller")
    controller(ConfigMap, writes=writes, wakes=wakes, registry=registry, name="copier", **more)(reconcile)
    return registry["copier"]


class Stage:
    """A control plane of one controller, and a user beside it."""

    def __init__(self, user: Client, manager: Manager) -> None:
        self.user = user
        self.manager = manager

    async def make(self, name: str, **data: str) -> dict:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": name},
            "data": data,
        }
        return await self.user.create(MAPS, body)

    async def until(self, holds: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
        async with asyncio.timeout(seconds):
            while not await holds():  # noqa: ASYNC110 - the server is far away, it rings no bell
                await asyncio.sleep(0.02)

    async def map(self, name: str) -> dict:
        return await self.user.get(MAPS, "default", name)


async def playing(chosen: Controller, mine: Client, users: Client, clock: Clock, story) -> None:
    around = Surroundings(cache=Cache(mine), clock=clock, profile=TRIMTAB, members=Nobody())
    manager = Manager(around, [chosen])
    await manager.start()
    try:
        await story(Stage(users, manager))
    finally:
        await manager.stop()


def play(chosen: Controller, story: Callable[[Stage], Awaitable[None]], client=LocalClient) -> None:
    """In process, on virtual time; `client` may be one that misbehaves."""

    async def run() -> None:
        server = ApiServer(Store(), Settings(clock=LoopClock()))
        await server.start()
        try:
            await playing(chosen, client(server), LocalClient(server), LoopClock(), story)
        finally:
            await server.stop()

    run_virtually(run())


def play_over_tls(chosen: Controller, story: Callable[[Stage], Awaitable[None]], folder: Path) -> None:
    async def run() -> None:
        daemon = Daemon(folder, "127.0.0.1", 0)
        await daemon.start()
        clients = [KubeClient(load(daemon.kubeconfig)) for _ in range(2)]
        try:
            await playing(chosen, clients[0], clients[1], WallClock(), story)
        finally:
            for client in clients:
                await client.close()
            await daemon.stop()

    asyncio.run(run())


def copied(name: str, text: str) -> Secret:
    return Secret(metadata=Meta(namespace="default", name=name), type="Opaque", data={"copy": text})


def copy(source: ConfigMap, view: View) -> Iterator[Wish]:
    """Keeps a Secret with the text of each ConfigMap that has one, and marks the ConfigMap."""
    text = (source.data or {}).get("text")
    if text is None:
        return
    held = view.get(Secret, "default", source.name)
    yield held.but(data={"copy": text}) if held else copied(source.name, text)
    yield source.but(metadata=source.metadata.but(annotations={**source.metadata.annotations, "copied": text}))


def bereaved(key: Key, view: View) -> Iterator[Wish]:
    if held := view.get(Secret, key.namespace, key.name):
        yield Gone(held)


def source_of(old: Secret | None, new: Secret | None, view: View) -> Iterator[Key]:
    meta = (new or old).metadata
    yield Key(kind_of(ConfigMap).id, meta.namespace, meta.name)


COPIER = only(copy, "Secret", "metadata.annotations", wakes=[Wake(Secret, source_of)], gone=bereaved)


async def a_life(stage: Stage) -> None:
    """Created, changed, tampered with, deleted: what should be true becomes true again."""
    await stage.make("a", text="Zmlyc3Q=")

    async def shows(text: str) -> bool:
        found = {s["metadata"]["name"]: s["data"] for s in (await stage.user.list(SECRETS, "default")).items}
        marked = (await stage.map("a"))["metadata"].get("annotations", {})
        return found.get("a") == {"copy": text} and marked.get("copied") == text

    await stage.until(lambda: shows("Zmlyc3Q="))
    await stage.user.patch(MAPS, "default", "a", {"data": {"text": "c2Vjb25k"}})
    await stage.until(lambda: shows("c2Vjb25k"))
    await stage.user.delete(SECRETS, "default", "a")
    await stage.until(lambda: shows("c2Vjb25k"))
    await stage.user.delete(MAPS, "default", "a")

    async def left() -> bool:
        return not [s for s in (await stage.user.list(SECRETS, "default")).items if s["metadata"]["name"] == "a"]

    await stage.until(left)


def test_a_controller_keeps_what_it_wishes_for_true() -> None:
    play(COPIER, a_life)


def test_the_same_is_true_over_tls(tmp_path: Path) -> None:
    play_over_tls(COPIER, a_life, tmp_path)


def test_what_is_already_so_costs_no_write() -> None:
    async def story(stage: Stage) -> None:
        await stage.make("a", text="Zmlyc3Q=")
        await asyncio.sleep(5)
        (beat,) = stage.manager.beats
        written = beat.writes
        stage.manager.look_at_everything("copier")
        await asyncio.sleep(5)
        assert (beat.writes, written) == (2, 2)
        assert stage.manager.idle

    play(COPIER, story)


class Raced(LocalClient):
    """Somebody else writes just before each of the first three patches of ours."""

    left = 3

    async def patch(self, resource, namespace, name, patch, **more):
        if self.left and resource == MAPS:
            self.left -= 1
            await super().patch(resource, namespace, name, {"data": {"raced": str(self.left)}})
        return await super().patch(resource, namespace, name, patch, **more)


def test_a_conflict_is_thought_about_again_and_the_neighbours_write_stays() -> None:
    async def story(stage: Stage) -> None:
        await stage.make("a", text="Zmlyc3Q=")
        await asyncio.sleep(5)
        found = await stage.map("a")
        assert found["metadata"]["annotations"] == {"copied": "Zmlyc3Q="}
        assert found["data"] == {"text": "Zmlyc3Q=", "raced": "0"}

    play(COPIER, story, Raced)


def test_a_fault_is_visible_to_the_next_beat_and_forgotten_after_a_success() -> None:
    seen: list[tuple[str, int] | None] = []

    def fails_first(source: ConfigMap, view: View) -> Iterator[Wish]:
        if source.name != "a":
            return
        seen.append((view.fault.reason, view.fault.attempts) if view.fault else None)
        if len(seen) < 3:
            yield copied("Not A Name", "")
        else:
            yield Again(60)

    async def story(stage: Stage) -> None:
        await stage.make("a")
        await asyncio.sleep(90)
        assert seen == [None, ("Invalid", 1), ("Invalid", 2), None]

    play(only(fails_first, "Secret"), story)


def test_a_controller_that_writes_what_it_never_declared_is_stopped_and_the_others_go_on(caplog) -> None:
    def oversteps(source: ConfigMap, view: View) -> Iterator[Wish]:
        if source.name == "b":
            yield Remember("seen", source.name, value=True)
        elif source.name == "a":
            yield source.but(data={"taken": "over"})

    async def story(stage: Stage) -> None:
        await stage.make("a", text="mine")
        await stage.make("b")
        await asyncio.sleep(2)
        assert (await stage.map("a"))["data"] == {"text": "mine"}
        assert stage.manager.around.memory["seen", "b"]

    play(only(oversteps, "metadata.labels"), story)
    assert "NotYours: ConfigMap.data." in caplog.text


def test_a_defect_costs_one_key_its_beat_and_never_the_loop_its_life(caplog) -> None:
    def stumbles(source: ConfigMap, view: View) -> Iterator[Wish]:
        if source.name == "a":
            raise ZeroDivisionError
        yield Remember("seen", source.name, value=True)

    async def story(stage: Stage) -> None:
        await stage.make("a")
        await stage.make("b")
        await asyncio.sleep(2)
        assert stage.manager.around.memory["seen", "b"]

    play(only(stumbles, "status"), story)
    assert "copier failed on" in caplog.text


def test_waiting_is_a_wish_and_time_is_data() -> None:
    moments = []

    def waits(source: ConfigMap, view: View) -> Iterator[Wish]:
        if source.name == "a":
            moments.append(view.now)
            yield Again(600)

    async def story(stage: Stage) -> None:
        await stage.make("a")
        await asyncio.sleep(1900)

    play(only(waits, "status"), story)
    assert [late - early for early, late in pairwise(moments)] == [timedelta(seconds=600)] * 3


def test_a_note_that_repeats_is_counted_not_told_twice() -> None:
    def tells(source: ConfigMap, view: View) -> Iterator[Wish]:
        if source.name == "a":
            about = Ref("v1", "ConfigMap", "default", "a", source.metadata.uid)
            yield Note(about, "Seen", "the map was looked at", "copier", "Warning")
            yield Again(10)

    async def story(stage: Stage) -> None:
        await stage.make("a")
        await asyncio.sleep(35)
        (event,) = (await stage.user.list(EVENTS, "default")).items
        assert (event["reason"], event["count"], event["type"]) == ("Seen", 4, "Warning")
        assert event["involvedObject"]["name"] == "a"

    play(only(tells, "status"), story)


def test_what_is_remembered_first_is_known_to_the_very_next_thought() -> None:
    def numbered(source: ConfigMap, view: View) -> Iterator[Wish]:
        if "number" not in (source.data or {}) and view.get(ConfigMap, "default", "go") is not None:
            last = view.recall("number", "last") or 0
            yield Remember("number", "last", last + 1)
            yield source.but(data={"number": str(last + 1)})

    async def story(stage: Stage) -> None:
        for name in ("a", "b", "c", "d", "e", "f", "go"):
            await stage.make(name)
        await asyncio.sleep(1)
        stage.manager.look_at_everything("copier")
        await asyncio.sleep(2)
        maps = [one for one in (await stage.user.list(MAPS, "default")).items if "data" in one]
        numbers = [one["data"]["number"] for one in maps if "number" in one["data"]]
        assert len(numbers) == len(set(numbers)) >= 7

    play(only(numbered, "data"), story)


@pytest.mark.parametrize("batch", [1, 8])
def test_subjects_come_alone_or_in_batches(batch: int) -> None:
    def alone(source: ConfigMap, view: View) -> Iterator[Wish]:
        yield Remember("seen", source.name, value=True)

    def together(sources: list[ConfigMap], view: View) -> Iterator[tuple[ConfigMap, Wish]]:
        for source in sources:
            yield source, Remember("seen", source.name, value=True)

    async def story(stage: Stage) -> None:
        for name in "abc":
            await stage.make(name)
        await asyncio.sleep(2)
        assert {key for topic, key in stage.manager.around.memory if topic == "seen"} >= {"a", "b", "c"}

    play(only(together if batch > 1 else alone, "status", batch=batch), story)


@pytest.mark.parametrize("cares", [True, False])
def test_of_the_end_of_a_subject_only_those_think_who_say_farewell(cares: bool) -> None:
    farewells: list[str] = []

    def looks(source: ConfigMap, view: View) -> Iterator[Wish]:
        yield from ()

    def says_farewell(key: Key, view: View) -> Iterator[Wish]:
        farewells.append(key.name)
        yield from ()

    async def story(stage: Stage) -> None:
        await stage.make("a")
        await asyncio.sleep(1)
        before = stage.manager.beats[0].beats
        await stage.user.delete(MAPS, "default", "a")
        await asyncio.sleep(1)
        assert stage.manager.beats[0].beats - before == int(cares)

    play(only(looks, "status", gone=says_farewell if cares else None), story)
    assert farewells == (["a"] if cares else [])


def test_who_never_wants_to_hear_of_its_subjects_is_woken_by_others_alone() -> None:
    def seen(source: ConfigMap, view: View) -> Iterator[Wish]:
        yield Remember("seen", source.name, value=True)

    def named_alike(old: Secret | None, new: Secret | None, view: View) -> Iterator[Key]:
        if new is not None:
            yield Key(kind_of(ConfigMap).id, new.namespace, new.name)

    async def story(stage: Stage) -> None:
        await stage.make("a")
        await stage.make("b")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "default", "name": "a"}}
        await stage.user.create(SECRETS, secret)
        await asyncio.sleep(1)
        assert [key for topic, key in stage.manager.around.memory if topic == "seen"] == ["a"]

    play(only(seen, "status", changed=never, wakes=[Wake(Secret, named_alike)]), story)


@pytest.mark.parametrize("batch", [1, 8])
def test_of_routine_nobody_hears_where_the_profile_does_not_say_so(batch: int) -> None:
    def notes_of(source: ConfigMap) -> Iterator[Note]:
        about = Ref("v1", "ConfigMap", "default", source.name, source.metadata.uid)
        yield Note(about, "Looked", "as always", "copier", routine=True)
        yield Note(about, "Found", "something", "copier")

    def alone(source: ConfigMap, view: View) -> Iterator[Wish]:
        yield from notes_of(source)

    def together(sources: list[ConfigMap], view: View) -> Iterator[tuple[ConfigMap, Wish]]:
        for source in sources:
            yield from ((source, note) for note in notes_of(source))

    async def story(stage: Stage) -> None:
        await stage.make("a")
        await asyncio.sleep(2)
        told = (await stage.user.list(EVENTS, "default")).items
        assert {event["reason"] for event in told if event["involvedObject"]["name"] == "a"} == {"Found"}

    play(only(together if batch > 1 else alone, "status", batch=batch), story)


def placed(binding: ResourceBinding, _: View) -> Iterator[Wish]:
    """Says where, and that it is said."""
    if not binding.spec.clusters:
        spec = binding.spec.but(clusters=(TargetCluster(name="m1"),))
        said = Condition(type="Scheduled", status="True", reason="Success", last_transition_time=NOON)
        yield binding.but(spec=spec, status=binding.status.but(conditions=(said,)))


def placer() -> Controller:
    registry: Registry[Controller] = Registry("controller")
    controller(ResourceBinding, writes=["spec.clusters", "status"], registry=registry, name="placer")(placed)
    return registry["placer"]


async def placements(stage: Stage) -> list[tuple[int, int, int]]:
    """Generation, places and conditions of a binding, as who watches it is told."""
    made = await stage.user.create(
        BINDINGS, {**HEAD, "spec": {"resource": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}}
    )
    seen: list[tuple[int, int, int]] = []
    async with asyncio.timeout(30):
        async for changes in stage.user.watch(BINDINGS, "default", revision=made["metadata"]["resourceVersion"]):
            for obj in (change.object for change in changes):
                conditions = (obj.get("status") or {}).get("conditions") or ()
                seen.append((obj["metadata"]["generation"], len(obj["spec"].get("clusters", ())), len(conditions)))
            if seen[-1][1:] == (1, 1):
                return seen
    raise AssertionError(seen)


def test_an_object_and_its_status_are_written_in_one_step_where_the_server_is_our_own() -> None:
    async def story(stage: Stage) -> None:
        assert await placements(stage) == [(2, 1, 1)]

    play(placer(), story)


class Between(LocalClient):
    """Takes no status with an object, like any server afar, and somebody else writes before it is said."""

    takes_status = False

    async def patch(self, resource, namespace, name, patch, **more):
        if more.get("subresource"):
            await super().patch(resource, namespace, name, {"metadata": {"labels": {"by": "somebody"}}})
        return await super().patch(resource, namespace, name, patch, **more)


def test_elsewhere_the_status_follows_although_somebody_else_wrote_in_between() -> None:
    async def story(stage: Stage) -> None:
        assert await placements(stage) == [(2, 1, 0), (2, 1, 0), (2, 1, 1)]
        found = await stage.user.get(BINDINGS, "default", "b")
        assert found["metadata"]["labels"] == {"by": "somebody"}

    play(placer(), story, Between)


class Counting(LocalClient):
    """Remembers the names of what it was asked to create, step by step."""

    steps: list[list[str]] = []

    async def create(self, resource, obj, **more):
        self.steps.append([obj["metadata"]["name"]])
        return await super().create(resource, obj, **more)

    async def create_together(self, resource, objects, **more):
        self.steps.append([obj["metadata"]["name"] for obj in objects])
        return await super().create_together(resource, objects, **more)


def three(source: ConfigMap, view: View) -> Iterator[Wish]:
    """Makes three Secrets once, and says that it has made them all, or which it could not."""
    if view.fault is not None:
        yield Note(Ref("v1", "ConfigMap", "default", source.name), "Failed", view.fault.message, "us")
        yield Again(3600)
        return
    if view.get(Secret, "default", f"{source.name}0") is None:
        yield from (copied(f"{source.name}{number}", "") for number in range(3))
    yield Note(Ref("v1", "ConfigMap", "default", source.name), "Complete", "all are there", "us")


async def told(stage: Stage) -> list[str]:
    await stage.until(lambda: _some(stage))
    return [event["message"] for event in (await stage.user.list(EVENTS, "default")).items]


async def _some(stage: Stage) -> bool:
    return bool((await stage.user.list(EVENTS, "default")).items)


def test_several_new_objects_of_a_kind_are_created_in_one_step() -> None:
    Counting.steps = []

    async def story(stage: Stage) -> None:
        await stage.make("a")
        assert await told(stage) == ["all are there"]
        assert Counting.steps == [["a0", "a1", "a2"]]
        made = [one["metadata"] for one in (await stage.user.list(SECRETS, "default")).items]
        assert [one["name"] for one in made] == ["a0", "a1", "a2"]
        assert [beat.writes for beat in stage.manager.beats] == [3]

    play(only(three, "Secret"), story, Counting)


def test_where_one_of_them_is_refused_those_before_it_are_there_and_those_after_it_are_not() -> None:
    Counting.steps = []

    async def story(stage: Stage) -> None:
        await stage.user.create(SECRETS, {**SECRET, "metadata": {"name": "a1", "namespace": "default"}})
        await stage.make("a")
        assert await told(stage) == ['secrets "a1" already exists']
        assert Counting.steps == [["a0", "a1", "a2"], ["a0"], ["a1"]]
        assert [one["metadata"]["name"] for one in (await stage.user.list(SECRETS, "default")).items] == ["a0", "a1"]

    play(only(three, "Secret"), story, Counting)
