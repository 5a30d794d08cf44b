"""Output in which texts of objects cannot control the terminal.

Reasons, messages and annotations may have any characters. A sequence that begins with Escape moves the cursor, rewrites what was
printed, or sends input back to the shell of whoever prints it. As in kubectl such characters are shown, not sent; colours and the
sequence with which reports clear the screen are those of the commands themselves.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

_CONTROL = re.compile(r"\x1b\[[0-9;]{0,16}m|\x1b\[2J\x1b\[H|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def escape_controls(text: str) -> str:
    """The text with control characters as `^[` or `\\x9b`, but for line ends, tabs and colours."""
    return _CONTROL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if len(character) > 1:
        return character
    return f"^{chr(ord(character) ^ 0x40)}" if ord(character) < 0x80 else f"\\x{ord(character):02x}"


class EscapedOutput:
    """A stream of text that shows control characters; everything else is as in the stream that it writes to."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(escape_controls(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def escaped_output() -> Iterator[None]:
    """Everything that is printed in the body is escaped."""
    out, err = (cast("TextIO", EscapedOutput(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield
