"""Runs shell scripts and common utilities of a simulated container, on simulated time and files.

A script is a generator: it yields the seconds that it sleeps and returns its exit code. Whoever drives it decides when
that time has passed. Nothing is ever executed on this machine: commands are the functions below, files are dicts.
"""

import random
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import TypeAlias

from trimtab.simulate.containers.file_utilities import find, tar
from trimtab.simulate.containers.files import MAX_FILE_CHARACTERS, Files
from trimtab.simulate.containers.input_buffer import WAIT_FOR_INPUT, InputBuffer
from trimtab.simulate.containers.shell_syntax import (
    Command,
    CommandList,
    For,
    Function,
    If,
    Loop,
    Node,
    UnsupportedScript,
    Word,
    command_names,
    function_names,
    is_assignment,
    parse_script,
)

MAX_STEPS_WITHOUT_SLEEP = 1_000
"""A script that runs so many commands without sleeping is treated as busy: it continues after a pause."""
CHARACTERS_PER_STEP = 200
"""Texts that are expanded or written count as commands."""
CHARACTERS_PER_CALCULATION_STEP = 4
MAX_STEPS_IN_SUBSTITUTION = 2 * MAX_STEPS_WITHOUT_SLEEP
MAX_VALUE_CHARACTERS = MAX_FILE_CHARACTERS
MAX_VARIABLES = 1_000
MAX_TEST_WORDS = 100
MAX_COLLECTED_CHARACTERS = 16 * MAX_FILE_CHARACTERS
"""Of the output of a part of a pipeline, of a substitution, or of a command whose output is redirected."""
_DD_BLOCK = 512
BUSY_PAUSE_SECONDS = 1.0
EPOCH = datetime.fromtimestamp(0, UTC)
SHELLS = frozenset(("sh", "bash", "ash", "dash"))
Run: TypeAlias = Generator[float, None, int]
_EXPANSION = re.compile(r"\$\(\((.*?)\)\)|\$\{(\w+)(?:(:?[-+])(.*?))?\}|\$(\w+|[?#@*$!])", re.DOTALL)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)\Z")
_ARITHMETIC = re.compile(r"[\d\s+\-*/%()<>=!&|]*\Z")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Exit(Exception):
    """`exit` was called."""

    def __init__(self, code: int) -> None:
        self.code = code


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


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
class Shell:
    """The environment of one script."""

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

    # running

    def termination_seconds(self) -> float:
        """How long the trap for SIGTERM sleeps before the script ends; 0 without one."""
        if not self.trap:
            return 0.0
        try:
            return sum(islice(self.run(parse_script(self.trap)), MAX_STEPS_WITHOUT_SLEEP))
        except UnsupportedScript:
            return 0.0

    def run(self, node: Node) -> Run:
        """Run a script to its end; returns the exit code."""
        try:
            return (yield from self.evaluate(node))
        except Exit as end:
            return end.code
        except (_Break, _Continue):
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
                for value in [one for word in words for one in self._split(word)]:
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
        except _Break:
            return True
        except _Continue:
            pass
        return False

    def _simple(self, command: Command) -> Run:
        self.effort.add(1)
        if self.is_substitution:  # it cannot pause
            if self.effort.steps > MAX_STEPS_IN_SUBSTITUTION:
                raise UnsupportedScript("a substitution takes too long")
        elif self.effort.steps > MAX_STEPS_WITHOUT_SLEEP:
            self.effort.steps = 0
            yield BUSY_PAUSE_SECONDS
        words = list(command.words)
        while words and is_assignment(words[0]):
            name, _, value = self.expand(words.pop(0)).partition("=")
            self.assign(name, value)
        arguments = [one for word in words for one in self._split(word)]
        if not arguments:
            return 0
        output = CollectedOutput()
        targets = [(how, self.expand(where)) for how, where in command.redirects if how != "2>"]
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
            self.effort.steps = 0
            yield sum(map(parse_seconds, rest))
            return 0
        if name == "exec":
            raise Exit((yield from self.call(rest, write)) if rest else 0)
        if name in SHELLS:
            return (yield from self._nested_shell(rest, write))
        if name == "cat" and not _paths(rest):
            return (yield from self._copy_input(write))
        if name == "read":
            return (yield from self._read_line(_paths(rest)))
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

    def assign(self, name: str, value: str) -> None:
        if name not in self.environment and len(self.environment) >= MAX_VARIABLES:
            raise UnsupportedScript(f"more than {MAX_VARIABLES} variables are not simulated")
        self.environment[name] = value

    def _copy_input(self, write: Callable[[str], None]) -> Run:
        while True:
            if taken := self.stdin.take():
                write(taken.decode("utf-8", "surrogateescape"))
            if self.stdin.is_closed:
                return 0
            yield WAIT_FOR_INPUT

    def _read_line(self, names: Sequence[str]) -> Run:
        while (line := self.stdin.take_line()) is None:
            if self.stdin.is_closed:
                return 1
            yield WAIT_FOR_INPUT
        values = line.decode("utf-8", "surrogateescape").split(maxsplit=max(0, len(names) - 1))
        for number, name in enumerate(names):
            self.assign(name, values[number].strip() if number < len(values) else "")
        return 0

    def _nested_shell(self, arguments: Sequence[str], write: Callable[[str], None]) -> Run:
        script = script_of(arguments)
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
        return (yield from inner.run(parse_script(script)))

    # expansion

    def expand(self, word: Word) -> str:
        result, size = [], 0
        for text, quote in word.parts:
            result.append(text if quote == "'" else self._expand_text(text, quote))
            size += len(result[-1])
            self.effort.add(0, len(text) + len(result[-1]))
            if size > MAX_VALUE_CHARACTERS:
                raise UnsupportedScript(f"values of more than {MAX_VALUE_CHARACTERS} characters are not simulated")
        return "".join(result)

    def _split(self, word: Word) -> list[str]:
        """The fields of a word: unquoted expansions are split at spaces."""
        if any(quote for _, quote in word.parts):
            return [self.expand(word)]
        text = self.expand(word)
        return text.split() if "$" in word.parts[0][0] or "`" in word.parts[0][0] else [text]

    def _expand_text(self, text: str, quote: str) -> str:
        if quote == '"':
            text = re.sub(r"\\([\"\\`\n])", r"\1", text)
        return _EXPANSION.sub(self._expand_match, self._substitute_commands(text))

    def _substitute_commands(self, text: str) -> str:
        """Replace `$(...)` and backquotes by the output of their commands, which must not sleep."""
        if "`" not in text and "$(" not in text:
            return text
        result, position = "", 0
        while position < len(text):
            backquote = text[position] == "`"
            if backquote or (text.startswith("$(", position) and not text.startswith("$((", position)):
                end = _substitution_end(text, position)
                inner = text[position + 1 : end - 1] if backquote else text[position + 2 : end - 1]
                result += self._output_of(inner)
                position = end
            else:
                result += text[position]
                position += 1
        return result

    def _output_of(self, script: str) -> str:
        output = CollectedOutput()
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
        for _ in inner.run(parse_script(script)):
            raise UnsupportedScript("a substitution sleeps")
        return output.text().rstrip("\n")

    def _expand_match(self, match: re.Match[str]) -> str:
        arithmetic, name, how, other, plain = match.groups()
        if arithmetic is not None:
            return str(self._calculate(arithmetic))
        value = self._variable(name or plain)
        if how and how.endswith("-"):
            return value or (other or "")
        if how and how.endswith("+"):
            return (other or "") if value else ""
        return value

    def _variable(self, name: str) -> str:
        if name == "RANDOM":
            return str(self.rng.randrange(32768))
        if name == "?":
            return str(self.status)
        if name == "$":
            return "1"
        return self.environment.get(name, "")

    def _calculate(self, text: str) -> int:
        text = _EXPANSION.sub(self._expand_match, text)
        text = re.sub(r"[A-Za-z_]\w*", lambda match: self._variable(match[0]) or "0", text)
        self.effort.add(len(text) // CHARACTERS_PER_CALCULATION_STEP)
        return calculate(text)


def _substitution_end(text: str, start: int) -> int:
    if text[start] == "`":
        return text.index("`", start + 1) + 1
    depth = 0
    for position in range(start + 1, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position + 1
    raise UnsupportedScript("a substitution has no end")


def calculate(text: str) -> int:
    """The value of an arithmetic expression of numbers and operators."""
    tokens = re.findall(r"\d+|[<>=!]=|&&|\|\||[-+*/%()<>]", text)
    if not _ARITHMETIC.match(text) or len(tokens) > 200:
        raise UnsupportedScript(f"{text!r} is not simulated")
    value, rest = _binary(tokens, 0)
    if rest:
        raise UnsupportedScript(f"{text!r} is not simulated")
    return value


_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("+", "-"),
    ("*", "/", "%"),
)


def _binary(tokens: list[str], level: int) -> tuple[int, list[str]]:
    if level == len(_LEVELS):
        return _operand(tokens)
    value, tokens = _binary(tokens, level + 1)
    while tokens and tokens[0] in _LEVELS[level]:
        right, rest = _binary(tokens[1:], level + 1)
        value, tokens = _apply(tokens[0], value, right), rest
    return value, tokens


def _operand(tokens: list[str]) -> tuple[int, list[str]]:
    if not tokens:
        return 0, []
    if tokens[0] == "(":
        value, rest = _binary(tokens[1:], 0)
        return value, rest[1:]
    if tokens[0] in "+-":
        value, rest = _operand(tokens[1:])
        return (-value if tokens[0] == "-" else value), rest
    if not tokens[0].isdigit():
        raise UnsupportedScript(f"{tokens[0]!r} is not a number")
    return int(tokens[0][:18]), tokens[1:]


def _apply(operator: str, left: int, right: int) -> int:
    if operator in "/%" and right == 0:
        raise Exit(2)
    operations: dict[str, Callable[[], int]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: _divide(left, right),
        "%": lambda: left - right * _divide(left, right),
        "<": lambda: int(left < right),
        ">": lambda: int(left > right),
        "<=": lambda: int(left <= right),
        ">=": lambda: int(left >= right),
        "==": lambda: int(left == right),
        "!=": lambda: int(left != right),
        "&&": lambda: int(bool(left and right)),
        "||": lambda: int(bool(left or right)),
    }
    return operations[operator]()


def _divide(left: int, right: int) -> int:
    """The quotient towards zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


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


# utilities: (shell, arguments, write) -> exit code

Write: TypeAlias = Callable[[str], None]
Utility: TypeAlias = Callable[[Shell, Sequence[str], Write], int]


def _echo(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    end = "\n"
    escapes = False
    while arguments and arguments[0] in ("-n", "-e", "-ne", "-en"):
        end = "" if "n" in arguments[0] else end
        escapes = escapes or "e" in arguments[0]
        arguments = arguments[1:]
    text = " ".join(arguments)
    write((_unescape(text) if escapes else text) + end)
    return 0


def _unescape(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")


def _printf(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    if arguments:
        values = iter(arguments[1:])
        write(re.sub(r"%[sd]", lambda _: next(values, ""), _unescape(arguments[0])).replace("%%", "%"))
    return 0


def _test(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    closing = [one for one in arguments if one not in ("]", "]]")]
    if len(closing) > MAX_TEST_WORDS:
        raise UnsupportedScript(f"tests of more than {MAX_TEST_WORDS} words are not simulated")
    return 0 if _holds(shell, closing) else 1


def _holds(shell: Shell, words: Sequence[str]) -> bool:
    for operator, combine in (("||", any), ("-o", any), ("&&", all), ("-a", all)):
        if operator in words:
            at = list(words).index(operator)
            return combine((_holds(shell, words[:at]), _holds(shell, words[at + 1 :])))
    match list(words):
        case ["!", *rest]:
            return not _holds(shell, rest)
        case []:
            return False
        case [value]:
            return value != ""
        case ["-z", value]:
            return value == ""
        case ["-n", value]:
            return value != ""
        case ["-d", path]:
            return shell.files.is_directory(path)
        case ["-s", path]:
            return bool(shell.files.read(path))
        case ["-e" | "-f" | "-r" | "-w" | "-x", path]:
            return shell.files.exists(path)
        case [left, "=" | "==", right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, ("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") as how, right]:
            return _compare(left, how, right)
    raise UnsupportedScript(f"test {' '.join(words)} is not simulated")


def _compare(left: str, how: str, right: str) -> bool:
    try:
        a, b = int(left), int(right)
    except ValueError:
        return False
    results = {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}
    return results[how]


def _touch(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    return 0 if all(shell.files.write(path, "", append=True) for path in _paths(arguments)) else 1


def _paths(arguments: Sequence[str]) -> list[str]:
    return [one for one in arguments if not one.startswith("-")]


def _cat(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    code = 0
    for path in _paths(arguments):
        content = shell.files.read(path)
        if content is None:
            write(f"cat: can't open '{path}': No such file or directory\n")
            code = 1
        else:
            write(content)
    return code


def _remove(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    missing = [path for path in _paths(arguments) if not shell.files.remove(path)]
    return 1 if missing and not any("f" in one for one in arguments if one.startswith("-")) else 0


def _move(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    return _transfer(shell, arguments, write, remove=True)


def _copy(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    return _transfer(shell, arguments, write, remove=False)


def _transfer(shell: Shell, arguments: Sequence[str], write: Write, *, remove: bool) -> int:
    paths = _paths(arguments)
    if len(paths) != 2:
        return 1
    source, target = paths
    content = shell.files.read(source)
    if content is None:
        write(f"can't rename '{source}': No such file or directory\n")
        return 1
    if target.endswith("/") or shell.files.is_directory(target):
        target = f"{target.rstrip('/')}/{source.rpartition('/')[2]}"
    shell.files.write(target, content)
    if remove:
        shell.files.remove(source)
    if "-v" in arguments:
        write(f"'{source}' -> '{target}'\n")
    return 0


def _dd(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    """Copy `count` blocks of `bs` bytes from `if` to `of`; devices have no end and give zeros."""
    operands = dict(one.split("=", 1) for one in arguments if "=" in one)
    source, target = operands.get("if", ""), operands.get("of", "")
    size, count = (_block_number(operands.get(name, "")) for name in ("bs", "count"))
    wanted = min((size or _DD_BLOCK) * count, MAX_FILE_CHARACTERS) if count is not None else MAX_FILE_CHARACTERS
    if not source:
        content: str | None = shell.stdin.take().decode("utf-8", "surrogateescape")
    else:
        content = "\0" * wanted if source.startswith("/dev/") else shell.files.read(source)
    if content is None:
        write(f"dd: can't open '{source}': No such file or directory\n")
        return 1
    if not target:
        write(content[:wanted])
    elif not target.startswith("/dev/"):
        return 0 if shell.files.write(target, content[:wanted]) else 1
    return 0


def _link(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    """`ln TARGET PATH`: with `-s` a symbolic link, else another copy, as files have no identity here."""
    paths = _paths(arguments)
    if len(paths) != 2:
        return 1
    if any("s" in one for one in arguments if one.startswith("-")):
        return 0 if shell.files.link(*paths) else 1
    return _copy(shell, paths, write)


def _block_number(text: str) -> int | None:
    number, unit = (text[:-1], text[-1:].lower()) if text[-1:].isalpha() else (text, "")
    factor = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(unit)
    return int(number[:12]) * factor if number.isdigit() and factor else None


def _list_files(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    code = 0
    for path in _paths(arguments) or ["/"]:
        if shell.files.read(path) is not None:
            write(f"{path}\n")
        elif shell.files.is_directory(path):
            write("".join(f"{name}\n" for name in shell.files.names(path)))
        else:
            write(f"ls: {path}: No such file or directory\n")
            code = 1
    return code


def _env(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    if arguments:
        values = [shell.environment[name] for name in arguments if name in shell.environment]
        write("".join(f"{value}\n" for value in values))
        return 0 if len(values) == len(arguments) else 1
    write("".join(f"{name}={value}\n" for name, value in sorted(shell.environment.items())))
    return 0


def _export(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    for one in arguments:
        name, equals, value = one.partition("=")
        if equals:
            shell.assign(name, value)
    return 0


def _expr(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    value = calculate(" ".join("==" if one == "=" else one for one in arguments))
    write(f"{value}\n")
    return 0 if value else 1


def _seq(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    numbers = [int(one) for one in arguments if one.lstrip("-").isdigit()]
    first, last = (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[-1])
    step = numbers[1] if len(numbers) == 3 else 1
    write("".join(f"{number}\n" for number in range(first, last + 1, step or 1)[:MAX_STEPS_WITHOUT_SLEEP]))
    return 0


def _find(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    return find(shell.files, arguments, write)


def _tar(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    return tar(shell.files, arguments, shell.stdin.take(), write)


def _date(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    formats = [one[1:] for one in arguments if one.startswith("+")]
    write(shell.now().strftime(formats[0][:256] if formats else "%a %b %e %H:%M:%S UTC %Y") + "\n")
    return 0


def _hostname(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    write(shell.environment.get("HOSTNAME", "") + "\n")
    return 0


def _break(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    raise _Break


def _continue(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    raise _Continue


def _trap(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    if len(arguments) > 1 and {"TERM", "SIGTERM", "15"} & set(arguments[1:]):
        shell.trap = arguments[0]
    return 0


def _succeed(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    return 0


def _fail(shell: Shell, arguments: Sequence[str], write: Write) -> int:
    return 1


UTILITIES: dict[str, Utility] = {
    "true": _succeed,
    ":": _succeed,
    "set": _succeed,
    "cd": _succeed,
    "trap": _trap,
    "wait": _succeed,
    "sync": _succeed,
    "chmod": _succeed,
    "chown": _succeed,
    "mkdir": _succeed,
    "umask": _succeed,
    "dd": _dd,
    "false": _fail,
    "echo": _echo,
    "printf": _printf,
    "test": _test,
    "[": _test,
    "[[": _test,
    "touch": _touch,
    "cat": _cat,
    "rm": _remove,
    "mv": _move,
    "cp": _copy,
    "ls": _list_files,
    "env": _env,
    "printenv": _env,
    "export": _export,
    "expr": _expr,
    "seq": _seq,
    "hostname": _hostname,
    "date": _date,
    "find": _find,
    "ln": _link,
    "tar": _tar,
    "break": _break,
    "continue": _continue,
}
