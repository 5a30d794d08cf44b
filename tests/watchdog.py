"""Fails a test that uses far more CPU time than any machine needs for it, instead of letting it run for hours."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

CPU_SECONDS = 60.0
"""Tens of times what the slowest test needs; only a runaway computation reaches it."""


@contextlib.contextmanager
def cpu_watchdog(seconds: float = CPU_SECONDS) -> Iterator[None]:
    """Raise an AssertionError in the block after this much CPU time; waiting for other processes does not count."""

    def fail(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"stopped after {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
