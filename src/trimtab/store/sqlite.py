"""The durable log in one SQLite file, which holds exactly the acknowledged writes."""

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trimtab import errors
from trimtab.store.index import LogRow
from trimtab.store.records import StoreEvent

FILE_NAME = "store.db"
APPLICATION_ID = 0x54524D54
FORMAT = 1
HEADER_SIZE = 100  # the header of any SQLite file
ROWS_PER_STATEMENT = 64
PAGE_SIZE = 16 * 1024  # of a new file; an object or two fill a small page, and every page is written separately
PAGES_PER_CHECKPOINT = 256
FREE_PAGES_KEPT = 64
PAGES_PER_VACUUM = 256

LOG_COLUMNS = (
    "revision INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB, created INTEGER NOT NULL, checksum INTEGER NOT NULL"
)
SCHEMA = (
    f"CREATE TABLE log ({LOG_COLUMNS})",
    "CREATE TABLE mark (compacted INTEGER NOT NULL)",
    "INSERT INTO mark VALUES (0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)


class CommitBatch(NamedTuple):
    """One group commit: new events, rows to delete, and the compacted revision."""

    events: Sequence[StoreEvent]
    stale: Sequence[int]
    compacted: int


class Journal:
    """The open file. Only one thread at a time may use it; another process finds it locked."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        _prepare_file(directory, self.path)
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
        except errors.StoreError:
            self._connection.close()
            raise

    def compacted(self) -> int:
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
                yield LogRow(revision, key, value, created)

    def write(self, batch: CommitBatch) -> None:
        """Make the batch durable, or raise and leave the file unchanged."""
        with self._translate_errors():
            try:
                self._write(batch)
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            if batch.stale:
                self._vacuum()

    def close(self) -> None:
        self._connection.close()

    def _open(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        is_new = self._is_new_file()
        if is_new:
            execute(f"PRAGMA page_size = {PAGE_SIZE}")
            execute("PRAGMA auto_vacuum = INCREMENTAL")
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
            _sync_directory(self.path.parent)
        (result,) = execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise damaged_fault(self.path, result)

    def _is_new_file(self) -> bool:
        """Whether the file is new; a file of another program is refused before anything in it is changed."""
        execute = self._connection.execute
        (application,) = execute("PRAGMA application_id").fetchone()
        (version,) = execute("PRAGMA user_version").fetchone()
        if application == APPLICATION_ID and version == FORMAT:
            return False
        if application == APPLICATION_ID:
            raise errors.StoreError(
                f"{self.path} has format {version}, but this Trimtab writes format {FORMAT}: "
                "use the Trimtab that wrote it, or another data directory; nothing was changed"
            )
        (tables,) = execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application or version or tables:
            raise _foreign_file_fault(self.path, "it is a SQLite file of another program")
        return True

    def _write(self, batch: CommitBatch) -> None:
        execute = self._connection.execute
        if not batch.stale and len(batch.events) <= ROWS_PER_STATEMENT:
            # One statement is its own transaction, and one call that releases the interpreter lock while it syncs.
            execute(_insert_statement(len(batch.events)), _parameters(batch.events))
            return
        execute("BEGIN IMMEDIATE")
        if batch.stale:  # deleted first, so that the new rows can reuse their pages
            numbers = f"[{','.join(map(str, batch.stale))}]"
            execute("DELETE FROM log WHERE revision IN (SELECT value FROM json_each(?))", (numbers,))
            execute("UPDATE mark SET compacted = ?", (batch.compacted,))
        for start in range(0, len(batch.events), ROWS_PER_STATEMENT):
            chunk = batch.events[start : start + ROWS_PER_STATEMENT]
            execute(_insert_statement(len(chunk)), _parameters(chunk))
        execute("COMMIT")

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


def fault_from(path: Path, error: sqlite3.Error) -> errors.StoreError:
    """The SQLite error as a message that says what to do."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return errors.StoreError(
                f"{path} is in use by another process: stop that one, or choose another data directory"
            )
        case sqlite3.SQLITE_NOTADB:
            return _foreign_file_fault(path, "it is not a SQLite file")
        case sqlite3.SQLITE_CORRUPT:
            return damaged_fault(path, str(error))
        case sqlite3.SQLITE_FULL:
            return errors.StoreError(
                f"no space left to write {path} (the disk or a quota is full): free some space; "
                "until then reads work, writes are refused and no acknowledged write is lost"
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return _unwritable_fault(path, str(error))
        case _:
            return errors.StoreError(
                f"{path} could not be used ({error}): check the disk and its free space; "
                "no acknowledged write is lost, and the next write tries again"
            )


def damaged_fault(path: Path, detail: str) -> errors.StoreError:
    return errors.StoreError(
        f"{path} is damaged ({detail}): restore a copy of the data directory, or move it away to start empty; "
        "nothing was changed"
    )


def _foreign_file_fault(path: Path, detail: str) -> errors.StoreError:
    return errors.StoreError(
        f"{path} is not a Trimtab store ({detail}): move it away, or choose another data directory; nothing was changed"
    )


def _unwritable_fault(path: Path, detail: str) -> errors.StoreError:
    return errors.StoreError(
        f"{path} cannot be opened for writing ({detail}): "
        "make its directory writable for this user, or choose another data directory"
    )


def _prepare_file(directory: Path, path: Path) -> None:
    """Create the directory and an empty file, readable only by this user; SQLite copies the mode to its side files."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        _check_size(path)
    except OSError as error:
        raise _unwritable_fault(path, error.strerror or str(error)) from error


def _check_size(path: Path) -> None:
    """Refuse a file that SQLite would take for a new one and overwrite."""
    size = path.stat().st_size
    log = path.with_name(path.name + "-wal")
    if size == 0 and log.exists() and log.stat().st_size:
        raise damaged_fault(path, f"it is empty, but its log {log.name} is not")
    if 0 < size < HEADER_SIZE:
        raise _foreign_file_fault(path, "it is not a SQLite file")


def _sync_directory(directory: Path) -> None:
    """Make the new names durable: the file in its directory, and the directory in its parent."""
    for folder in (directory, directory.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _insert_statement(rows: int) -> str:
    return f"INSERT INTO log VALUES {','.join(['(?,?,?,?,?)'] * rows)}"  # noqa: S608 - only the number of placeholders varies


def _parameters(events: Sequence[StoreEvent]) -> list[int | str | bytes | None]:
    parameters: list[int | str | bytes | None] = []
    for event in events:
        value, created = (event.entry.value, event.entry.create_revision) if event.entry else (None, 0)
        checksum = _checksum(event.revision, event.key, value, created)
        parameters += (event.revision, event.key, value, created, checksum)
    return parameters


def _checksum(revision: int, key: str, value: bytes | None, created: int) -> int:
    head = f"{revision} {created} {'delete' if value is None else 'put'} {key}\n"
    return zlib.crc32(value or b"", zlib.crc32(head.encode()))
