"""JSON paths in kubectl's syntax, for printer columns, feedback rules and state preservation."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias

import orjson

Place: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead from the document to one value."""
Step: TypeAlias = Callable[[Any], Iterator[tuple[Place, Any]]]
"""Maps a value to the values that one part of a path selects, each with its relative location."""

_NAME = re.compile(r"(?:[^.\[\]\\]|\\.)+")
_NUMBER = re.compile(r"-?\d+\Z")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?\Z")
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1).)*)\1""")
_COMPARISON = re.compile(r"(.*?)\s*(==|!=|<=|>=|<|>)\s*(.*)\Z", re.DOTALL)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


class BadPath(ValueError):
    """The text is not a valid JSON path; the message is for its author."""


def find(document: Any, path: str) -> list[Any]:
    """All values at the path, in document order; raises InvalidJSONPath."""
    return [value for _, value in _walk(steps_of(path), document)]


def places(document: Any, path: str) -> list[Place]:
    """The locations of all values at the path; raises InvalidJSONPath."""
    return [place for place, _ in _walk(steps_of(path), document)]


def find_if_any(document: Any, path: str) -> list[Any]:
    """All values at the path; empty when the path is invalid."""
    try:
        return find(document, path)
    except BadPath:
        return []


def _walk(steps: Sequence[Step], document: Any) -> list[tuple[Place, Any]]:
    found: list[tuple[Place, Any]] = [((), document)]
    for step in steps:
        found = [((*place, *further), inner) for place, value in found for further, inner in step(value)]
    return found


@lru_cache(maxsize=2048)
def steps_of(path: str) -> tuple[Step, ...]:
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$")
    if text and not text.startswith((".", "[")):
        text = f".{text}"
    return tuple(_steps(text, path))


def _steps(text: str, path: str) -> Iterator[Step]:
    at = 0
    while at < len(text):
        if text[at] == "[":
            end = _closing(text, at, path)
            yield _bracket(text[at + 1 : end].strip(), path)
            at = end + 1
        elif text.startswith("..", at):
            name = _NAME.match(text, at + 2)
            if name is None:
                raise BadPath(f"a name is missing behind .. in {path!r}")
            yield _anywhere(_plain(name[0]))
            at = name.end()
        elif text[at] == "." and at + 1 == len(text):
            return  # a trailing dot selects the value itself
        elif text[at] == "." and (name := _NAME.match(text, at + 1)) is not None:
            yield _every if name[0] == "*" else _named(_plain(name[0]))
            at = name.end()
        elif text.startswith(".[", at):
            at += 1
        else:
            raise BadPath(f"{path!r} cannot be read from {text[at:]!r} on")


def _closing(text: str, opening: int, path: str) -> int:
    """The index of the matching closing bracket; brackets in quotes are ignored."""
    depth, at = 0, opening
    while at < len(text):
        quoted = _QUOTED.match(text, at) if text[at] in "\"'" else None
        if quoted is not None:
            at = quoted.end()
            continue
        depth += (text[at] == "[") - (text[at] == "]")
        if depth == 0:
            return at
        at += 1
    raise BadPath(f"a bracket is not closed in {path!r}")


def _bracket(inner: str, path: str) -> Step:
    if inner == "*":
        return _every
    if inner.startswith("?(") and inner.endswith(")"):
        return _where(inner[2:-1].strip())
    if _NUMBER.match(inner):
        return _numbered(int(inner))
    if (cut := _SLICE.match(inner)) is not None:
        return _sliced(slice(*(int(bound) if bound else None for bound in cut.groups())))
    names = [match[2] for match in _QUOTED.finditer(inner)]
    if names and not _QUOTED.sub("", inner).strip(", "):
        chosen = [_named(_plain(name)) for name in names]
        return lambda value: (found for step in chosen for found in step(value))
    if re.fullmatch(r"-?\d+(\s*,\s*-?\d+)+", inner):
        several = [_numbered(int(number)) for number in inner.split(",")]
        return lambda value: (found for step in several for found in step(value))
    raise BadPath(f"[{inner}] cannot be read in {path!r}")


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _named(name: str) -> Step:
    def step(value: Any) -> Iterator[tuple[Place, Any]]:
        if isinstance(value, dict) and name in value:
            yield (name,), value[name]

    return step


def _numbered(index: int) -> Step:
    def step(value: Any) -> Iterator[tuple[Place, Any]]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield (index % len(value),), value[index]

    return step


def _sliced(bounds: slice) -> Step:
    def step(value: Any) -> Iterator[tuple[Place, Any]]:
        if isinstance(value, list):
            yield from (((index,), value[index]) for index in range(*bounds.indices(len(value))))

    return step


def _every(value: Any) -> Iterator[tuple[Place, Any]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield from (((key,), inner) for key, inner in inside)


def _anywhere(name: str) -> Step:
    def step(value: Any) -> Iterator[tuple[Place, Any]]:
        if isinstance(value, dict):
            yield from _every(value) if name == "*" else _named(name)(value)
        for place, inner in _every(value):
            yield from (((*place, *further), deeper) for further, deeper in step(inner))

    return step


def _where(condition: str) -> Step:
    holds = _condition(condition)

    def step(value: Any) -> Iterator[tuple[Place, Any]]:
        yield from ((place, item) for place, item in _every(value) if holds(item))

    return step


def _condition(text: str) -> Callable[[Any], bool]:
    comparison = _COMPARISON.match(text) if _operator_outside_quotes(text) else None
    if comparison is None:
        steps = _operand_steps(text)
        return lambda item: bool(_walk(steps, item))
    left, right, compare = _operand(comparison[1]), _operand(comparison[3]), _COMPARE[comparison[2]]

    def holds(item: Any) -> bool:
        try:
            return compare(*_comparable(left(item), right(item)))
        except TypeError:
            return False

    return holds


def _operator_outside_quotes(text: str) -> bool:
    return re.search(r"[=!<>]", _QUOTED.sub("", text)) is not None


def _operand_steps(text: str) -> tuple[Step, ...]:
    if not text.startswith("@"):
        raise BadPath(f"a condition begins with @, not with {text!r}")
    return steps_of(text[1:] or ".")


def _operand(text: str) -> Callable[[Any], Any]:
    if text.startswith("@"):
        steps = _operand_steps(text)
        return lambda item: next((value for _, value in _walk(steps, item)), None)
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        plain = _plain(quoted[2])
        return lambda _: plain
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise BadPath(f"{text!r} is neither a text, nor a number, nor a path") from None
    return lambda _: value


def _comparable(left: Any, right: Any) -> tuple[Any, Any]:
    """A value that is compared with a string is converted to one: `@.status=="true"` also matches the boolean true."""
    if isinstance(left, str) != isinstance(right, str):
        return _text(left), _text(right)
    return left, right


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()
