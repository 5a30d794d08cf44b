"""What the commands of a script share: variables, files, output, input, and how much the script has done."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from trimtab.simulate.containers.files import MAX_FILE_CHARACTERS, Files
from trimtab.simulate.containers.input_buffer import InputBuffer
from trimtab.simulate.containers.shell_syntax import Node, UnsupportedScript

MAX_STEPS_WITHOUT_SLEEP = 1_000
"""A script that runs so many commands without sleeping is treated as busy: it continues after a pause."""
BUSY_PAUSE_SECONDS = 1.0
MAX_STEPS_AT_A_TIME = 3 * MAX_STEPS_WITHOUT_SLEEP
"""What cannot pause, such as a substitution or one command, and takes more than this is not simulated."""
CHARACTERS_PER_STEP = 200
"""Texts that are expanded or written count as commands."""
FILES_PER_STEP = 50
"""A test of a path looks at the names of all files."""
MAX_VARIABLES = 1_000
MAX_SMALL_VALUE_CHARACTERS = 1_000
MAX_CHARACTERS_OF_LARGE_VALUES = 16 * MAX_FILE_CHARACTERS
MAX_COLLECTED_CHARACTERS = 16 * MAX_FILE_CHARACTERS
"""Of the output of a part of a pipeline, of a substitution, or of a command whose output is redirected."""
EPOCH = datetime.fromtimestamp(0, UTC)


class Exit(Exception):
    """`exit` was called."""

    def __init__(self, code: int) -> None:
        self.code = code


class BreakLoop(Exception):
    """`break` was called."""


class ContinueLoop(Exception):
    """`continue` was called."""


class CollectedOutput:
    """What a command writes for another one; a script whose output would not fit is not simulated."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def write(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_COLLECTED_CHARACTERS:
            raise UnsupportedScript(f"more than {MAX_COLLECTED_CHARACTERS} characters in a pipe are not simulated")
        self._parts.append(text)

    def text(self) -> str:
        return "".join(self._parts)


@dataclass
class Effort:
    """How much a script and what it calls have done: since it rested, and altogether."""

    steps: int = 0
    total: int = 0

    def add(self, steps: int, characters: int = 0) -> None:
        done = steps + characters // CHARACTERS_PER_STEP
        self.steps += done
        self.total += done

    def add_at_once(self, steps: int) -> None:
        """Count work before it is done without a pause; refuse too much of it."""
        self.add(steps)
        if self.steps > MAX_STEPS_AT_A_TIME:
            raise UnsupportedScript("a command or substitution takes too long")

    def rest(self, seconds: float) -> None:
        """A script that sleeps briefly has not rested from everything, so that it cannot be busy for ever."""
        self.steps = max(0, self.steps - int(min(seconds, 1.0) / BUSY_PAUSE_SECONDS * MAX_STEPS_WITHOUT_SLEEP))


@dataclass
class ShellState:
    """The state of one script."""

    environment: dict[str, str]
    files: Files
    rng: random.Random
    write: Callable[[str], None]
    """Writes to the log of the container."""
    status: int = 0
    effort: Effort = field(default_factory=Effort)
    is_substitution: bool = False
    functions: dict[str, Node] = field(default_factory=dict)
    trap: str = ""
    """What runs on SIGTERM."""
    stdin: InputBuffer = field(default_factory=lambda: InputBuffer(is_closed=True))
    now: Callable[[], datetime] = lambda: EPOCH

    def count_search(self, path: str) -> None:
        """Count a search among the files beside a path."""
        self.effort.add_at_once(1 + self.files.count(path) // FILES_PER_STEP)

    def assign(self, name: str, value: str) -> None:
        if name not in self.environment and len(self.environment) >= MAX_VARIABLES:
            raise UnsupportedScript(f"more than {MAX_VARIABLES} variables are not simulated")
        if len(value) > MAX_SMALL_VALUE_CHARACTERS:
            total = len(value) + sum(len(one) for one in self.environment.values())
            if total > MAX_CHARACTERS_OF_LARGE_VALUES:
                raise UnsupportedScript(f"variables of {total} characters are not simulated")
        self.environment[name] = value
