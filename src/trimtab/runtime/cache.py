"""In-memory copy of the objects of one API server, kept current by list and watch, with indexes.

Every View reads from it. Results of own writes are put in as well, so a table may be newer than its watch; `put` and
`drop` therefore compare revisions and ignore what is older than what they hold.
"""

import asyncio
import contextlib
import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import Any, NamedTuple, Self, TypeVar, cast, final

import msgspec
import orjson

from trimtab.api.kind import Kind, kind_of, kinds
from trimtab.api.shared_decoding import is_derived
from trimtab.api.value import Object, Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.controllers.contract import Index
from trimtab.errors import ApiError, Expired, NotFound
from trimtab.runtime.decoded_entries import DecodedEntries
from trimtab.runtime.saved_tables import PartWriter, SavedIndexes, SavedPart, SavedTables
from trimtab.similar_bytes import PackedBytes, SamplePacker
from trimtab.tasks import LoggedFailure, stop_tasks

T = TypeVar("T", bound=Object)
Name = tuple[str, str]
ChangeListener = Callable[["CacheEntry | None", "CacheEntry | None"], None]


@final
class KeyListener(NamedTuple):
    """A listener that adds the keys which a change concerns to a queue.

    A change has dozens of them, most of which name no key, so the table calls `keys` itself.
    """

    keys: Callable[[Any, Any, Any], Iterable[Any]]
    """Gets the typed object before and after the change, and `view`."""
    view: Any
    add: Callable[[Any], None]


Listener = ChangeListener | KeyListener
RELIST_SECONDS = 1.0
MAX_RELIST_SECONDS = 30.0
FIRST_REWATCH_SECONDS = 0.05
MAX_REWATCH_SECONDS = 5.0
UNKNOWN_KIND_SECONDS = 5.0
MAX_DELETED_REVISIONS = 4096
"""Deletions per kind of which the revision is kept."""

USUAL_BYTES = 16 << 10
"""JSON of an object that counts as one."""
WEIGHED_BYTES = 1 << 10
"""JSON that counts as one object in a larger one, whose many small values take most memory when they are decoded."""
log = logging.getLogger("trimtab.cache")
_packer = SamplePacker()


def without_managed_fields(raw: Raw) -> Raw:
    """The object without its managedFields: often more than half of its size, and read only by the server."""
    if "managedFields" not in raw["metadata"]:
        return raw
    metadata = raw["metadata"].copy()
    del metadata["managedFields"]
    return {**raw, "metadata": metadata}


class CacheEntry:
    """A cached object: the wire form without managedFields, and the typed value, decoded on first access.

    An entry that nothing reads for long is packed: `raw` and `typed` are built again when they are read, so they may be
    other objects than before.
    """

    __slots__ = (
        "_decoded",
        "_kind",
        "_packed",
        "has_typed",
        "is_resumed",
        "name",
        "raw",
        "revision",
        "typed",
        "weight",
    )
    raw: Raw
    typed: Object

    def __init__(self, raw: Raw, kind: Kind | None, decoded: DecodedEntries | None = None) -> None:
        metadata = raw["metadata"]
        self.raw = without_managed_fields(raw)
        self.name: Name = (metadata.get("namespace", ""), metadata["name"])
        self.revision: str = metadata.get("resourceVersion", "")
        self._kind = kind
        self._decoded = decoded
        self._packed: PackedBytes | None = None
        self.has_typed = False
        """Whether `typed` was decoded."""
        self.is_resumed = False
        """Whether it was loaded from saved caches and is the same since."""
        self.weight = 1
        """As how many objects of usual size it counts when it is decoded."""

    @classmethod
    def resume(
        cls, name: Name, revision: str, packed: PackedBytes, kind: Kind | None, decoded: DecodedEntries | None
    ) -> Self:
        """An entry that a process before this one packed."""
        self = cls.__new__(cls)
        self.name = name
        self.revision = revision
        self._kind = kind
        self._decoded = decoded
        self._packed = packed
        self.has_typed = False
        self.is_resumed = True
        self.weight = 1
        return self

    def weigh(self, old: "CacheEntry | None") -> None:
        """Find out how large an object of a kind with large ones is; one that was made of another is as large as that."""
        if old is not None and is_derived(self.raw, old.raw):
            self.weight = old.weight
            return
        with contextlib.suppress(TypeError):  # an integer beyond 64 bits
            size = len(orjson.dumps(self.raw))
            self.weight = 1 if size <= USUAL_BYTES else size // WEIGHED_BYTES

    def decode_after(self, old: "CacheEntry") -> None:
        """Decode the typed value now if the older entry, of a kind with large objects, has one to share parts with."""
        kind = self._kind
        if kind is not None and old.has_typed and is_derived(self.raw, old.raw):
            with contextlib.suppress(msgspec.ValidationError):  # who reads the typed value gets it
                self.typed = kind.decode_changed(self.raw, old.raw, old.typed)
                self.has_typed = True

    def __getattr__(self, name: str) -> Any:
        """Decode `raw` or `typed` on first access; from then on it is a plain attribute."""
        if name == "raw":
            return self._unpack()
        if name != "typed":
            raise AttributeError(name)
        if self._kind is None:
            raise TypeError(f"{self.raw.get('kind')} has no declared type")
        self.typed = self._kind.decode(self.raw)
        self.has_typed = True
        return self.typed

    def _unpack(self) -> Raw:
        assert self._packed is not None
        self.raw = orjson.loads(self._packed.unpack())
        if self._decoded is not None:
            self._decoded.add(self)
        return self.raw

    def pack(self) -> None:
        """Keep the object as compressed JSON only."""
        if self.packed() is None:
            return
        del self.raw
        if self.has_typed:
            del self.typed
            self.has_typed = False

    def packed(self) -> PackedBytes | None:
        """The object as compressed JSON; None if it has a number that cannot be encoded."""
        if self._packed is None:
            try:
                text = orjson.dumps(self.raw)
            except TypeError:  # an integer beyond 64 bits
                return None
            self._packed = _packer.pack(self.raw.get("kind", ""), text)
        return self._packed

    def read_raw(self) -> Raw:
        """The object, without keeping it decoded; another thread may call this."""
        try:
            return cast("Raw", CacheEntry.__dict__["raw"].__get__(self))
        except AttributeError:
            assert self._packed is not None
            return cast("Raw", orjson.loads(self._packed.unpack()))

    def read_typed(self) -> Object:
        """The typed value, without keeping it; another thread may call this."""
        assert self._kind is not None
        try:
            return cast("Object", CacheEntry.__dict__["typed"].__get__(self))
        except AttributeError:
            return self._kind.decode(self.read_raw())

    @property
    def value(self) -> "Object | Raw":
        """The typed value if the kind is declared, else the raw object."""
        return self.raw if self._kind is None else self.typed


def _is_newer(one: str, other: str) -> bool:
    return one.isdigit() and other.isdigit() and int(one) > int(other)


class Table:
    """The cached objects of one resource, sorted and indexed."""

    def __init__(self, resource: Resource, decoded: DecodedEntries | None = None) -> None:
        self.resource = resource
        self.id = resource.id
        # Objects without a namespace are few, and clusters are read for every workload: they stay decoded.
        self._decoded = decoded if resource.namespaced else None
        self.kind = kinds.get(self.id)
        self._has_large_objects = self.kind is not None and bool(self.kind.large_part)
        self.entries: dict[Name, CacheEntry] = {}
        self.synced = asyncio.Event()
        self.attempted = asyncio.Event()
        """Set when the first list has ended, also if it failed."""
        self.observed_revision = ""
        """The revision up to which all watch events have been received; results of writes may be newer."""
        self.change_count = 0
        """Number of changes so far; callers that aggregate compare it to see whether to aggregate again."""
        self._names: dict[str, list[Name]] = {}
        """Per namespace, sorted."""
        self._indexes: dict[str, tuple[Index[Any], dict[str, set[Name]]]] = {}
        self._saved_indexes = SavedIndexes()
        self._listeners: list[Listener] = []
        self._load_listeners: list[Listener] = []
        self.needs_comparison = False
        """Whether it was loaded from saved caches and not yet compared with the server."""
        self._deleted_revisions: dict[Name, str] = {}

    def add_listener(self, listener: Listener, *, only_changes: bool = False) -> None:
        """Call `listener(old, new)` for every later change, and now for every present object as if it were new.

        `only_changes`: not for objects that are the same as when the caches were saved.
        """
        self._listeners.append(listener)
        if not only_changes:
            self._load_listeners.append(listener)
        for entry in list(self.entries.values()):
            if not (only_changes and entry.is_resumed):
                _notify((listener,), None, entry)

    def load(self, part: SavedPart) -> None:
        """Add objects that a process before this one saved, in the order of their names."""
        samples, loaded = part.samples, []
        for namespace, name, revision, sample, data in part.entries:
            packed = PackedBytes(data, samples[sample])
            entry = CacheEntry.resume((intern(namespace), name), revision, packed, self.kind, self._decoded)
            self.entries[entry.name] = entry
            self._names.setdefault(namespace, []).append(entry.name)
            loaded.append(entry.name)
            if self._load_listeners:
                self._call_listeners(self._load_listeners, None, entry)
        self.change_count += 1
        self._saved_indexes.load(loaded, part.indexes)
        self.observed_revision, self.needs_comparison = part.revision, True

    def save(self) -> Iterator[SavedPart]:
        """The objects and indexes, in parts; nothing if they are not known to be complete."""
        if not self.synced.is_set() or self.needs_comparison or not self.observed_revision:
            return
        writer = PartWriter(self.resource, self.observed_revision)
        for name in self.names():
            entry = self.entries[name]
            if (packed := entry.packed()) is not None:
                yield from writer.add(name, entry.revision, packed)
        yield writer.finish({name: values for name, (_, values) in self._indexes.items()})

    def replace(self, raw: Raw, known: str | None) -> None:
        """Store what the server has instead of what was loaded: it may be older if the server was restored.

        `known` is the revision that was loaded. An object that has changed since is as new as it can be.
        """
        name = (raw["metadata"].get("namespace", ""), raw["metadata"]["name"])
        old = self.entries.get(name)
        if old is not None and old.revision == known:
            old.revision = ""
        self.put(raw)

    def end_comparison(self, gone: Iterable[Name], known: Mapping[Name, str], revision: str) -> None:
        """Drop what the server no longer has; the table is as of this revision now."""
        for name in gone:
            if (entry := self.entries.get(name)) is not None and entry.revision == known[name]:
                entry.revision = ""
                self.drop(name, revision)
        self.needs_comparison = False
        self.observed_revision = revision
        self.synced.set()

    def names(self, namespace: str | None = None) -> Sequence[Name]:
        """The names in one namespace, or in all of them, in order; they must not be changed."""
        if namespace is not None:
            return self._names.get(namespace, ())
        return [name for space in sorted(self._names) for name in self._names[space]]

    def put(self, raw: Raw) -> None:
        """Store an object unless the cached one is newer: the response to a write may arrive before its watch event."""
        metadata = raw["metadata"]
        old = self.entries.get((metadata.get("namespace", ""), metadata["name"]))
        revision = metadata.get("resourceVersion", "")
        if old is not None and (old.revision == revision or _is_newer(old.revision, revision)):
            return
        entry = CacheEntry(raw, self.kind, self._decoded)
        deleted_at = self._deleted_revisions.get(entry.name, "")
        if deleted_at and (deleted_at == entry.revision or _is_newer(deleted_at, entry.revision)):
            return  # the response to the write that removed the last finalizer may arrive after the DELETED event
        if self._has_large_objects:
            if self._decoded is not None:
                entry.weigh(old)
            if old is not None:
                entry.decode_after(old)
        self.entries[entry.name] = entry
        if old is None:
            insort(self._names.setdefault(entry.name[0], []), entry.name)
        self._call_listeners((self._update_indexes, *self._listeners), old, entry)
        if self._decoded is not None:
            self._decoded.add(entry)
            if old is not None:
                self._decoded.discard(old)

    def drop(self, name: Name, revision: str = "") -> None:
        old = self.entries.get(name)
        if old is None or _is_newer(old.revision, revision):
            return
        del self.entries[name]
        self._drop_name(name)
        if revision:
            self._deleted_revisions[name] = revision
            if (
                len(self._deleted_revisions) > MAX_DELETED_REVISIONS
            ):  # only recent deletions can be overtaken by a late response
                del self._deleted_revisions[next(iter(self._deleted_revisions))]
        self._call_listeners((self._update_indexes, *self._listeners), old, None)
        if self._decoded is not None:
            self._decoded.discard(old)

    def _drop_name(self, name: Name) -> None:
        names = self._names[name[0]]
        del names[bisect_left(names, name)]
        if not names:
            del self._names[name[0]]

    def put_page(self, items: Iterable[Raw]) -> Iterator[Name]:
        """Store one page of a list; yields the names in it."""
        for raw in items:
            metadata = raw["metadata"]
            self.put(raw)
            yield metadata.get("namespace", ""), metadata["name"]

    def end_list(self, seen: Container[Name], revision: str) -> None:
        """Drop the objects that were not in a list; the table is as of its revision now."""
        for name in [name for name in self.entries if name not in seen]:
            self.drop(name, revision)
        self.observed_revision = revision
        self.synced.set()

    def _call_listeners(self, called: Iterable[Listener], old: CacheEntry | None, new: CacheEntry | None) -> None:
        """Call the listeners; an exception in one affects neither the others nor the watch."""
        name = (new or cast("CacheEntry", old)).name
        guard = LoggedFailure(log, "a listener failed on %s %s", self.id, name)
        listeners = iter(called)
        is_done = False
        while not is_done:
            with guard:  # entered again only after a failure
                _notify(listeners, old, new)
                is_done = True

    def _update_indexes(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        self.change_count += 1
        name = (new or cast("CacheEntry", old)).name
        if self._saved_indexes.is_used:
            self._saved_indexes.note_change(name)
        for index, names_by_value in self._indexes.values():
            old_values: Iterable[str] = index.values(old.typed) if old else ()
            new_values: Iterable[str] = index.values(new.typed) if new else ()
            if old_values == new_values:  # the case for nearly every change
                continue
            before, after = set(old_values), set(new_values)
            for value in before - after:
                names_by_value[value].discard(name)
                if not names_by_value[value]:
                    del names_by_value[value]
            for value in after - before:
                names_by_value.setdefault(value, set()).add(name)

    def by_index(self, index: Index[T], value: str) -> list[T]:
        """The objects with this index value, sorted by name."""
        names = self._indexed_names(index, value)
        entries: Mapping[Name, Any] = self.entries
        return [entries[name].typed for name in sorted(names)] if names else []

    def count_by_index(self, index: Index[T], value: str) -> int:
        return len(self._indexed_names(index, value))

    def _indexed_names(self, index: Index[T], value: str) -> Collection[Name]:
        """The names with this index value; the index is built on first use."""
        if index.name not in self._indexes:
            names_by_value, missing = self._saved_indexes.take(index.name, self.entries)
            for name in missing:
                if (entry := self.entries.get(name)) is not None:
                    for indexed in index.values(cast("T", entry.typed)):
                        names_by_value.setdefault(indexed, set()).add(name)
            self._indexes[index.name] = (index, names_by_value)
        return self._indexes[index.name][1].get(value, ())


def _notify(listeners: Iterable[Listener], old: CacheEntry | None, new: CacheEntry | None) -> None:
    for listener in listeners:
        if type(listener) is KeyListener:
            keys, view, add = listener
            for key in keys(old and old.typed, new and new.typed, view):
                add(key)
        else:
            listener(old, new)


class TablesByType(dict[type[Object], Table]):
    """Tables by the class of their objects; a missing one is made, which starts its list and watch."""

    def __init__(self, make: Callable[[Resource], Table]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, type_: type[Object]) -> Table:
        table = self[type_] = self._make(resource_of(kind_of(type_)))
        return table


class RelistBackoff:
    """Pauses that double with every failure in a row."""

    def __init__(self) -> None:
        self._seconds = RELIST_SECONDS

    def reset(self) -> None:
        self._seconds = RELIST_SECONDS

    def next_seconds(self) -> float:
        seconds, self._seconds = self._seconds, min(MAX_RELIST_SECONDS, self._seconds * 2)
        return seconds


class Cache:
    """The tables of one API server, each with its own list and watch."""

    def __init__(
        self,
        client: Client,
        *,
        labels: str = "",
        decoded: DecodedEntries | None = None,
        saved: SavedTables | None = None,
    ) -> None:
        """`decoded` bounds how many objects are kept decoded, in this cache and others; without it all are.

        `saved` are tables that a process before this one saved: they are loaded instead of listed, and compared with the
        server after `compare_saved` was called.
        """
        self.client = client
        self.decoded = decoded
        self._saved = saved
        self._may_compare = asyncio.Event()
        self._labels = labels
        self.by_id: dict[str, Table] = {}
        """Tables by the id of their resource; nobody else adds or removes one."""
        self.by_type = TablesByType(self.table)
        self._watch_tasks: dict[str, asyncio.Task[None]] = {}
        self._table_listeners: list[Callable[[Table], None]] = []
        self.removed_tables = 0
        """Number of tables removed so far: listeners get no change for the objects in them."""

    def tables(self) -> Iterator[Table]:
        return iter(list(self.by_id.values()))

    def add_table_listener(self, listener: Callable[[Table], None]) -> None:
        """Call `listener` for every present and every later table."""
        self._table_listeners.append(listener)
        for table in self.tables():
            listener(table)

    def table(self, resource: Resource) -> Table:
        """The table of this resource; its list and watch start with the first call."""
        table = self.by_id.get(resource.id)
        if table is None:
            table = self.by_id[resource.id] = Table(resource, self.decoded)
            self._watch_tasks[resource.id] = asyncio.get_running_loop().create_task(self._keep_watching(table))
            for follower in self._table_listeners:
                follower(table)
        return table

    def table_of(self, type_: type[Object]) -> Table:
        return self.by_type[type_]

    def find_table(self, id_: str) -> Table | None:
        return self.by_id.get(id_)

    def remove_table(self, id_: str) -> None:
        """Stop watching a resource that the server no longer serves, and drop its table."""
        self.removed_tables += 1
        if feed := self._watch_tasks.pop(id_, None):
            feed.cancel()
        if (table := self.by_id.pop(id_, None)) is not None:
            for type_ in [type_ for type_, other in self.by_type.items() if other is table]:
                del self.by_type[type_]

    def compare_saved(self) -> None:
        """Compare what was loaded with the server; everybody who has to learn of differences listens now."""
        self._may_compare.set()

    def save(self) -> Iterator[SavedPart]:
        """The complete tables, for the next process; without Secrets, which are not for files."""
        for table in self.tables():
            if table.resource.id != "secrets":
                yield from table.save()

    async def wait_until_synced(self) -> None:
        """Wait until every table requested so far has been listed once."""
        for table in self.tables():
            await table.synced.wait()

    async def _keep_watching(self, table: Table) -> None:
        """List and watch for ever: an unexpected response must not end the task, or the table silently becomes stale."""
        backoff = RelistBackoff()
        while True:
            with LoggedFailure(log, "unexpected response while watching %s", table.resource.id) as attempt:
                await self._list_and_watch(table, backoff)
            if attempt.failure is not None:
                await asyncio.sleep(backoff.next_seconds())

    async def _list_and_watch(self, table: Table, backoff: "RelistBackoff") -> None:
        """List and watch until the watch expires or the server does not respond; then pause."""
        try:
            try:
                await self._load(table)
                revision = await (self._compare(table) if table.needs_comparison else self._list(table))
            finally:
                table.attempted.set()
            backoff.reset()
            await self._watch(table, revision)
        except Expired:
            await asyncio.sleep(FIRST_REWATCH_SECONDS)
        except NotFound:
            # A server that does not serve the kind has no objects of it, and may serve it later. Objects that were
            # listed before are kept: the kind may only be unavailable for a moment.
            if not table.synced.is_set():
                table.end_list((), "")
            await asyncio.sleep(UNKNOWN_KIND_SECONDS)
        except ApiError as fault:
            log.warning("cannot watch %s: %s", table.resource.id, fault)
            seconds = backoff.next_seconds()
            await asyncio.sleep(fault.retry_after or seconds)
        except (OSError, TimeoutError) as fault:
            log.warning("cannot watch %s: %s", table.resource.id, fault)
            await asyncio.sleep(backoff.next_seconds())

    async def _load(self, table: Table) -> None:
        """Load what was saved of the table, once."""
        if self._saved is not None:
            for part in self._saved.take(table.resource):
                table.load(part)
                await asyncio.sleep(0)

    async def _compare(self, table: Table) -> str:
        """Replace what has changed since the table was saved; returns the revision from which to watch."""
        await self._may_compare.wait()
        known = {name: entry.revision for name, entry in table.entries.items()}
        revision, gone = table.observed_revision, list[Name]()
        changes = self.client.list_changes(table.resource, known, revision=revision, labels=self._labels)
        async for part in changes:
            for raw in part.changed:
                table.replace(raw, known.get((raw["metadata"].get("namespace", ""), raw["metadata"]["name"])))
            gone += part.gone
            revision = part.revision
        table.end_comparison(gone, known, revision)
        return revision

    async def _list(self, table: Table) -> str:
        """List all objects into the table, a page at a time; returns the revision of the list."""
        seen: set[Name] = set()
        revision = ""
        async for page in self.client.list_pages(table.resource, labels=self._labels):
            seen.update(table.put_page(page.items))
            revision = page.revision
        table.end_list(seen, revision)
        return revision

    async def _watch(self, table: Table, revision: str) -> None:
        """Watch until the revision is too old; a watch that ends is resumed from the last revision, without a list."""
        pause = FIRST_REWATCH_SECONDS
        while True:
            before = revision
            try:
                async for changes in self.client.watch(table.resource, revision=revision, labels=self._labels):
                    for change in changes:
                        revision = change.object["metadata"]["resourceVersion"]
                        if change.type == "DELETED":
                            metadata = change.object["metadata"]
                            table.drop((metadata.get("namespace", ""), metadata["name"]), revision)
                        elif change.type != "BOOKMARK":
                            table.put(change.object)
                        table.observed_revision = revision
            except (OSError, TimeoutError) as fault:
                log.info("the watch of %s broke: %s", table.resource.id, fault)
            # Back off from a server that ends every watch at once; never reconnect in a tight loop.
            pause = FIRST_REWATCH_SECONDS if revision != before else min(MAX_REWATCH_SECONDS, pause * 2)
            await asyncio.sleep(pause)

    async def close(self) -> None:
        await stop_tasks(self._watch_tasks.values(), log)
