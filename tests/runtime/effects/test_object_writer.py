"""What an ObjectWriter sends for an effect."""

import asyncio
from typing import Any

import pytest
from builders import configmap

from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.controllers.contract import Delete, Ensure, Ref
from trimtab.runtime.effects.object_writer import ObjectWriter, target_of

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SEEN = configmap(resourceVersion="7")
CHANGED: Raw = {**SEEN, "data": {"k": "new"}}


class RecordingClient:
    """A client that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **options: Any) -> Raw:
            self.calls.append((name, arguments, options))
            return {}

        return call


def sent(effect: Ensure, **options: Any) -> tuple[str, Any, dict[str, Any]] | None:
    client, writer = RecordingClient(), ObjectWriter("me", **options)
    asyncio.run(writer.ensure(client, MAPS, effect))  # type: ignore[arg-type]
    assert writer.writes == len(client.calls)
    return client.calls[0] if client.calls else None


def call_of(effect: Ensure, **options: Any) -> tuple[str, Any, dict[str, Any]]:
    found = sent(effect, **options)
    assert found is not None
    return found


def test_an_object_that_was_not_seen_is_created() -> None:
    name, (_, body), options = call_of(Ensure(CHANGED))
    assert (name, body, options["manager"]) == ("create", CHANGED, "me")


def test_a_patch_has_only_what_differs_and_the_version_that_was_seen() -> None:
    name, (_, namespace, object_name, patch), _ = call_of(Ensure(CHANGED, seen=SEEN))
    assert (name, namespace, object_name) == ("patch", "demo", "conf")
    assert patch == {"metadata": {"resourceVersion": "7"}, "data": {"k": "new"}}


def test_an_object_as_wanted_is_not_written() -> None:
    assert sent(Ensure(SEEN, seen=SEEN)) is None


def test_a_replacement_sends_the_whole_object_with_its_version() -> None:
    name, (_, body), _ = call_of(Ensure(CHANGED, seen=SEEN, replace=True))
    assert name == "replace"
    assert body["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(("exact", "version"), [(True, "7"), (False, None)])
def test_apply_names_the_version_that_was_seen_where_another_process_may_write(exact: bool, version: Any) -> None:
    wanted: Raw = {**CHANGED, "metadata": {"name": "conf", "namespace": "demo"}}
    name, (_, _, _, body), options = call_of(Ensure(wanted, seen=SEEN, apply_as="agent"), exact_versions=exact)
    assert (name, options["type"], options["manager"], options["force"]) == ("patch", "apply", "agent", False)
    assert body["metadata"].get("resourceVersion") == version


def test_a_deletion_names_the_uid() -> None:
    ref = Ref("v1", "ConfigMap", "demo", "conf", "the-uid")
    client = RecordingClient()
    asyncio.run(ObjectWriter("me").delete(client, MAPS, target_of(Delete(ref)), "7"))  # type: ignore[arg-type]
    (_, arguments, options) = client.calls[0]
    assert arguments[1:] == ("demo", "conf")
    assert options == {"uid": "the-uid", "revision": "7"}
