"""Ranks targets for many requests: the totals that requests share are ranked once, each request against that ranking.

Requests with the same filters and prioritizers have the same totals except in a few columns: those they use now, and
those they were given before. With n such columns, the k best targets of a request are among the n + k best of the
shared ranking and its own columns. So no request needs a ranking of the whole fleet: the shared one gives a bound that
only a few columns pass, and those are sorted.
"""

from collections.abc import Hashable, Sequence
from itertools import filterfalse, repeat
from typing import Any, NamedTuple, TypeVar

import numpy as np

from trimtab.api.lazy import lazily
from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.decide.framework import FeasibleSet, ScorePlugin, SparseScores, sparse_scores_of

T = TypeVar("T", bound=Named)
_MAX_SHARED = 64
_LAST = 1 << 62
_INFEASIBLE = _LAST >> 1
"""Sort keys of feasible columns are below, others above, whatever a request adds to them."""


class SharedTotals:
    """The weighted totals that requests share, and the best feasible columns by them."""

    def __init__(self, totals: Array, feasible: FeasibleSet) -> None:
        self.totals = totals
        self.feasible = feasible
        self._best: list[int] = []

    @lazily
    def keys(self) -> Array:
        """One sort key per column: a higher total is smaller, then an earlier name is smaller; the last: not feasible."""
        totals = self.totals
        return np.where(self.feasible.mask, np.arange(len(totals)) - totals * len(totals), _LAST)

    def best_keys(self, count: int) -> list[int]:
        """The sort keys of at least the `count` best feasible columns, best first; of all if there are not so many."""
        if count > len(self._best) < len(self.feasible.columns):
            enough = min(2 * count, len(self.feasible.columns))
            self._best = np.sort(np.partition(self.keys, enough - 1)[:enough]).tolist()
        return self._best

    def bound(self, count: int) -> int:
        """A sort key that `count` feasible columns do not exceed; one above all keys if there are not so many."""
        if count > len(self.feasible.columns):
            return _INFEASIBLE
        return self.best_keys(count)[count - 1] if count else -_LAST


class Totals(NamedTuple):
    """The totals of one request: those that it shares, and what it adds to its own columns."""

    shared: SharedTotals
    added: Sequence[tuple[list[int] | Array, list[int] | Array | int]]
    """Columns without repetition, and what is added to each."""

    def by_column(self) -> Array:
        """The total of every column; undefined for those that are not feasible."""
        totals: Array = self.shared.totals.copy()
        for columns, scores in self.added:
            totals[columns] += scores
        return totals

    def best_columns(self, wanted: int) -> list[int]:
        """The best feasible columns, in name order; of equal totals the earlier names are better."""
        shared = self.shared
        size, key_of = len(shared.keys), shared.keys.item
        own: dict[int, int] = {}
        for columns, scores in self.added:
            if not isinstance(columns, list):
                return self._best_of_many(wanted)
            for column, score in zip(columns, repeat(scores) if isinstance(scores, int) else scores):  # noqa: B905 - repeat is infinite
                own[column] = (own[column] if column in own else key_of(column)) - score * size
        replaced = set(map(key_of, own))
        best = [
            *own.values(),
            *filterfalse(replaced.__contains__, shared.best_keys(wanted + len(own))[: wanted + len(own)]),
        ]
        best.sort()
        return sorted([key % size for key in best[:wanted] if key < _INFEASIBLE])

    def _best_of_many(self, wanted: int) -> list[int]:
        """The same, where the request has many columns of its own."""
        keys, size, own = self.shared.keys.copy(), len(self.shared.keys), 0
        for columns, scores in self.added:
            keys[columns] -= np.multiply(scores, size)
            own += len(columns)
        best = keys[keys <= self.shared.bound(wanted + own)]
        best.sort()
        best = best[:wanted] % size
        best.sort()
        chosen: list[int] = best.tolist()
        return chosen


def weighted_totals(
    plugins: Sequence[tuple[ScorePlugin[Any, T], int, Any]], fleet: Fleet[T], feasible: FeasibleSet
) -> Totals:
    """The weighted sum of the scores of these plugins, each with its weight and its request."""
    parts: list[tuple[SparseScores, int]] = []
    key: list[Hashable] = [feasible.cache_key]
    is_shared = feasible.cache_key is not None
    added: list[tuple[list[int] | Array, list[int] | Array | int]] = []
    for plugin, weight, request in plugins:
        scores = sparse_scores_of(plugin, request, fleet, feasible)
        if scores is None:
            continue
        parts.append((scores, weight))
        key += scores.key, weight
        is_shared = is_shared and scores.key is not None
        if len(scores.columns):
            added.append((scores.columns, scores.weighted(weight)))
    if not is_shared:
        return Totals(_sum_up(parts, fleet, feasible), added)
    shared = fleet.compute_once(tuple(key), lambda: _sum_up(parts, fleet, feasible), max_entries=_MAX_SHARED)
    return Totals(shared, added)


def _sum_up(parts: Sequence[tuple[SparseScores, int]], fleet: Fleet[T], feasible: FeasibleSet) -> SharedTotals:
    totals = np.zeros(len(fleet), dtype=np.int64)
    for scores, weight in parts:
        if scores.common is not None:
            totals += scores.common() * weight
    return SharedTotals(totals, feasible)
