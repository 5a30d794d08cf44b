"""A placement attempt whose steps and plugins are reported to an observer.

Without an observer `PlacementAttempt` itself decides, and nothing is reported. The result is the same.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.lazy import lazily
from trimtab.api.profile import Profile
from trimtab.decide.feasible import all_filters, columns_in_use
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import (
    CachedFilters,
    FeasibleSet,
    FilterPlugin,
    Mask,
    ScorePlugin,
    feasible_mask,
    weighted_total,
)
from trimtab.decide.pipeline import Failure, PlacementAttempt
from trimtab.decide.request import PlacementRequest
from trimtab.decide.shares import ReplicaShares, Selected
from trimtab.decide.spread import SpreadFailure
from trimtab.decide.step_observer import StepObserver

FILTER, SCORE, SELECT, ASSIGN_REPLICAS = "Filter", "Score", "Select", "AssignReplicas"


class ObservedFilters(CachedFilters[PlacementRequest, Cluster]):
    """Filters that are evaluated one by one; a combined result that is cached runs no plugin."""

    def __init__(self, plugins: Iterable[FilterPlugin[PlacementRequest, Cluster]], observer: StepObserver) -> None:
        super().__init__(plugins)
        self._observer = observer

    def evaluate(
        self,
        plugins: Iterable[FilterPlugin[PlacementRequest, Cluster]],
        request: PlacementRequest,
        fleet: Fleet[Cluster],
        placed: Sequence[int] = (),
    ) -> Mask:
        mask = np.ones(len(fleet), dtype=bool)
        for plugin in plugins:
            with self._observer.measure(FILTER, plugin.name) as result:
                accepted = feasible_mask([plugin], request, fleet, placed)
                result.succeeded = bool(accepted.any())
            mask &= accepted
        return mask


@lru_cache(maxsize=64)
def _observed_filters(
    plugins: tuple[FilterPlugin[PlacementRequest, Cluster], ...], observer: StepObserver
) -> ObservedFilters:
    return ObservedFilters(plugins, observer)


class ObservedAttempt(PlacementAttempt):
    """Reports its steps: Filter, Score, Select, AssignReplicas. A step that is not needed is not reported."""

    def __init__(
        self, request: PlacementRequest, fleet: Fleet[Cluster], profile: Profile, observer: StepObserver
    ) -> None:
        self._observer = observer
        super().__init__(request, fleet, profile)

    @lazily
    def feasible(self) -> FeasibleSet:
        plugins = _observed_filters(all_filters(self.ask), self._observer)
        placed = columns_in_use(self.ask, self.fleet) if self.ask.placed else ()
        with self._observer.measure(FILTER) as result:
            feasible = plugins.feasible(self.ask, self.fleet, placed)
            result.succeeded = len(feasible.columns) > 0
        return feasible

    def weigh(self, plugins: Sequence[tuple[ScorePlugin[Any, Cluster], int]], query: Any) -> Array:
        feasible = self.feasible.mask
        total = np.zeros(len(self.fleet), dtype=np.int64)
        with self._observer.measure(SCORE):
            for plugin, weight in plugins:
                with self._observer.measure(SCORE, plugin.name):
                    total += weighted_total([(plugin, weight)], query, self.fleet, feasible)
        return total

    def score(self, plugins: Sequence[ScorePlugin[Any, Cluster]]) -> Array:
        return self.weigh([(plugin, 1) for plugin in plugins], self.ask)

    @lazily
    def selected_columns(self) -> Array | list[int] | SpreadFailure:
        with self._observer.measure(SELECT) as result:
            selected = super().selected_columns
            result.succeeded = not isinstance(selected, SpreadFailure)
        return selected

    def _assign(self, selected: Selected) -> ReplicaShares | Failure:
        with self._observer.measure(ASSIGN_REPLICAS) as result:
            shares = super()._assign(selected)
            result.succeeded = isinstance(shares, ReplicaShares)
        return shares
