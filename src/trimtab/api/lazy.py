"""A property that is computed when it is first read, and then is a plain attribute: no lock, no call."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazily(Generic[T]):  # noqa: N801 - reads as a decorator
    """Like `functools.cached_property`, whose lock costs more than most of what is computed here."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__

    def __get__(self, thing: Any, owner: type | None = None) -> T:
        value = thing.__dict__[self._name] = self._compute(thing)
        return value
