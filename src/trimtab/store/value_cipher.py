"""What encrypts stored values, as the log of the store sees it.

Values are encrypted on their way to the disk and decrypted when a store is opened; in memory they are readable. An encrypted value
begins with a mark that no object begins with, so encrypted and readable values may be mixed, as after encryption was switched on.
"""

from typing import Protocol

SEALED_MARK = b"\x00trimtab:sealed:v1:"


class UnknownKey(Exception):
    """A value is encrypted with a key that the cipher does not have."""


class ValueCipher(Protocol):
    """Encrypts and decrypts the values of some keys."""

    def covers(self, key: str) -> bool:
        """Whether values of this key are encrypted."""
        ...

    def seal(self, key: str, value: bytes) -> bytes:
        """The encrypted value, bound to its key."""
        ...

    def open(self, key: str, sealed: bytes) -> bytes:
        """The readable value; a ValueError when it was changed, `UnknownKey` when its encryption key is missing."""
        ...

    def is_current(self, key: str, stored: bytes) -> bool:
        """Whether a stored value is as it would be written now; else it is written again."""
        ...


def is_sealed(stored: bytes | None) -> bool:
    return stored is not None and stored.startswith(SEALED_MARK)
