"""Go's regular expressions (RE2), matched in time linear in the length of the text.

Python's own matcher backtracks, so a pattern such as `(a+)+$` would let one object block the whole server. Patterns
are parsed by Python's parser and compiled into an NFA; a search follows all its states in parallel, one step per
character, and caches the resulting DFA states and transitions.
"""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import NamedTuple

from trimtab.api.limits import MAX_PATTERN_LENGTH, MAX_PATTERN_STATES, MAX_PATTERN_STEPS
from trimtab.api.schema.go_regexp_syntax import (
    At,
    Char,
    CharPredicate,
    Choice,
    InvalidPattern,
    Items,
    Node,
    RegexpGroup,
    Repeat,
    is_word_char,
    parse_go_pattern,
)

_MAX_CACHED_TRANSITIONS = 20_000
_END = ""


def _compile(pattern: str) -> "GoFinder":
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise InvalidPattern(f"expression too large: it is longer than {MAX_PATTERN_LENGTH} characters")
    try:
        return GoFinder(parse_go_pattern(pattern))
    except _TooManyStates:
        raise InvalidPattern(f"expression too large: `{pattern}`") from None


@lru_cache(maxsize=1024)
def _compile_or_explain(pattern: str) -> "GoFinder | str":
    try:
        return _compile(pattern)
    except InvalidPattern as error:
        return str(error)


def pattern_error(pattern: str) -> str:
    """Why a pattern cannot be compiled, in Go's words; empty when it can."""
    compiled = _compile_or_explain(pattern)
    return compiled if isinstance(compiled, str) else ""


def pattern_size(pattern: str) -> int:
    """The number of states of a pattern; that of an invalid one is its length."""
    compiled = _compile_or_explain(pattern)
    return len(pattern) if isinstance(compiled, str) else compiled.state_count


def go_matcher(pattern: str) -> Callable[[str], bool] | None:
    """A function that tells whether a text contains a match; None when the pattern cannot be compiled.

    It raises `StepLimitExceeded` when all searches since `reset_match_steps` together take too long.
    """
    compiled = _compile_or_explain(pattern)
    return None if isinstance(compiled, str) else compiled.search


def go_finder(pattern: str) -> "GoFinder | None":
    """Finds the first match of the pattern; None when the pattern cannot be compiled."""
    compiled = _compile_or_explain(pattern)
    return None if isinstance(compiled, str) else compiled


class _TooManyStates(Exception):
    """The pattern is too large."""


class StepLimitExceeded(Exception):
    """A search took more steps than allowed."""


_steps: ContextVar[int] = ContextVar("steps", default=0)
"""The states that were visited in all searches since the last reset; a context variable, because objects are also
validated in a thread."""


def _count_steps(steps: int) -> None:
    total = _steps.get() + steps
    _steps.set(total)
    if total > MAX_PATTERN_STEPS:
        raise StepLimitExceeded


def reset_match_steps() -> None:
    """Begin to count anew: the searches for one object share one limit."""
    _steps.set(0)


class NfaState(NamedTuple):
    """A state of the NFA: it consumes a character, requires a condition, or only branches."""

    next_states: tuple[int, ...]
    accepts: CharPredicate | None = None
    condition: str = ""


class DfaState(NamedTuple):
    """A cached state of a search: its NFA states, the class of the previous character, and its transitions."""

    nfa_states: frozenset[int]
    previous: str
    transitions: "dict[str, DfaState | bool]"


class GoMatcher:
    """One pattern as an NFA, with the DFA states and transitions that were needed so far."""

    def __init__(self, items: Items) -> None:
        self._states: list[NfaState] = [NfaState(())]
        self._start = self._compile_sequence(items, 0)
        self._dfa_states: dict[tuple[frozenset[int], str], DfaState] = {}
        self._cached_transitions = 0

    @property
    def state_count(self) -> int:
        return len(self._states)

    def search(self, text: str) -> bool:
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
        _count_steps(len(reached))
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
        kind = before if before in ("", "\n") else "w" if is_word_char(before) else " "
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
                not state.condition or self._condition_holds(state.condition, step.previous, char)
            ):
                pending.extend(state.next_states)
        return reached

    def _condition_holds(self, condition: str, before: str, after: str) -> bool:
        if condition in ("boundary", "no boundary"):
            return (is_word_char(before) != is_word_char(after)) == (condition == "boundary")
        if condition in ("start", "line start"):
            return before == _END or (condition == "line start" and before == "\n")
        return after == _END or (condition == "line end" and after == "\n")

    def _add_state(self, state: NfaState) -> int:
        if len(self._states) >= MAX_PATTERN_STATES:
            raise _TooManyStates
        self._states.append(state)
        return len(self._states) - 1

    def _compile_sequence(self, items: Items, then: int) -> int:
        """The first state of the items; `then` is the state that follows them. Built from the last to the first."""
        for node in reversed(items):
            then = self._compile_node(node, then)
        return then

    def _compile_node(self, node: Node, then: int) -> int:
        if isinstance(node, Char):
            return self._add_state(NfaState((then,), accepts=node.accepts))
        if isinstance(node, At):
            return self._add_state(NfaState((then,), condition=node.condition))
        if isinstance(node, RegexpGroup):
            return self._compile_sequence(node.items, then)
        if isinstance(node, Choice):
            return self._add_state(NfaState(tuple(self._compile_sequence(branch, then) for branch in node.branches)))
        return self._compile_repeat(node, then)

    def _compile_repeat(self, node: Repeat, then: int) -> int:
        def one_repetition(after: int) -> NfaState:
            branches = (self._compile_sequence(node.items, after), then)
            return NfaState(branches[::-1] if node.lazy else branches)

        if node.most is None:
            start = self._add_state(NfaState(()))
            self._states[start] = one_repetition(start)
        else:
            start = then
            for _ in range(node.most - node.least):
                start = self._add_state(one_repetition(start))
        for _ in range(node.least):
            start = self._compile_sequence(node.items, start)
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
                    not state.condition or self._condition_holds(state.condition, before, after)
                ):
                    pending.extend(reversed(state.next_states))


class RegexpMatch(NamedTuple):
    """Start and end of a match, and the number of steps that the search took."""

    start: int
    end: int
    steps: int
