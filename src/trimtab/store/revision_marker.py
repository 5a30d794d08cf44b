"""The newest acknowledged revision in a small file next to the log, which shows that a part of the log is missing.

The problem: SQLite takes a missing, truncated or older write-ahead log for a complete one, so the store would start
without writes that it acknowledged, and would give their revisions to other writes.

The marker is overwritten in place after every commit and before the commit is acknowledged:
- after the commit returned, so it never names a revision that is not durable;
- before the acknowledgement, so after a kill, when the page cache survives, no acknowledged revision is above it;
- without a sync, so a commit still costs one. After a power loss it may be older than the log, never newer.

At the start a log that ends before the marker is incomplete. A damaged marker counts as a missing one.
"""

import contextlib
import os
import zlib
from pathlib import Path

from trimtab.store.files import replace_file

MARKER_NAME = "store.db-mark"


class RevisionMarker:
    """The marker of one data directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / MARKER_NAME
        self._descriptor: int | None = None

    def read(self) -> int | None:
        """The recorded revision; None if the file is missing or damaged."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        number = content.partition(b" ")[0]
        return int(number) if number.isdigit() and content == _encode(int(number)) else None

    def replace(self, revision: int) -> None:
        """Write a new, synced file; `OSError` if that fails."""
        self.close()
        replace_file(self.path, _encode(revision))

    def open(self) -> None:
        """Open the file for `record`."""
        self.close()
        self._descriptor = os.open(self.path, os.O_WRONLY)

    def record(self, revision: int) -> None:
        """Overwrite the revision; never raises, because the commit that it describes is already durable."""
        if self._descriptor is not None:
            try:  # noqa: SIM105 - this runs for every commit, and `suppress` costs as much as the write
                os.pwrite(self._descriptor, _encode(revision), 0)
            except OSError:
                pass  # an older marker detects less, but is never wrong

    def close(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


def _encode(revision: int) -> bytes:
    number = b"%020d" % revision
    return b"%b %08x\n" % (number, zlib.crc32(number))
