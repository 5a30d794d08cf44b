"""Checks a store file without changing it: structure, checksums, revisions, and whether every object can be read."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from trimtab import errors
from trimtab.store.faults import ACCEPT_LOSS, damaged_fault, fault_from, foreign_file_fault, format_fault
from trimtab.store.index import FIRST_REVISION, LogRow
from trimtab.store.keys import ROOT
from trimtab.store.revision_marker import RevisionMarker
from trimtab.store.sqlite import (
    APPLICATION_ID,
    FILE_NAME,
    FIRST_FORMAT_WITH_MARKER,
    FORMAT,
    TABLES,
    checksum_of,
)
from trimtab.store.value_cipher import is_sealed

MAX_PROBLEMS = 20
MAX_REVISION = 1 << 62
"""Restores raise the revision, and it must still fit into an integer of SQLite."""
_OF_OTHER_TYPES = """
    SELECT 1 FROM log WHERE typeof(key) <> 'text' OR typeof(value) NOT IN ('blob', 'null')
    OR typeof(created) <> 'integer' OR typeof(checksum) <> 'integer' LIMIT 1
"""


class StoreReport(NamedTuple):
    """What is in a store file, and what is wrong with it."""

    path: Path
    format: int
    revision: int
    objects: int
    size: int
    """Bytes of all objects."""
    problems: tuple[str, ...]


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that changes neither the file nor its write-ahead log; `errors.StoreError` if a server runs on it."""
    if not path.is_file():
        raise errors.StoreError(f"there is no store {path}: name a backup, or the data directory of a server")
    # A running server always has a write-ahead log. Without one nobody writes, and SQLite need not create side files.
    index = path.with_name(path.name + "-shm")
    mode = "mode=ro" if path.with_name(path.name + "-wal").exists() else "immutable=1"
    is_new = not index.exists()
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=0)
        try:
            yield connection
        finally:
            connection.close()
            if is_new:
                index.unlink(missing_ok=True)
    except sqlite3.Error as error:
        raise fault_from(path, error) from error


def inspect_store(path: Path) -> StoreReport:
    """The report about a store file; `errors.StoreError` if it cannot be read at all."""
    with read_only(path) as connection:
        number = format_of(path, connection)
        check_shape(path, connection)
        found = [f"SQLite: {text}" for (text,) in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})")]
        problems = [] if found == ["SQLite: ok"] else found
        (compacted,) = connection.execute("SELECT compacted FROM mark").fetchone()
        revision = max(FIRST_REVISION, compacted)
        objects: dict[str, bytes] = {}
        for row, checksum in _rows(connection):
            revision = max(revision, row.revision)
            if problem := _problem_of(row, checksum, objects):
                problems.append(problem)
            if row.value is None:
                objects.pop(row.key, None)
            else:
                objects[row.key] = row.value
    problems += filter(None, (_problem_of_object(key, value) for key, value in objects.items()))
    left_out = len(problems) - MAX_PROBLEMS
    if left_out > 0:
        problems = [*problems[:MAX_PROBLEMS], f"{left_out} more problems"]
    size = sum(map(len, objects.values()))
    return StoreReport(path, number, revision, len(objects), size, tuple(problems))


def inspect_directory(directory: Path) -> StoreReport:
    """The report about the store of a data directory, which includes its revision marker."""
    report = inspect_store(directory / FILE_NAME)
    marker = RevisionMarker(directory)
    recorded = marker.read()
    problem = ""
    if recorded is None and report.format >= FIRST_FORMAT_WITH_MARKER:
        problem = f"{marker.path.name} is missing or damaged, so nothing shows whether the log is complete"
    elif recorded is not None and recorded > report.revision:
        problem = (
            f"writes of the revisions {report.revision + 1} to {recorded} were acknowledged and are missing: "
            f"restore a backup, or give them up with `{ACCEPT_LOSS}`"
        )
    return report._replace(problems=(*report.problems, problem)) if problem else report


def format_of(path: Path, connection: sqlite3.Connection) -> int:
    """The format of a store that this Trimtab can read."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise foreign_file_fault(path, "it is a SQLite file of another program, or it lacks its write-ahead log")
    if not 1 <= version <= FORMAT:
        raise format_fault(path, version, FORMAT)
    return int(version)


def check_shape(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file that no Trimtab has written: SQL in it would run in the server, and values of other types end in errors."""
    schema = {statement for (statement,) in connection.execute("SELECT sql FROM sqlite_master")}
    if schema != set(TABLES):
        raise damaged_fault(path, "it has other tables, views or triggers than a store")
    marks = connection.execute("SELECT compacted FROM mark LIMIT 2").fetchall()
    newest = connection.execute("SELECT max(revision) FROM log").fetchone()[0] or 0
    known = [compacted for (compacted,) in marks]
    if len(known) != 1 or not isinstance(known[0], int) or known[0] < 0 or max(*known, newest) > MAX_REVISION:
        raise damaged_fault(path, "its revision is not one of a store")
    if connection.execute(_OF_OTHER_TYPES).fetchone() is not None:
        raise damaged_fault(path, "its log has values of other types than a store")


def _rows(connection: sqlite3.Connection) -> Iterator[tuple[LogRow, int]]:
    for revision, key, value, created, checksum in connection.execute(
        "SELECT revision, key, value, created, checksum FROM log ORDER BY revision"
    ):
        yield LogRow(revision, key, value, created), checksum


def _problem_of(row: LogRow, checksum: int, objects: dict[str, bytes]) -> str:
    if checksum != checksum_of(row):
        return f"revision {row.revision}: the checksum of {row.key} does not match"
    if row.value is None:
        return "" if row.key in objects else f"revision {row.revision} deletes {row.key}, which does not exist"
    if not 0 < row.created <= row.revision:
        return f"revision {row.revision}: {row.key} was created at revision {row.created}"
    return ""


def _problem_of_object(key: str, value: bytes) -> str:
    if not key.startswith(ROOT) or is_sealed(value):
        return ""
    try:
        obj = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return f"{key} is not JSON ({error})"
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict) or metadata.get("name") != key.rpartition("/")[2]:
        return f"{key} is not the object of this name"
    return ""
