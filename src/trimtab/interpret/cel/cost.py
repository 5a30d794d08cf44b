"""An upper bound of what the evaluation of a CEL expression costs, because an evaluation cannot be interrupted.

The author of an expression chooses its loops, whoever writes an object chooses how long its lists and texts are. A loop that
is harmless for ten items can take a minute for ten thousand: the evaluator copies the list so far for every item that `map` and
`filter` add, `in` searches a whole list, and functions on texts read all of them, each time. So the bound is the number of
iterations, times what each may read. A unit is about 0.15 us: a million units are a part of a second.

Only what the expression can reach is measured: the variables that it names and, of whole objects, the top-level and metadata fields
that it names. Below that users choose the keys, so everything counts.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

MAX_ITERATIONS = 10_000
"""The evaluator ends an evaluation after so many iterations of all its loops."""
_ITERATION_COST = 10
_COST_PER_CHARACTER = 0.3
"""Of functions on texts; those of the evaluator itself are faster."""
_COST_OF_READING_PER_CHARACTER = 0.03
"""Of `size` and `matches`, which the evaluator does itself."""
_OBJECT_VARIABLES = frozenset({"object", "oldObject", "managedCluster"})
_COMPREHENSION = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(")
_ACCUMULATION = re.compile(r"\.\s*(?:map|filter)\s*\(")
_SEARCH = re.compile(r"(?<![\w.])in(?!\w)")
_READING = re.compile(r"(?<!\w)(?:size|matches)\s*\(")
_TEXT_FUNCTION = re.compile(
    r"\.\s*(?:charAt|find|findAll|format|indexOf|join|lastIndexOf|lowerAscii|parseJSON|replace|reverse|split|"
    r"substring|trim|upperAscii)\s*\(|(?<![\w.])(?:cidr|ip|isCIDR|isIP|isQuantity|isSemver|isURL|quantity|semver|url)\s*\("
)
_UNPACKING_CALL = re.compile(r"\.\s*(?:split|parseJSON|findAll)\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w*")


class _Traits(NamedTuple):
    """What matters of the text of an expression."""

    depth: int
    accumulations: int
    """How often the items of a loop are collected."""
    searches: bool
    text_cost: float
    unpacks: bool
    words: frozenset[str]


class _Sizes(NamedTuple):
    """The largest list or map, and the longest text, of what an expression can reach."""

    items: int
    characters: int


def estimate_cost(expression: str, variables: Mapping[str, Any]) -> int:
    """The bound in units, for these values of the variables."""
    traits = _traits_of(expression)
    if traits.depth == 0 and not traits.unpacks:
        return len(expression)
    sizes = _sizes_of(variables, traits.words)
    # a collection in the expression itself has at most one item more than the expression has commas
    items = max(sizes.items, expression.count(",") + 1, sizes.characters if traits.unpacks else 0)
    if traits.depth == 0:
        return len(expression) + items
    iterations: int = items**traits.depth
    each = _ITERATION_COST + traits.text_cost * sizes.characters
    each += items if traits.searches else 0
    each += traits.accumulations * items / 2
    return len(expression) + max(iterations, int(min(iterations, MAX_ITERATIONS) * each))


def count_iterations(expression: str, variables: Mapping[str, Any]) -> int:
    """How many iterations the loops of an expression take at most, over the lists and maps in these values."""
    traits = _traits_of(expression)
    return int(_sizes_of(variables, traits.words).items ** traits.depth) if traits.depth else 0


@lru_cache(maxsize=4096)
def _traits_of(expression: str) -> _Traits:
    text_cost = _COST_OF_READING_PER_CHARACTER if _READING.search(expression) else 0.0
    return _Traits(
        loop_depth(expression),
        len(_ACCUMULATION.findall(expression)),
        _SEARCH.search(expression) is not None,
        _COST_PER_CHARACTER if _TEXT_FUNCTION.search(expression) else text_cost,
        _UNPACKING_CALL.search(expression) is not None,
        frozenset(_WORD.findall(expression)),
    )


def loop_depth(expression: str) -> int:
    """How deeply comprehensions are nested in the expression."""
    starts = {match.end() - 1 for match in _COMPREHENSION.finditer(expression)}
    deepest = depth = 0
    opened: list[bool] = []
    for position, char in enumerate(expression):
        if char == "(":
            opened.append(position in starts)
            depth += position in starts
            deepest = max(deepest, depth)
        elif char == ")" and opened:
            depth -= opened.pop()
    return deepest


def _sizes_of(variables: Mapping[str, Any], words: frozenset[str]) -> _Sizes:
    items = characters = 0
    pending: list[Any] = list(_reachable(variables, words))
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            characters = max(characters, len(value))
        elif isinstance(value, dict):
            items = max(items, len(value))
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            items = max(items, len(value))
            pending.extend(value)
    return _Sizes(items, characters)


def _reachable(variables: Mapping[str, Any], words: frozenset[str]) -> Iterator[Any]:
    for name, value in variables.items():
        if name not in words:
            continue
        if name not in _OBJECT_VARIABLES or not isinstance(value, dict):
            yield value
            continue
        for key, member in value.items():
            if key in words:
                yield from _named_members(member, words) if key == "metadata" else (member,)


def _named_members(metadata: Any, words: frozenset[str]) -> Iterator[Any]:
    if isinstance(metadata, dict):
        yield from (member for key, member in metadata.items() if key in words)
