"""A backup: the state of a store at one revision, as a stream from a running server and as a file.

The server reads the state from memory, where it is consistent by construction, in one step. It needs no room on its disk,
writes go on, and the event loop only encodes one chunk at a time. SQLite's own backup would read the file, which the
server has locked, and would stop the writer meanwhile.

The stream is a sequence of frames, each with its length: a `BackupHeader`, lists of `LogRow`, and a `BackupEnd`. A stream
without its end is incomplete. The file is a store like `store.db`: `trimtab store check` and `trimtab restore` read both.
"""

import asyncio
import os
import sqlite3
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from trimtab import errors
from trimtab.store.faults import fault_from, format_fault
from trimtab.store.files import PRIVATE_MODE
from trimtab.store.index import LogRow
from trimtab.store.records import StoredEntry
from trimtab.store.sqlite import FORMAT, INSERT_ROW, NEW_FILE_SETTINGS, SCHEMA, row_parameters

CHUNK_BYTES = 256 * 1024
MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct(">I")
_MAP = 0x8
"""The first half byte of the header and the end, which are maps in MessagePack; rows are a list."""
_encode = msgspec.msgpack.encode


class BackupHeader(msgspec.Struct, tag="trimtab-backup"):
    """The first frame."""

    format: int
    revision: int
    objects: int


class BackupEnd(msgspec.Struct, tag="end"):
    """The last frame."""

    objects: int


_ends = msgspec.msgpack.Decoder(BackupHeader | BackupEnd)
_rows = msgspec.msgpack.Decoder(list[LogRow])


async def stream_backup(
    entries: Sequence[StoredEntry], revision: int, stored_value: Callable[[str, bytes], bytes] = lambda _, value: value
) -> AsyncIterator[bytes]:
    """The frames of a backup; other tasks run between two of them. What is encrypted in the store is so in the backup."""
    yield _frame(_encode(BackupHeader(FORMAT, revision, len(entries))))
    chunk: list[LogRow] = []
    size = 0
    for entry in entries:
        value = stored_value(entry.key, entry.value)
        chunk.append(LogRow(entry.mod_revision, entry.key, value, entry.create_revision))
        size += len(entry.value) + len(entry.key)
        if size >= CHUNK_BYTES:
            yield _frame(_encode(chunk))
            chunk, size = [], 0
            await asyncio.sleep(0)
    yield _frame(_encode(chunk))
    yield _frame(_encode(BackupEnd(len(entries))))


def _frame(payload: bytes) -> bytes:
    return _LENGTH.pack(len(payload)) + payload


class BackupReader:
    """Reads the frames of a stream, whatever the chunks in which they arrive."""

    def __init__(self) -> None:
        self.header: BackupHeader | None = None
        self._rest = bytearray()
        self._objects = 0
        self._is_complete = False

    def feed(self, chunk: bytes) -> list[LogRow]:
        """The rows of the frames that are complete with this chunk."""
        self._rest += chunk
        rows: list[LogRow] = []
        start = 0
        while len(self._rest) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._rest, start)
            if length > MAX_FRAME_BYTES:
                raise errors.StoreError("the server did not send a backup: is it the API server of Trimtab?")
            end = start + _LENGTH.size + length
            if len(self._rest) < end:
                break
            rows += self._read_frame(bytes(self._rest[start + _LENGTH.size : end]))
            start = end
        del self._rest[:start]
        return rows

    def _read_frame(self, payload: bytes) -> list[LogRow]:
        try:
            if self.header is not None and payload and payload[0] >> 4 != _MAP:
                rows = _rows.decode(payload)
                self._objects += len(rows)
                return rows
            found = _ends.decode(payload)
        except msgspec.MsgspecError as error:
            raise errors.StoreError(f"the server did not send a backup ({error})") from error
        if isinstance(found, BackupHeader):
            if found.format > FORMAT:
                raise format_fault(Path("the backup"), found.format, FORMAT)
            self.header = found
        else:
            self._is_complete = found.objects == self._objects
        return []

    def finish(self) -> BackupHeader:
        """The header of a complete stream."""
        if self.header is None or not self._is_complete or self._rest or self._objects != self.header.objects:
            raise errors.StoreError("the backup is incomplete, because the server ended it early: try again")
        return self.header


class StoreFile:
    """A new store file that is written in one transaction, when the block ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._revision = 0

    def __enter__(self) -> Self:
        os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_MODE))
        self._connection = sqlite3.connect(self._path, isolation_level=None)
        try:
            for statement in (*NEW_FILE_SETTINGS, "PRAGMA journal_mode = OFF", "BEGIN", *SCHEMA):
                self._connection.execute(statement)
        except sqlite3.Error as error:
            self._connection.close()
            raise fault_from(self._path, error) from error
        return self

    def add(self, rows: Iterable[LogRow]) -> None:
        try:
            self._connection.executemany(INSERT_ROW, map(row_parameters, rows))
        except sqlite3.Error as error:
            raise fault_from(self._path, error) from error

    def set_revision(self, revision: int) -> None:
        """The revision at which the store continues; watches of earlier ones expire."""
        self._revision = revision

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._connection.execute("UPDATE mark SET compacted = ?", (self._revision,))
                self._connection.execute("COMMIT")
        except sqlite3.Error as fault:
            raise fault_from(self._path, fault) from fault
        finally:
            self._connection.close()
