"""Registration of controllers, and the predicates that start them."""

from collections.abc import Iterator
from typing import Any

import pytest
from builders import NOON, binding, cluster

from trimtab.api.kinds.cluster import Cluster
from trimtab.controllers.contract import (
    Controller,
    MemberTrigger,
    Trigger,
    controller,
    spec_changed,
    spec_differs,
)
from trimtab.registry import Registry


def test_function_name_is_the_controller_name_and_must_be_unique() -> None:
    registry: Registry[Controller] = Registry("controller")
    trigger, member_trigger = Trigger(Cluster, lambda *_: ()), MemberTrigger(lambda *_: ())

    def example(subject: Cluster, view: Any) -> Iterator[Any]:
        yield from ()

    register = controller(Cluster, writes=["status"], triggers=[trigger, member_trigger], registry=registry)
    assert register(example) is example
    entry = registry["example"]
    assert (entry.subjects, entry.writes) == ((Cluster,), ("status",))
    assert (entry.triggers, entry.member_triggers) == ((trigger,), (member_trigger,))
    with pytest.raises(ValueError, match="example"):
        register(example)


def test_spec_changed_ignores_status_but_not_deletion() -> None:
    before = binding(clusters={"m1": 1})
    status = before.but(status=before.status.but(last_scheduled_time=NOON))
    assert spec_changed(None, before)
    assert not spec_changed(before, status)
    assert spec_changed(before, before.but(metadata=before.metadata.but(generation=9)))
    assert spec_changed(before, before.but(metadata=before.metadata.but(deletion_timestamp=NOON)))


def test_spec_differs_on_creation_deletion_and_spec_change() -> None:
    before = cluster("m1")
    assert spec_differs(None, before)
    assert spec_differs(before, None)
    assert not spec_differs(before, cluster("m1", ready="False"))
    assert spec_differs(before, cluster("m1", "key:NoExecute"))
