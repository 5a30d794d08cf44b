"""Changes in caches and members become keys in the queue of a controller."""

from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any

import pytest

from runtime.copier import NoMembers, new_controller
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap, Secret
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Key, Raw
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.contract import Controller, Effect, MemberTrigger, Trigger, View, never
from trimtab.runtime.cache import Cache, KeyListener
from trimtab.runtime.triggers import ChangeTriggers
from trimtab.runtime.view import ControlPlaneState
from trimtab.server.apiserver import ApiServer
from trimtab.server.local import LocalClient
from trimtab.store.store import Store


def reconcile(subject: ConfigMap, view: View) -> Iterator[Effect]:
    return iter(())


def raw(kind: str, name: str, revision: str, **data: str) -> Raw:
    metadata = {"name": name, "namespace": "demo", "resourceVersion": revision, "uid": name}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data}


def key(name: str) -> Key:
    return Key(kind_of(ConfigMap).id, "demo", name)


def on_a_loop(scenario: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    """Run the test on a virtual loop, which the cache needs for its watches."""

    @wraps(scenario)
    def run(**fixtures: Any) -> None:
        run_virtually(scenario(**fixtures))

    return run


class Queued:
    """A controller whose queue is a list."""

    def __init__(self, controller: Controller) -> None:
        cache = Cache(LocalClient(ApiServer(Store())))
        state = ControlPlaneState(cache=cache, clock=LoopClock(), profile=TRIMTAB, members=NoMembers())
        self.maps, self.secrets = cache.table_of(ConfigMap), cache.table_of(Secret)
        self.keys: list[Key] = []
        self.triggers = ChangeTriggers(controller, state, self.keys.append)
        self.triggers.watch()


@on_a_loop
async def test_a_changed_subject_is_queued_and_a_deleted_one_only_if_the_controller_wants_it() -> None:
    queued = Queued(new_controller(reconcile))
    queued.maps.put(raw("ConfigMap", "a", "1"))
    assert queued.keys == [key("a")]
    queued.maps.drop(("demo", "a"))
    assert queued.keys == [key("a")]
    wanting = Queued(new_controller(reconcile, on_deleted=lambda *_: iter(())))
    wanting.maps.put(raw("ConfigMap", "a", "1"))
    wanting.maps.drop(("demo", "a"))
    assert wanting.keys == [key("a"), key("a")]


@on_a_loop
async def test_the_predicate_decides_whether_a_change_matters() -> None:
    queued = Queued(new_controller(reconcile, predicate=lambda old, new: old is None or old.data != new.data))
    queued.maps.put(raw("ConfigMap", "a", "1", k="v"))
    queued.maps.put(raw("ConfigMap", "a", "2", k="v"))
    assert queued.keys == [key("a")]
    queued.maps.put(raw("ConfigMap", "a", "3", k="w"))
    assert queued.keys == [key("a"), key("a")]


@on_a_loop
async def test_a_related_object_queues_the_keys_that_its_trigger_names() -> None:
    related = Trigger(Secret, lambda old, new, _: [key(f"for-{(new or old).name}")])
    queued = Queued(new_controller(reconcile, wakes=[related]))
    queued.secrets.put(raw("Secret", "s", "1"))
    queued.secrets.drop(("demo", "s"))
    assert queued.keys == [key("for-s"), key("for-s")]


@on_a_loop
async def test_a_failing_trigger_affects_neither_those_before_nor_those_after_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(old: Secret | None, new: Secret | None, view: View) -> list[Key]:
        raise ZeroDivisionError

    before, after = (Trigger(Secret, lambda *_, name=name: [key(name)]) for name in ("before", "after"))
    queued = Queued(new_controller(reconcile, wakes=[before, Trigger(Secret, fail), after]))
    queued.secrets.put(raw("Secret", "s", "1"))
    assert queued.keys == [key("before"), key("after")]
    assert "a listener failed on secrets ('demo', 's')" in caplog.text


@on_a_loop
async def test_objects_that_are_there_before_a_trigger_are_new_to_it() -> None:
    queued = Queued(new_controller(reconcile))
    queued.secrets.put(raw("Secret", "s", "1"))
    queued.secrets.add_listener(KeyListener(lambda old, new, view: [view, old, new.name], "view", queued.keys.append))
    assert queued.keys == ["view", None, "s"]


@on_a_loop
async def test_a_change_in_a_member_queues_the_keys_that_its_trigger_names() -> None:
    member = MemberTrigger(lambda cluster, old, new, _: [key(f"{cluster}-{(new or old)['metadata']['name']}")])
    queued = Queued(new_controller(reconcile, wakes=[member]))
    queued.triggers.member_changed("m1", None, raw("ConfigMap", "a", "1"))
    assert queued.keys == [key("m1-a")]


@on_a_loop
async def test_every_subject_can_be_queued_without_a_change() -> None:
    queued = Queued(new_controller(reconcile, predicate=never))
    for name in ("a", "b"):
        queued.maps.put(raw("ConfigMap", name, "1"))
    assert queued.keys == []
    queued.triggers.enqueue_all()
    assert queued.keys == [key("a"), key("b")]
