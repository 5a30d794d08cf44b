"""Archives whose bytes depend on their content only: sorted names, one time stamp, no owner."""

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Entry(NamedTuple):
    """A file, a directory or a symbolic link of an archive."""

    name: str
    content: bytes = b""
    mode: int = 0o644
    link: str = ""
    is_directory: bool = False


def directory(name: str, mode: int = 0o755) -> Entry:
    return Entry(name, mode=mode, is_directory=True)


def source_epoch() -> int:
    """The time stamp of all built files: SOURCE_DATE_EPOCH, else the time of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    shown = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return int(shown.stdout)


def entries_below(folder: Path, prefix: str = "") -> Iterable[Entry]:
    """Everything in a folder, as entries below `prefix`."""
    for path in sorted(folder.rglob("*")):
        name = f"{prefix}{path.relative_to(folder).as_posix()}"
        if path.is_symlink():
            yield Entry(name, link=str(path.readlink()), mode=0o777)
        elif path.is_dir():
            yield directory(name)
        else:
            yield Entry(name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)


def tar(entries: Iterable[Entry], epoch: int) -> bytes:
    """An uncompressed tar archive; a later entry replaces an earlier one of the same name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for _, entry in sorted({entry.name: entry for entry in entries}.items()):
            archive.addfile(_tar_info(entry, epoch), io.BytesIO(entry.content))
    return buffer.getvalue()


def _tar_info(entry: Entry, epoch: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(entry.name)
    info.mtime, info.mode = epoch, entry.mode
    if entry.is_directory:
        info.type = tarfile.DIRTYPE
    elif entry.link:
        info.type, info.linkname = tarfile.SYMTYPE, entry.link
    else:
        info.size = len(entry.content)
    return info


def compress(content: bytes) -> bytes:
    """Gzip without a name and a time stamp."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
