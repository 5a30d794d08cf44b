"""Caches results by a text that clients choose, with a bound on entries and on the length of each."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

LONGEST_KEY = 512
"""Longer texts are computed each time: a few long ones would otherwise fill the memory."""
T = TypeVar("T")


def cache_short_texts(entries: int, longest: int = LONGEST_KEY) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Cache the results for the last `entries` texts that are not longer than `longest`."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        cached = lru_cache(maxsize=entries)(function)

        @wraps(function)
        def call(text: str) -> T:
            return cached(text) if len(text) <= longest else function(text)

        return call

    return decorate
