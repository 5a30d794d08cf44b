"""Caches results by a text that clients choose, with a bound on entries and on the length of each."""

from collections.abc import Callable
from typing import TypeVar

LONGEST_KEY = 512
"""Longer texts are computed each time: a few long ones would otherwise fill the memory."""
Text = TypeVar("Text", str, bytes)
T = TypeVar("T")


class _Results(dict[Text, T]):
    """Results by text; one that is missing is computed. To find one does not call a Python function."""

    __slots__ = ("_compute", "_entries", "_longest")

    def __init__(self, compute: Callable[[Text], T], entries: int, longest: int) -> None:
        self._compute: Callable[[Text], T] = compute
        self._entries, self._longest = entries, longest

    def __missing__(self, text: Text) -> T:
        result = self._compute(text)
        if len(text) <= self._longest:
            if len(self) >= self._entries:
                self.clear()
            self[text] = result
        return result


def cache_short_texts(entries: int, longest: int = LONGEST_KEY) -> Callable[[Callable[[Text], T]], Callable[[Text], T]]:
    """Keep up to `entries` results, for texts that are not longer than `longest`; beyond that, begin anew."""

    def decorate(function: Callable[[Text], T]) -> Callable[[Text], T]:
        return _Results(function, entries, longest).__getitem__

    return decorate
