"""Faults of a data directory as messages that say what to do."""

import sqlite3
from pathlib import Path

from trimtab import errors

ACCEPT_LOSS = "trimtab store check --accept-loss"
RETRY_SECONDS = 15
"""Seconds after which controllers try a refused write again; more than 10, so that clients of users do not wait."""
KEPT = "reads work, writes are refused and no acknowledged write is lost"


def fault_from(path: Path, error: sqlite3.Error) -> errors.StoreError:
    """The fault for an error of SQLite."""
    match primary_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return errors.StoreError(
                f"{path} is in use by another process: stop that one, or choose another data directory"
            )
        case sqlite3.SQLITE_NOTADB:
            return foreign_file_fault(path, "it is not a SQLite file")
        case sqlite3.SQLITE_CORRUPT:
            return damaged_fault(path, str(error))
        case sqlite3.SQLITE_FULL:
            return full_fault(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return unwritable_fault(path, str(error))
        case _:
            return errors.StorageFull(
                f"{path} could not be written ({error}): check the disk of {path.parent} and its free space; "
                f"until then {KEPT}",
                retry_after=RETRY_SECONDS,
            )


def primary_code(error: sqlite3.Error) -> int:
    """The primary result code of SQLite; 0 for an error that the Python module itself raises, which has none."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def full_fault(path: Path) -> errors.StorageFull:
    return errors.StorageFull(
        f"no space left to write {path} (the disk or a quota is full): free some space for {path.parent}; "
        f"until then {KEPT}",
        retry_after=RETRY_SECONDS,
    )


def encrypted_fault(path: Path, key: str) -> errors.StoreError:
    return errors.StoreError(
        f"{path} has encrypted objects ({key}): start with --encryption-provider-config and the file of their keys"
    )


def unknown_key_fault(path: Path, key: str) -> errors.StoreError:
    return errors.StoreError(
        f"{path} has objects ({key}) whose key is not in the file of encryption keys: add the key to the file again, after the one "
        "that encrypts; nothing was changed"
    )


def damaged_fault(path: Path, detail: str) -> errors.StoreError:
    return errors.StorageFailed(
        f"{path} is damaged ({detail}): restore a backup with `trimtab restore`, or move the file away to start empty; "
        "nothing was changed",
        retry_after=RETRY_SECONDS,
    )


def foreign_file_fault(path: Path, detail: str) -> errors.StoreError:
    return errors.StoreError(
        f"{path} is not a Trimtab store ({detail}): move it away, or choose another data directory; nothing was changed"
    )


def unwritable_fault(path: Path, detail: str) -> errors.StoreError:
    return errors.StorageFailed(
        f"{path} cannot be opened for writing ({detail}): "
        "make its directory writable for this user, or choose another data directory",
        retry_after=RETRY_SECONDS,
    )


def format_fault(path: Path, found: int, newest: int) -> errors.StoreError:
    return errors.StoreError(
        f"{path} has format {found}, but this Trimtab reads formats up to {newest}: "
        "use the Trimtab that wrote it or a newer one, or another data directory; nothing was changed"
    )


def lost_writes_fault(path: Path, found: int, recorded: int) -> errors.StoreError:
    """The log ends before the last acknowledged write."""
    return errors.StoreError(
        f"{path} ends at revision {found}, but writes up to revision {recorded} were acknowledged: its write-ahead log "
        f"{path.name}-wal is missing, truncated or of another time. Put the log back, or restore a backup with "
        f"`trimtab restore`, or give up the missing writes with `{ACCEPT_LOSS} --data-dir {path.parent}`"
    )


def no_marker_fault(path: Path, marker: Path) -> errors.StoreError:
    """Nothing shows whether the log is complete."""
    return errors.StoreError(
        f"{marker} is missing or damaged, so nothing shows whether {path} has all acknowledged writes. Put back the file, "
        "or restore a backup with `trimtab restore`, or accept the store as it is with "
        f"`{ACCEPT_LOSS} --data-dir {path.parent}`"
    )
