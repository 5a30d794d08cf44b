"""Files that are replaced as a whole: a reader, a full disk or a crash leaves the old content or the new one."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRIVATE_MODE = 0o600


def replace_file(path: Path, content: bytes, mode: int = PRIVATE_MODE) -> None:
    """Write a file that only its owner can read; `OSError` leaves the old file as it was."""
    with replacement_of(path) as temporary:
        write_new_file(temporary, content, mode)


def write_new_file(path: Path, content: bytes, mode: int = PRIVATE_MODE) -> None:
    """Write a synced file under a name that does not exist yet."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacement_of(path: Path) -> Iterator[Path]:
    """A temporary name for the body to write to; it replaces `path` when the body ends, and is removed if it fails."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield temporary
        sync_path(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Make the content of a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
