"""Metrics about the fleet, from the caches that the controllers fill: clusters, propagation and moves.

Times are observed once, when an object changes in the cache; the caches are read only when somebody asks for the metrics. What a
cache holds when it starts is history and is not observed.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import TypeVar, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionPolicy, Move
from trimtab.api.kinds.native.lease import Lease
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.quantity import approximate_float
from trimtab.api.value import Object, QuantityText
from trimtab.clock import Clock
from trimtab.controllers.clusters.ownership import OWNED
from trimtab.controllers.conditions import find_condition, is_condition_true
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.telemetry import Histogram, HistogramSeries, Sample

log = logging.getLogger("trimtab.moves")
T = TypeVar("T", bound=Object)
PROPAGATION_BOUNDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300)
BACKUP_LEASE = ("kube-system", "trimtab-backup")
"""A Lease that `trimtab backup` renews, so that the age of the last backup is known."""
MOVE_BOUNDS = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


class FleetMetrics:
    """Samples and histograms of one control plane."""

    def __init__(self, cache: Cache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._propagation = Histogram(PROPAGATION_BOUNDS)
        self._moves: dict[str, Histogram] = {}
        self._ended: Counter[tuple[str, str]] = Counter()
        self._watched = False

    def watch(self) -> None:
        """Observe changes from now on, in the caches that the controllers use."""
        for type_ in (ResourceBinding, ClusterResourceBinding):
            if table := self._cache.find_table(kind_of(type_).id):
                table.add_listener(self._binding_changed)
        if table := self._cache.find_table(kind_of(Move).id):
            table.add_listener(self._move_changed)
        self._watched = True

    def _binding_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if not self._watched or old is None or new is None:
            return
        before, after = cast("Binding", old.typed), cast("Binding", new.typed)
        if before.status.conditions is after.status.conditions:
            return
        is_applied = is_condition_true(after.status.conditions, "FullyApplied")
        if is_applied and not any(condition.type == "FullyApplied" for condition in before.status.conditions):
            self._propagation.observe(self._seconds_since(after.metadata.creation_timestamp))

    def _move_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if not self._watched or new is None:
            return
        move = cast("Move", new.typed)
        if old is None and not move.status.outcome:
            log.info("move began: %s", move.spec.cause, extra=_log_fields(move))
        had_ended = old is not None and bool(cast("Move", old.typed).status.outcome)
        if move.status.outcome and not had_ended:
            self._ended[move.spec.cause, move.status.outcome] += 1
            log.info("move ended: %s", move.status.outcome, extra=_log_fields(move))
            if move.status.started and move.status.finished:
                histogram = self._moves.setdefault(move.spec.cause, Histogram(MOVE_BOUNDS))
                histogram.observe((move.status.finished - move.status.started).total_seconds())

    def _seconds_since(self, then: datetime | None) -> float:
        return max(0.0, (self._clock.now() - then).total_seconds()) if then else 0.0

    def samples(self) -> Iterator[Sample]:
        for cluster in self._cached_objects(Cluster):
            ready = is_condition_true(cluster.status.conditions, "Ready")
            yield Sample("trimtab_cluster_ready", ready, {"member_cluster": cluster.name})
            if (owned := find_condition(cluster.status.conditions, OWNED)) is not None:
                yield Sample("trimtab_member_owned", owned.status == "True", {"member_cluster": cluster.name})
        yield from self._backup_samples()
        frozen = any(policy.spec.freeze is not None for policy in self._cached_objects(DisruptionPolicy))
        yield Sample("trimtab_moves_frozen", frozen)
        moves = self._cached_objects(Move)
        for outcome, count in sorted(Counter(move.status.outcome for move in moves).items()):
            yield Sample("trimtab_moves", count, {"outcome": outcome or "InProgress"})
        starts = [move.status.started for move in moves if not move.status.outcome and move.status.started]
        yield Sample("trimtab_oldest_move_age_seconds", self._seconds_since(min(starts, default=None)))
        for (cause, outcome), count in sorted(self._ended.items()):
            yield Sample("trimtab_moves_ended_total", count, {"cause": cause, "outcome": outcome})
        bindings = [*self._cached_objects(ResourceBinding), *self._cached_objects(ClusterResourceBinding)]
        for state, type_ in (("unscheduled", "Scheduled"), ("unapplied", "FullyApplied")):
            count = sum(not is_condition_true(binding.status.conditions, type_) for binding in bindings)
            yield Sample("trimtab_workloads", count, {"state": state})
        yield Sample("trimtab_workloads", len(bindings), {"state": "all"})

    def _backup_samples(self) -> Iterator[Sample]:
        table = self._cache.find_table(kind_of(Lease).id)
        entry = table.entries.get(BACKUP_LEASE) if table is not None else None
        if entry is not None and (saved := cast("Lease", entry.typed).spec.renew_time) is not None:
            yield Sample("trimtab_last_backup_timestamp_seconds", saved.timestamp())

    def histograms(self) -> Iterator[HistogramSeries]:
        yield "trimtab_propagation_duration_seconds", {}, self._propagation
        for cause, histogram in sorted(self._moves.items()):
            yield "trimtab_move_duration_seconds", {"cause": cause}, histogram

    def karmada_samples(self) -> Iterator[Sample]:
        """The gauges of clusters under the names of Karmada, which its dashboards use."""
        for cluster in self._cached_objects(Cluster):
            labels = {"member_cluster": cluster.name}
            yield Sample("cluster_ready_state", is_condition_true(cluster.status.conditions, "Ready"), labels)
            if nodes := cluster.status.node_summary:
                yield Sample("cluster_node_number", nodes.total_num, labels)
                yield Sample("cluster_ready_node_number", nodes.ready_num, labels)
            if summary := cluster.status.resource_summary:
                for side, amounts in (("allocatable", summary.allocatable), ("allocated", summary.allocated)):
                    yield from _resource_samples(side, amounts, labels)

    def _cached_objects(self, type_: type[T]) -> list[T]:
        """The cached objects of a kind; metrics must not start a watch that no controller needs."""
        table = self._cache.find_table(kind_of(type_).id)
        return [cast("T", entry.typed) for entry in table.entries.values()] if table is not None else []


def _log_fields(move: Move) -> dict[str, str]:
    about = move.spec.object
    return {
        "move": f"{move.namespace}/{move.name}" if move.namespace else move.name,
        "object": "/".join(filter(None, (about.kind, about.namespace, about.name))),
        "cluster": move.spec.from_,
    }


def _resource_samples(side: str, amounts: dict[str, QuantityText], labels: dict[str, str]) -> Iterator[Sample]:
    for resource, name in (("cpu", "cpu_{}_number"), ("memory", "memory_{}_bytes"), ("pods", "pod_{}_number")):
        if resource in amounts:
            yield Sample(f"cluster_{name.format(side)}", approximate_float(amounts[resource]), labels)
