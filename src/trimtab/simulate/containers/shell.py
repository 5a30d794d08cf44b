"""Runs shell scripts and common utilities of a simulated container, on simulated time and files.

A script is a generator: it yields the seconds that it sleeps and returns its exit code. Whoever drives it decides when
that time has passed. Nothing is ever executed on this machine: commands are functions (`utilities.py`), files are dicts.
"""

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from trimtab.simulate.containers.expansion import MAX_VALUE_CHARACTERS, Expansion
from trimtab.simulate.containers.input_buffer import WAIT_FOR_INPUT, InputBuffer
from trimtab.simulate.containers.shell_state import (
    BUSY_PAUSE_SECONDS,
    MAX_STEPS_WITHOUT_SLEEP,
    BreakLoop,
    CollectedOutput,
    ContinueLoop,
    Effort,
    Exit,
    ShellState,
)
from trimtab.simulate.containers.shell_syntax import (
    Command,
    CommandList,
    For,
    Function,
    If,
    Loop,
    Node,
    UnsupportedScript,
    command_names,
    function_names,
    is_assignment,
    parse_script,
)
from trimtab.simulate.containers.utilities import UTILITIES, paths_in

CHARACTERS_PER_PARSING_STEP = 20
COPIED_CHARACTERS_PER_STEP = 4_000
_COPIED_BYTES_AT_A_TIME = 64 * 1024
MAX_TRAP_SECONDS = 86_400.0
SHELLS = frozenset(("sh", "bash", "ash", "dash"))
Run: TypeAlias = Generator[float, None, int]
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)\Z")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass
class Shell(ShellState):
    """Runs one script."""

    def __post_init__(self) -> None:
        self._expansion = Expansion(self, self._output_of)

    def termination_seconds(self) -> float:
        """How long the trap for SIGTERM sleeps before the script ends, as far as it is followed; 0 without one."""
        if not self.trap:
            return 0.0
        self.effort, slept = Effort(), 0.0
        try:
            for seconds in self.run(self._parse(self.trap)):
                slept += seconds
                if self.effort.total > MAX_STEPS_WITHOUT_SLEEP or slept > MAX_TRAP_SECONDS:
                    break
        except UnsupportedScript:
            return 0.0
        return slept

    def _parse(self, script: str) -> Node:
        self.effort.add_at_once(2 + len(script) // CHARACTERS_PER_PARSING_STEP)
        return parse_script(script)

    def _pause(self) -> Generator[float, None, None]:
        """Let others run if the script is busy; what is part of a substitution cannot pause."""
        if not self.is_substitution and self.effort.steps > MAX_STEPS_WITHOUT_SLEEP:
            self.effort.rest(BUSY_PAUSE_SECONDS)
            yield BUSY_PAUSE_SECONDS

    def run(self, node: Node) -> Run:
        """Run a script to its end; returns the exit code."""
        try:
            return (yield from self.evaluate(node))
        except Exit as end:
            return end.code
        except (BreakLoop, ContinueLoop):
            return self.status
        except RecursionError:
            raise UnsupportedScript("it calls itself too often") from None

    def evaluate(self, node: Node) -> Run:
        match node:
            case Command():
                self.status = yield from self._simple(node)
            case CommandList(items):
                yield from self._sequence(items)
            case If(branches, otherwise):
                yield from self._if(branches, otherwise)
            case Loop():
                yield from self._loop(node)
            case For(variable, words, body):
                for value in [one for word in words for one in self._expansion.split(word)]:
                    self.environment[variable] = value
                    if (yield from self._iterate(body)):
                        break
            case Function(name, body):
                self.functions[name] = body
                self.status = 0
        return self.status

    def _sequence(self, items: Sequence[tuple[str, Node]]) -> Run:
        is_skipped = False
        piped: str | None = None
        for number, (operator, node) in enumerate(items):
            if operator != "|":
                is_skipped = (operator == "&&" and self.status != 0) or (operator == "||" and self.status == 0)
                piped = None
            if is_skipped:
                continue
            is_read = number + 1 < len(items) and items[number + 1][0] == "|"
            piped = yield from self._evaluate_part(node, piped, is_read=is_read)
        return self.status

    def _evaluate_part(self, node: Node, piped: str | None, *, is_read: bool) -> Generator[float, None, str]:
        """Run a part of a pipeline to its end, with the output of the part before it; returns what the next one reads."""
        output = CollectedOutput()
        outer_write, outer_input = self.write, self.stdin
        if is_read:
            self.write = output.write
        if piped is not None:
            self.effort.add(len(piped) // COPIED_CHARACTERS_PER_STEP)
            self.stdin = InputBuffer(piped.encode("utf-8", "surrogateescape"), is_closed=True)
        try:
            yield from self.evaluate(node)
        finally:
            self.write, self.stdin = outer_write, outer_input
        return output.text()

    def _if(self, branches: Sequence[tuple[Node, Node]], otherwise: Node | None) -> Run:
        for condition, body in branches:
            if (yield from self.evaluate(condition)) == 0:
                return (yield from self.evaluate(body))
        if otherwise is not None:
            return (yield from self.evaluate(otherwise))
        self.status = 0
        return 0

    def _loop(self, loop: Loop) -> Run:
        while ((yield from self.evaluate(loop.condition)) == 0) != loop.negated:
            if (yield from self._iterate(loop.body)):
                break
        self.status = 0
        return 0

    def _iterate(self, body: Node) -> Generator[float, None, bool]:
        """Run the body of a loop once; true when it breaks out of the loop."""
        try:
            yield from self.evaluate(body)
        except BreakLoop:
            return True
        except ContinueLoop:
            pass
        return False

    def _simple(self, command: Command) -> Run:
        yield from self._pause()
        self.effort.add_at_once(1)
        words = list(command.words)
        while words and is_assignment(words[0]):
            name, _, value = self._expansion.expand(words.pop(0)).partition("=")
            self.assign(name, value)
        arguments = [one for word in words for one in self._expansion.split(word)]
        if not arguments:
            return 0
        output = CollectedOutput()
        targets = [(how, self._expansion.expand(where)) for how, where in command.redirects if how != "2>"]
        write = output.write if targets else self.write
        code = yield from self.call(arguments, write)
        for how, where in targets:
            if where not in ("/dev/null", "/dev/stdout", "/dev/stderr"):
                self.files.write(where, output.text(), append=how == ">>")
            elif where != "/dev/null":
                self.write(output.text())
        return code

    def call(self, arguments: Sequence[str], write: Callable[[str], None]) -> Run:
        """Run one command with its arguments."""
        name, *rest = arguments
        name = name.rpartition("/")[2]
        if name in self.functions:
            return (yield from self.evaluate(self.functions[name]))
        if name == "sleep":
            seconds = sum(map(parse_seconds, rest))
            self.effort.rest(seconds)
            yield seconds
            return 0
        if name == "exec":
            raise Exit((yield from self.call(rest, write)) if rest else 0)
        if name in SHELLS:
            return (yield from self._nested_shell(rest, write))
        if name == "cat" and not paths_in(rest):
            return (yield from self._copy_input(write))
        if name == "read":
            return (yield from self._read_line(paths_in(rest)))
        if name == "exit":
            raise Exit(parse_int(rest[0]) if rest else self.status)
        if name == "timeout" and len(rest) > 1:
            return (yield from self.call(rest[1:], write))
        utility = UTILITIES.get(name)
        if utility is None:
            raise UnsupportedScript(f"{name} is not simulated")

        def write_counted(text: str) -> None:
            self.effort.add(0, len(text))
            write(text)

        try:
            return utility(self, rest, write_counted)
        except (ArithmeticError, LookupError, ValueError, RecursionError):
            raise UnsupportedScript(f"{name} with these arguments is not simulated") from None

    def _copy_input(self, write: Callable[[str], None]) -> Run:
        while True:
            while taken := self.stdin.take(_COPIED_BYTES_AT_A_TIME):
                yield from self._pause()
                self.effort.add_at_once(1 + len(taken) // COPIED_CHARACTERS_PER_STEP)
                write(taken.decode("utf-8", "surrogateescape"))
            if self.stdin.is_closed:
                return 0
            yield WAIT_FOR_INPUT

    def _read_line(self, names: Sequence[str]) -> Run:
        while (line := self.stdin.take_line()) is None:
            if self.stdin.is_closed:
                return 1
            yield WAIT_FOR_INPUT
        values = line[:MAX_VALUE_CHARACTERS].decode("utf-8", "surrogateescape").split(maxsplit=max(0, len(names) - 1))
        for number, name in enumerate(names):
            self.assign(name, values[number].strip() if number < len(values) else "")
        return 0

    def _nested_shell(self, arguments: Sequence[str], write: Callable[[str], None]) -> Run:
        node = self._parse(script_of(arguments))
        inner = Shell(
            dict(self.environment),
            self.files,
            self.rng,
            write,
            effort=self.effort,
            is_substitution=self.is_substitution,
            stdin=self.stdin,
            now=self.now,
        )
        return (yield from inner.run(node))

    def _output_of(self, script: str) -> str:
        node, output = self._parse(script), CollectedOutput()
        inner = Shell(
            dict(self.environment),
            self.files,
            self.rng,
            output.write,
            effort=self.effort,
            is_substitution=True,
            functions=self.functions,
            now=self.now,
        )
        for _ in inner.run(node):
            raise UnsupportedScript("a substitution sleeps")
        return output.text().rstrip("\n")


def parse_seconds(text: str) -> float:
    """The duration of `sleep`."""
    if text in ("inf", "infinity"):
        return 1e9
    match = _NUMBER.match(text)
    if match is None:
        raise Exit(1)
    return min(1e9, float(match[1]) * _UNITS[match[2]])


def parse_int(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,9}", text):
        raise Exit(2)
    return int(text) % 256


def script_of(arguments: Sequence[str]) -> str:
    """The script of `sh -c SCRIPT`."""
    for number, argument in enumerate(arguments):
        if argument.startswith("-") and argument.endswith("c") and number + 1 < len(arguments):
            return arguments[number + 1]
    raise UnsupportedScript("only sh -c is simulated")


def check_is_simulated(node: Node) -> None:
    """Raise `UnsupportedScript` if the script calls something that is not simulated."""
    known = {*UTILITIES, *SHELLS, *function_names(node), "sleep", "exec", "exit", "timeout", "read"}
    for name in command_names(node):
        if name.rpartition("/")[2] not in known:
            raise UnsupportedScript(f"{name or 'an expanded command'} is not simulated")
