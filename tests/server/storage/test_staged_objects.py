"""Several objects in one transaction."""

import asyncio
from collections.abc import Callable

import orjson
import pytest

from trimtab.api.kinds.native.pod import Pod
from trimtab.server.storage.object_codec import pack
from trimtab.server.storage.staged_objects import StagedObjects
from trimtab.store.store import Store
from trimtab.store.txn import ABSENT, DeleteKey, Operation, PutKey, StagedState

PODS = "/registry/core/pods/default/"


def pod(name: str, **status: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {}, "status": status}


def stage(change: Callable[[StagedObjects], None]) -> list[Operation]:
    """The operations of a change in a store with the pods a (revision 2) and b (revision 3)."""
    found: list[Operation] = []

    async def scenario() -> None:
        store = Store()
        for name in ("a", "b"):
            await store.create(f"{PODS}{name}", pack(pod(name, phase="Running", restarts=2)))

        def propose(state: StagedState) -> list[Operation]:
            staged = StagedObjects(state)
            change(staged)
            found.extend(staged.operations())
            return []

        await store.transact(propose)

    asyncio.run(scenario())
    return found


def test_only_changed_objects_are_written_and_only_at_their_revision() -> None:
    def change(staged: StagedObjects) -> None:
        assert [key for key, _ in staged.list_typed(Pod, PODS)] == [f"{PODS}a", f"{PODS}b"]
        staged.put(f"{PODS}a", pod("a", phase="Failed"))

    (operation,) = stage(change)
    assert isinstance(operation, PutKey)
    assert (operation.key, operation.expected) == (f"{PODS}a", 2)
    assert orjson.loads(operation.value)["status"] == {"phase": "Failed"}


def test_deleted_object_is_no_longer_visible() -> None:
    def change(staged: StagedObjects) -> None:
        assert staged.get(f"{PODS}b") is not None
        staged.put(f"{PODS}b", None)
        assert staged.get(f"{PODS}b") is None
        assert [key for key, _ in staged.list_typed(Pod, PODS)] == [f"{PODS}a"]
        assert len(list(staged.stored_entries(PODS))) == 2

    assert stage(change) == [DeleteKey(f"{PODS}b", 3)]


@pytest.mark.parametrize("changed", [False, True])
def test_absent_object_is_written_only_if_it_is_changed(changed: bool) -> None:
    def change(staged: StagedObjects) -> None:
        staged.stage_absent(f"{PODS}c", pod("c"))
        if changed:
            staged.put(f"{PODS}c", pod("c", phase="Pending"))

    assert [operation.expected for operation in stage(change)] == ([ABSENT] if changed else [])


def test_typed_status_replaces_the_stored_one_and_keeps_zeros() -> None:
    def change(staged: StagedObjects) -> None:
        found = staged.get_typed(Pod, f"{PODS}a")
        assert found is not None
        staged.put_status(f"{PODS}a", found.but(status=found.status.but(phase="Succeeded")))

    (operation,) = stage(change)
    assert isinstance(operation, PutKey)
    assert orjson.loads(operation.value)["status"] == {"phase": "Succeeded", "restarts": 0}
