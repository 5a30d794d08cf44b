"""The objects of an API server that has just started, for further servers of the process with the same settings.

A simulated member admits some forty objects of its own when it starts: namespaces, roles, CRDs. They are the same in every
member, except for uids and times. So the first member admits them, and the others get entries that share its bytes; an
object with its own uid and time is built when somebody reads it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import orjson

from trimtab.similar_bytes import EditedBytes
from trimtab.store.records import StoredEntry
from trimtab.store.store import Store


class _ImageObject(NamedTuple):
    """An object of the first server."""

    key: str
    value: bytes
    uid: bytes
    mod_revision: int
    create_revision: int


class StartImage:
    """What the first server stores at its start; empty until then."""

    def __init__(self) -> None:
        self._objects: Sequence[_ImageObject] = ()
        self._time = b""

    def __bool__(self) -> bool:
        return bool(self._objects)

    def take(self, store: Store, time: str) -> None:
        """Take all objects of a store, in which no other time occurs than this one."""
        self._objects = [
            _ImageObject(entry.key, value, uid_of(value), entry.mod_revision, entry.create_revision)
            for entry in sorted(store.snapshot()[0], key=lambda entry: entry.create_revision)
            for value in (entry.value,)
        ]
        self._time = time.encode()

    def entries(self, new_uid: Callable[[], str], time: str) -> Iterator[StoredEntry]:
        """The same objects with uids and times of their own, in the order in which they were created."""
        of_time = (self._time, time.encode())
        for key, value, uid, mod_revision, create_revision in self._objects:
            edited = EditedBytes(value, ((uid, new_uid().encode()), of_time))
            yield StoredEntry(key, edited, mod_revision, create_revision)


def uid_of(value: bytes) -> bytes:
    """The uid of a stored object."""
    uid: str = orjson.loads(value)["metadata"]["uid"]
    return uid.encode()
