"""A property that is computed on first access and then stored as a plain attribute: no lock, no call."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazily(Generic[T]):  # noqa: N801 - used as a decorator
    """Like `functools.cached_property`, whose lock in Python 3.11 costs more than most computations here."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
