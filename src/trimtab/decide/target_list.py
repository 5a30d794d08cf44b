"""A long sequence whose changed copy shares all but the changed parts.

A fleet is immutable: when one node changes, the next fleet has a sequence of its own. Copying thousands of references for each
change costs more than most decisions, because every referenced object is touched. So the sequence is kept in chunks, and a
change copies the list of chunks and the chunks that it concerns.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar, overload

T = TypeVar("T")
_CHUNK_BITS = 6
_CHUNK_SIZE = 1 << _CHUNK_BITS
_FEW_TARGETS = 512
"""Up to this number one list is copied in less time than the chunks cost."""


class TargetList(Sequence[T]):
    """Read like a list; `replace` returns the next one."""

    __slots__ = ("_chunks", "_size")

    def __init__(self, chunks: list[list[T]], size: int) -> None:
        self._chunks = chunks
        self._size = size

    @staticmethod
    def of(targets: Sequence[T]) -> "TargetList[T]":
        starts = range(0, len(targets), _CHUNK_SIZE)
        return TargetList([list(targets[start : start + _CHUNK_SIZE]) for start in starts], len(targets))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._chunks)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if type(place) is slice:
            return list(self)[place]
        if not 0 <= place < self._size:
            place = range(self._size)[place]
        return self._chunks[place >> _CHUNK_BITS][place & (_CHUNK_SIZE - 1)]

    def replace(self, changes: Mapping[int, T]) -> "TargetList[T]":
        chunks = self._chunks.copy()
        for number in {place >> _CHUNK_BITS for place in changes}:
            chunks[number] = chunks[number].copy()
        for place, target in changes.items():
            chunks[place >> _CHUNK_BITS][place & (_CHUNK_SIZE - 1)] = target
        return TargetList(chunks, self._size)


def replace_targets(targets: Sequence[T], changes: Mapping[int, T]) -> Sequence[T]:
    """The same targets with these changes, by position."""
    if len(targets) > _FEW_TARGETS:
        return (targets if isinstance(targets, TargetList) else TargetList.of(targets)).replace(changes)
    replaced = list(targets)
    for place, target in changes.items():
        replaced[place] = target
    return replaced
