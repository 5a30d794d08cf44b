"""All targets (clusters or nodes) at one revision, and the arrays computed from them.

Problem: a placement decision evaluates every plugin for every target. With thousands of targets and a decision per
binding, evaluating everything each time is too slow; yet between two decisions only a few targets change.

A `Fleet` is immutable. `change`, `change_load`, `at`, `with_external_values`, `with_external_value_changes` and `reserve`
return the next fleet. A column is one target. Columns are sorted by name, so a smaller column is a smaller name, and ties by
name are ties by column. `column(key, prepare)` returns one number per target. The array is cached by `key`; in a later
fleet only the columns that changed since then are computed again.

How it works: all fleets that follow from each other share one `ArrayCache`. The cache holds the arrays, each with the
revision it is valid for, and the list of changes between revisions. To bring an array up to date, the changes since
its revision are merged: either a set of stale columns, or, when targets were added or removed, also an index that
moves each old column to its new place. A change of what runs on a target (`change_load`) concerns only the arrays that
depend on it. Reservations do not change the revision, because no cached array contains them: code that computes free
capacity must subtract `reserved` itself.

Invariants:
- The shared cache belongs to the newest revision. An older fleet that is asked for an array gets an empty cache of its
  own. So the cache never changes a result, only its cost.
- A cache key contains everything that the function reads besides the targets and their external values. A key that is
  too coarse returns the array of another request.
- Time enters only through external values that expire: `at(now)` marks exactly the columns whose value expired.
- Arrays returned by `column` and `compute_once` belong to the cache. Read them before deriving the next fleet, and
  never write to them: the next update changes them in place.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trimtab.decide.target_list import replace_targets


class Named(Protocol):
    """Anything with a name, such as API objects."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)
V = TypeVar("V")
Array: TypeAlias = NDArray[Any]
TargetFunction: TypeAlias = Callable[[T], Any]
"""Computes the number (or bool) of one target in an array."""

MIN_TIME = datetime.min.replace(tzinfo=UTC)
_MAX_CHANGES = 4096
_BULK_THRESHOLD = 64
"""From this number of stale columns on, computing the whole array in bulk is cheaper than column by column."""
_MAX_BYTES = 128 << 20
_ENTRY_BYTES = 1024
"""What an array costs besides its numbers: its key and objects. In a small fleet that is most of it."""
_MAX_COMPUTED = 1024
_MANY_NAMES = 100
_MAX_NAME_LISTS = 512


class ExternalValue(NamedTuple):
    """Data about a target that is not part of its object, and the last time at which it is valid."""

    value: Any
    until: datetime | None = None


class _Change(NamedTuple):
    """What changed between two revisions: some columns, or the layout (`origin`: the old column of each, or -1)."""

    columns: tuple[int, ...]
    origin: Array | None = None
    is_load: bool = False
    """Only what runs on the targets changed."""


class _StaleColumns(NamedTuple):
    """The columns that changed between two revisions of one layout."""

    all: list[int]
    except_load: list[int]
    """Those of which more than the load changed."""


class _CacheEntry:
    """An array and the revision it is valid for."""

    __slots__ = ("array", "revision", "used")

    def __init__(self, array: Array, revision: int) -> None:
        self.array = array
        self.revision = revision
        self.used = 0


class ArrayCache:
    """The arrays of the newest fleet, and the changes that led to it."""

    def __init__(self, revision: int) -> None:
        self.head = revision
        self.first_revision = revision
        self.changes: list[_Change] = []
        self.entries: dict[Hashable, _CacheEntry] = {}
        self.computed: dict[int, dict[Hashable, tuple[int, Any]]] = {}
        self.names: tuple[int, Array] | None = None
        self.bytes = 0
        self.tick = 0
        self._stale_since: tuple[tuple[int, int], _StaleColumns | None] = ((-1, -1), None)

    def advance(self, change: _Change) -> None:
        self.head += 1
        self.changes.append(change)
        if len(self.changes) > _MAX_CHANGES:
            dropped = len(self.changes) // 2
            del self.changes[:dropped]
            self.first_revision += dropped

    def copy(self) -> "ArrayCache":
        """A copy of the arrays that is updated independently."""
        copied = ArrayCache(self.head)
        copied.first_revision, copied.changes = self.first_revision, list(self.changes)
        copied.bytes, copied.tick = self.bytes, self.tick
        copied.entries = {key: _CacheEntry(kept.array.copy(), kept.revision) for key, kept in self.entries.items()}
        return copied

    def add(self, key: Hashable, array: Array) -> _CacheEntry:
        if self.bytes > _MAX_BYTES:
            self._drop_least_recently_used()
        self.bytes += array.nbytes + _ENTRY_BYTES
        kept = self.entries[key] = _CacheEntry(array, self.head)
        return kept

    def drop(self, key: Hashable) -> None:
        self.bytes -= self.entries.pop(key).array.nbytes + _ENTRY_BYTES

    def _drop_least_recently_used(self) -> None:
        """Drop the half of the arrays that was used least recently."""
        for key in sorted(self.entries, key=lambda k: self.entries[k].used)[: len(self.entries) // 2 + 1]:
            self.drop(key)

    def bring_up_to_date(self, entry: _CacheEntry, *, ignores_load: bool) -> tuple[Array, Sequence[int]] | None:
        """The array in the current layout, and its stale columns; None when the changes are no longer known."""
        if entry.revision < self.first_revision:
            return None
        if entry.revision == self.head - 1 and (latest := self.changes[-1]).origin is None:
            # by far the most frequent case
            return entry.array, () if ignores_load and latest.is_load else latest.columns
        if self._stale_since[0] != (entry.revision, self.head):  # arrays that are used together are equally old
            self._stale_since = (entry.revision, self.head), self._stale_columns_since(entry.revision)
        stale = self._stale_since[1]
        if stale is None:
            return _reorder_columns(entry.array, self.changes[entry.revision - self.first_revision :])
        return entry.array, stale.except_load if ignores_load else stale.all

    def _stale_columns_since(self, revision: int) -> "_StaleColumns | None":
        """The columns that changed since this revision; None when the layout did."""
        changed: set[int] = set()
        except_load: set[int] = set()
        for step in self.changes[revision - self.first_revision :]:
            if step.origin is not None:
                return None
            changed.update(step.columns)
            if not step.is_load:
                except_load.update(step.columns)
        return _StaleColumns(sorted(changed), sorted(except_load))


def _reorder_columns(array: Array, changes: Iterable[_Change]) -> tuple[Array, Sequence[int]]:
    stale = np.zeros(len(array), dtype=bool)
    for step in changes:
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
    """All targets at one revision. `Fleet.of` is the first; `change*`, `at`, `reserve` and `with_*` return the next."""

    __slots__ = ("_cache", "external_values", "index", "layout", "names", "now", "reserved", "revision", "targets")

    def __init__(
        self,
        targets: Sequence[T],
        names: Sequence[str],
        index: Mapping[str, int],
        *,
        now: datetime,
        external_values: Mapping[str, Mapping[str, ExternalValue]],
        reserved: Mapping[Hashable, Array],
        revision: int,
        layout: int,
        cache: ArrayCache,
    ) -> None:
        self.targets = targets
        self.names = names
        """In ascending order; `names[column]` is the name of `targets[column]`."""
        self.index = index
        """The column of a name."""
        self.now = now
        self.external_values = external_values
        """Data outside the targets: kind -> name of the target -> value."""
        self.reserved = reserved
        """Amounts that are assigned but not yet visible in the targets: resource, or part of a quota -> amount per column."""
        self.revision = revision
        self.layout = layout
        """The revision at which targets were last added or removed: equal layouts have equal columns."""
        self._cache = cache

    @staticmethod
    def of(
        targets: Iterable[T],
        *,
        now: datetime = MIN_TIME,
        external_values: Mapping[str, Mapping[str, ExternalValue]] | None = None,
    ) -> "Fleet[T]":
        """The first fleet, from targets in any order."""
        ordered = sorted(targets, key=lambda target: target.name)
        names = [target.name for target in ordered]
        index = {name: column for column, name in enumerate(names)}
        if len(index) != len(names):
            raise ValueError("two targets of a fleet have the same name")
        return Fleet(
            ordered,
            names,
            index,
            now=now,
            external_values=external_values or {},
            reserved={},
            revision=0,
            layout=0,
            cache=ArrayCache(0),
        )

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[T]:
        return iter(self.targets)

    def __contains__(self, name: object) -> bool:
        return name in self.index

    def get(self, name: str) -> T | None:
        column = self.index.get(name)
        return None if column is None else self.targets[column]

    def names_at(self, columns: Array | list[int]) -> list[str]:
        """The names of many columns at once."""
        if isinstance(columns, list):
            return list(map(self.names.__getitem__, columns))
        memory = self.cache
        if memory.names is None or memory.names[0] != self.layout:
            array = np.empty(len(self.names), dtype=object)
            array[:] = self.names
            memory.names = (self.layout, array)
        names: list[str] = memory.names[1][columns].tolist()
        return names

    def columns_of(self, names: Sequence[str]) -> Array:
        """The columns of those names that are targets. Belongs to the cache, do not write to it."""
        if len(names) < _MANY_NAMES:
            return self._look_up(names)
        # many names are found by identity: while they are stored with their columns, nothing else has their id
        return self.compute_once(
            ("columns", id(names)), lambda: (names, self._look_up(names)), max_entries=_MAX_NAME_LISTS
        )[1]

    def sparse_columns_of(self, names: Sequence[str]) -> list[int] | Array:
        """The same as a list where they are few: it is faster than an array then."""
        if len(names) >= _MANY_NAMES:
            return self.columns_of(names)
        return [column for column in map(self.index.get, names) if column is not None]

    def _look_up(self, names: Sequence[str]) -> Array:
        index = self.index
        return np.array([index[name] for name in names if name in index], dtype=np.intp)

    def external_value(self, kind: str, name: str) -> Any:
        """The external value of this kind for this target; None when there is none or it has expired."""
        note = self.external_values.get(kind, {}).get(name)
        if note is None or (note.until is not None and note.until < self.now):
            return None
        return note.value

    def column(
        self,
        key: Hashable,
        prepare: Callable[[], TargetFunction[T]],
        dtype: DTypeLike = np.int64,
        *,
        keep: bool = True,
        bulk: Callable[[], Array] | None = None,
        ignores_load: bool = False,
    ) -> Array:
        """One number per target, computed by `prepare()`; only columns that changed since are computed again.

        `key` must identify everything that `prepare` reads besides the targets and their external values.
        `bulk` computes the same array (a new one) at once, for when many columns are stale. With `ignores_load` the numbers
        do not depend on what `change_load` changes.
        """
        memory = self.cache
        kept = memory.entries.get(key)
        if kept is None:
            array = bulk() if bulk is not None else self._compute_all(prepare(), dtype)
            return memory.add(key, array).array if keep else array
        memory.tick = kept.used = memory.tick + 1
        if kept.revision == self.revision:
            return kept.array
        carried = memory.bring_up_to_date(kept, ignores_load=ignores_load)
        if carried is None:
            memory.drop(key)
            return self.column(key, prepare, dtype, bulk=bulk, ignores_load=ignores_load)
        array, stale = carried
        if bulk is not None and len(stale) > _BULK_THRESHOLD:
            array = bulk()
        elif stale:
            function, targets = prepare(), self.targets
            for column in stale:
                array[column] = function(targets[column])
        kept.revision = self.revision
        if array is not kept.array:
            memory.bytes += array.nbytes - kept.array.nbytes
            kept.array = array
        return array

    def _compute_all(self, function: TargetFunction[T], dtype: DTypeLike) -> Array:
        return np.fromiter(map(function, self.targets), dtype, len(self.targets))

    def compute_once(self, key: Hashable, compute: Callable[[], V], *, max_entries: int = _MAX_COMPUTED) -> V:
        """A value computed from other columns of this revision; cached until anything changes.

        Values with the same `max_entries` share one cache of that size. A small number suits values that differ per request,
        so that they do not displace values that many requests share.
        """
        computed = self.cache.computed
        entries = computed.get(max_entries)
        if entries is None:
            entries = computed[max_entries] = {}
        found = entries.get(key)
        if found is None or found[0] != self.revision:
            if len(entries) >= max_entries:
                del entries[next(iter(entries))]
            found = entries[key] = (self.revision, compute())
        value: V = found[1]
        return value

    @property
    def cache(self) -> ArrayCache:
        if self._cache.head != self.revision:
            self._cache = ArrayCache(self.revision)  # the shared cache belongs to a newer fleet
        return self._cache

    def fork(self) -> "Fleet[T]":
        """The same fleet with a cache of its own, so that trying out changes does not invalidate this one."""
        return Fleet(
            self.targets,
            self.names,
            self.index,
            now=self.now,
            external_values=self.external_values,
            reserved=self.reserved,
            revision=self.revision,
            layout=self.layout,
            cache=self.cache.copy(),
        )

    def change(self, targets: Iterable[T] = (), *, removed: Iterable[str] = ()) -> "Fleet[T]":
        """The next fleet: `targets` are added or replace those of the same name, `removed` are removed."""
        fresh = {target.name: target for target in targets}
        removed_names = [name for name in removed if name in self.index and name not in fresh]
        if removed_names or any(name not in self.index for name in fresh):
            return self._with_new_layout(fresh, set(removed_names))
        changes = {self.index[name]: target for name, target in fresh.items()}
        return self._next(_Change(tuple(changes)), targets=replace_targets(self.targets, changes))

    def change_load(self, target: T) -> "Fleet[T]":
        """The next fleet: `target` replaces the one of its name, from which only what runs on it differs."""
        column = self.index[target.name]
        return self._next(_Change((column,), is_load=True), targets=replace_targets(self.targets, {column: target}))

    def _with_new_layout(self, fresh: Mapping[str, T], removed: set[str]) -> "Fleet[T]":
        together = {name: target for name, target in zip(self.names, self.targets, strict=True) if name not in removed}
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
            external_values=self.external_values,
            reserved={resource: _move_amounts(amounts, origin) for resource, amounts in self.reserved.items()},
            revision=self.revision + 1,
            layout=self.revision + 1,
            cache=self._advance_cache(_Change((), origin)),
        )

    def at(self, now: datetime) -> "Fleet[T]":
        """The same targets at another time: targets whose external value expired in between are computed again."""
        earlier, later = sorted((self.now, now))
        columns = {
            self.index[name]
            for notes in self.external_values.values()
            for name, note in notes.items()
            if note.until is not None and earlier <= note.until < later and name in self.index
        }
        if not columns:  # by far the most frequent case: everything that was computed stays valid
            return self._with(now=now)
        return self._next(_Change(tuple(columns)), now=now)

    def with_external_values(self, kind: str, values: Mapping[str, ExternalValue]) -> "Fleet[T]":
        """The next fleet, in which `values` replace all external values of this kind."""
        before = self.external_values.get(kind, {})
        changed = {name for name in before.keys() | values.keys() if before.get(name) != values.get(name)}
        columns = tuple(self.index[name] for name in changed if name in self.index)
        return self._next(_Change(columns), external_values={**self.external_values, kind: values})

    def with_external_value_changes(self, kind: str, changed: Mapping[str, ExternalValue | None]) -> "Fleet[T]":
        """The next fleet, in which these external values of this kind are set, or removed where they are None."""
        notes = dict(self.external_values.get(kind, {}))
        for name, note in changed.items():
            if note is None:
                notes.pop(name, None)
            else:
                notes[name] = note
        columns = tuple(self.index[name] for name in changed if name in self.index)
        return self._next(_Change(columns), external_values={**self.external_values, kind: notes})

    def reserve(self, columns: Array, amounts: Mapping[Any, Array | int]) -> "Fleet[T]":
        """The same fleet, in which these amounts of each resource are reserved in these columns.

        Targets, external values and arrays stay the same: code that computes free capacity must subtract `reserved`.
        """
        reserved: dict[Hashable, Array] = dict(self.reserved)
        for resource, amount in amounts.items():
            before = reserved.get(resource)
            given = np.zeros(len(self.targets), dtype=np.int64) if before is None else before.copy()
            given[columns] += amount
            reserved[resource] = given
        return self._with(reserved=reserved)

    def without_reservations(self) -> "Fleet[T]":
        """The same fleet without reservations: a new reconcile reads the real usage."""
        return self._with(reserved={}) if self.reserved else self

    def _with(self, *, now: datetime | None = None, reserved: Mapping[Hashable, Array] | None = None) -> "Fleet[T]":
        """The same revision with another time or other reservations, on which no array depends."""
        return Fleet(
            self.targets,
            self.names,
            self.index,
            now=self.now if now is None else now,
            external_values=self.external_values,
            reserved=self.reserved if reserved is None else reserved,
            revision=self.revision,
            layout=self.layout,
            cache=self.cache,
        )

    def _advance_cache(self, change: _Change) -> ArrayCache:
        memory = self.cache
        memory.advance(change)
        return memory

    def _next(
        self,
        change: _Change,
        *,
        targets: Sequence[T] | None = None,
        now: datetime | None = None,
        external_values: Mapping[str, Mapping[str, ExternalValue]] | None = None,
    ) -> "Fleet[T]":
        return Fleet(
            self.targets if targets is None else targets,
            self.names,
            self.index,
            now=self.now if now is None else now,
            external_values=self.external_values if external_values is None else external_values,
            reserved=self.reserved,
            revision=self.revision + 1,
            layout=self.layout,
            cache=self._advance_cache(change),
        )


def _move_amounts(amounts: Array, origin: Array) -> Array:
    if len(amounts) == 0:
        return np.zeros(len(origin), dtype=np.int64)
    moved: Array = np.where(origin >= 0, amounts[origin], 0)
    return moved
