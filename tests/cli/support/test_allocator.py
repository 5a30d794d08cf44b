"""The allocator of long-running processes."""

import ctypes
from typing import Any

import pytest

from trimtab.cli.support import processes
from trimtab.cli.support.allocator import LARGE_BUFFER_BYTES, M_MMAP_THRESHOLD, map_large_buffers


class RecordingLibrary:
    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def mallopt(self, option: int, value: int) -> int:
        self.calls.append((option, value))
        return 1


def test_long_running_processes_map_large_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    library = RecordingLibrary()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)

    async def work() -> None:
        assert library.calls == [(M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES)]

    processes.run_process(work())
    assert library.calls


@pytest.mark.parametrize("library", [object(), type("Refusing", (), {"mallopt": lambda *_: 0})()])
def test_library_that_cannot_is_left_alone(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    assert not map_large_buffers()
