"""What an API server holds, kept in memory by list and watch, with indexes: the ground every View stands on."""

import asyncio
import contextlib
import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

from trimtab.api.kind import Kind, kind_of, kinds
from trimtab.api.value import Object, Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.controllers.contract import Index
from trimtab.errors import ApiFault, Expired, NotFound

T = TypeVar("T", bound=Object)
Name = tuple[str, str]
Heard = Callable[["Entry | None", "Entry | None"], None]

RELIST_SECONDS = 1.0
LONGEST_RELIST_SECONDS = 30.0
FIRST_REWATCH_SECONDS = 0.05
LONGEST_REWATCH_SECONDS = 5.0
UNKNOWN_KIND_SECONDS = 5.0

log = logging.getLogger("trimtab.cache")


def without_owners(raw: Raw) -> Raw:
    """The object without its managedFields: often more than half of it, and read by nobody but the server."""
    if "managedFields" not in raw["metadata"]:
        return raw
    metadata = raw["metadata"].copy()
    del metadata["managedFields"]
    return {**raw, "metadata": metadata}


class Entry:
    """One object: as it is on the wire, but for who owns its fields, and, once somebody asked, as a typed value."""

    __slots__ = ("_kind", "name", "raw", "revision", "typed")
    typed: Object

    def __init__(self, raw: Raw, kind: Kind | None) -> None:
        metadata = raw["metadata"]
        self.raw = without_owners(raw)
        self.name: Name = (metadata.get("namespace", ""), metadata["name"])
        self.revision: str = metadata.get("resourceVersion", "")
        self._kind = kind

    def __getattr__(self, name: str) -> Object:
        """The typed value, when it is asked for the first time; from then on it is an attribute like any other."""
        if name != "typed":
            raise AttributeError(name)
        if self._kind is None:
            raise TypeError(f"{self.raw.get('kind')} has no type of ours")
        self.typed = self._kind.decode(self.raw)
        return self.typed

    @property
    def value(self) -> "Object | Raw":
        """The typed value where there is one, else the raw object."""
        return self.raw if self._kind is None else self.typed


def _newer(one: str, other: str) -> bool:
    return one.isdigit() and other.isdigit() and int(one) > int(other)


class Table:
    """The objects of one resource."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.kind = kinds.get(resource.id)
        self.entries: dict[Name, Entry] = {}
        self.synced = asyncio.Event()
        self.reached = ""
        """The revision up to which everything has been heard; answers of writes may be ahead of it."""
        self.changes = 0
        """Counts every change, so that who sums up can tell whether to do it again."""
        self._names: list[Name] = []
        self._indexes: dict[str, tuple[Index[Any], dict[str, set[Name]]]] = {}
        self._listeners: list[Heard] = []
        self._buried: dict[Name, str] = {}

    def listen(self, heard: Heard) -> None:
        """Hear every change from now on, and everything already here as if it were new."""
        self._listeners.append(heard)
        for entry in list(self.entries.values()):
            heard(None, entry)

    def names(self) -> Sequence[Name]:
        return self._names

    def put(self, raw: Raw) -> None:
        """Take in an object, unless what is known is newer (a write's answer may overtake its watch event)."""
        metadata = raw["metadata"]
        old = self.entries.get((metadata.get("namespace", ""), metadata["name"]))
        revision = metadata.get("resourceVersion", "")
        if old is not None and (old.revision == revision or _newer(old.revision, revision)):
            return
        entry = Entry(raw, self.kind)
        grave = self._buried.get(entry.name, "")
        if grave and (grave == entry.revision or _newer(grave, entry.revision)):
            return  # the answer of the write that removed the last finalizer may come after the news of the end
        self.entries[entry.name] = entry
        if old is None:
            insort(self._names, entry.name)
        self._tell(old, entry)

    def drop(self, name: Name, revision: str = "") -> None:
        old = self.entries.get(name)
        if old is None or _newer(old.revision, revision):
            return
        del self.entries[name]
        del self._names[bisect_left(self._names, name)]
        if revision:
            self._buried[name] = revision
            if len(self._buried) > 4096:  # only the recent dead can be overtaken
                del self._buried[next(iter(self._buried))]
        self._tell(old, None)

    def replace_all(self, items: Iterable[Raw], revision: str) -> None:
        """After a fresh list: what is not in it is gone."""
        seen: set[Name] = set()
        for raw in items:
            metadata = raw["metadata"]
            seen.add((metadata.get("namespace", ""), metadata["name"]))
            self.put(raw)
        for name in [name for name in self.entries if name not in seen]:
            self.drop(name, revision)
        self.reached = revision
        self.synced.set()

    def _tell(self, old: Entry | None, new: Entry | None) -> None:
        """A listener's defect costs neither the others their news nor the table its feed."""
        for heard in (self._file, *self._listeners):
            try:
                heard(old, new)
            except Exception:
                log.exception("a listener failed on %s %s", self.resource.id, (new or cast("Entry", old)).name)

    def _file(self, old: Entry | None, new: Entry | None) -> None:
        self.changes += 1
        for index, shelves in self._indexes.values():
            held: Iterable[str] = index.values(old.typed) if old else ()
            holds: Iterable[str] = index.values(new.typed) if new else ()
            if held == holds:  # as with nearly every change
                continue
            before, after = set(held), set(holds)
            for value in before - after:
                shelves[value].discard(cast("Entry", old).name)
                if not shelves[value]:
                    del shelves[value]
            for value in after - before:
                shelves.setdefault(value, set()).add(cast("Entry", new).name)

    def having(self, index: Index[T], value: str) -> list[T]:
        if index.name not in self._indexes:
            shelves: dict[str, set[Name]] = {}
            for entry in self.entries.values():
                for shelf in index.values(cast("T", entry.typed)):
                    shelves.setdefault(shelf, set()).add(entry.name)
            self._indexes[index.name] = (index, shelves)
        found = self._indexes[index.name][1].get(value, ())
        return [cast("T", self.entries[name].typed) for name in sorted(found)]


class Cache:
    """Tables of one API server, each fed by its own list and watch."""

    def __init__(self, client: Client, *, labels: str = "") -> None:
        self.client = client
        self._labels = labels
        self._tables: dict[str, Table] = {}
        self._by_type: dict[type[Object], Table] = {}
        self._feeds: dict[str, asyncio.Task[None]] = {}
        self._followers: list[Callable[[Table], None]] = []

    def tables(self) -> Iterator[Table]:
        return iter(list(self._tables.values()))

    def follow(self, follower: Callable[[Table], None]) -> None:
        """Call `follower` for every table, those here and those to come."""
        self._followers.append(follower)
        for table in self.tables():
            follower(table)

    def table(self, resource: Resource) -> Table:
        """The table of this resource; its feed starts with the first request."""
        table = self._tables.get(resource.id)
        if table is None:
            table = self._tables[resource.id] = Table(resource)
            self._feeds[resource.id] = asyncio.get_running_loop().create_task(self._feed(table))
            for follower in self._followers:
                follower(table)
        return table

    def table_of(self, type_: type[Object]) -> Table:
        table = self._by_type.get(type_)
        if table is None:
            table = self._by_type[type_] = self.table(resource_of(kind_of(type_)))
        return table

    def known(self, id_: str) -> Table | None:
        return self._tables.get(id_)

    def forget(self, id_: str) -> None:
        """Stop feeding a resource that the server no longer serves."""
        if feed := self._feeds.pop(id_, None):
            feed.cancel()
        if (table := self._tables.pop(id_, None)) is not None:
            self._by_type = {type_: held for type_, held in self._by_type.items() if held is not table}

    async def synced(self) -> None:
        """Wait until every table asked for so far has been listed once."""
        for table in self.tables():
            await table.synced.wait()

    async def _feed(self, table: Table) -> None:
        pause = RELIST_SECONDS
        while True:
            try:
                listing = await self.client.list(table.resource, labels=self._labels)
                table.replace_all(listing.items, listing.revision)
                pause = RELIST_SECONDS
                await self._follow_changes(table, listing.revision)
            except Expired:
                await asyncio.sleep(FIRST_REWATCH_SECONDS)
            except NotFound:
                # A server that never knew the kind has nothing of it, and may learn it any time. What we have seen there
                # before is not given up so lightly.
                if not table.synced.is_set():
                    table.replace_all((), "")
                await asyncio.sleep(UNKNOWN_KIND_SECONDS)
            except (ApiFault, OSError, TimeoutError) as fault:
                log.warning("cannot follow %s: %s", table.resource.id, fault)
                await asyncio.sleep(getattr(fault, "retry_after", None) or pause)
                pause = min(LONGEST_RELIST_SECONDS, pause * 2)
            except Exception:
                # Whatever a server answers, a table that is silently no longer fed would be worse.
                log.exception("cannot make sense of what the server says about %s", table.resource.id)
                await asyncio.sleep(pause)
                pause = min(LONGEST_RELIST_SECONDS, pause * 2)

    async def _follow_changes(self, table: Table, revision: str) -> None:
        """Until the revision is too old; a watch that ends or breaks goes on from the last one seen, without a list."""
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
                        table.reached = revision
            except (OSError, TimeoutError) as fault:
                log.info("the watch of %s broke: %s", table.resource.id, fault)
            # A server that ends every watch at once is in trouble: ask it less and less often, never in a tight loop.
            pause = FIRST_REWATCH_SECONDS if revision != before else min(LONGEST_REWATCH_SECONDS, pause * 2)
            await asyncio.sleep(pause)

    async def close(self) -> None:
        for feed in self._feeds.values():
            feed.cancel()
        for feed in self._feeds.values():
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await feed
