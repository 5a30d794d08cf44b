"""A simulated process: a generator that yields the seconds it sleeps, driven on the clock of its kubelet."""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from trimtab.simulate.containers.input_buffer import WAIT_FOR_INPUT
from trimtab.simulate.containers.shell import Run
from trimtab.simulate.containers.shell_state import Effort, Exit
from trimtab.simulate.containers.shell_syntax import UnsupportedScript

MAX_LOG_LINES = 2_000
MAX_LINE_CHARACTERS = 16_384
MAX_SLEEPS_PER_LOOK = 300
MAX_STEPS_PER_LOOK = 500
EXACT_LOOKS = 30
"""A script that sleeps often is followed exactly for so many sleeps, then only now and then."""
MAX_SECONDS_BETWEEN_LOOKS = 30.0
FOREVER_SECONDS = 1e8
"""A process that sleeps beyond this never ends by itself."""


class LogLine(NamedTuple):
    at: float
    text: str


class ContainerLog:
    """The output of one run of a container, in lines."""

    def __init__(self) -> None:
        self.lines: deque[LogLine] = deque(maxlen=MAX_LOG_LINES)
        self.written = 0
        """How many lines were written, including those that are no longer kept."""
        self._partial = ""

    def write(self, at: float, text: str) -> None:
        *complete, self._partial = (self._partial + text).split("\n")
        self.lines.extend(LogLine(at, line[:MAX_LINE_CHARACTERS]) for line in complete[-MAX_LOG_LINES:])
        self.written += len(complete)
        self._partial = self._partial[:MAX_LINE_CHARACTERS]

    def after(self, count: int) -> list[LogLine]:
        """The lines that were written after the first `count`, as far as they are kept."""
        return list(islice(self.lines, max(0, len(self.lines) - (self.written - count)), None))

    def finish(self, at: float) -> None:
        """Complete the last line."""
        if self._partial:
            self.write(at, "\n")


class Process:
    """One run of a program. Times are those of the kubelet's loop."""

    def __init__(self, run: Callable[[Callable[[str], None]], Run], began: float, effort: Effort | None = None) -> None:
        """`effort`: where the program counts what it does."""
        self.log = ContainerLog()
        self.exit_code: int | None = None
        self.ended_at = began
        self._moment = began
        self._effort = effort or Effort()
        self._looks = 0
        self._waits_for_input = False
        self._run = run(lambda text: self.log.write(self._moment, text))

    def wake(self, now: float) -> None:
        """Let it continue now if it waits for input."""
        if self._waits_for_input:
            self._waits_for_input, self._moment, self._looks = False, now, 0

    def advance(self, now: float) -> float | None:
        """Run until `now`; returns when to look again, or None when it has ended or never ends by itself."""
        self._looks += self._moment <= now  # readers of the log look more often than there is something to do
        done = self._effort.total
        for _ in range(MAX_SLEEPS_PER_LOOK):
            if self.exit_code is not None:
                return None
            if self._moment > now or self._effort.total - done > MAX_STEPS_PER_LOOK:
                break
            self._step()
        if self._moment >= FOREVER_SECONDS:
            return None
        if self._looks <= EXACT_LOOKS:
            return self._moment
        age = min(MAX_SECONDS_BETWEEN_LOOKS, self._looks - EXACT_LOOKS)
        return max(self._moment, now + age)

    def _step(self) -> None:
        try:
            seconds = next(self._run)
            self._waits_for_input = seconds == WAIT_FOR_INPUT
            self._moment += seconds
        except StopIteration as end:
            self._end(int(end.value or 0))
        except Exit as end:
            self._end(end.code)
        except UnsupportedScript as fault:
            self.log.write(self._moment, f"not simulated: {fault}\n")
            self._end(127)

    def _end(self, code: int) -> None:
        self.exit_code, self.ended_at = code, self._moment
        self.log.finish(self._moment)
