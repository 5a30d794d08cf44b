"""The latest placements of each workload, noted when a binding changes; what was before this process, events say."""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import cast

from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.runtime.cache import Cache, CacheEntry

MAX_PLACEMENTS = 8
"""Placements that are kept per workload."""
Placed = tuple[datetime, dict[str, int]]
"""When it was decided, and the replicas per cluster."""


class PlacementHistory:
    """The placements that the bindings of one cache have had."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._placements: dict[tuple[str, str], deque[Placed]] = {}

    def follow(self, cache: Cache) -> None:
        """Listen to the bindings of a cache."""
        for type_ in (ResourceBinding, ClusterResourceBinding):
            cache.table_of(type_).add_listener(self._binding_changed)

    def _binding_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is None:
            if old is not None:
                self._placements.pop(old.name, None)
        else:
            self.add(cast("Binding", new.typed))

    def add(self, binding: Binding) -> None:
        """Note the placement of a binding, if it is another one than before."""
        if not binding.spec.clusters:
            return
        placement = {target.name: target.replicas for target in binding.spec.clusters}
        known = self._placements.setdefault((binding.namespace, binding.name), deque(maxlen=MAX_PLACEMENTS))
        if not known or known[-1][1] != placement:
            decided = binding.status.decision.time if binding.status.decision is not None else None
            at = self._now() if known else decided or binding.status.last_scheduled_time or self._now()
            known.append((at, placement))

    def placements(self, namespace: str, name: str) -> list[Placed]:
        """The placements of a binding, the oldest first."""
        return list(self._placements.get((namespace, name), ()))
