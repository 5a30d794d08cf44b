"""The audit log: one JSON object per line in a file that rotates, written by a thread of its own.

The event loop only puts a line into a queue. If the disk cannot keep up, the queue is bounded: what does not fit is counted as lost
(`apiserver_audit_error_total`), because a full disk must not stop the API. Lines of events that were put before `close` are written.
"""

import logging
import os
import queue
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from trimtab.errors import InputError

log = logging.getLogger("trimtab.audit")
MAX_QUEUED = 10_000
_DAY_SECONDS = 86_400


class AuditRotation(NamedTuple):
    """When the file is replaced, and how long earlier ones are kept; 0 means no limit."""

    max_megabytes: int = 100
    max_files: int = 10
    max_days: int = 0


class AuditLog:
    """An open file with its writer."""

    def __init__(self, path: Path, rotation: AuditRotation = AuditRotation()) -> None:  # noqa: B008 - a frozen value
        self._path = path
        self._rotation = rotation
        self._queue: queue.Queue[bytes | None] = queue.Queue(MAX_QUEUED)
        self.written = 0
        self.lost = 0
        try:
            self._file = _open(path)
        except OSError as error:
            raise InputError(f"the audit log {path} cannot be written: {error.strerror}") from error
        self._size = os.fstat(self._file).st_size
        self._thread = threading.Thread(target=self._write_all, name="audit-log", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        try:
            self._queue.put_nowait(line + b"\n")
        except queue.Full:
            self.lost += 1

    def close(self) -> None:
        """Write what is queued, and close the file."""
        self._queue.put(None)
        self._thread.join()
        os.close(self._file)

    def _write_all(self) -> None:
        while True:
            lines = [self._queue.get()]
            while not self._queue.empty():
                lines.append(self._queue.get_nowait())
            ends = None in lines
            content = [line for line in lines if line is not None]
            try:
                self._write(content)
            except OSError as error:
                if not self.lost:
                    log.error("the audit log cannot be written: %s", error.strerror)  # noqa: TRY400 - no traceback
                self.lost += len(content)
            else:
                self.written += len(content)
            if ends:
                return

    def _write(self, lines: list[bytes]) -> None:
        limit = self._rotation.max_megabytes * 1024 * 1024
        for line in lines:
            if limit and self._size and self._size + len(line) > limit:
                self._rotate()
            os.write(self._file, line)
            self._size += len(line)

    def _rotate(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
        self._path.rename(self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}"))
        os.close(self._file)
        self._file, self._size = _open(self._path), 0
        self._remove_old()

    def _remove_old(self) -> None:
        files = sorted(self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}"))
        keep = self._rotation.max_files
        too_many = files[:-keep] if keep else []
        oldest = time.time() - self._rotation.max_days * _DAY_SECONDS if self._rotation.max_days else 0.0
        for path in files:
            if path in too_many or path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
