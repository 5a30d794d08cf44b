"""A replacement for `time.monotonic` that counts its calls, so that limits in real time do not depend on the machine."""

from itertools import count
from types import SimpleNamespace

import pytest

from trimtab import clock


def count_loop_turns_as_seconds(monkeypatch: pytest.MonkeyPatch, seconds_per_turn: float) -> None:
    """Each turn of a virtual event loop counts as this number of real seconds."""
    turns = count()
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: next(turns) * seconds_per_turn))
    watchdog = SimpleNamespace(dump_traceback_later=lambda *_, **__: None, cancel_dump_traceback_later=lambda: None)
    monkeypatch.setattr(clock, "faulthandler", watchdog)
