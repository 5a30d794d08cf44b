"""The functions of CEL's strings extension, reimplemented.

The evaluator accepts no further overloads for a name that it declares itself, and `indexOf` and others need some for
lists.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from trimtab.interpret.cel.library import Overload

_ESCAPES = str.maketrans(
    {
        "\\": "\\\\",
        '"': '\\"',
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
    }
)
_LOWER = str.maketrans({chr(c): chr(c + 32) for c in range(ord("A"), ord("Z") + 1)})
_UPPER = str.maketrans({chr(c): chr(c - 32) for c in range(ord("a"), ord("z") + 1)})
_DEFAULT_PRECISION = 6


def _checked_index(index: int, length: int) -> int:
    if not 0 <= index <= length:
        raise ValueError(f"index out of range: {index}")
    return index


def _char_at(text: str, index: int) -> str:
    return text[_checked_index(index, len(text)) : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    return text.find(part, _checked_index(start, len(text)))


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    return text.rfind(part, 0, _checked_index(start, len(text)) + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else _checked_index(end, len(text))
    if _checked_index(start, len(text)) > stop:
        raise ValueError(f"the start {start} is after the end {stop}")
    return text[start:stop]


def _replace(text: str, old: str, new: str, times: int = -1) -> str:
    return text.replace(old, new, times)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _join(parts: Sequence[Any], separator: str = "") -> str:
    if not all(isinstance(part, str) for part in parts):
        raise ValueError("only strings can be joined")
    return separator.join(parts)


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def format_string(text: str, values: Sequence[Any]) -> str:
    """`%s` and its like, each consuming the next value."""
    out: list[str] = []
    remaining = iter(values)
    at = 0
    while (found := text.find("%", at)) >= 0:
        out.append(text[at:found])
        precision, verb, at = _parse_clause(text, found + 1)
        out.append("%" if verb == "%" else _format_clause(verb, precision, remaining))
    return "".join([*out, text[at:]])


def _parse_clause(text: str, at: int) -> tuple[int | None, str, int]:
    """The precision, the verb, and the position after the clause."""
    precision = None
    if text[at : at + 1] == ".":
        end = at + 1
        while text[end : end + 1].isdigit():
            end += 1
        precision, at = int(text[at + 1 : end] or 0), end
    if at >= len(text):
        raise ValueError("unexpected end of the format")
    return precision, text[at], at + 1


def _format_clause(verb: str, precision: int | None, values: Any) -> str:
    write = _VERBS.get(verb)
    if write is None:
        raise ValueError(f"unrecognized formatting clause {verb!r}")
    try:
        value = next(values)
    except StopIteration:
        raise ValueError("there are fewer values than clauses") from None
    return write(value, _DEFAULT_PRECISION if precision is None else min(precision, 100))


def to_string(value: Any) -> str:
    """Any value as `%s` formats it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value, repr(value).removesuffix(".0"))
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="replace")
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.9f}".rstrip("0").rstrip(".") + "s"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{to_string(k)}: {to_string(v)}" for k, v in value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_string(item) for item in value) + "]"
    return str(value)


def _float_text(value: float, finite: str) -> str:
    if value != value:  # noqa: PLR0124  # only NaN is not equal to itself
        return "NaN"
    return finite if abs(value) != float("inf") else "Infinity" if value > 0 else "-Infinity"


def _require_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _require_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _format_decimal(value: Any, precision: int) -> str:
    return str(_require_int(value))


def _format_binary(value: Any, precision: int) -> str:
    return format(int(value) if isinstance(value, bool) else _require_int(value), "b")


def _format_hexadecimal(value: Any, precision: int) -> str:
    if isinstance(value, str | bytes | bytearray):
        return (value.encode() if isinstance(value, str) else value).hex()
    return format(_require_int(value), "x")


_VERBS: dict[str, Callable[[Any, int], str]] = {
    "s": lambda value, _: to_string(value),
    "d": _format_decimal,
    "f": lambda value, digits: _float_text(_require_number(value), f"{_require_number(value):.{digits}f}"),
    "e": lambda value, digits: _float_text(_require_number(value), f"{_require_number(value):.{digits}e}"),
    "b": _format_binary,
    "x": _format_hexadecimal,
    "X": lambda value, digits: _format_hexadecimal(value, digits).upper(),
    "o": lambda value, _: format(_require_int(value), "o"),
}


def string_overloads() -> list[Overload]:
    """Every string function that CEL's standard library lacks."""
    text, number = "string", "int"
    return [
        Overload("charAt", (text, number), text, _char_at, member=True),
        Overload("indexOf", (text, text), number, _index_of, member=True),
        Overload("indexOf", (text, text, number), number, _index_of, member=True),
        Overload("lastIndexOf", (text, text), number, _last_index_of, member=True),
        Overload("lastIndexOf", (text, text, number), number, _last_index_of, member=True),
        Overload("substring", (text, number), text, _substring, member=True),
        Overload("substring", (text, number, number), text, _substring, member=True),
        Overload("replace", (text, text, text), text, _replace, member=True),
        Overload("replace", (text, text, text, number), text, _replace, member=True),
        Overload("split", (text, text), "texts", _split, member=True),
        Overload("split", (text, text, number), "texts", _split, member=True),
        Overload("join", ("texts",), text, _join, member=True),
        Overload("join", ("texts", text), text, _join, member=True),
        Overload("lowerAscii", (text,), text, lambda t: t.translate(_LOWER), member=True),
        Overload("upperAscii", (text,), text, lambda t: t.translate(_UPPER), member=True),
        Overload("trim", (text,), text, str.strip, member=True),
        Overload("reverse", (text,), text, lambda t: t[::-1], member=True),
        Overload("format", (text, "list"), text, format_string, member=True),
        Overload("strings.quote", (text,), text, _quote),
    ]
