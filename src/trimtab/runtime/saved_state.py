"""What a control plane knows when it stops, in a file, so that the next start works only on what has changed since.

A start without it lists every object of the host and of all members and reconciles each one, although nearly all of them are
settled: minutes for a hundred thousand workloads. With it a restart is like a pause:

1. When the controllers stop, the file gets the objects of all caches with their resourceVersions, the indexes, and the keys
   that are queued, being processed, or wait for a time. All of this is from one moment: nothing else runs while it is written.
2. At the next start the caches are loaded from it. Controllers that `resume` queue the unfinished keys only.
3. Each table is compared with its server, on the host and in every member (`Client.list_changes`). What was created, changed or
   deleted meanwhile is a change like any other: it goes through the triggers with its old and its new state.
4. Controllers start when the tables of the host are compared. Objects of a member count as not yet read until they are.

So a key that is not queued is one that was finished, and whose inputs are the same as then. What controllers remember in the
process is lost, as by any restart. What is wrong with the file costs only time: it is removed before it is used, so that it
cannot fail twice; it is ignored if it is damaged, or if another version of the program, another profile, other settings or other
controllers wrote it. A process that is killed leaves none. Secrets are not in it.
"""

import logging
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

import trimtab
from trimtab.client.client import Resource
from trimtab.runtime.saved_tables import SavedPart, SavedQueue
from trimtab.store.files import replacement_of

FORMAT = 1
PRIVATE_MODE = 0o600
HOST = ""
"""The server of the tables that are not of a member."""
_END = struct.Struct("<QI")
"""The last bytes: length and checksum of the summary before them."""

log = logging.getLogger("trimtab.saved_state")


class PartPlace(NamedTuple):
    """Where a part of a table is in the file."""

    server: str
    resource: Resource
    offset: int
    length: int
    checksum: int


class Summary(Struct):
    """What the file is about, and where everything is in it."""

    origin: str
    """What wrote it: program, profile, settings and controllers. It is valid for the same only."""
    queues: dict[str, SavedQueue]
    """By controller."""
    members: dict[str, str]
    """The address of each member; its objects are valid for this address only."""
    parts: list[PartPlace]


def origin_of(profile: str, settings: Mapping[str, Any], controllers: Iterable[str]) -> str:
    """A text that is another one wherever a process could decide otherwise."""
    package = Path(trimtab.__file__).parent
    paths = (Path(folder, name) for folder, _, names in os.walk(package) for name in names if name.endswith(".py"))
    files = sorted((str(path), (found := path.stat()).st_size, found.st_mtime_ns) for path in paths)
    code = zlib.crc32(repr(files).encode())
    given = sorted((name, sorted(value) if isinstance(value, frozenset) else value) for name, value in settings.items())
    return f"{FORMAT} {code:08x} {profile} {given!r} {sorted(controllers)!r}"


def write_state(
    path: Path,
    origin: str,
    queues: dict[str, SavedQueue],
    members: dict[str, str],
    tables: Iterable[tuple[str, Iterable[SavedPart]]],
) -> None:
    """Write the file; `tables` are the parts of each server. `OSError` leaves no file."""
    path.unlink(missing_ok=True)
    encode = msgspec.msgpack.Encoder().encode
    places: list[PartPlace] = []
    with replacement_of(path) as temporary:
        temporary.touch(PRIVATE_MODE)
        with temporary.open("r+b") as file:
            for server, parts in tables:
                for part in parts:
                    data = encode(part)
                    places.append(PartPlace(server, part.resource, file.tell(), len(data), zlib.crc32(data)))
                    file.write(data)
            summary = encode(Summary(origin, queues, members, places))
            file.write(summary + _END.pack(len(summary), zlib.crc32(summary)))


class SavedState:
    """A file that was read; its tables are decoded when they are taken."""

    def __init__(self, summary: Summary, content: mmap.mmap) -> None:
        self._summary = summary
        self._content = content
        self._decode = msgspec.msgpack.Decoder(SavedPart).decode
        self._places: dict[str, dict[Resource, list[PartPlace]]] = {}
        for place in summary.parts:
            self._places.setdefault(place.server, {}).setdefault(place.resource, []).append(place)

    @property
    def queues(self) -> Mapping[str, SavedQueue]:
        return self._summary.queues

    def tables_of_host(self) -> "ServerTables":
        return ServerTables(self, HOST)

    def tables_of_member(self, name: str, address: str) -> "ServerTables | None":
        """The tables of a member; None if it was not known under this address."""
        return ServerTables(self, name) if self._summary.members.get(name) == address else None

    def resources_of(self, server: str) -> Sequence[Resource]:
        return list(self._places.get(server, ()))

    def take(self, server: str, resource: Resource) -> Iterator[SavedPart]:
        """The parts of a table, once; none after a damaged one, so that the objects in them are new to the cache."""
        for place in self._places.get(server, {}).pop(resource, ()):
            data = self._content[place.offset : place.offset + place.length]
            if zlib.crc32(data) != place.checksum:
                log.warning("a saved part of %s is damaged; its objects are read again", resource.id)
                return
            yield self._decode(data)


class ServerTables:
    """The saved tables of one server."""

    def __init__(self, state: SavedState, server: str) -> None:
        self._state = state
        self._server = server

    def resources(self) -> Sequence[Resource]:
        return self._state.resources_of(self._server)

    def take(self, resource: Resource) -> Iterator[SavedPart]:
        return self._state.take(self._server, resource)


def take_state(path: Path, origin: str) -> SavedState | None:
    """Read the file and remove it; None if there is none that this process can use."""
    try:
        with path.open("rb") as file:
            path.unlink()
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        summary = _read_summary(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, struct.error, msgspec.MsgspecError) as fault:
        log.warning("%s is not used: %s; everything is read and reconciled again", path, fault)
        return None
    if summary.origin != origin:
        log.info("%s was written by another version or with other settings: everything is reconciled again", path)
        return None
    return SavedState(summary, content)


def _read_summary(content: mmap.mmap) -> Summary:
    length, checksum = _END.unpack(content[-_END.size :])
    data = content[max(0, len(content) - _END.size - length) : -_END.size]
    if len(data) != length or zlib.crc32(data) != checksum:
        raise ValueError("it is damaged")
    return msgspec.msgpack.decode(data, type=Summary)
