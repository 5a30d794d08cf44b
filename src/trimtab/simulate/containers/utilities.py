"""Utilities that scripts call: functions of the state of the script, their arguments and where they write."""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from trimtab.simulate.containers.arithmetic import CHARACTERS_PER_CALCULATION_STEP, calculate
from trimtab.simulate.containers.file_utilities import find, tar
from trimtab.simulate.containers.files import MAX_FILE_CHARACTERS
from trimtab.simulate.containers.shell_state import CHARACTERS_PER_STEP, BreakLoop, ContinueLoop, ShellState
from trimtab.simulate.containers.shell_syntax import UnsupportedScript

MAX_TEST_WORDS = 100
MAX_NUMBERS = 1_000
"""How many numbers `seq` writes."""
_DD_BLOCK = 512
Write: TypeAlias = Callable[[str], None]
Utility: TypeAlias = Callable[[ShellState, Sequence[str], Write], int]
"""Returns the exit code."""


def _echo(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
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


def _printf(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    if arguments:
        values = iter(arguments[1:])
        write(re.sub(r"%[sd]", lambda _: next(values, ""), _unescape(arguments[0])).replace("%%", "%"))
    return 0


def _test(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    closing = [one for one in arguments if one not in ("]", "]]")]
    if len(closing) > MAX_TEST_WORDS:
        raise UnsupportedScript(f"tests of more than {MAX_TEST_WORDS} words are not simulated")
    return 0 if _holds(shell, closing) else 1


def _holds(shell: ShellState, words: Sequence[str]) -> bool:
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
            shell.count_search(path)
            return shell.files.is_directory(path)
        case ["-s", path]:
            return bool(shell.files.read(path))
        case ["-e" | "-f" | "-r" | "-w" | "-x", path]:
            shell.count_search(path)
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


def _touch(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    return 0 if all(shell.files.write(path, "", append=True) for path in paths_in(arguments)) else 1


def paths_in(arguments: Sequence[str]) -> list[str]:
    """The arguments that are no options."""
    return [one for one in arguments if not one.startswith("-")]


def _cat(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    code = 0
    for path in paths_in(arguments):
        content = shell.files.read(path)
        if content is None:
            write(f"cat: can't open '{path}': No such file or directory\n")
            code = 1
        else:
            write(content)
    return code


def _grep(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    """Print the lines of files, or of the input, in which a pattern occurs; of patterns `.`, `^` and `$` are simulated."""
    options = {letter for one in arguments if one.startswith("-") for letter in one[1:]}
    pattern, *paths = paths_in(arguments) or [""]
    if options - set("Fciqv") or (not options & {"F"} and set(pattern) & set("*[]\\")):
        raise UnsupportedScript(f"grep {' '.join(arguments)[:200]} is not simulated")
    texts = [shell.files.read(path) for path in paths] or [shell.stdin.take().decode(errors="replace")]
    shell.effort.add_at_once(sum(len(text) for text in texts if text is not None) // CHARACTERS_PER_STEP)
    expression = _grep_expression(pattern, options)
    lines = [line for text in texts if text is not None for line in text.splitlines()]
    found = [line for line in lines if (expression.search(line) is None) == ("v" in options)]
    if "q" not in options:
        write(f"{len(found)}\n" if "c" in options else "".join(f"{line}\n" for line in found))
    return 2 if None in texts else int(not found)


def _grep_expression(pattern: str, options: set[str]) -> re.Pattern[str]:
    flags = re.IGNORECASE if "i" in options else re.NOFLAG
    if "F" in options:
        return re.compile(re.escape(pattern), flags)
    core = pattern.removeprefix("^").removesuffix("$")
    start, end = "^" * pattern.startswith("^"), "$" * pattern.endswith("$")
    return re.compile(start + re.escape(core).replace(r"\.", ".") + end, flags)


def _remove(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    missing = [path for path in paths_in(arguments) if not shell.files.remove(path)]
    return 1 if missing and not any("f" in one for one in arguments if one.startswith("-")) else 0


def _move(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    return _transfer(shell, arguments, write, remove=True)


def _copy(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    return _transfer(shell, arguments, write, remove=False)


def _transfer(shell: ShellState, arguments: Sequence[str], write: Write, *, remove: bool) -> int:
    paths = paths_in(arguments)
    if len(paths) != 2:
        return 1
    source, target = paths
    shell.count_search(target)
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


def _dd(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    """Copy `count` blocks of `bs` bytes from `if` to `of`; devices have no end and give zeros."""
    operands = dict(one.split("=", 1) for one in arguments if "=" in one)
    source, target = operands.get("if", ""), operands.get("of", "")
    size, count = (_block_number(operands.get(name, "")) for name in ("bs", "count"))
    wanted = min((size or _DD_BLOCK) * count, MAX_FILE_CHARACTERS) if count is not None else MAX_FILE_CHARACTERS
    if not source:
        content: str | None = shell.stdin.take(wanted).decode("utf-8", "surrogateescape")
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


def _link(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    """`ln TARGET PATH`: with `-s` a symbolic link, else another copy, as files have no identity here."""
    paths = paths_in(arguments)
    if len(paths) != 2:
        return 1
    shell.count_search(paths[1])
    if any("s" in one for one in arguments if one.startswith("-")):
        return 0 if shell.files.link(*paths) else 1
    return _copy(shell, paths, write)


def _block_number(text: str) -> int | None:
    number, unit = (text[:-1], text[-1:].lower()) if text[-1:].isalpha() else (text, "")
    factor = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(unit)
    return int(number[:12]) * factor if number.isdigit() and factor else None


def _list_files(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    code = 0
    for path in paths_in(arguments) or ["/"]:
        shell.count_search(path)
        if shell.files.read(path) is not None:
            write(f"{path}\n")
        elif shell.files.is_directory(path):
            write("".join(f"{name}\n" for name in shell.files.names(path)))
        else:
            write(f"ls: {path}: No such file or directory\n")
            code = 1
    return code


def _env(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    if arguments:
        values = [shell.environment[name] for name in arguments if name in shell.environment]
        write("".join(f"{value}\n" for value in values))
        return 0 if len(values) == len(arguments) else 1
    write("".join(f"{name}={value}\n" for name, value in sorted(shell.environment.items())))
    return 0


def _export(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    for one in arguments:
        name, equals, value = one.partition("=")
        if equals:
            shell.assign(name, value)
    return 0


def _expr(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    text = " ".join("==" if one == "=" else one for one in arguments)
    shell.effort.add_at_once(len(text) // CHARACTERS_PER_CALCULATION_STEP)
    value = calculate(text)
    write(f"{value}\n")
    return 0 if value else 1


def _seq(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    numbers = [int(one) for one in arguments if one.lstrip("-").isdigit()]
    first, last = (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[-1])
    step = numbers[1] if len(numbers) == 3 else 1
    write("".join(f"{number}\n" for number in range(first, last + 1, step or 1)[:MAX_NUMBERS]))
    return 0


def _find(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    return find(shell.files, arguments, write, shell.effort.add_at_once)


def _tar(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    return tar(shell.files, arguments, shell.stdin.take(), write, shell.effort.add_at_once)


def _date(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    formats = [one[1:] for one in arguments if one.startswith("+")]
    write(shell.now().strftime(formats[0][:256] if formats else "%a %b %e %H:%M:%S UTC %Y") + "\n")
    return 0


def _hostname(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    write(shell.environment.get("HOSTNAME", "") + "\n")
    return 0


def _break(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    raise BreakLoop


def _continue(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    raise ContinueLoop


def _trap(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    if len(arguments) > 1 and {"TERM", "SIGTERM", "15"} & set(arguments[1:]):
        shell.trap = arguments[0]
    return 0


def _succeed(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
    return 0


def _fail(shell: ShellState, arguments: Sequence[str], write: Write) -> int:
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
    "grep": _grep,
    "ln": _link,
    "tar": _tar,
    "break": _break,
    "continue": _continue,
}
