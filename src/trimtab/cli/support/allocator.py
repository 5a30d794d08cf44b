"""The C library's allocator in long-running processes."""

import ctypes

M_MMAP_THRESHOLD = -3
LARGE_BUFFER_BYTES = 256 << 10
"""What uvloop reserves for each TLS connection to read into."""


def map_large_buffers() -> bool:
    """Give large buffers pages of their own, which are returned when they are freed; False if this C library cannot.

    By default glibc no longer does so once one of that size was freed. Buffers of connections are then parts of the heap, and
    what they once used stays in use: with 60 members of a fleet 976 KiB for each of them instead of 659.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES))
    except AttributeError:
        return False
