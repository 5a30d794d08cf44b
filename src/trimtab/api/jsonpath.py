"""JSON paths in kubectl's syntax, for printer columns, feedback rules and state preservation."""

import re
from collections.abc import Callable, Iterator, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias

import orjson

from trimtab.api.limits import MAX_JSON_PATH_FILTERS, MAX_JSON_PATH_LENGTH, MAX_JSON_PATH_STEPS
from trimtab.api.text_cache import cache_short_texts

Location: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead from the document to one value."""
PathStep: TypeAlias = "Callable[[Any, StepBudget], Iterator[tuple[Location, Any]]]"
"""Maps a value to the values that one part of a path selects, each with its relative location."""

_NAME = re.compile(r"(?:[^.\[\]\\]|\\.)+")
_NUMBER = re.compile(r"-?\d+\Z")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?\Z")
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\])*+)\1""")
_COMPARISON = re.compile("==|!=|<=|>=|<|>")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


class InvalidJSONPath(ValueError):
    """The text is not a valid JSON path; the message is for its author."""


class TooManySteps(InvalidJSONPath):
    """The path selects so many values on its way that it is not followed to its end."""


class StepBudget:
    """Counts the values that a search visits; each `..` and each filter multiplies them."""

    def __init__(self) -> None:
        self._remaining = MAX_JSON_PATH_STEPS

    def count(self) -> None:
        self._remaining -= 1
        if self._remaining < 0:
            raise TooManySteps(f"the path selects more than {MAX_JSON_PATH_STEPS} values on its way")


def find_values(document: Any, path: str) -> list[Any]:
    """All values at the path, in document order; raises InvalidJSONPath."""
    return [value for _, value in _apply_steps(parse_path(path), document, StepBudget())]


def find_locations(document: Any, path: str) -> list[Location]:
    """The locations of all values at the path; raises InvalidJSONPath."""
    return [place for place, _ in _apply_steps(parse_path(path), document, StepBudget())]


def find_values_or_empty(document: Any, path: str) -> list[Any]:
    """All values at the path; empty when the path is invalid."""
    try:
        return find_values(document, path)
    except InvalidJSONPath:
        return []


def _apply_steps(steps: Sequence[PathStep], document: Any, budget: StepBudget) -> list[tuple[Location, Any]]:
    found: list[tuple[Location, Any]] = [((), document)]
    for step in steps:
        found = [((*place, *further), inner) for place, value in found for further, inner in step(value, budget)]
    return found


@cache_short_texts(2048)
def parse_path(path: str) -> tuple[PathStep, ...]:
    if len(path) > MAX_JSON_PATH_LENGTH:
        raise InvalidJSONPath(f"the path is longer than {MAX_JSON_PATH_LENGTH} characters")
    if path.count("?(") > MAX_JSON_PATH_FILTERS:
        raise InvalidJSONPath(f"the path has more than {MAX_JSON_PATH_FILTERS} filters")
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
        return _slice_step(_parse_slice(cut, path))
    names = [match[2] for match in _QUOTED.finditer(inner)]
    if names and not _QUOTED.sub("", inner).strip(", "):
        chosen = [_child_step(_unescape(name)) for name in names]
        return lambda value, budget: (found for step in chosen for found in step(value, budget))
    if re.fullmatch(r"-?\d+(\s*,\s*-?\d+)+", inner):
        several = [_index_step(int(number)) for number in inner.split(",")]
        return lambda value, budget: (found for step in several for found in step(value, budget))
    raise InvalidJSONPath(f"cannot parse [{inner}] in {path!r}")


def _parse_slice(cut: re.Match[str], path: str) -> slice:
    try:
        bounds = slice(*(int(bound) if bound else None for bound in cut.groups()))
        bounds.indices(0)  # refuses a step of zero
    except ValueError as error:
        raise InvalidJSONPath(f"cannot parse [{cut[0]}] in {path!r}: {error}") from None
    return bounds


def _unescape(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _child_step(name: str) -> PathStep:
    def step(value: Any, budget: StepBudget) -> Iterator[tuple[Location, Any]]:
        if isinstance(value, dict) and name in value:
            budget.count()
            yield (name,), value[name]

    return step


def _index_step(index: int) -> PathStep:
    def step(value: Any, budget: StepBudget) -> Iterator[tuple[Location, Any]]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            budget.count()
            yield (index % len(value),), value[index]

    return step


def _slice_step(bounds: slice) -> PathStep:
    def step(value: Any, budget: StepBudget) -> Iterator[tuple[Location, Any]]:
        if isinstance(value, list):
            for index in range(*bounds.indices(len(value))):
                budget.count()
                yield (index,), value[index]

    return step


def _children(value: Any, budget: StepBudget) -> Iterator[tuple[Location, Any]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        budget.count()
        yield (key,), inner


def _recursive_step(name: str) -> PathStep:
    def step(value: Any, budget: StepBudget) -> Iterator[tuple[Location, Any]]:
        if isinstance(value, dict):
            yield from _children(value, budget) if name == "*" else _child_step(name)(value, budget)
        for place, inner in _children(value, budget):
            yield from (((*place, *further), deeper) for further, deeper in step(inner, budget))

    return step


def _filter_step(condition: str) -> PathStep:
    holds = _parse_condition(condition)

    def step(value: Any, budget: StepBudget) -> Iterator[tuple[Location, Any]]:
        yield from ((place, item) for place, item in _children(value, budget) if holds(item, budget))

    return step


def _parse_condition(text: str) -> Callable[[Any, StepBudget], bool]:
    comparison = _COMPARISON.search(text) if _operator_outside_quotes(text) else None
    if comparison is None:
        steps = _operand_steps(text)
        return lambda item, budget: bool(_apply_steps(steps, item, budget))
    left, right = _parse_operand(text[: comparison.start()].rstrip()), _parse_operand(text[comparison.end() :].lstrip())
    compare = _COMPARE[comparison[0]]

    def holds(item: Any, budget: StepBudget) -> bool:
        try:
            return compare(*_as_comparable(left(item, budget), right(item, budget)))
        except TypeError:
            return False

    return holds


def _operator_outside_quotes(text: str) -> bool:
    return re.search(r"[=!<>]", _QUOTED.sub("", text)) is not None


def _operand_steps(text: str) -> tuple[PathStep, ...]:
    if not text.startswith("@"):
        raise InvalidJSONPath(f"a condition must start with @, not {text!r}")
    return parse_path(text[1:] or ".")


def _parse_operand(text: str) -> Callable[[Any, StepBudget], Any]:
    if text.startswith("@"):
        steps = _operand_steps(text)
        return lambda item, budget: next((value for _, value in _apply_steps(steps, item, budget)), None)
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        plain = _unescape(quoted[2])
        return lambda *_: plain
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise InvalidJSONPath(f"{text!r} is neither a string, a number nor a path") from None
    return lambda *_: value


def _as_comparable(left: Any, right: Any) -> tuple[Any, Any]:
    """A value that is compared with a string is converted to one: `@.status=="true"` also matches the boolean true."""
    if isinstance(left, str) != isinstance(right, str):
        return _as_text(left), _as_text(right)
    return left, right


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()
