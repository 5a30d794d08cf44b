"""Arithmetic of shell scripts: `$((...))` and `expr`."""

import re
from collections.abc import Callable

from trimtab.simulate.containers.shell_state import Exit
from trimtab.simulate.containers.shell_syntax import UnsupportedScript

CHARACTERS_PER_CALCULATION_STEP = 4
_ARITHMETIC = re.compile(r"[\d\s+\-*/%()<>=!&|]*\Z")


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
