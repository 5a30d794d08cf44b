"""A clock that a test sets forward or back while the event loop goes on evenly."""

from datetime import datetime, timedelta

from trimtab.clock import LoopClock


class SteppingClock(LoopClock):
    """The clock of the loop plus an offset, which a test changes."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset
