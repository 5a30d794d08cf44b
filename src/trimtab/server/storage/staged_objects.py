"""A unit of work over several objects in one store transaction."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar, cast

import msgspec
import orjson

from trimtab.api.kind import kind_of
from trimtab.api.value import Object, Raw
from trimtab.server.storage.object_codec import pack
from trimtab.store.records import StoredEntry
from trimtab.store.txn import ABSENT, DeleteKey, Operation, PutKey, StagedState

T = TypeVar("T", bound=Object)


class StagedObject(NamedTuple):
    """A staged object; `None` means it will be deleted."""

    entry: StoredEntry
    obj: Raw | None
    changed: bool = False


class StagedObjects:
    """Reads objects through a state of the store and collects changes; all are written together."""

    def __init__(self, state: StagedState) -> None:
        self._state = state
        self._staged: dict[str, StagedObject] = {}
        self._new: dict[str, Raw] = {}

    def get(self, key: str) -> StagedObject | None:
        if key not in self._staged:
            entry = self._state.get(key)
            if entry is None:
                return None
            self._staged[key] = StagedObject(entry, orjson.loads(entry.value))
        staged = self._staged[key]
        return staged if staged.obj is not None else None

    def get_typed(self, type_: type[T], key: str) -> T | None:
        staged = self.get(key)
        return cast("T", kind_of(type_).decode(staged.obj)) if staged is not None and staged.obj is not None else None

    def list_typed(self, type_: type[T], prefix: str) -> Iterator[tuple[str, T]]:
        for entry in self._state.list(prefix):
            obj = self.get_typed(type_, entry.key)
            if obj is not None:
                yield entry.key, obj

    def stored_entries(self, prefix: str) -> Iterator[StoredEntry]:
        """The stored entries, without staged changes."""
        return iter(self._state.list(prefix))

    def put(self, key: str, obj: Raw | None) -> None:
        self._staged[key] = StagedObject(self._staged[key].entry, obj, changed=True)

    def stage_absent(self, key: str, obj: Raw) -> None:
        """Stage an object that is not stored yet; it is written only if it is changed."""
        self._staged[key] = StagedObject(StoredEntry(key, b"", ABSENT, ABSENT), obj)

    def add_new(self, key: str, obj: Raw) -> None:
        """Stage a new object; it needs no expected revision, because no other write comes into this transaction."""
        self._new[key] = obj

    def put_status(self, key: str, after: Object) -> None:
        """Replace status and annotations by the typed ones; integers that the type omits because they are zero stay."""
        before = cast("Raw", self._staged[key].obj)
        encoded = msgspec.json.decode(msgspec.json.encode(after))
        metadata = {**before["metadata"]}
        if after.metadata.annotations:
            metadata["annotations"] = dict(after.metadata.annotations)
        zeros = {name: 0 for name, value in (before.get("status") or {}).items() if isinstance(value, int)}
        self.put(key, {**before, "metadata": metadata, "status": {**zeros, **encoded.get("status", {})}})

    def resource_version(self, key: str) -> str:
        return str(self._staged[key].entry.mod_revision)

    def operations(self) -> list[Operation]:
        """All writes, each on condition that the object was not changed meanwhile."""
        operations: list[Operation] = []
        for key, staged in self._staged.items():
            if not staged.changed:
                continue
            if staged.obj is None:
                operations.append(DeleteKey(key, staged.entry.mod_revision))
            else:
                operations.append(PutKey(key, pack(staged.obj), staged.entry.mod_revision))
        operations += [PutKey(key, pack(obj)) for key, obj in self._new.items()]
        return operations
