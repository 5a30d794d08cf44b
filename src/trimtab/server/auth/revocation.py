"""Client certificates that are no longer accepted, by serial number.

The list is a file in the data directory with one serial number per line (hexadecimal; `#` starts a comment). The server reads it
again every few seconds when it has changed, refuses requests with such a certificate with 401, and closes its connections. Nothing
is looked up while the list is empty.
"""

from pathlib import Path

from trimtab.errors import InputError
from trimtab.store.files import replace_file

FILE_NAME = "revoked-certificates"
CHECK_SECONDS = 5.0
MAX_BYTES = 16 * 1024 * 1024


def normalize_serial(text: str) -> str:
    """A serial number as the list has it; an InputError when it is none."""
    digits = text.strip().lower().replace(":", "").removeprefix("0x").lstrip("0")
    if not digits or any(digit not in "0123456789abcdef" for digit in digits):
        raise InputError(f"{text.strip()!r} is no serial number; give it in hexadecimal")
    return digits


class RevokedCertificates:
    """The list of one data directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.serials: frozenset[str] = frozenset()
        self._seen: tuple[int, int] | None = None

    def contains(self, serial: str) -> bool:
        return bool(self.serials) and normalize_serial(serial) in self.serials

    def reload(self) -> bool:
        """Read the file if it has changed; whether the list is another one now."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            seen, serials = None, frozenset[str]()
        else:
            seen = (found.st_mtime_ns, found.st_size)
            if seen == self._seen:
                return False
            serials = frozenset(self._read())
        self._seen = seen
        changed = serials != self.serials
        self.serials = serials
        return changed

    def _read(self) -> list[str]:
        if self.path.stat().st_size > MAX_BYTES:
            raise InputError(f"{self.path} has more than {MAX_BYTES} bytes; remove certificates that have expired")
        lines = (line.partition("#")[0] for line in self.path.read_text().splitlines())
        return [normalize_serial(line) for line in lines if line.strip()]

    def add(self, serial: str, comment: str = "") -> bool:
        """Add a serial number to the file; whether it is new."""
        self.reload()
        wanted = normalize_serial(serial)
        if wanted in self.serials:
            return False
        before = self.path.read_text() if self.path.exists() else ""
        remark = f"  # {' '.join(comment.split())}" if comment else ""
        replace_file(self.path, f"{before.rstrip()}\n{wanted}{remark}\n".lstrip().encode())
        self.reload()
        return True
