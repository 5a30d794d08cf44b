"""A picture of all targets (clusters or nodes) at one instant, and the arrays computed from it.

A `Fleet` never changes. `change`, `at` and `note` make the next picture, which knows what it changed:
arrays that were computed from an earlier picture are refreshed column by column, not computed again. A column is one
target; columns are in the order of names, so a smaller column is a smaller name.

The arrays live in a `Memory` that successive pictures share. It belongs to the newest picture: asking an older one for
an array gives that one a memory of its own, so a cache can never be seen. An array returned by `column` is borrowed:
read it before you derive the next picture, never write to it.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Named(Protocol):
    """Anything with a name; API objects are."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)
V = TypeVar("V")
Array: TypeAlias = NDArray[Any]
Judge: TypeAlias = Callable[[T], Any]
"""The number (or truth) that one target has in an array."""

LONG_AGO = datetime.min.replace(tzinfo=UTC)
_STEPS_KEPT = 4096
_BULK_FROM = 64
"""From so many columns on, computing all by arithmetic is cheaper than judging these one by one."""
_BYTES_KEPT = 128 << 20
_DERIVED_KEPT = 1024
_MANY_NAMES = 100


class Note(NamedTuple):
    """Something known about a target that is not part of it, and the last instant at which it counts."""

    value: Any
    until: datetime | None = None


class _Step(NamedTuple):
    """What one picture changed: some columns, or the columns themselves (`origin`: where each was before, or -1)."""

    columns: tuple[int, ...]
    origin: Array | None = None


class _Kept:
    """An array and the revision that it is true for."""

    __slots__ = ("array", "revision", "used")

    def __init__(self, array: Array, revision: int) -> None:
        self.array = array
        self.revision = revision
        self.used = 0


class Memory:
    """The arrays of the newest picture, and the steps that led to it."""

    def __init__(self, revision: int) -> None:
        self.head = revision
        self.first_step = revision
        self.steps: list[_Step] = []
        self.kept: dict[Hashable, _Kept] = {}
        self.derived: dict[int, dict[Hashable, tuple[int, Any]]] = {}
        self.names: tuple[int, Array] | None = None
        self.bytes = 0
        self.tick = 0

    def advance(self, step: _Step) -> None:
        self.head += 1
        self.steps.append(step)
        if len(self.steps) > _STEPS_KEPT:
            gone = len(self.steps) // 2
            del self.steps[:gone]
            self.first_step += gone

    def copy(self) -> "Memory":
        """The same arrays, to be refreshed apart from these."""
        twin = Memory(self.head)
        twin.first_step, twin.steps = self.first_step, list(self.steps)
        twin.bytes, twin.tick = self.bytes, self.tick
        twin.kept = {key: _Kept(kept.array.copy(), kept.revision) for key, kept in self.kept.items()}
        return twin

    def keep(self, key: Hashable, array: Array) -> _Kept:
        if self.bytes > _BYTES_KEPT:
            self._forget_half()
        self.bytes += array.nbytes
        kept = self.kept[key] = _Kept(array, self.head)
        return kept

    def forget(self, key: Hashable) -> None:
        self.bytes -= self.kept.pop(key).array.nbytes

    def _forget_half(self) -> None:
        """Drop the arrays that nobody asked for the longest."""
        for key in sorted(self.kept, key=lambda k: self.kept[k].used)[: len(self.kept) // 2 + 1]:
            self.forget(key)

    def carry(self, kept: _Kept) -> tuple[Array, Sequence[int]] | None:
        """The array in today's columns, and the columns whose numbers are out of date; None when nobody knows."""
        if kept.revision < self.first_step:
            return None
        if kept.revision == self.head - 1 and self.steps[-1].origin is None:
            return kept.array, self.steps[-1].columns  # by far the most frequent case
        steps = self.steps[kept.revision - self.first_step :]
        if any(step.origin is not None for step in steps):
            return _relocate(kept.array, steps)
        stale: set[int] = set()
        for step in steps:
            stale.update(step.columns)
        return kept.array, sorted(stale)


def _relocate(array: Array, steps: Iterable[_Step]) -> tuple[Array, Sequence[int]]:
    stale = np.zeros(len(array), dtype=bool)
    for step in steps:
        if step.origin is None:
            stale[list(step.columns)] = True
        elif len(array) == 0:
            array = np.zeros(len(step.origin), dtype=array.dtype)
            stale = np.ones(len(step.origin), dtype=bool)
        else:
            array = array[step.origin]
            stale = stale[step.origin] | (step.origin < 0)
    columns: list[int] = np.flatnonzero(stale).tolist()
    return array, columns


class Fleet(Generic[T]):
    """All targets at one instant. Make the first with `Fleet.of`, the next with `change`, `at`, `note`, `reserve`."""

    __slots__ = ("_memory", "index", "layout", "names", "notes", "now", "reserved", "revision", "targets")

    def __init__(
        self,
        targets: Sequence[T],
        names: Sequence[str],
        index: Mapping[str, int],
        *,
        now: datetime,
        notes: Mapping[str, Mapping[str, Note]],
        reserved: Mapping[str, Array],
        revision: int,
        layout: int,
        memory: Memory,
    ) -> None:
        self.targets = targets
        self.names = names
        """In ascending order; `names[column]` is the name of `targets[column]`."""
        self.index = index
        """The column of a name."""
        self.now = now
        self.notes = notes
        """What is known beside the targets: kind of note -> name of the target -> note."""
        self.reserved = reserved
        """What was given away and is not yet seen in the targets: resource -> amount per column."""
        self.revision = revision
        self.layout = layout
        """The revision at which targets last came or went: equal layouts have equal columns."""
        self._memory = memory

    @staticmethod
    def of(
        targets: Iterable[T],
        *,
        now: datetime = LONG_AGO,
        notes: Mapping[str, Mapping[str, Note]] | None = None,
    ) -> "Fleet[T]":
        """The first picture, from targets in any order."""
        ordered = sorted(targets, key=lambda target: target.name)
        names = [target.name for target in ordered]
        index = {name: column for column, name in enumerate(names)}
        if len(index) != len(names):
            raise ValueError("two targets of a fleet have the same name")
        return Fleet(
            ordered, names, index, now=now, notes=notes or {}, reserved={}, revision=0, layout=0, memory=Memory(0)
        )

    def __len__(self) -> int:
        return len(self.targets)

    def __iter__(self) -> Iterator[T]:
        return iter(self.targets)

    def __contains__(self, name: object) -> bool:
        return name in self.index

    def get(self, name: str) -> T | None:
        column = self.index.get(name)
        return None if column is None else self.targets[column]

    def called(self, columns: Array) -> list[str]:
        """The names of many columns at once."""
        memory = self.memory
        if memory.names is None or memory.names[0] != self.layout:
            array = np.empty(len(self.names), dtype=object)
            array[:] = self.names
            memory.names = (self.layout, array)
        names: list[str] = memory.names[1][columns].tolist()
        return names

    def columns(self, names: tuple[str, ...]) -> Array:
        """The columns of those of the names that are targets."""
        index = self.index

        def look_up() -> Array:
            return np.array([index[name] for name in names if name in index], dtype=np.intp)

        # hashing many names costs less than looking them all up again
        return look_up() if len(names) < _MANY_NAMES else self.derived(("columns", names), look_up)

    def about(self, kind: str, name: str) -> Any:
        """What the note of this kind says of this target, None when there is none or it no longer counts."""
        note = self.notes.get(kind, {}).get(name)
        if note is None or (note.until is not None and note.until < self.now):
            return None
        return note.value

    def column(
        self,
        key: Hashable,
        prepare: Callable[[], Judge[T]],
        dtype: DTypeLike = np.int64,
        *,
        keep: bool = True,
        bulk: Callable[[], Array] | None = None,
    ) -> Array:
        """One number per target, as `prepare()` judges it; only columns that changed since last time are judged again.

        `key` must tell apart everything that `prepare` reads besides the targets and their notes.
        `bulk` makes the same array (a new one) by arithmetic, for when many targets are to be judged.
        """
        memory = self.memory
        kept = memory.kept.get(key)
        if kept is None:
            array = bulk() if bulk is not None else self._judged(prepare(), dtype)
            return memory.keep(key, array).array if keep else array
        memory.tick = kept.used = memory.tick + 1
        if kept.revision == self.revision:
            return kept.array
        carried = memory.carry(kept)
        if carried is None:
            memory.forget(key)
            return self.column(key, prepare, dtype, bulk=bulk)
        array, stale = carried
        if bulk is not None and len(stale) > _BULK_FROM:
            array = bulk()
        elif stale:
            judge, targets = prepare(), self.targets
            for column in stale:
                array[column] = judge(targets[column])
        kept.revision = self.revision
        if array is not kept.array:
            memory.bytes += array.nbytes - kept.array.nbytes
            kept.array = array
        return array

    def _judged(self, judge: Judge[T], dtype: DTypeLike) -> Array:
        return np.fromiter((judge(target) for target in self.targets), dtype, len(self.targets))

    def derived(self, key: Hashable, compute: Callable[[], V], *, kept: int = _DERIVED_KEPT) -> V:
        """Something computed as a whole from other columns of this very revision; kept until anything changes.

        Of things with the same `kept` only so many are kept, the latest: a small number suits what may differ from ask
        to ask, so that it does not crowd out what many asks share.
        """
        shelf = self.memory.derived.setdefault(kept, {})
        found = shelf.get(key)
        if found is None or found[0] != self.revision:
            if len(shelf) >= kept:
                del shelf[next(iter(shelf))]
            found = shelf[key] = (self.revision, compute())
        value: V = found[1]
        return value

    @property
    def memory(self) -> Memory:
        if self._memory.head != self.revision:
            self._memory = Memory(self.revision)  # a newer picture owns the shared one
        return self._memory

    def fork(self) -> "Fleet[T]":
        """The same picture with a memory of its own: what is tried on it costs this one nothing."""
        return Fleet(
            self.targets,
            self.names,
            self.index,
            now=self.now,
            notes=self.notes,
            reserved=self.reserved,
            revision=self.revision,
            layout=self.layout,
            memory=self.memory.copy(),
        )

    def change(self, targets: Iterable[T] = (), *, gone: Iterable[str] = ()) -> "Fleet[T]":
        """The next picture: `targets` are new or replace those of the same name, `gone` have left."""
        fresh = {target.name: target for target in targets}
        leaving = [name for name in gone if name in self.index and name not in fresh]
        if leaving or any(name not in self.index for name in fresh):
            return self._with_other_columns(fresh, set(leaving))
        replaced = list(self.targets)
        columns = tuple(self.index[name] for name in fresh)
        for column, target in zip(columns, fresh.values(), strict=True):
            replaced[column] = target
        return self._next(_Step(columns), targets=replaced)

    def _with_other_columns(self, fresh: Mapping[str, T], leaving: set[str]) -> "Fleet[T]":
        together = {name: target for name, target in zip(self.names, self.targets, strict=True) if name not in leaving}
        together.update(fresh)
        names = sorted(together)
        origin = np.fromiter(
            (-1 if name in fresh else self.index[name] for name in names), dtype=np.intp, count=len(names)
        )
        return Fleet(
            [together[name] for name in names],
            names,
            {name: column for column, name in enumerate(names)},
            now=self.now,
            notes=self.notes,
            reserved={resource: _moved(amounts, origin) for resource, amounts in self.reserved.items()},
            revision=self.revision + 1,
            layout=self.revision + 1,
            memory=self._advanced(_Step((), origin)),
        )

    def at(self, now: datetime) -> "Fleet[T]":
        """The same targets at another time: those with a note that has expired in between are judged again."""
        earlier, later = sorted((self.now, now))
        columns = {
            self.index[name]
            for notes in self.notes.values()
            for name, note in notes.items()
            if note.until is not None and earlier <= note.until < later and name in self.index
        }
        return self._next(_Step(tuple(columns)), now=now)

    def note(self, kind: str, notes: Mapping[str, Note]) -> "Fleet[T]":
        """The next picture, in which `notes` are all that is known of this kind."""
        before = self.notes.get(kind, {})
        changed = {name for name in before.keys() | notes.keys() if before.get(name) != notes.get(name)}
        columns = tuple(self.index[name] for name in changed if name in self.index)
        return self._next(_Step(columns), notes={**self.notes, kind: notes})

    def amend(self, kind: str, changed: Mapping[str, Note | None]) -> "Fleet[T]":
        """The next picture, in which these notes of this kind are new, or gone where they are None."""
        notes = dict(self.notes.get(kind, {}))
        for name, note in changed.items():
            if note is None:
                notes.pop(name, None)
            else:
                notes[name] = note
        columns = tuple(self.index[name] for name in changed if name in self.index)
        return self._next(_Step(columns), notes={**self.notes, kind: notes})

    def reserve(self, columns: Array, amounts: Mapping[str, Array | int]) -> "Fleet[T]":
        """The same picture, in which these amounts of each resource are given away in these columns.

        Targets and notes are what they were, and so is every array: who computes room must look at `reserved` himself.
        """
        reserved = dict(self.reserved)
        for resource, amount in amounts.items():
            before = reserved.get(resource)
            given = np.zeros(len(self.targets), dtype=np.int64) if before is None else before.copy()
            given[columns] += amount
            reserved[resource] = given
        return self._with(reserved)

    def without_reservations(self) -> "Fleet[T]":
        """The same picture, in which nothing is given away: a new beat sees what really happened."""
        return self._with({}) if self.reserved else self

    def _with(self, reserved: Mapping[str, Array]) -> "Fleet[T]":
        return Fleet(
            self.targets,
            self.names,
            self.index,
            now=self.now,
            notes=self.notes,
            reserved=reserved,
            revision=self.revision,
            layout=self.layout,
            memory=self.memory,
        )

    def _advanced(self, step: _Step) -> Memory:
        memory = self.memory
        memory.advance(step)
        return memory

    def _next(
        self,
        step: _Step,
        *,
        targets: Sequence[T] | None = None,
        now: datetime | None = None,
        notes: Mapping[str, Mapping[str, Note]] | None = None,
    ) -> "Fleet[T]":
        return Fleet(
            self.targets if targets is None else targets,
            self.names,
            self.index,
            now=self.now if now is None else now,
            notes=self.notes if notes is None else notes,
            reserved=self.reserved,
            revision=self.revision + 1,
            layout=self.layout,
            memory=self._advanced(step),
        )


def _moved(amounts: Array, origin: Array) -> Array:
    if len(amounts) == 0:
        return np.zeros(len(origin), dtype=np.int64)
    moved: Array = np.where(origin >= 0, amounts[origin], 0)
    return moved
