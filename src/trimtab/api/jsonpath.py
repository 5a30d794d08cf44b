"""JSON paths in kubectl's syntax, for printer columns, feedback rules and state preservation."""

import re
from collections.abc import Callable, Iterator, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias

import orjson

from trimtab.api.text_cache import cache_short_texts

Location: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead from the document to one value."""
PathStep: TypeAlias = Callable[[Any], Iterator[tuple[Location, Any]]]
"""Maps a value to the values that one part of a path selects, each with its relative location."""

_NAME = re.compile(r"(?:[^.\[\]\\]|\\.)+")
_NUMBER = re.compile(r"-?\d+\Z")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?\Z")
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1).)*)\1""")
_COMPARISON = re.compile(r"(.*?)\s*(==|!=|<=|>=|<|>)\s*(.*)\Z", re.DOTALL)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


class InvalidJSONPath(ValueError):
    """The text is not a valid JSON path; the message is for its author."""


def find_values(document: Any, path: str) -> list[Any]:
    """All values at the path, in document order; raises InvalidJSONPath."""
    return [value for _, value in _apply_steps(parse_path(path), document)]


def find_locations(document: Any, path: str) -> list[Location]:
    """The locations of all values at the path; raises InvalidJSONPath."""
    return [place for place, _ in _apply_steps(parse_path(path), document)]


def find_values_or_empty(document: Any, path: str) -> list[Any]:
    """All values at the path; empty when the path is invalid."""
    try:
        return find_values(document, path)
    except InvalidJSONPath:
        return []


def _apply_steps(steps: Sequence[PathStep], document: Any) -> list[tuple[Location, Any]]:
    found: list[tuple[Location, Any]] = [((), document)]
    for step in steps:
        found = [((*place, *further), inner) for place, value in found for further, inner in step(value)]
    return found


@cache_short_texts(2048)
def parse_path(path: str) -> tuple[PathStep, ...]:
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$")
    if text and not text.startswith((".", "[")):
        text = f".{text}"
    return tuple(_parse_steps(text, path))


def _parse_steps(text: str, path: str) -> Iterator[PathStep]:
    at = 0
    while at < len(text):
        if text[at] == "[":
            end = _closing_bracket(text, at, path)
            yield _parse_bracket(text[at + 1 : end].strip(), path)
            at = end + 1
        elif text.startswith("..", at):
            name = _NAME.match(text, at + 2)
            if name is None:
                raise InvalidJSONPath(f"missing name after .. in {path!r}")
            yield _recursive_step(_unescape(name[0]))
            at = name.end()
        elif text[at] == "." and at + 1 == len(text):
            return  # a trailing dot selects the value itself
        elif text[at] == "." and (name := _NAME.match(text, at + 1)) is not None:
            yield _children if name[0] == "*" else _child_step(_unescape(name[0]))
            at = name.end()
        elif text.startswith(".[", at):
            at += 1
        else:
            raise InvalidJSONPath(f"cannot parse {path!r} at {text[at:]!r}")


def _closing_bracket(text: str, opening: int, path: str) -> int:
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
    raise InvalidJSONPath(f"unclosed bracket in {path!r}")


def _parse_bracket(inner: str, path: str) -> PathStep:
    if inner == "*":
        return _children
    if inner.startswith("?(") and inner.endswith(")"):
        return _filter_step(inner[2:-1].strip())
    if _NUMBER.match(inner):
        return _index_step(int(inner))
    if (cut := _SLICE.match(inner)) is not None:
        return _slice_step(slice(*(int(bound) if bound else None for bound in cut.groups())))
    names = [match[2] for match in _QUOTED.finditer(inner)]
    if names and not _QUOTED.sub("", inner).strip(", "):
        chosen = [_child_step(_unescape(name)) for name in names]
        return lambda value: (found for step in chosen for found in step(value))
    if re.fullmatch(r"-?\d+(\s*,\s*-?\d+)+", inner):
        several = [_index_step(int(number)) for number in inner.split(",")]
        return lambda value: (found for step in several for found in step(value))
    raise InvalidJSONPath(f"cannot parse [{inner}] in {path!r}")


def _unescape(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _child_step(name: str) -> PathStep:
    def step(value: Any) -> Iterator[tuple[Location, Any]]:
        if isinstance(value, dict) and name in value:
            yield (name,), value[name]

    return step


def _index_step(index: int) -> PathStep:
    def step(value: Any) -> Iterator[tuple[Location, Any]]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield (index % len(value),), value[index]

    return step


def _slice_step(bounds: slice) -> PathStep:
    def step(value: Any) -> Iterator[tuple[Location, Any]]:
        if isinstance(value, list):
            yield from (((index,), value[index]) for index in range(*bounds.indices(len(value))))

    return step


def _children(value: Any) -> Iterator[tuple[Location, Any]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield from (((key,), inner) for key, inner in inside)


def _recursive_step(name: str) -> PathStep:
    def step(value: Any) -> Iterator[tuple[Location, Any]]:
        if isinstance(value, dict):
            yield from _children(value) if name == "*" else _child_step(name)(value)
        for place, inner in _children(value):
            yield from (((*place, *further), deeper) for further, deeper in step(inner))

    return step


def _filter_step(condition: str) -> PathStep:
    holds = _parse_condition(condition)

    def step(value: Any) -> Iterator[tuple[Location, Any]]:
        yield from ((place, item) for place, item in _children(value) if holds(item))

    return step


def _parse_condition(text: str) -> Callable[[Any], bool]:
    comparison = _COMPARISON.match(text) if _operator_outside_quotes(text) else None
    if comparison is None:
        steps = _operand_steps(text)
        return lambda item: bool(_apply_steps(steps, item))
    left, right, compare = _parse_operand(comparison[1]), _parse_operand(comparison[3]), _COMPARE[comparison[2]]

    def holds(item: Any) -> bool:
        try:
            return compare(*_as_comparable(left(item), right(item)))
        except TypeError:
            return False

    return holds


def _operator_outside_quotes(text: str) -> bool:
    return re.search(r"[=!<>]", _QUOTED.sub("", text)) is not None


def _operand_steps(text: str) -> tuple[PathStep, ...]:
    if not text.startswith("@"):
        raise InvalidJSONPath(f"a condition must start with @, not {text!r}")
    return parse_path(text[1:] or ".")


def _parse_operand(text: str) -> Callable[[Any], Any]:
    if text.startswith("@"):
        steps = _operand_steps(text)
        return lambda item: next((value for _, value in _apply_steps(steps, item)), None)
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        plain = _unescape(quoted[2])
        return lambda _: plain
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise InvalidJSONPath(f"{text!r} is neither a string, a number nor a path") from None
    return lambda _: value


def _as_comparable(left: Any, right: Any) -> tuple[Any, Any]:
    """A value that is compared with a string is converted to one: `@.status=="true"` also matches the boolean true."""
    if isinstance(left, str) != isinstance(right, str):
        return _as_text(left), _as_text(right)
    return left, right


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()
