"""Values that resemble each other, held compressed in memory.

Objects of one kind differ in names, numbers and a few fields. Compressed with an earlier object of the kind as dictionary,
one takes a tenth of its JSON, where compressing it alone leaves a third. Nothing of this is stored or sent.
"""

import zlib
from functools import lru_cache
from typing import Any

from msgspec import Struct

_FORMAT = -15
"""Without header and checksum: the bytes never leave the process."""
_LEVEL = 1
_MIN_WINDOW, _MAX_WINDOW = 12, 15
"""Sizes of the window as powers of two."""
_MEMORY = 6
"""With a window of at most 16 KiB, a compressor then has less than 128 KiB, which the heap would map anew each time."""
_COMPRESSORS = 64
_GOOD_RATIO = 4
"""A sample is kept while values shrink to less than this part of their size."""
_VALUES_PER_SAMPLE = 256
"""At least so many values share a sample, however different they are."""


class PackedBytes(Struct, frozen=True, gc=False):
    """A compressed value, and the sample that it was compressed with."""

    data: bytes
    sample: bytes

    def unpack(self) -> bytes:
        return zlib.decompressobj(_FORMAT, self.sample).decompress(self.data)

    @property
    def size(self) -> int:
        """Bytes of its own."""
        return len(self.data)


class EditedBytes(Struct, frozen=True, gc=False):
    """A value that differs from another one in a few texts."""

    original: bytes
    edits: tuple[tuple[bytes, bytes], ...]
    """Texts of the original, and what this value has in their place."""

    def unpack(self) -> bytes:
        value = self.original
        for old, new in self.edits:
            value = value.replace(old, new)
        return value

    @property
    def size(self) -> int:
        """Bytes of its own."""
        return sum(len(new) for _, new in self.edits)


class _Sample(Struct, gc=False):
    value: bytes
    uses: int = 0


@lru_cache(_COMPRESSORS)
def _compressor(sample: bytes) -> Any:
    """A compressor that has read the sample, to be copied. Its window holds the sample and a value of the same size."""
    window = min(max(_MIN_WINDOW, (2 * len(sample)).bit_length()), _MAX_WINDOW)
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, -window, _MEMORY, zdict=sample)


class SamplePacker:
    """Compresses values of several groups; values of one group resemble each other."""

    def __init__(self) -> None:
        self._samples: dict[str, _Sample] = {}

    def pack(self, group: str, value: bytes) -> PackedBytes:
        sample = self._samples.get(group)
        if sample is None:
            sample = self._samples[group] = _Sample(value)
        packer = _compressor(sample.value).copy()
        packed = PackedBytes(packer.compress(value) + packer.flush(), sample.value)
        sample.uses += 1
        if sample.uses >= _VALUES_PER_SAMPLE and len(packed.data) * _GOOD_RATIO > len(value):
            self._samples[group] = _Sample(value)
        return packed
