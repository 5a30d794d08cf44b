"""Parts of caches and queues in the form in which a stopping process leaves them to the next one (`saved_state.py`)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from trimtab.api.value import Key
from trimtab.client.client import Resource
from trimtab.similar_bytes import PackedBytes

PART_SIZE = 5000
"""Objects that are in memory twice while they are saved or loaded."""
Name: TypeAlias = tuple[str, str]
SavedEntry: TypeAlias = tuple[str, str, str, int, bytes]
"""Namespace, name, resourceVersion, number of the sample, compressed JSON."""
SavedIndex: TypeAlias = dict[str, list[int]]
"""Numbers of objects by value: the first object of the table is 0."""


class SavedPart(Struct, array_like=True):
    """Some objects of a table, in the order of their names."""

    resource: Resource
    revision: str
    """The revision up to which changes of the table are in it."""
    samples: list[bytes]
    entries: list[SavedEntry]
    indexes: dict[str, SavedIndex]
    """Of the whole table; only in its last part."""


class SavedQueue(Struct, array_like=True):
    """The keys of a controller that were not finished."""

    unfinished: list[Key]
    timers: list[tuple[Key, float]]
    """Keys that wait, and the time (seconds since 1970) at which they are reconciled."""


class SavedTables(Protocol):
    """The saved tables of one API server."""

    def resources(self) -> Iterable[Resource]: ...

    def take(self, resource: Resource) -> Iterator[SavedPart]:
        """The parts of a table; nothing the second time."""
        ...


class PartWriter:
    """Divides a table into parts."""

    def __init__(self, resource: Resource, revision: str) -> None:
        self._resource = resource
        self._revision = revision
        self._numbers: dict[Name, int] = {}
        self._clear()

    def _clear(self) -> None:
        self._samples: dict[int, int] = {}
        self._part = SavedPart(self._resource, self._revision, [], [], {})

    def add(self, name: Name, revision: str, packed: PackedBytes) -> Iterator[SavedPart]:
        """Add an object; yields the part that it completes."""
        sample = self._samples.get(id(packed.sample))
        if sample is None:
            sample = self._samples[id(packed.sample)] = len(self._part.samples)
            self._part.samples.append(packed.sample)
        self._numbers[name] = len(self._numbers)
        self._part.entries.append((*name, revision, sample, packed.data))
        if len(self._part.entries) == PART_SIZE:
            yield self._part
            self._clear()

    def finish(self, indexes: Mapping[str, Mapping[str, Iterable[Name]]]) -> SavedPart:
        """The last part, with the indexes."""
        for index, names_by_value in indexes.items():
            self._part.indexes[index] = {
                value: [self._numbers[name] for name in names if name in self._numbers]
                for value, names in names_by_value.items()
            }
        return self._part


class SavedIndexes:
    """The indexes of a loaded table until they are used: only then is it known how to keep them current."""

    def __init__(self) -> None:
        self._names: list[Name] = []
        self._indexes: dict[str, SavedIndex] = {}
        self._changed: set[Name] = set()
        self.is_used = False
        """Whether changes have to be noted."""

    def load(self, names: Sequence[Name], indexes: dict[str, SavedIndex]) -> None:
        self._names += names
        self._indexes.update(indexes)
        self.is_used = True

    def note_change(self, name: Name) -> None:
        """An object has changed: what was saved of it is not valid any more."""
        self._changed.add(name)

    def take(self, index: str, names: Iterable[Name]) -> tuple[dict[str, set[Name]], Iterable[Name]]:
        """The names by value, and the names that have to be added; all `names` if the index was not saved."""
        saved = self._indexes.pop(index, None)
        if saved is None:
            return {}, names
        changed, all_names = self._changed, self._names
        by_value = {}
        for value, numbers in saved.items():
            if unchanged := {all_names[number] for number in numbers} - changed:
                by_value[value] = unchanged
        if not self._indexes:
            self._names, self._changed, self.is_used = [], set(), False
        return by_value, changed
