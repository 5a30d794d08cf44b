"""Go's regular expressions: what a schema's pattern means, decided in time linear in the text, as Go promises.

Python's own matcher backtracks, so that a pattern such as `(a+)+$` would let one object stop the whole server. Patterns are
parsed by Python and run here as sets of places in the pattern, one step per character; steps once taken are kept.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined]  # the only parser of patterns that Python has
from typing import Any, NamedTuple

op: Any = _constants
_MOST_PLACES = 20_000
_MOST_STEPS_KEPT = 20_000
_MOST_TEXTS_KEPT = 1024
_LONGEST_TEXT_KEPT = 128
_END = ""
_POSIX = {
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:alnum:]": "A-Za-z0-9",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:space:]": r"\s",
    "[:word:]": r"\w",
    "[:xdigit:]": "0-9A-Fa-f",
    "[:punct:]": r"!-/:-@\[-`{-~",
}
_FAULTS = {
    "missing ), unterminated subpattern": "missing closing ): `{}`",
    "unbalanced parenthesis": "unexpected ): `{}`",
    "unterminated character set": "missing closing ]: `{}`",
    "nothing to repeat": "missing argument to repetition operator: `{}`",
}

Accepts = Callable[[str], bool]
"""Whether a place in the pattern takes this character."""


class Unsupported(Exception):
    """A construct that Go does not have."""


def _translate(pattern: str) -> str:
    """Go's end-of-text means the very end; Python's `$` would let a last newline pass."""
    for name, members in _POSIX.items():
        pattern = pattern.replace(name, members)
    out, in_class, i = [], False, 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\" and i + 1 < len(pattern):
            out.append(r"\Z" if pattern[i + 1] == "z" else pattern[i : i + 2])
            i += 2
            continue
        if char == "[" and not in_class:
            in_class = True
        elif char == "]" and in_class:
            in_class = False
        out.append(r"\Z" if char == "$" and not in_class else char)
        i += 1
    return "".join(out)


@lru_cache(maxsize=4096)
def pattern_fault(pattern: str) -> str:
    """Why Go cannot read a pattern; empty when it can, or when only Python cannot."""
    try:
        _parser.parse(_translate(pattern), re.ASCII)
    except re.error as fault:
        at = fault.pos or 0
        where = {"unterminated character set": pattern[at:], "nothing to repeat": pattern[at : at + 1]}
        return _FAULTS.get(fault.msg, "").format(where.get(fault.msg, pattern))
    except (RecursionError, OverflowError):
        return f"expression nests too deeply: `{pattern}`"
    return ""


@lru_cache(maxsize=4096)
def go_pattern(pattern: str) -> Callable[[str], bool] | None:
    """Whether a text contains a match of the pattern; None when the pattern cannot be read here."""
    try:
        parsed = _parser.parse(_translate(pattern), re.ASCII)
        return Machine(parsed, parsed.state.flags).search
    except (re.error, Unsupported, RecursionError, OverflowError):
        return None


@lru_cache(maxsize=1024)
def go_finder(pattern: str) -> "Finder | None":
    """Looks for the first match of the pattern; None when the pattern cannot be read here."""
    try:
        parsed = _parser.parse(_translate(pattern), re.ASCII)
        return Finder(parsed, parsed.state.flags)
    except (re.error, Unsupported, RecursionError, OverflowError):
        return None


class TooLong(Exception):
    """A search took more steps than it may."""


class Place(NamedTuple):
    """A place in the pattern: a character is expected here, a condition must hold, or the way parts."""

    then: tuple[int, ...]
    accepts: Accepts | None = None
    holds: Any = None


class Step(NamedTuple):
    """Where a search stands after some characters: the places it may be at, the last character, and steps from here."""

    at: frozenset[int]
    before: str
    next: "dict[str, Step | bool]"


class Machine:
    """One pattern as a graph of places, and the steps through it that were needed so far."""

    def __init__(self, parsed: Iterable[Any], flags: int) -> None:
        self._places: list[Place] = [Place(())]
        self._first = self._sequence(list(parsed), 0, flags)
        self._multiline = bool(flags & re.MULTILINE)
        self._steps: dict[tuple[frozenset[int], str], Step] = {}
        self._kept = 0
        self._matched: set[str] = set()

    def search(self, text: str) -> bool:
        if text in self._matched:  # the same few reasons and names come again and again
            return True
        found = self._walk(text)
        if found and len(text) <= _LONGEST_TEXT_KEPT:
            if len(self._matched) >= _MOST_TEXTS_KEPT:
                self._matched.clear()
            self._matched.add(text)
        return found

    def _walk(self, text: str) -> bool:
        step = self._stand(frozenset((self._first,)), _END)
        for char in text:
            follow = step.next.get(char)
            if follow is None:
                follow = self._advance(step, char)
            if follow is True:
                return True
            step = follow  # type: ignore[assignment]
        return self._advance(step, _END) is True

    def _advance(self, step: Step, char: str) -> Step | bool:
        """Take one character; `_END` stands for there being none. True: the pattern has been found."""
        if self._kept >= _MOST_STEPS_KEPT:
            self._steps.clear()
            self._kept = 0
            step = self._stand(step.at, step.before)
        reached = self._reach(step, char)
        follow: Step | bool
        if 0 in reached:
            follow = True
        elif char == _END:
            follow = False
        else:
            ahead = {self._first}
            for index in reached:
                place = self._places[index]
                if place.accepts is not None and place.accepts(char):
                    ahead.update(place.then)
            follow = self._stand(frozenset(ahead), char)
        step.next[char] = follow
        self._kept += 1
        return follow

    def _stand(self, at: frozenset[int], before: str) -> Step:
        kind = before if before in ("", "\n") else "w" if _is_word(before) else " "
        return self._steps.setdefault((at, kind), Step(at, kind, {}))

    def _reach(self, step: Step, char: str) -> set[int]:
        """Every place that can be gone to before the next character is taken."""
        reached: set[int] = set()
        waiting = list(step.at)
        while waiting:
            index = waiting.pop()
            if index in reached:
                continue
            reached.add(index)
            place = self._places[index]
            if place.accepts is None and (place.holds is None or self._holds(place.holds, step.before, char)):
                waiting.extend(place.then)
        return reached

    def _holds(self, condition: Any, before: str, after: str) -> bool:
        if condition in (op.AT_BOUNDARY, op.AT_NON_BOUNDARY):
            return (_is_word(before) != _is_word(after)) == (condition is op.AT_BOUNDARY)
        if condition in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return before == _END or (self._multiline and condition is op.AT_BEGINNING and before == "\n")
        return after == _END or (self._multiline and after == "\n")

    def _add(self, place: Place) -> int:
        if len(self._places) >= _MOST_PLACES:
            raise Unsupported("the pattern is too large")
        self._places.append(place)
        return len(self._places) - 1

    def _sequence(self, items: Sequence[Any], then: int, flags: int) -> int:
        """The place where the items begin, when `then` is where they lead; built from the last to the first."""
        for code, argument in reversed(items):
            then = self._item(code, argument, then, flags)
        return then

    def _item(self, code: Any, argument: Any, then: int, flags: int) -> int:
        if code in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            return self._add(Place((then,), accepts=_accepts(code, argument, flags)))
        if code is op.AT:
            return self._add(Place((then,), holds=argument))
        if code is op.SUBPATTERN:
            _, more, fewer, inner = argument
            return self._sequence(list(inner), then, (flags | more) & ~fewer)
        if code is op.BRANCH:
            return self._add(Place(tuple(self._sequence(list(way), then, flags) for way in argument[1])))
        if code in (op.MAX_REPEAT, op.MIN_REPEAT):
            return self._repeat(argument, then, flags, lazily=code is op.MIN_REPEAT)
        raise Unsupported(str(code))

    def _repeat(self, bounds: tuple[int, Any, Iterable[Any]], then: int, flags: int, *, lazily: bool) -> int:
        least, most, inner = bounds
        items = list(inner)

        def once_more(after: int) -> Place:
            ways = (self._sequence(items, after, flags), then)
            return Place(ways[::-1] if lazily else ways)

        if most is op.MAXREPEAT:
            start = self._add(Place(()))
            self._places[start] = once_more(start)
        else:
            start = then
            for _ in range(most - least):
                start = self._add(once_more(start))
        for _ in range(least):
            start = self._sequence(items, start, flags)
        return start


class Finder(Machine):
    """Says where a match is: the leftmost, and of those the one that the pattern would rather have."""

    def all(self, text: str, limit: int = -1, steps: int = 200_000) -> list[str]:
        """Matches one after another, as many as are wanted; an empty one right after another is none."""
        found: list[str] = []
        start, last = 0, -1
        while limit < 0 or len(found) < limit:
            match = self._find(text, start, steps)
            if match is None:
                break
            steps -= match.steps
            if match.end > match.start or match.start != last:
                found.append(text[match.start : match.end])
            last = match.end
            start = match.end + (match.end == match.start)
            if start > len(text):
                break
        return found

    def _find(self, text: str, start: int, steps: int) -> "Match | None":
        """Ways through the pattern are walked side by side, the dearest first, all at the same character."""
        left = steps
        ways: dict[int, int] = {}
        found: tuple[int, int] | None = None
        for at in range(start, len(text) + 1):
            if found is None:
                ways.setdefault(self._first, at)
            before, char = text[at - 1 : at] if at else _END, text[at : at + 1]
            ahead: dict[int, int] = {}
            for place, since in self._in_order(ways, before, char):
                left -= 1
                if place == 0:
                    found = (since, at)
                    break
                accepts = self._places[place].accepts
                if accepts is not None and char and accepts(char):
                    ahead.setdefault(self._places[place].then[0], since)
            if left < 0:
                raise TooLong
            ways = ahead
            if not ways and found is not None:
                break
        return None if found is None else Match(*found, steps - left)

    def _in_order(self, ways: dict[int, int], before: str, after: str) -> Iterator[tuple[int, int]]:
        """Every place that can be gone to before the next character is taken, those first that come first in the pattern."""
        reached: set[int] = set()
        for first, since in ways.items():
            waiting = [first]
            while waiting:
                index = waiting.pop()
                if index in reached:
                    continue
                reached.add(index)
                place = self._places[index]
                yield index, since
                if place.accepts is None and (place.holds is None or self._holds(place.holds, before, after)):
                    waiting.extend(reversed(place.then))


class Match(NamedTuple):
    """From where to where, and how many steps it took to see."""

    start: int
    end: int
    steps: int


def _is_word(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())


_CATEGORIES: dict[Any, Accepts] = {
    op.CATEGORY_DIGIT: lambda char: "0" <= char <= "9",
    op.CATEGORY_SPACE: lambda char: char in " \t\n\r\f\v",
    op.CATEGORY_WORD: _is_word,
}
_CATEGORIES |= {
    op.CATEGORY_NOT_DIGIT: lambda char: not "0" <= char <= "9",
    op.CATEGORY_NOT_SPACE: lambda char: char not in " \t\n\r\f\v",
    op.CATEGORY_NOT_WORD: lambda char: not _is_word(char),
}


def _accepts(code: Any, argument: Any, flags: int) -> Accepts:
    if code is op.ANY:
        return (lambda _: True) if flags & re.DOTALL else (lambda char: char != "\n")
    members = argument if code is op.IN else [(op.LITERAL, argument)]
    inside = _inside([member for member in members if member[0] is not op.NEGATE])
    if flags & re.IGNORECASE:
        exactly = inside
        inside = lambda char: exactly(char.lower()) or exactly(char.upper())  # noqa: E731
    if code is op.NOT_LITERAL or (code is op.IN and argument[0][0] is op.NEGATE):
        return lambda char: not inside(char)
    return inside


def _inside(members: Sequence[Any]) -> Accepts:
    ranges, categories = [], []
    for code, argument in members:
        if code is op.CATEGORY:
            categories.append(_CATEGORIES[argument])
        else:
            low, high = argument if code is op.RANGE else (argument, argument)
            ranges.append((chr(low), chr(high)))

    def accepts(char: str) -> bool:
        return any(low <= char <= high for low, high in ranges) or any(has(char) for has in categories)

    return accepts
