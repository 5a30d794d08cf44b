"""The load of each cluster in the last hour: one value per minute, written only when a cluster reports a change.

A minute without a change keeps the value of the minute before, so that an idle fleet costs nothing.
"""

from bisect import bisect_right
from collections.abc import Callable
from datetime import datetime, timedelta

from trimtab.api.kinds.cluster import Cluster
from trimtab.console.cluster_facts import cluster_facts
from trimtab.runtime.cache import Cache, CacheEntry

MINUTES = 60
_MINUTE = timedelta(minutes=1)


class LoadHistory:
    """The requested share of the CPU of each cluster, minute by minute."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._samples: dict[str, list[tuple[datetime, float]]] = {}

    def follow(self, cache: Cache) -> None:
        """Listen to the clusters of a cache."""
        cache.table_of(Cluster).add_listener(self._cluster_changed)

    def _cluster_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is None:
            if old is not None:
                self._samples.pop(old.name[1], None)
        elif isinstance(cluster := new.typed, Cluster):
            self.add(cluster)

    def add(self, cluster: Cluster) -> None:
        minute = self._now().replace(second=0, microsecond=0)
        samples = self._samples.setdefault(cluster.name, [])
        load = cluster_facts(cluster).load
        if samples and samples[-1][0] == minute:
            samples[-1] = (minute, load)
        elif not samples or samples[-1][1] != load:
            samples.append((minute, load))
        oldest = minute - _MINUTE * MINUTES
        while len(samples) > 1 and samples[1][0] <= oldest:  # the first value holds until the second one
            del samples[0]

    def loads(self, name: str) -> list[float | None]:
        """The load in each of the last 60 minutes, the oldest first; None before the first report."""
        samples = self._samples.get(name, [])
        minutes = [at for at, _ in samples]
        last = self._now().replace(second=0, microsecond=0)
        found: list[float | None] = []
        for number in reversed(range(MINUTES)):
            position = bisect_right(minutes, last - _MINUTE * number)
            found.append(samples[position - 1][1] if position else None)
        return found
