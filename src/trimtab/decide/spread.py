"""Selects among feasible clusters: their ranking, and the spread constraints."""

from collections.abc import Callable, Hashable, Sequence
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
_MAX_FIRST = 8
"""So many clusters of each region are read at once, even if more are wanted."""
_KEY_BITS = 62
_CAPACITY_BITS = 33
_MAX_CAPACITY = (1 << _CAPACITY_BITS) - 1


class SortKeys(NamedTuple):
    """One sort key per column, smaller is better.

    The last `column_bits` bits are the column; all keys fit into `width` bits.
    """

    numbers: Array
    column_bits: int
    width: int


class ClusterRanking:
    """What clusters are ranked by, one number per column of the fleet."""

    def __init__(
        self, available: Array, *, score: Array | None = None, total: Array | None = None, overflow: Array | None = None
    ) -> None:
        self.available = available
        """Capacity, including the replicas that the workload already has there."""
        self.score = score
        """None: equal for all."""
        self.total = total
        """The total of the placement's prioritizers; None: there are none."""
        self.overflow = overflow
        """0 for the group's own clusters, then 1, 2 ... for those of its overflow affinities; None: no groups."""
        self.is_by_capacity_only = score is None and total is None and overflow is None
        """Only capacity and name matter."""

    @lazily
    def keys(self) -> SortKeys:
        column_bits = len(self.available).bit_length()
        columns = np.arange(len(self.available))
        numbers = _MAX_CAPACITY - self.available
        numbers <<= column_bits
        numbers |= columns
        width = column_bits + _CAPACITY_BITS
        if self.is_by_capacity_only:
            return SortKeys(numbers, column_bits, width)
        for values, falls in ((self.score, True), (self.total, True), (self.overflow, False)):
            if values is None:
                continue
            here = -values if falls else values
            lowest = int(here.min(initial=0))
            step = (int(here.max(initial=0)) - lowest).bit_length()
            if width + step > _KEY_BITS:
                return SortKeys((self._ranks(columns) << column_bits) | columns, column_bits, 2 * column_bits)
            numbers |= (here - lowest) << width
            width += step
        return SortKeys(numbers, column_bits, width)

    def _ranks(self, columns: Array) -> Array:
        """The slow path to the same order, for numbers too large to fit into one key."""
        ranks = np.empty(len(columns), dtype=np.int64)
        ranks[self._order(columns)] = columns
        return ranks

    def _order(self, columns: Array) -> Array:
        """The indexes that sort these columns, without a key for the others."""
        by = [columns, -self.available[columns]]
        by += [-array[columns] for array in (self.score, self.total) if array is not None]
        by += [self.overflow[columns]] if self.overflow is not None else []
        return np.lexsort(by)

    def sort(self, columns: Array) -> Array:
        """The columns, best first: overflow order, prioritizers, score, available replicas, name."""
        return np.sort(self.keys.numbers[columns]) & ((1 << self.keys.column_bits) - 1)

    def sort_few(self, columns: Array) -> list[int]:
        """The same for a few columns."""
        ordered: list[int] = columns[self._order(columns)].tolist()
        return ordered


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
    constraint: SpreadConstraint, ranked: Array, available: Array, need: int | None
) -> list[int] | SpreadFailure:
    if len(ranked) < constraint.min_groups:
        return SpreadFailure("the number of feasible clusters is less than spreadConstraint.MinGroups")
    count = min(len(ranked), constraint.max_groups)
    taken = ranked[:count]
    if need is not None:
        if int(available[taken].sum()) < need:
            taken = _swap_for_capacity(taken, ranked[count:], available, need)
        if count == 0 or int(available[taken].sum()) < need:
            return SpreadFailure(f"no enough resource when selecting {count} clusters")
    chosen: list[int] = taken.tolist()
    return chosen


def _swap_for_capacity(taken: Array, rest: Array, available: Array, need: int) -> Array:
    """From last to first, replace each by the remaining cluster with the most capacity until there is enough."""
    taken, rest = taken.copy(), rest.copy()
    for position in range(len(taken) - 1, -1, -1):
        if int(available[taken].sum()) >= need or len(rest) == 0:
            break
        roomiest = int(np.argmax(available[rest]))
        if available[rest[roomiest]] > available[taken[position]]:
            taken[position], rest[roomiest] = rest[roomiest], taken[position]
    return taken


def _select_by_region(
    request: PlacementRequest, fleet: Fleet[Cluster], feasible: FeasibleSet, standing: ClusterRanking
) -> list[int] | SpreadFailure:
    by_region, by_cluster = request.placement.region_spread, request.placement.cluster_spread or SpreadConstraint()
    if by_region is None:
        return SpreadFailure("just support cluster and region spread constraint")
    wanted = RegionRequirement(by_region.min_groups, by_region.max_groups, by_cluster.min_groups)
    first_count = max(_least_clusters(wanted), min(by_cluster.max_groups, _MAX_FIRST))
    regions = _RegionSelection(fleet, feasible, standing, first_count=first_count)
    if len(regions.names) < by_region.min_groups:
        return SpreadFailure("the number of feasible region is less than spreadConstraint.MinGroups")
    chosen = regions.choose(request, wanted)
    if not chosen:
        return SpreadFailure("the number of clusters is less than the cluster spreadConstraint.MinGroups")
    return regions.take_clusters(chosen, by_cluster.max_groups)


class _RegionIndex(NamedTuple):
    """The regions of some clusters; starts and sizes are those of each region when clusters are sorted by region."""

    names: list[str]
    region_of: Array
    starts: list[int]
    sizes: list[int]

    @staticmethod
    def of_columns(fleet: Fleet[Cluster], columns: Array) -> "_RegionIndex":
        regions = fleet.column("region", lambda: lambda cluster: cluster.spec.region, object)[columns]
        names, region_of, sizes = np.unique(regions.astype(str), return_inverse=True, return_counts=True)
        return _RegionIndex(names.tolist(), region_of, (np.cumsum(sizes) - sizes).tolist(), sizes.tolist())

    def places_of_first(self, count: int) -> Array:
        """Where the first `count` clusters of each region are; the last one again where there are fewer."""
        places: Array = np.minimum(np.arange(count), np.array(self.sizes)[:, None] - 1)
        places += np.array(self.starts)[:, None]
        return places


class _RegionSelection:
    """The feasible clusters grouped by region, best first within each region.

    Only the first few clusters of each region matter to most decisions: they are read from the arrays at once.
    """

    def __init__(
        self, fleet: Fleet[Cluster], feasible: FeasibleSet, standing: ClusterRanking, *, first_count: int
    ) -> None:
        self.fleet = fleet
        self.cache_key = feasible.cache_key
        self.ranking = standing
        found = self._compute_once("regions", lambda: _RegionIndex.of_columns(fleet, feasible.columns))
        self.names, self.starts, self.sizes = found.names, found.starts, found.sizes
        self.width, self.column_bits, self.sorted_keys = self._sort_keys(feasible.columns, found)
        self.first_count = first_count
        places = self._compute_once(("first", first_count), lambda: found.places_of_first(first_count))
        keys = self.sorted_keys[places]
        columns = keys & ((1 << self.column_bits) - 1)
        self.first_keys: list[list[int]] = keys.tolist()
        """The keys of the first clusters of each region; the last one again where there are fewer."""
        self.first_capacities: list[list[int]] = standing.available[columns].tolist()
        self.first_scores: list[list[int]] | None = None if standing.score is None else standing.score[columns].tolist()

    @property
    def columns(self) -> Array:
        """All columns, sorted by region."""
        columns: Array = self.sorted_keys & ((1 << self.column_bits) - 1)
        return columns

    def _compute_once(self, key: Hashable, compute: Callable[[], V]) -> V:
        """Values that depend only on which clusters are feasible are computed once."""
        return compute() if self.cache_key is None else self.fleet.compute_once((key, self.cache_key), compute)

    def _sort_keys(self, columns: Array, found: _RegionIndex) -> tuple[int, int, Array]:
        """The keys of all columns, sorted by region; the region is above the lowest `width` bits."""
        if self.ranking.is_by_capacity_only:
            bits = len(self.fleet).bit_length()
            width = bits + _CAPACITY_BITS
            if width + len(found.names).bit_length() <= _KEY_BITS:
                numbers = _MAX_CAPACITY - self.ranking.available[columns]
                numbers <<= bits
                numbers += self._compute_once("where regions stand", lambda: (found.region_of << width) | columns)
                numbers.sort()
                return width, bits, numbers
        keys = self.ranking.keys
        numbers = keys.numbers[columns]
        if keys.width + len(found.names).bit_length() <= _KEY_BITS:
            numbers |= found.region_of << keys.width
            numbers.sort()
            return keys.width, keys.column_bits, numbers
        return keys.width, keys.column_bits, numbers[np.lexsort((numbers, found.region_of))]

    def choose(self, request: PlacementRequest, wanted: RegionRequirement) -> list[str]:
        if request.placement.strategy == DUPLICATED:
            return self._choose_groups(self._weights_when_duplicated(request.replicas), wanted)
        want = -(-request.replicas // max(1, wanted.min_groups))
        weights = self._weights(want, _least_clusters(wanted))
        if weights[0] in (0, _GROUP_WEIGHT * want) and weights.count(weights[0]) == len(weights):
            # the usual case: the best clusters of every region have enough capacity, and no score counts
            even = [min(want, 1)] * len(self.names)
            return self._compute_once((wanted, min(want, 1)), lambda: self._choose_groups(even, wanted))
        return self._choose_groups(weights, wanted)

    def _choose_groups(self, weights: Sequence[int], wanted: RegionRequirement) -> list[str]:
        return choose_groups(list(zip(self.names, self.sizes, weights, strict=True)), wanted)

    def _weights(self, want: int, least_clusters: int) -> list[int]:
        """The capacity of the first clusters of each region, at most what is wanted; then their mean score."""
        weights = []
        for region, (size, capacities) in enumerate(zip(self.sizes, self.first_capacities, strict=True)):
            used = min(size, least_clusters)
            capacity = sum(capacities[:used])
            if capacity < want and used < size:
                capacity, used = self._capacity_of_first(region, want, least_clusters)
            points = 0 if self.first_scores is None else self._score_of_first(region, used)
            weights.append(min(capacity, want) * _GROUP_WEIGHT + _truncated_mean(points, used))
        return weights

    def _capacity_of_first(self, region: int, want: int, least_clusters: int) -> tuple[int, int]:
        """The capacity of the first clusters of a region that reach what is wanted, and how many clusters these are."""
        capacities = self.first_capacities[region]
        if self.sizes[region] > self.first_count:
            capacities = self.ranking.available[self._columns_of(region)].tolist()
        capacity = used = 0
        for here in capacities[: self.sizes[region]]:
            capacity += here
            used += 1
            if capacity >= want and used >= least_clusters:
                break
        return capacity, used

    def _score_of_first(self, region: int, count: int) -> int:
        if self.first_scores is not None and count <= self.first_count:
            return sum(self.first_scores[region][:count])
        score = self.ranking.score
        return 0 if score is None else int(score[self._columns_of(region)[:count]].sum())

    def _columns_of(self, region: int) -> Array:
        start = self.starts[region]
        return self.columns[start : start + self.sizes[region]]

    def _weights_when_duplicated(self, replicas: int) -> list[int]:
        """Regions with more clusters that can take all replicas are better; then their mean score."""
        able = (self.ranking.available[self.columns] >= replicas).astype(np.int64)
        score = self.ranking.score
        scores = able * score[self.columns] if score is not None else np.zeros(len(able), dtype=np.int64)
        counts = np.add.reduceat(able, self.starts).tolist()
        totals = np.add.reduceat(scores, self.starts).tolist()
        return [
            count * _GROUP_WEIGHT + _truncated_mean(total, count) if count else 0
            for count, total in zip(counts, totals, strict=True)
        ]

    def take_clusters(self, names: Sequence[str], most_clusters: int) -> list[int]:
        """The best cluster of each region, then the best of the remaining ones, up to `most_clusters`."""
        column = (1 << self.column_bits) - 1
        regions = [self.names.index(name) for name in names]
        taken = [self.first_keys[region][0] & column for region in regions]
        more = min(sum([self.sizes[region] for region in regions]), most_clusters) - len(taken)
        if more <= 0:
            return taken
        rest: list[int] = []
        for region in regions:  # no region contributes more than `more`, and each is sorted
            start, last = self.starts[region], min(self.sizes[region], more + 1)
            if last <= self.first_count:
                rest += self.first_keys[region][1:last]
            else:
                rest += self.sorted_keys[start + 1 : start + last].tolist()
        within = (1 << self.width) - 1
        return taken + [key & column for key in sorted([key & within for key in rest])[:more]]


def _least_clusters(wanted: RegionRequirement) -> int:
    """The clusters of a region that count at least towards its capacity."""
    return max(1, wanted.min_groups, wanted.min_clusters)


def _truncated_mean(total: int, count: int) -> int:
    return total // count if total >= 0 else -(-total // count)
