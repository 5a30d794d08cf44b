"""Go's regular expressions (RE2), matched in time linear in the length of the text.

Python's own matcher backtracks, so a pattern such as `(a+)+$` would let one object block the whole server. Patterns
are parsed by Python's parser and compiled into an NFA; a search follows all its states in parallel, one step per
character, and caches the resulting DFA states and transitions.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined]  # the only parser of patterns that Python has
from typing import Any, NamedTuple

op: Any = _constants
_MAX_STATES = 20_000
_MAX_CACHED_TRANSITIONS = 20_000
_MAX_CACHED_TEXTS = 1024
_MAX_CACHED_TEXT_LENGTH = 128
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
_GO_MESSAGES = {
    "missing ), unterminated subpattern": "missing closing ): `{}`",
    "unbalanced parenthesis": "unexpected ): `{}`",
    "unterminated character set": "missing closing ]: `{}`",
    "nothing to repeat": "missing argument to repetition operator: `{}`",
}

CharPredicate = Callable[[str], bool]
"""Whether a state consumes this character."""


class UnsupportedPattern(Exception):
    """The pattern contains a construct that Go does not have, or is too large."""


def _translate(pattern: str) -> str:
    """Python syntax for a Go pattern. `$` means the very end in Go; Python's `$` also matches before a last newline."""
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
def pattern_error(pattern: str) -> str:
    """Why Go cannot parse a pattern; empty when it can, or when only Python cannot."""
    try:
        _parser.parse(_translate(pattern), re.ASCII)
    except re.error as error:
        at = error.pos or 0
        where = {"unterminated character set": pattern[at:], "nothing to repeat": pattern[at : at + 1]}
        return _GO_MESSAGES.get(error.msg, "").format(where.get(error.msg, pattern))
    except (RecursionError, OverflowError):
        return f"expression nests too deeply: `{pattern}`"
    return ""


@lru_cache(maxsize=4096)
def go_matcher(pattern: str) -> Callable[[str], bool] | None:
    """A function that tells whether a text contains a match; None when the pattern cannot be compiled here."""
    try:
        parsed = _parser.parse(_translate(pattern), re.ASCII)
        return GoMatcher(parsed, parsed.state.flags).search
    except (re.error, UnsupportedPattern, RecursionError, OverflowError):
        return None


@lru_cache(maxsize=1024)
def go_finder(pattern: str) -> "GoFinder | None":
    """Finds the first match of the pattern; None when the pattern cannot be compiled here."""
    try:
        parsed = _parser.parse(_translate(pattern), re.ASCII)
        return GoFinder(parsed, parsed.state.flags)
    except (re.error, UnsupportedPattern, RecursionError, OverflowError):
        return None


class StepLimitExceeded(Exception):
    """A search took more steps than allowed."""


class NfaState(NamedTuple):
    """A state of the NFA: it consumes a character, requires a condition, or only branches."""

    next_states: tuple[int, ...]
    accepts: CharPredicate | None = None
    condition: Any = None


class DfaState(NamedTuple):
    """A cached state of a search: its NFA states, the class of the previous character, and its transitions."""

    nfa_states: frozenset[int]
    previous: str
    transitions: "dict[str, DfaState | bool]"


class GoMatcher:
    """One pattern as an NFA, with the DFA states and transitions that were needed so far."""

    def __init__(self, parsed: Iterable[Any], flags: int) -> None:
        self._states: list[NfaState] = [NfaState(())]
        self._start = self._compile_sequence(list(parsed), 0, flags)
        self._multiline = bool(flags & re.MULTILINE)
        self._dfa_states: dict[tuple[frozenset[int], str], DfaState] = {}
        self._cached_transitions = 0
        self._matched_texts: set[str] = set()

    def search(self, text: str) -> bool:
        if text in self._matched_texts:  # the same few reasons and names are checked again and again
            return True
        found = self._matches(text)
        if found and len(text) <= _MAX_CACHED_TEXT_LENGTH:
            if len(self._matched_texts) >= _MAX_CACHED_TEXTS:
                self._matched_texts.clear()
            self._matched_texts.add(text)
        return found

    def _matches(self, text: str) -> bool:
        step = self._dfa_state(frozenset((self._start,)), _END)
        for char in text:
            follow = step.transitions.get(char)
            if follow is None:
                follow = self._advance(step, char)
            if follow is True:
                return True
            step = follow  # type: ignore[assignment]
        return self._advance(step, _END) is True

    def _advance(self, step: DfaState, char: str) -> DfaState | bool:
        """Consume one character; `_END` stands for the end of the text. True: the pattern has matched."""
        if self._cached_transitions >= _MAX_CACHED_TRANSITIONS:
            self._dfa_states.clear()
            self._cached_transitions = 0
            step = self._dfa_state(step.nfa_states, step.previous)
        reached = self._epsilon_closure(step, char)
        follow: DfaState | bool
        if 0 in reached:
            follow = True
        elif char == _END:
            follow = False
        else:
            ahead = {self._start}
            for index in reached:
                state = self._states[index]
                if state.accepts is not None and state.accepts(char):
                    ahead.update(state.next_states)
            follow = self._dfa_state(frozenset(ahead), char)
        step.transitions[char] = follow
        self._cached_transitions += 1
        return follow

    def _dfa_state(self, at: frozenset[int], before: str) -> DfaState:
        kind = before if before in ("", "\n") else "w" if _is_word_char(before) else " "
        return self._dfa_states.setdefault((at, kind), DfaState(at, kind, {}))

    def _epsilon_closure(self, step: DfaState, char: str) -> set[int]:
        """Every state that can be reached before the next character is consumed."""
        reached: set[int] = set()
        pending = list(step.nfa_states)
        while pending:
            index = pending.pop()
            if index in reached:
                continue
            reached.add(index)
            state = self._states[index]
            if state.accepts is None and (
                state.condition is None or self._condition_holds(state.condition, step.previous, char)
            ):
                pending.extend(state.next_states)
        return reached

    def _condition_holds(self, condition: Any, before: str, after: str) -> bool:
        if condition in (op.AT_BOUNDARY, op.AT_NON_BOUNDARY):
            return (_is_word_char(before) != _is_word_char(after)) == (condition is op.AT_BOUNDARY)
        if condition in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return before == _END or (self._multiline and condition is op.AT_BEGINNING and before == "\n")
        return after == _END or (self._multiline and after == "\n")

    def _add_state(self, state: NfaState) -> int:
        if len(self._states) >= _MAX_STATES:
            raise UnsupportedPattern("the pattern is too large")
        self._states.append(state)
        return len(self._states) - 1

    def _compile_sequence(self, items: Sequence[Any], then: int, flags: int) -> int:
        """The first state of the items; `then` is the state that follows them. Built from the last to the first."""
        for code, argument in reversed(items):
            then = self._compile_item(code, argument, then, flags)
        return then

    def _compile_item(self, code: Any, argument: Any, then: int, flags: int) -> int:
        if code in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            return self._add_state(NfaState((then,), accepts=_char_predicate(code, argument, flags)))
        if code is op.AT:
            return self._add_state(NfaState((then,), condition=argument))
        if code is op.SUBPATTERN:
            _, more, fewer, inner = argument
            return self._compile_sequence(list(inner), then, (flags | more) & ~fewer)
        if code is op.BRANCH:
            return self._add_state(
                NfaState(tuple(self._compile_sequence(list(branch), then, flags) for branch in argument[1]))
            )
        if code in (op.MAX_REPEAT, op.MIN_REPEAT):
            return self._compile_repeat(argument, then, flags, lazy=code is op.MIN_REPEAT)
        raise UnsupportedPattern(str(code))

    def _compile_repeat(self, bounds: tuple[int, Any, Iterable[Any]], then: int, flags: int, *, lazy: bool) -> int:
        least, most, inner = bounds
        items = list(inner)

        def one_repetition(after: int) -> NfaState:
            branches = (self._compile_sequence(items, after, flags), then)
            return NfaState(branches[::-1] if lazy else branches)

        if most is op.MAXREPEAT:
            start = self._add_state(NfaState(()))
            self._states[start] = one_repetition(start)
        else:
            start = then
            for _ in range(most - least):
                start = self._add_state(one_repetition(start))
        for _ in range(least):
            start = self._compile_sequence(items, start, flags)
        return start


class GoFinder(GoMatcher):
    """Finds where a match is: the leftmost, and of those the one that the pattern prefers."""

    def find_all(self, text: str, limit: int = -1, steps: int = 200_000) -> list[str]:
        """Successive matches, at most `limit`; an empty match directly after another match does not count."""
        found: list[str] = []
        start, last = 0, -1
        while limit < 0 or len(found) < limit:
            match = self._find_first(text, start, steps)
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

    def _find_first(self, text: str, start: int, steps: int) -> "RegexpMatch | None":
        """Follow all paths through the pattern in parallel, in order of preference, one character at a time."""
        remaining = steps
        threads: dict[int, int] = {}
        found: tuple[int, int] | None = None
        for at in range(start, len(text) + 1):
            if found is None:
                threads.setdefault(self._start, at)
            before, char = text[at - 1 : at] if at else _END, text[at : at + 1]
            ahead: dict[int, int] = {}
            for state, since in self._closure_in_priority_order(threads, before, char):
                remaining -= 1
                if state == 0:
                    found = (since, at)
                    break
                accepts = self._states[state].accepts
                if accepts is not None and char and accepts(char):
                    ahead.setdefault(self._states[state].next_states[0], since)
            if remaining < 0:
                raise StepLimitExceeded
            threads = ahead
            if not threads and found is not None:
                break
        return None if found is None else RegexpMatch(*found, steps - remaining)

    def _closure_in_priority_order(self, threads: dict[int, int], before: str, after: str) -> Iterator[tuple[int, int]]:
        """Every state reachable before the next character is consumed, in the pattern's order of preference."""
        reached: set[int] = set()
        for first, since in threads.items():
            pending = [first]
            while pending:
                index = pending.pop()
                if index in reached:
                    continue
                reached.add(index)
                state = self._states[index]
                yield index, since
                if state.accepts is None and (
                    state.condition is None or self._condition_holds(state.condition, before, after)
                ):
                    pending.extend(reversed(state.next_states))


class RegexpMatch(NamedTuple):
    """Start and end of a match, and the number of steps that the search took."""

    start: int
    end: int
    steps: int


def _is_word_char(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())


_CATEGORIES: dict[Any, CharPredicate] = {
    op.CATEGORY_DIGIT: lambda char: "0" <= char <= "9",
    op.CATEGORY_SPACE: lambda char: char in " \t\n\r\f\v",
    op.CATEGORY_WORD: _is_word_char,
}
_CATEGORIES |= {
    op.CATEGORY_NOT_DIGIT: lambda char: not "0" <= char <= "9",
    op.CATEGORY_NOT_SPACE: lambda char: char not in " \t\n\r\f\v",
    op.CATEGORY_NOT_WORD: lambda char: not _is_word_char(char),
}


def _char_predicate(code: Any, argument: Any, flags: int) -> CharPredicate:
    if code is op.ANY:
        return (lambda _: True) if flags & re.DOTALL else (lambda char: char != "\n")
    members = argument if code is op.IN else [(op.LITERAL, argument)]
    inside = _char_class([member for member in members if member[0] is not op.NEGATE])
    if flags & re.IGNORECASE:
        exactly = inside
        inside = lambda char: exactly(char.lower()) or exactly(char.upper())  # noqa: E731
    if code is op.NOT_LITERAL or (code is op.IN and argument[0][0] is op.NEGATE):
        return lambda char: not inside(char)
    return inside


def _char_class(members: Sequence[Any]) -> CharPredicate:
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
