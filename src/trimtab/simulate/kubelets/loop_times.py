"""Converts times of the event loop, in which the containers of a simulated cluster live, to wall-clock times."""

import asyncio
from datetime import datetime

from trimtab.clock import Clock

CLOCK_SET_SECONDS = 1.0
"""A difference of the clocks by more means that one of them was set."""


class LoopTimes:
    """The difference of both clocks is kept until somebody sets one of them: computed anew each time, rounding would
    change reported times."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._epoch = 0.0

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def synchronize(self) -> None:
        """Take the present difference of both clocks."""
        self._epoch = self._difference()

    def _difference(self) -> float:
        return self._clock.now().timestamp() - self.now()

    def to_wall_time(self, moment: float) -> datetime:
        if abs(self._difference() - self._epoch) > CLOCK_SET_SECONDS:
            self.synchronize()
        return datetime.fromtimestamp(self._epoch + moment, tz=self._clock.now().tzinfo)

    def wall_time(self) -> datetime:
        return self.to_wall_time(self.now())
