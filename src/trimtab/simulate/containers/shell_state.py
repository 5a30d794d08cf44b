"""What the commands of a script share: variables, files, output, input, and how much the script has done."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from trimtab.simulate.containers.files import MAX_FILE_CHARACTERS, Files
from trimtab.simulate.containers.input_buffer import InputBuffer
from trimtab.simulate.containers.shell_syntax import Node, UnsupportedScript

CHARACTERS_PER_STEP = 200
"""Texts that are expanded or written count as commands."""
MAX_VARIABLES = 1_000
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
    """How much a script and what it calls have done since it slept."""

    steps: int = 0

    def add(self, steps: int, characters: int = 0) -> None:
        self.steps += steps + characters // CHARACTERS_PER_STEP


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

    def assign(self, name: str, value: str) -> None:
        if name not in self.environment and len(self.environment) >= MAX_VARIABLES:
            raise UnsupportedScript(f"more than {MAX_VARIABLES} variables are not simulated")
        self.environment[name] = value
