"""Splits long work into parts of about a millisecond, so that the event loop does other work between them."""

import time
from collections.abc import Iterable, Iterator

PART_BYTES = 64 * 1024
PART_SECONDS = 0.001
"""A part ends when it has so many bytes or took so much CPU time, whichever comes first."""


class Pacer:
    """Says when the part that began with it took long enough; the time in which other processes run does not count."""

    __slots__ = ("_earliest", "_ends")

    def __init__(self, seconds: float = PART_SECONDS) -> None:
        self._ends = time.thread_time() + seconds
        self._earliest = time.monotonic() + seconds

    def is_due(self) -> bool:
        """Whether the part should end; the next one needs a new pacer."""
        # CPU time passes no faster than time, and reading it takes a system call
        return time.monotonic() >= self._earliest and time.thread_time() >= self._ends


def join_items(head: bytes, items: Iterable[bytes], tail: bytes) -> Iterator[bytes]:
    """The parts of a JSON document with a long list: head, items with commas between them, tail."""
    part, size, pacer, is_first = [head], len(head), Pacer(), True
    for item in items:
        if not is_first:
            part.append(b",")
        is_first = False
        part.append(item)
        size += len(item) + 1
        if size >= PART_BYTES or pacer.is_due():
            yield b"".join(part)
            part, size, pacer = [], 0, Pacer()
    yield b"".join([*part, tail])


def split_bytes(body: bytes) -> Iterator[bytes]:
    """A body in parts."""
    if len(body) <= PART_BYTES:
        yield body
        return
    for start in range(0, len(body), PART_BYTES):
        yield body[start : start + PART_BYTES]
