"""A desk for one transaction over several objects: what was read, what it becomes, and the writes that make it so."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar, cast

import msgspec
import orjson

from trimtab.api.kind import kind_of
from trimtab.api.value import Object, Raw
from trimtab.server.storage.object_codec import pack
from trimtab.store.records import Entry
from trimtab.store.txn import ABSENT, Delete, Draft, Operation, Put

T = TypeVar("T", bound=Object)


class Paper(NamedTuple):
    """One object as it lies on the desk; None is gone."""

    entry: Entry
    obj: Raw | None
    touched: bool = False


class Desk:
    """Reads through a draft of the store; nothing is written before all of it is."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._papers: dict[str, Paper] = {}
        self._new: dict[str, Raw] = {}

    def get(self, key: str) -> Paper | None:
        if key not in self._papers:
            entry = self._draft.get(key)
            if entry is None:
                return None
            self._papers[key] = Paper(entry, orjson.loads(entry.value))
        paper = self._papers[key]
        return paper if paper.obj is not None else None

    def typed(self, type_: type[T], key: str) -> T | None:
        paper = self.get(key)
        return cast("T", kind_of(type_).decode(paper.obj)) if paper is not None and paper.obj is not None else None

    def all(self, type_: type[T], prefix: str) -> Iterator[tuple[str, T]]:
        for entry in self._draft.list(prefix):
            found = self.typed(type_, entry.key)
            if found is not None:
                yield entry.key, found

    def entries(self, prefix: str) -> Iterator[Entry]:
        """What is stored, without what was changed at this desk."""
        return iter(self._draft.list(prefix))

    def put(self, key: str, obj: Raw | None) -> None:
        self._papers[key] = Paper(self._papers[key].entry, obj, touched=True)

    def lay_out(self, key: str, obj: Raw) -> None:
        """Put something on the desk that is not stored yet; it is once it is written on."""
        self._papers[key] = Paper(Entry(key, b"", ABSENT, ABSENT), obj)

    def add(self, key: str, obj: Raw) -> None:
        """Something that is not on the desk; nobody writes between what this transaction reads and what it writes."""
        self._new[key] = obj

    def put_status(self, key: str, after: Object) -> None:
        """Write the typed status (and annotations) over what was read; zeros that stood there go on standing there."""
        before = cast("Raw", self._papers[key].obj)
        wanted = msgspec.json.decode(msgspec.json.encode(after))
        metadata = {**before["metadata"]}
        if after.metadata.annotations:
            metadata["annotations"] = dict(after.metadata.annotations)
        zeros = {name: 0 for name, value in (before.get("status") or {}).items() if isinstance(value, int)}
        self.put(key, {**before, "metadata": metadata, "status": {**zeros, **wanted.get("status", {})}})

    def version(self, key: str) -> str:
        return str(self._papers[key].entry.mod_revision)

    def operations(self) -> list[Operation]:
        """All writes, each only if nobody else was faster."""
        found: list[Operation] = []
        for key, paper in self._papers.items():
            if not paper.touched:
                continue
            if paper.obj is None:
                found.append(Delete(key, paper.entry.mod_revision))
            else:
                found.append(Put(key, pack(paper.obj), paper.entry.mod_revision))
        found += [Put(key, pack(obj)) for key, obj in self._new.items()]
        return found
