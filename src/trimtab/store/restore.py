"""Puts a backup into a data directory, and accepts a store that lost writes.

Both raise the revision above every revision that was handed out before: a client that knows a newer revision than the
restored state must not take it for the future. Everything older expires, so watches end with 410 and clients list again.
The gap covers what the server handed out after the backup. The time covers several restores of one backup in directories
that know nothing of each other: a store does not write a thousand times a second over its whole life.

A replaced store is kept in a directory of its own. At every moment the data directory has the old store, the new one, or
files with which a server does not start.
"""

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

from trimtab import errors
from trimtab.store.backup import StoreFile
from trimtab.store.faults import fault_from, primary_code
from trimtab.store.files import PRIVATE_MODE, replacement_of, write_new_file
from trimtab.store.inspection import StoreReport, inspect_store, read_only
from trimtab.store.revision_marker import MARKER_NAME, RevisionMarker
from trimtab.store.sqlite import FILE_NAME

REVISION_GAP = 1_000_000_000
STORE_FILES = (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm")
STOP_IT = "stop the server first"


class Restored(NamedTuple):
    """What a restore did."""

    backup: StoreReport
    revision: int
    """Where the store continues."""
    kept: Path | None
    """Where the replaced store is."""


def restore_backup(
    backup: Path, directory: Path, *, replace: bool = False, before_replacement: Callable[[], None] = lambda: None
) -> Restored:
    """Make the backup the store of the data directory; an existing store is replaced only if `replace` is set.

    `before_replacement` is called before a server can start on the new store.
    """
    report = inspect_store(backup)
    if report.problems:
        raise errors.StoreError(f"{backup} is damaged ({report.problems[0]}): use another backup; nothing was changed")
    _refuse_running_server(directory)
    existing = [path for name in STORE_FILES if (path := directory / name).exists()]
    if (existing or RevisionMarker(directory).path.exists()) and not replace:
        raise errors.StoreError(
            f"{directory} has a store already: add --force to replace it (it is kept under another name), "
            "or choose another directory"
        )
    revision = _next_revision(directory, report.revision)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacement_of(directory / FILE_NAME) as new:
            _copy_store(backup, new)
            expire_history(new, revision)
            before_replacement()
            kept = _new_directory(directory) if existing else None
            _replace_marker(directory, revision, kept)  # from here on no server starts, until the new store is there
            for path in existing:
                path.rename(cast("Path", kept) / path.name)
    except OSError as error:
        raise errors.StoreError(
            f"{directory} could not be written ({error.strerror}): free some space, and run the same command again"
        ) from error
    return Restored(report, revision, kept)


def is_complete(directory: Path) -> bool:
    """Whether a server would start on this store, as far as the revision marker says."""
    recorded = RevisionMarker(directory).read()
    if not (directory / FILE_NAME).exists():
        return recorded is None
    return recorded is not None and inspect_store(directory / FILE_NAME).revision >= recorded


def accept_loss(directory: Path) -> int:
    """Let a store start that lost acknowledged writes; returns the revision at which it continues."""
    path = directory / FILE_NAME
    _refuse_running_server(directory)
    is_missing = not path.exists() or not path.stat().st_size
    report = None if is_missing else inspect_store(path)
    if report is not None and report.problems:
        raise errors.StoreError(f"{path} is damaged ({report.problems[0]}): restore a backup with `trimtab restore`")
    revision = _next_revision(directory, report.revision if report else 0)
    if is_missing:
        with replacement_of(path) as new, StoreFile(new) as file:
            file.set_revision(revision)
    else:
        expire_history(path, revision)
    RevisionMarker(directory).replace(revision)
    return revision


def expire_history(path: Path, revision: int) -> None:
    """Continue the store at `revision` and drop its history, so that watches of earlier revisions expire."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            execute = connection.execute
            execute("PRAGMA synchronous = FULL")
            execute("BEGIN IMMEDIATE")
            newest: dict[str, int] = {}
            stale: list[int] = []
            for number, key, is_deleted in execute("SELECT revision, key, value IS NULL FROM log ORDER BY revision"):
                if key in newest:
                    stale.append(newest.pop(key))
                if is_deleted:
                    stale.append(number)
                else:
                    newest[key] = number
            execute("DELETE FROM log WHERE revision IN (SELECT value FROM json_each(?))", (json.dumps(stale),))
            execute("UPDATE mark SET compacted = ?", (revision,))
            execute("COMMIT")
    except sqlite3.Error as error:
        raise fault_from(path, error) from error


def _copy_store(source: Path, target: Path) -> None:
    """Copy the file with what is still in its write-ahead log."""
    target.touch(PRIVATE_MODE, exist_ok=False)
    try:
        with read_only(source) as reader, contextlib.closing(sqlite3.connect(target)) as writer:
            reader.backup(writer)
            writer.execute("PRAGMA journal_mode = DELETE")  # one file, whatever the mode of the source
    except sqlite3.Error as error:
        raise fault_from(target, error) from error


def _refuse_running_server(directory: Path) -> None:
    """A server has its file locked; a damaged file is nobody's."""
    path = directory / FILE_NAME
    if not path.exists():
        return
    try:
        with read_only(path) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except errors.StoreError as fault:
        cause = fault.__cause__
        if isinstance(cause, sqlite3.Error) and primary_code(cause) == sqlite3.SQLITE_BUSY:
            raise errors.StoreError(f"a server runs on {directory}: {STOP_IT}; nothing was changed") from fault


def _next_revision(directory: Path, restored: int) -> int:
    """A revision above every one that was handed out."""
    known = [restored, RevisionMarker(directory).read() or 0]
    with contextlib.suppress(errors.StoreError):
        known.append(inspect_store(directory / FILE_NAME).revision)
    return max(max(known) + REVISION_GAP, time.time_ns() // 1_000_000)


def _replace_marker(directory: Path, revision: int, kept: Path | None) -> None:
    """Write the marker of the new store; the kept store keeps the old one."""
    marker = RevisionMarker(directory)
    if kept is not None and marker.path.exists():
        write_new_file(kept / MARKER_NAME, marker.path.read_bytes())
    marker.replace(revision)


def _new_directory(directory: Path) -> Path:
    """An empty directory for the replaced store."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(1000):
        kept = directory / f"replaced-{stamp}{f'-{number}' if number else ''}"
        try:
            kept.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return kept
    raise errors.StoreError(f"{directory} has too many directories of replaced stores: remove some")
