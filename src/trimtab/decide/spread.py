"""Selects among feasible clusters: their ranking, and the spread constraints."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import SpreadConstraint
from trimtab.api.lazy import lazily
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import FeasibleSet
from trimtab.decide.region_selection import RegionRequirement, choose_groups
from trimtab.decide.request import DUPLICATED, PlacementRequest

V = TypeVar("V")
_GROUP_WEIGHT = 1000
_FEW = 64
_KEY_BITS = 62
_CAPACITY_BITS = 33
_MAX_CAPACITY = (1 << _CAPACITY_BITS) - 1


class ClusterRanking:
    """What clusters are ranked by, one number per column of the fleet."""

    def __init__(
        self,
        available: Array,
        *,
        score: Array | dict[int, int] | None = None,
        total: Array | None = None,
        overflow: Array | None = None,
    ) -> None:
        self.available = available
        """Capacity, including the replicas that the workload already has there."""
        self.given_score = score
        """None: equal for all; where only a few columns have one, these: usually the clusters in use."""
        self.total = total
        """The total of the placement's prioritizers; None: there are none."""
        self.overflow = overflow
        """0 for the group's own clusters, then 1, 2 ... for those of its overflow affinities; None: no groups."""
        self.is_by_capacity_only = score is None and total is None and overflow is None
        """Only capacity and name matter."""

    @lazily
    def score(self) -> Array | None:
        """The scores of all columns."""
        if not isinstance(self.given_score, dict):
            return self.given_score
        scores = np.zeros(len(self.available), dtype=np.int64)
        for column, score in self.given_score.items():
            scores[column] = score
        return scores

    def score_of(self, column: int) -> int:
        if isinstance(self.given_score, dict):
            return self.given_score.get(column, 0)
        return 0 if self.given_score is None else int(self.given_score[column])

    def columns_with_score(self) -> Iterable[int]:
        """The columns whose score is not 0."""
        if self.given_score is None:
            return ()
        return self.given_score if isinstance(self.given_score, dict) else self.given_score.nonzero()[0].tolist()

    @lazily
    def _upper_keys(self) -> Array | None:
        """What comes before capacity, above the bits of capacity and column; None when it does not fit."""
        keys = np.zeros(len(self.available), dtype=np.int64)
        width = len(self.available).bit_length() + _CAPACITY_BITS
        for values, falls in ((self.score, True), (self.total, True), (self.overflow, False)):
            if values is None:
                continue
            steps = values.max() - values if falls else values - values.min()
            keys |= steps << width
            width += int(steps.max()).bit_length()
        return keys if width <= _KEY_BITS else None

    def sort(self, columns: Array) -> list[int]:
        """The columns, best first: overflow order, prioritizers, score, available replicas, name."""
        ordered: list[int] = self._sort_few(columns) if len(columns) <= _FEW else self._sort_many(columns).tolist()
        return ordered

    def _sort_few(self, columns: Array) -> list[int]:
        """Lists are faster than arrays here. Later sorts are stable: they count before the earlier ones."""
        by_capacity = sorted(zip((-self.available[columns]).tolist(), columns.tolist(), strict=True))
        ordered = [column for _, column in by_capacity]
        if isinstance(self.given_score, dict):
            scores = dict.fromkeys(ordered, 0)
            scores |= {column: score for column, score in self.given_score.items() if column in scores}
            ordered.sort(key=scores.__getitem__, reverse=True)
        elif self.given_score is not None:
            ordered.sort(key=self.given_score.item, reverse=True)
        if self.total is not None:
            ordered.sort(key=self.total.item, reverse=True)
        if self.overflow is not None:
            ordered.sort(key=self.overflow.item)
        return ordered

    def _sort_many(self, columns: Array) -> Array:
        bits = len(self.available).bit_length()
        keys = _MAX_CAPACITY - self.available[columns]
        keys <<= bits
        keys |= columns
        if not self.is_by_capacity_only:
            if self._upper_keys is None:
                return self._sort_without_keys(columns)
            keys |= self._upper_keys[columns]
        keys.sort()
        keys &= (1 << bits) - 1
        return keys

    def _sort_without_keys(self, columns: Array) -> Array:
        by = [columns, -self.available[columns]]
        by += [-array[columns] for array in (self.score, self.total) if array is not None]
        by += [self.overflow[columns]] if self.overflow is not None else []
        return columns[np.lexsort(by)]


class SpreadFailure(NamedTuple):
    """The constraints cannot be satisfied."""

    message: str


def select_by_spread_constraints(
    request: PlacementRequest, fleet: Fleet[Cluster], feasible: FeasibleSet, standing: ClusterRanking
) -> list[int] | SpreadFailure:
    """The clusters that satisfy the placement's spread constraints, in order of selection."""
    plan = request.placement
    if plan.region_spread is not None:
        return _select_by_region(request, fleet, feasible, standing)
    if plan.cluster_spread is not None:
        need = None if plan.strategy == DUPLICATED else 1 if request.in_component_sets else request.replicas
        return _select_by_cluster(plan.cluster_spread, standing.sort(feasible.columns), standing.available, need)
    return SpreadFailure("just support cluster and region spread constraint")


def _select_by_cluster(
    constraint: SpreadConstraint, ranked: Sequence[int], available: Array, need: int | None
) -> list[int] | SpreadFailure:
    if len(ranked) < constraint.min_groups:
        return SpreadFailure("the number of feasible clusters is less than spreadConstraint.MinGroups")
    count = min(len(ranked), constraint.max_groups)
    taken = list(ranked[:count])
    if need is not None:
        if count and int(available[taken].sum()) < need:
            taken = _swap_for_capacity(np.array(taken), np.array(ranked[count:], dtype=np.intp), available, need)
        if count == 0 or int(available[taken].sum()) < need:
            return SpreadFailure(f"no enough resource when selecting {count} clusters")
    return taken


def _swap_for_capacity(taken: Array, rest: Array, available: Array, need: int) -> list[int]:
    """From last to first, replace each by the remaining cluster with the most capacity until there is enough."""
    for position in range(len(taken) - 1, -1, -1):
        if int(available[taken].sum()) >= need or len(rest) == 0:
            break
        roomiest = int(np.argmax(available[rest]))
        if available[rest[roomiest]] > available[taken[position]]:
            taken[position], rest[roomiest] = rest[roomiest], taken[position]
    swapped: list[int] = taken.tolist()
    return swapped


def _select_by_region(
    request: PlacementRequest, fleet: Fleet[Cluster], feasible: FeasibleSet, standing: ClusterRanking
) -> list[int] | SpreadFailure:
    wanted = request.placement.region_requirement
    if wanted is None:
        return SpreadFailure("just support cluster and region spread constraint")
    regions = _RegionSelection(fleet, feasible, standing)
    if len(regions.index.names) < wanted.min_groups:
        return SpreadFailure("the number of feasible region is less than spreadConstraint.MinGroups")
    chosen = regions.choose(request, wanted)
    if not chosen:
        return SpreadFailure("the number of clusters is less than the cluster spreadConstraint.MinGroups")
    by_cluster = request.placement.cluster_spread
    return regions.take_clusters(chosen, by_cluster.max_groups if by_cluster is not None else 0)


class _RegionIndex(NamedTuple):
    """The feasible clusters by region."""

    names: list[str]
    """The regions in name order."""
    numbers: range
    """A region is its position among the names."""
    columns: list[Array]
    """The clusters of each region, in name order."""
    sizes: list[int]
    all_columns: Array
    """The clusters of the first region, then those of the second, and so on."""
    starts: Array
    """Where each region starts in them."""
    region_of: dict[int, int]
    """The region of each cluster."""

    @staticmethod
    def of_columns(fleet: Fleet[Cluster], columns: Array) -> "_RegionIndex":
        regions = fleet.column("region", lambda: lambda cluster: cluster.spec.region, object)[columns]
        names, region_of, sizes = np.unique(regions.astype(str), return_inverse=True, return_counts=True)
        starts = np.cumsum(sizes) - sizes
        by_region = columns[np.argsort(region_of, kind="stable")]
        return _RegionIndex(
            names.tolist(),
            range(len(names)),
            np.split(by_region, starts[1:]),
            sizes.tolist(),
            by_region,
            starts,
            dict(zip(columns.tolist(), region_of.tolist(), strict=True)),
        )


class _RegionSelection:
    """Chooses regions, then clusters in them. Only the chosen regions are ranked, and those with scores."""

    def __init__(self, fleet: Fleet[Cluster], feasible: FeasibleSet, standing: ClusterRanking) -> None:
        self.fleet = fleet
        self.cache_key = feasible.cache_key
        self.ranking = standing
        self.index = self._compute_once("regions", lambda: _RegionIndex.of_columns(fleet, feasible.columns))

    def _compute_once(self, key: Hashable, compute: Callable[[], V]) -> V:
        """Values that depend only on which clusters are feasible are computed once."""
        return compute() if self.cache_key is None else self.fleet.compute_once((key, self.cache_key), compute)

    def choose(self, request: PlacementRequest, wanted: RegionRequirement) -> list[int]:
        """The chosen regions, heaviest first; empty when there are too few clusters."""
        if request.placement.strategy == DUPLICATED:
            return self._choose_groups(self._weights_when_duplicated(request.replicas), wanted)
        want = -(-request.replicas // max(1, wanted.min_groups))
        capacities = np.add.reduceat(self.ranking.available[self.index.all_columns], self.index.starts).tolist()
        regions = map(self.index.region_of.get, self.ranking.columns_with_score())
        scored = {region for region in regions if region is not None}
        if not scored and min(capacities) >= want:
            # the usual case: every region has enough capacity, and no score counts
            even = [min(want, 1)] * len(capacities)
            return self._compute_once((wanted, min(want, 1)), lambda: self._choose_groups(even, wanted))
        weights = [min(capacity, want) * _GROUP_WEIGHT for capacity in capacities]
        for region in scored:
            weights[region] += self._mean_score(region, want, wanted.least_clusters)
        return self._choose_groups(weights, wanted)

    def _choose_groups(self, weights: Sequence[int], wanted: RegionRequirement) -> list[int]:
        """Regions are numbered in name order, so their numbers compare like their names."""
        return choose_groups(list(zip(self.index.numbers, self.index.sizes, weights, strict=True)), wanted)

    def _mean_score(self, region: int, want: int, least_clusters: int) -> int:
        """The mean score of the first clusters of a region, at least so many, that have the capacity that is wanted."""
        capacity = used = total = 0
        room_of, score_of = self.ranking.available.item, self.ranking.score_of
        for column in self.ranking.sort(self.index.columns[region]):
            if capacity >= want and used >= least_clusters:
                break
            capacity += room_of(column)
            total += score_of(column)
            used += 1
        return _truncated_mean(total, used)

    def _weights_when_duplicated(self, replicas: int) -> list[int]:
        """Regions with more clusters that can take all replicas are better; then their mean score."""
        columns, starts, score = self.index.all_columns, self.index.starts, self.ranking.score
        able = (self.ranking.available[columns] >= replicas).astype(np.int64)
        scores = able * score[columns] if score is not None else np.zeros(len(able), dtype=np.int64)
        counts = np.add.reduceat(able, starts).tolist()
        totals = np.add.reduceat(scores, starts).tolist()
        return [
            count * _GROUP_WEIGHT + _truncated_mean(total, count) if count else 0
            for count, total in zip(counts, totals, strict=True)
        ]

    def take_clusters(self, regions: Sequence[int], most_clusters: int) -> list[int]:
        """The best cluster of each region, then the best of the remaining ones, up to `most_clusters`."""
        ranked = self.ranking.sort(self._columns_in(regions))
        best: dict[int, int] = {}
        for column in ranked:
            if best.setdefault(self.index.region_of[column], column) == column and len(best) == len(regions):
                break
        taken = [best[region] for region in regions]
        more = max(0, min(len(ranked), most_clusters) - len(taken))
        return taken + [column for column in ranked[:most_clusters] if column not in taken][:more]

    def _columns_in(self, regions: Sequence[int]) -> Array:
        """The clusters of these regions. Workloads of one policy are often given the same ones."""
        return self._compute_once(
            ("columns in", *regions), lambda: np.concatenate([self.index.columns[region] for region in regions])
        )


def _truncated_mean(total: int, count: int) -> int:
    return total // count if total >= 0 else -(-total // count)
