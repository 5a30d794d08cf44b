"""Bytes that arrive for a simulated process: its standard input, or what a client sends on a connection."""

WAIT_FOR_INPUT = 2e9
"""What a process yields while it waits for input: it continues when somebody wakes it."""
MAX_BUFFERED_BYTES = 16 * 1024 * 1024


class InputBuffer:
    """Bytes in order, and whether more will come."""

    def __init__(self, content: bytes = b"", *, is_closed: bool = False) -> None:
        self._content = bytearray(content)
        self.is_closed = is_closed

    def feed(self, data: bytes) -> None:
        """Add bytes; what exceeds the limit is dropped, as nobody reads it."""
        if not self.is_closed:
            self._content += data[: MAX_BUFFERED_BYTES - len(self._content)]

    def close(self) -> None:
        self.is_closed = True

    @property
    def size(self) -> int:
        return len(self._content)

    def take(self, most: int = MAX_BUFFERED_BYTES) -> bytes:
        """The next bytes, at most so many."""
        taken = bytes(self._content[:most])
        del self._content[:most]
        return taken

    def take_line(self) -> bytes | None:
        """The next line without its end, or the rest of a closed input; None when neither is there."""
        end = self._content.find(b"\n")
        if end >= 0:
            return self.take(end + 1)[:-1]
        return self.take() if self.is_closed and self._content else None
