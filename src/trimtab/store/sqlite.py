"""The durable log in one SQLite file, which holds exactly the acknowledged writes."""

import contextlib
import errno
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trimtab import errors
from trimtab.store.faults import (
    damaged_fault,
    encrypted_fault,
    fault_from,
    foreign_file_fault,
    format_fault,
    full_fault,
    lost_writes_fault,
    no_marker_fault,
    unknown_key_fault,
    unwritable_fault,
)
from trimtab.store.files import sync_path
from trimtab.store.index import FIRST_REVISION, LogRow
from trimtab.store.records import StoreEvent
from trimtab.store.revision_marker import RevisionMarker
from trimtab.store.value_cipher import UnknownKey, ValueCipher, is_sealed

FILE_NAME = "store.db"
APPLICATION_ID = 0x54524D54
FORMAT = 2
"""The format that is written. 1: the log. 2: a revision marker next to it, and the field names of version 0.1."""
FIRST_FORMAT_WITH_MARKER = 2
HEADER_SIZE = 100  # the header of any SQLite file
ROWS_PER_STATEMENT = 64
PAGE_SIZE = 16 * 1024  # of a new file; an object or two fill a small page, and every page is written separately
PAGES_PER_CHECKPOINT = 256
FREE_PAGES_KEPT = 64
PAGES_PER_VACUUM = 256

LOG_COLUMNS = (
    "revision INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB, created INTEGER NOT NULL, checksum INTEGER NOT NULL"
)
TABLES = (f"CREATE TABLE log ({LOG_COLUMNS})", "CREATE TABLE mark (compacted INTEGER NOT NULL)")
SCHEMA = (
    *TABLES,
    "INSERT INTO mark VALUES (0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)

NEW_FILE_SETTINGS = (f"PRAGMA page_size = {PAGE_SIZE}", "PRAGMA auto_vacuum = INCREMENTAL")
INSERT_ROW = "INSERT INTO log VALUES (?,?,?,?,?)"


class CommitBatch(NamedTuple):
    """One group commit: new events, rows to delete, and the compacted revision."""

    events: Sequence[StoreEvent]
    stale: Sequence[int]
    compacted: int
    format: int | None = None
    """The format of the file after this batch, if it changes."""


class Journal:
    """The open file. Only one thread at a time may use it; another process finds it locked."""

    def __init__(self, directory: Path, cipher: ValueCipher | None = None) -> None:
        """`cipher` encrypts values in the file."""
        self._cipher = cipher
        self.path = directory / FILE_NAME
        self.format = FORMAT
        self._marker = RevisionMarker(directory)
        _prepare_file(directory, self.path, self._marker)
        try:
            # SQLite's own lock ends with the process, however that ends, and no child inherits it.
            self._connection = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise fault_from(self.path, error) from error
        try:
            self._open()
        except sqlite3.Error as error:
            self._connection.close()
            raise fault_from(self.path, error) from error
        except OSError as error:  # the marker of a new store
            self._connection.close()
            raise _file_fault(self.path, error) from error
        except errors.StoreError:
            self._connection.close()
            raise

    def check_complete(self, revision: int) -> None:
        """Refuse a log that ends before the last acknowledged revision; `revision` is where it ends."""
        recorded = self._marker.read()
        if recorded is None and self.format >= FIRST_FORMAT_WITH_MARKER:
            raise no_marker_fault(self.path, self._marker.path)
        if recorded is not None and revision < recorded:
            self._keep_log()
            raise lost_writes_fault(self.path, revision, recorded)
        if recorded is not None:  # else `convert` makes it
            self._open_marker(revision)

    def _open_marker(self, revision: int) -> None:
        try:
            if self._marker.read() is None:
                self._marker.replace(revision)
            self._marker.open()
        except OSError as error:
            raise _file_fault(self._marker.path, error) from error
        self._marker.record(revision)

    def convert(self, batch: CommitBatch, revision: int) -> None:
        """Write a batch that changes the format; `revision` is that of the log before.

        The marker comes first, so that no store of this format is without one.
        """
        self._open_marker(revision)
        self.write(batch)

    def compacted_revision(self) -> int:
        with self._translate_errors():
            (compacted,) = self._connection.execute("SELECT compacted FROM mark").fetchone()
            return int(compacted)

    def rows(self) -> Iterator[LogRow]:
        with self._translate_errors():
            for revision, key, value, created, checksum in self._connection.execute(
                "SELECT revision, key, value, created, checksum FROM log ORDER BY revision"
            ):
                if checksum != _checksum(revision, key, value, created):
                    raise damaged_fault(self.path, f"the checksum of revision {revision} does not match")
                yield LogRow(revision, key, self._readable(key, value), created)

    def _readable(self, key: str, stored: bytes | None) -> bytes | None:
        if stored is None or not is_sealed(stored):
            return stored
        if self._cipher is None:
            raise encrypted_fault(self.path, key)
        try:
            return self._cipher.open(key, stored)
        except UnknownKey as error:
            raise unknown_key_fault(self.path, key) from error
        except ValueError as error:
            raise damaged_fault(self.path, str(error)) from error

    def seal_again(self) -> int:
        """Encrypt with the current key what another key encrypted, or none; returns the number of rows.

        Rows keep their revisions. What the file held before is overwritten, and so is its log.
        """
        cipher = self._cipher
        if cipher is None:
            return 0
        with self._translate_errors():
            execute = self._connection.execute
            stale = [
                (revision, key, value, created)
                for revision, key, value, created in execute("SELECT revision, key, value, created FROM log")
                if value is not None and (is_sealed(value) or cipher.covers(key)) and not cipher.is_current(key, value)
            ]
            if not stale:
                return 0
            execute("PRAGMA secure_delete = ON")
            execute("BEGIN IMMEDIATE")
            for revision, key, value, created in stale:
                readable = self._readable(key, value)
                assert readable is not None
                sealed = cipher.seal(key, readable) if cipher.covers(key) else readable
                checksum = _checksum(revision, key, sealed, created)
                execute("UPDATE log SET value = ?, checksum = ? WHERE revision = ?", (sealed, checksum, revision))
            execute("COMMIT")
            execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return len(stale)

    def stored_value(self, key: str, value: bytes) -> bytes:
        """The value as the file has it, for backups."""
        return self._cipher.seal(key, value) if self._cipher is not None and self._cipher.covers(key) else value

    def write(self, batch: CommitBatch) -> None:
        """Make the batch durable, or raise and leave the file unchanged."""
        with self._translate_errors():
            try:
                self._write(batch)
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            if batch.events:
                self._marker.record(batch.events[-1].revision)
            if batch.stale:
                self._vacuum()

    def try_write(self) -> None:
        """Write what is already there, to find out whether the file can be written again."""
        with self._translate_errors():
            self._connection.execute("UPDATE mark SET compacted = compacted")

    def close(self) -> None:
        self._connection.close()
        self._marker.close()

    def _keep_log(self) -> None:
        """Keep the write-ahead log under another name: SQLite deletes it when it closes the file."""
        log = _log_of(self.path)
        with contextlib.suppress(OSError):  # it exists from an earlier start, or there is no log at all
            if log.stat().st_size:
                os.link(log, log.with_name(log.name + ".kept"))

    def _open(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        is_new = self._is_new_file()
        if is_new:
            self._start_marker()
            for setting in NEW_FILE_SETTINGS:
                execute(setting)
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        execute("PRAGMA cache_size = -512")  # the index in memory is the cache; SQLite only appends
        execute(f"PRAGMA wal_autocheckpoint = {PAGES_PER_CHECKPOINT}")
        execute("PRAGMA journal_size_limit = 4194304")
        execute("BEGIN IMMEDIATE")  # fails now, not at the first write, if the file is not writable
        for statement in SCHEMA if is_new else ():
            execute(statement)
        execute("COMMIT")
        if is_new:
            sync_path(self.path.parent)
            sync_path(self.path.parent.parent)
        (result,) = execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise damaged_fault(self.path, result)

    def _start_marker(self) -> None:
        """Create the marker of a new file first, so that no store of this format is without one."""
        recorded = self._marker.read()
        if recorded is None:
            self._marker.replace(FIRST_REVISION)
        elif recorded > FIRST_REVISION:
            self._keep_log()
            raise lost_writes_fault(self.path, 0, recorded)

    def _is_new_file(self) -> bool:
        """Whether the file is new; a file of another program is refused before anything in it is changed."""
        execute = self._connection.execute
        (application,) = execute("PRAGMA application_id").fetchone()
        (version,) = execute("PRAGMA user_version").fetchone()
        if application == APPLICATION_ID:
            if not 1 <= version <= FORMAT:
                raise format_fault(self.path, version, FORMAT)
            self.format = version
            return False
        (tables,) = execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application or version or tables:
            raise foreign_file_fault(self.path, "it is a SQLite file of another program")
        return True

    def _write(self, batch: CommitBatch) -> None:
        execute = self._connection.execute
        if not batch.stale and batch.format is None and len(batch.events) <= ROWS_PER_STATEMENT:
            # One statement is its own transaction, and one call that releases the interpreter lock while it syncs.
            execute(_insert_statement(len(batch.events)), self._parameters(batch.events))
            return
        execute("BEGIN IMMEDIATE")
        if batch.stale:  # deleted first, so that the new rows can reuse their pages
            numbers = f"[{','.join(map(str, batch.stale))}]"
            execute("DELETE FROM log WHERE revision IN (SELECT value FROM json_each(?))", (numbers,))
            execute("UPDATE mark SET compacted = ?", (batch.compacted,))
        for start in range(0, len(batch.events), ROWS_PER_STATEMENT):
            chunk = batch.events[start : start + ROWS_PER_STATEMENT]
            execute(_insert_statement(len(chunk)), self._parameters(chunk))
        if batch.format is not None:
            execute(f"PRAGMA user_version = {batch.format}")
        execute("COMMIT")
        self.format = batch.format or self.format

    def _parameters(self, events: Sequence[StoreEvent]) -> list[int | str | bytes | None]:
        cipher = self._cipher
        parameters: list[int | str | bytes | None] = []
        for event in events:
            value, created = (event.entry.value, event.entry.create_revision) if event.entry else (None, 0)
            if cipher is not None and value is not None and cipher.covers(event.key):
                value = cipher.seal(event.key, value)
            checksum = _checksum(event.revision, event.key, value, created)
            parameters += (event.revision, event.key, value, created, checksum)
        return parameters

    def _vacuum(self) -> None:
        """Return free pages to the file system, a limited number at a time."""
        execute = self._connection.execute
        (free,) = execute("PRAGMA freelist_count").fetchone()
        (pages,) = execute("PRAGMA page_count").fetchone()
        if free > max(FREE_PAGES_KEPT, pages // 4):
            # The batch is already durable; when the disk is full, the file shrinks at a later write.
            with contextlib.suppress(sqlite3.OperationalError):
                # This pragma frees one page per step, and only executescript runs all steps.
                self._connection.executescript(f"PRAGMA incremental_vacuum({PAGES_PER_VACUUM})")

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise fault_from(self.path, error) from error


def _prepare_file(directory: Path, path: Path, marker: RevisionMarker) -> None:
    """Create the directory and an empty file, readable only by this user; SQLite copies the mode to its side files."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_size(path, marker)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise _file_fault(path, error) from error


def _check_size(path: Path, marker: RevisionMarker) -> None:
    """Refuse a file that SQLite would take for a new one and overwrite."""
    size = path.stat().st_size if path.exists() else 0
    log = _log_of(path)
    if size == 0 and log.exists() and log.stat().st_size:
        raise damaged_fault(path, f"it is empty, but its log {log.name} is not")
    if size == 0 and (recorded := marker.read() or 0) > FIRST_REVISION:
        raise lost_writes_fault(path, 0, recorded)
    if 0 < size < HEADER_SIZE:
        raise foreign_file_fault(path, "it is not a SQLite file")


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _file_fault(path: Path, error: OSError) -> errors.StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full_fault(path)
    return unwritable_fault(path, error.strerror or str(error))


def _insert_statement(rows: int) -> str:
    return f"INSERT INTO log VALUES {','.join(['(?,?,?,?,?)'] * rows)}"  # noqa: S608 - only the number of placeholders varies


def row_parameters(row: LogRow) -> tuple[int, str, bytes | None, int, int]:
    """The columns of a row for `INSERT_ROW`."""
    return (*row, checksum_of(row))


def checksum_of(row: LogRow) -> int:
    return _checksum(row.revision, row.key, row.value, row.created)


def _checksum(revision: int, key: str, value: bytes | None, created: int) -> int:
    head = f"{revision} {created} {'delete' if value is None else 'put'} {key}\n"
    return zlib.crc32(value or b"", zlib.crc32(head.encode()))
