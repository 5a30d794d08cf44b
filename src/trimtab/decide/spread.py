"""Selects among feasible clusters: their ranking, and the spread constraints."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import SpreadConstraint
from trimtab.api.lazy import lazily
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Sifted
from trimtab.decide.region_selection import Wanted, choose_groups
from trimtab.decide.request import DUPLICATED, Ask

V = TypeVar("V")
_GROUP_WEIGHT = 1000
_KEY_BITS = 62
_ROOM_BITS = 33
_MOST_ROOM = (1 << _ROOM_BITS) - 1


class Keys(NamedTuple):
    """One sort key per column, smaller is better.

    The last `column_bits` bits are the column; all keys fit into `width` bits.
    """

    numbers: Array
    column_bits: int
    width: int


class Standing:
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
        self.is_plain = score is None and total is None and overflow is None
        """Only capacity and name matter."""

    @lazily
    def keys(self) -> Keys:
        column_bits = len(self.available).bit_length()
        columns = np.arange(len(self.available))
        numbers = _MOST_ROOM - self.available
        numbers <<= column_bits
        numbers |= columns
        width = column_bits + _ROOM_BITS
        if self.is_plain:
            return Keys(numbers, column_bits, width)
        for values, falls in ((self.score, True), (self.total, True), (self.overflow, False)):
            if values is None:
                continue
            here = -values if falls else values
            lowest = int(here.min(initial=0))
            step = (int(here.max(initial=0)) - lowest).bit_length()
            if width + step > _KEY_BITS:
                return Keys((self._ranks(columns) << column_bits) | columns, column_bits, 2 * column_bits)
            numbers |= (here - lowest) << width
            width += step
        return Keys(numbers, column_bits, width)

    def _ranks(self, columns: Array) -> Array:
        """The slow path to the same order, for numbers too large to fit into one key."""
        by = [columns, -self.available]
        by += [-array for array in (self.score, self.total) if array is not None]
        by += [self.overflow] if self.overflow is not None else []
        ranks = np.empty(len(columns), dtype=np.int64)
        ranks[np.lexsort(by)] = columns
        return ranks

    def sort(self, columns: Array) -> Array:
        """The columns, best first: overflow order, prioritizers, score, available replicas, name."""
        return np.sort(self.keys.numbers[columns]) & ((1 << self.keys.column_bits) - 1)

    def sort_few(self, columns: Array) -> list[int]:
        """The same for a few columns, faster one by one."""
        signed = ((self.overflow, 1), (self.total, -1), (self.score, -1), (self.available, -1))
        keys = [(sign * values[columns]).tolist() for values, sign in signed if values is not None]
        return [row[-1] for row in sorted(zip(*keys, columns.tolist(), strict=True))]


class Refusal(NamedTuple):
    """The constraints cannot be satisfied."""

    message: str


def spread(ask: Ask, fleet: Fleet[Cluster], feasible: Sifted, standing: Standing) -> list[int] | Refusal:
    """The clusters that satisfy the placement's spread constraints, in order of selection."""
    plan = ask.plan
    if plan.region_spread is not None:
        return _by_region(ask, fleet, feasible, standing)
    if plan.cluster_spread is not None:
        need = None if plan.strategy == DUPLICATED else 1 if ask.in_sets else ask.replicas
        return _by_cluster(plan.cluster_spread, standing.sort(feasible.columns), standing.available, need)
    return Refusal("just support cluster and region spread constraint")


def _by_cluster(constraint: SpreadConstraint, ranked: Array, available: Array, need: int | None) -> list[int] | Refusal:
    if len(ranked) < constraint.min_groups:
        return Refusal("the number of feasible clusters is less than spreadConstraint.MinGroups")
    count = min(len(ranked), constraint.max_groups)
    taken = ranked[:count]
    if need is not None:
        if int(available[taken].sum()) < need:
            taken = _swap_for_room(taken, ranked[count:], available, need)
        if count == 0 or int(available[taken].sum()) < need:
            return Refusal(f"no enough resource when selecting {count} clusters")
    chosen: list[int] = taken.tolist()
    return chosen


def _swap_for_room(taken: Array, rest: Array, available: Array, need: int) -> Array:
    """From last to first, replace each by the remaining cluster with the most capacity until there is enough."""
    taken, rest = taken.copy(), rest.copy()
    for position in range(len(taken) - 1, -1, -1):
        if int(available[taken].sum()) >= need or len(rest) == 0:
            break
        roomiest = int(np.argmax(available[rest]))
        if available[rest[roomiest]] > available[taken[position]]:
            taken[position], rest[roomiest] = rest[roomiest], taken[position]
    return taken


def _by_region(ask: Ask, fleet: Fleet[Cluster], feasible: Sifted, standing: Standing) -> list[int] | Refusal:
    by_region, by_cluster = ask.plan.region_spread, ask.plan.cluster_spread or SpreadConstraint()
    if by_region is None:
        return Refusal("just support cluster and region spread constraint")
    regions = _Regions(fleet, feasible, standing)
    if len(regions.names) < by_region.min_groups:
        return Refusal("the number of feasible region is less than spreadConstraint.MinGroups")
    chosen = regions.choose(ask, Wanted(by_region.min_groups, by_region.max_groups, by_cluster.min_groups))
    if not chosen:
        return Refusal("the number of clusters is less than the cluster spreadConstraint.MinGroups")
    return regions.take(chosen, by_cluster.max_groups)


class _Found(NamedTuple):
    """The regions of some clusters; starts and sizes are those of each region when clusters are sorted by region."""

    names: list[str]
    region_of: Array
    starts: Array
    sizes: Array

    @staticmethod
    def among(fleet: Fleet[Cluster], columns: Array) -> "_Found":
        regions = fleet.column("region", lambda: lambda cluster: cluster.spec.region, object)[columns]
        names, region_of, sizes = np.unique(regions.astype(str), return_inverse=True, return_counts=True)
        return _Found(names.tolist(), region_of, np.cumsum(sizes) - sizes, sizes)


class _Regions:
    """The feasible clusters grouped by region, best first within each region."""

    def __init__(self, fleet: Fleet[Cluster], feasible: Sifted, standing: Standing) -> None:
        self.fleet = fleet
        self.shared = feasible.shared
        self.standing = standing
        found = self._kept("regions", lambda: _Found.among(fleet, feasible.columns))
        self.names, self.starts, self.sizes = found.names, found.starts, found.sizes
        self.width, self.column_bits, self.ordered = self._order(feasible.columns, found)
        self.columns = self.ordered & ((1 << self.column_bits) - 1)
        """All columns, sorted by region."""

    def _kept(self, key: Hashable, compute: Callable[[], V]) -> V:
        """Values that depend only on which clusters are feasible are computed once."""
        return compute() if self.shared is None else self.fleet.derived((key, self.shared), compute)

    def _order(self, columns: Array, found: _Found) -> tuple[int, int, Array]:
        """The keys of all columns, sorted by region; the region is above the lowest `width` bits."""
        if self.standing.is_plain:
            bits = len(self.fleet).bit_length()
            width = bits + _ROOM_BITS
            if width + len(found.names).bit_length() <= _KEY_BITS:
                numbers = _MOST_ROOM - self.standing.available[columns]
                numbers <<= bits
                numbers += self._kept("where regions stand", lambda: (found.region_of << width) | columns)
                numbers.sort()
                return width, bits, numbers
        keys = self.standing.keys
        numbers = keys.numbers[columns]
        if keys.width + len(found.names).bit_length() <= _KEY_BITS:
            numbers |= found.region_of << keys.width
            numbers.sort()
            return keys.width, keys.column_bits, numbers
        return keys.width, keys.column_bits, numbers[np.lexsort((numbers, found.region_of))]

    def choose(self, ask: Ask, wanted: Wanted) -> list[str]:
        least = max(wanted.least, wanted.clusters)
        if ask.plan.strategy == DUPLICATED:
            return self._choose(self._weights_when_duplicated(ask.replicas), wanted)
        want = -(-ask.replicas // max(1, wanted.least))
        if self.standing.score is None and self._best_have(want, least):
            # the usual case: the best clusters of every region have enough capacity, so all weights are equal
            even = [min(want, 1)] * len(self.names)
            return self._kept((wanted, min(want, 1)), lambda: self._choose(even, wanted))
        return self._choose(self._weights(want, least), wanted)

    def _choose(self, weights: Sequence[int], wanted: Wanted) -> list[str]:
        return choose_groups(list(zip(self.names, self.sizes.tolist(), weights, strict=True)), wanted)

    def _best_have(self, want: int, least_clusters: int) -> bool:
        """Whether in every region the first clusters have the capacity wanted from one region."""
        heads = self._kept(("heads", least_clusters), lambda: self._heads(least_clusters))
        return heads is not None and int(self.standing.available[self.columns[heads]].sum(axis=0).min()) >= want

    def _heads(self, least_clusters: int) -> Array | None:
        if int(self.sizes.min()) < least_clusters:
            return None
        return np.arange(max(1, least_clusters))[:, None] + self.starts

    def _weights(self, want: int, least_clusters: int) -> list[int]:
        available, score = self.standing.available, self.standing.score
        rooms, scores = available[self.columns], score[self.columns] if score is not None else None
        least = np.minimum(self.sizes, max(1, least_clusters))
        first_rooms = self._sums(rooms, least)
        first_points = self._sums(scores, least) if scores is not None else [0] * len(first_rooms)
        counted = zip(self.starts.tolist(), self.sizes.tolist(), least.tolist(), first_rooms, first_points, strict=True)
        weights = []
        for start, size, used, room, points in counted:
            if room < want and used < size:
                room, used = _walk(rooms[start : start + size].tolist(), want, least_clusters)  # noqa: PLW2901
                points = int(scores[start : start + used].sum()) if scores is not None else 0  # noqa: PLW2901
            weights.append(min(room, want) * _GROUP_WEIGHT + _truncated(points, used))
        return weights

    def _sums(self, values: Array, counts: Array) -> list[int]:
        """The sum of the first values of each region."""
        running = np.cumsum(values)
        sums: list[int] = (running[self.starts + counts - 1] - running[self.starts] + values[self.starts]).tolist()
        return sums

    def _weights_when_duplicated(self, replicas: int) -> list[int]:
        """Regions with more clusters that can take all replicas are better; then their mean score."""
        able = (self.standing.available[self.columns] >= replicas).astype(np.int64)
        score = self.standing.score
        scores = able * score[self.columns] if score is not None else np.zeros(len(able), dtype=np.int64)
        counts = np.add.reduceat(able, self.starts).tolist()
        totals = np.add.reduceat(scores, self.starts).tolist()
        return [
            count * _GROUP_WEIGHT + _truncated(total, count) if count else 0
            for count, total in zip(counts, totals, strict=True)
        ]

    def take(self, names: Sequence[str], most_clusters: int) -> list[int]:
        """The best cluster of each region, then the best of the remaining ones, up to `most_clusters`."""
        spans = [(int(self.starts[at]), int(self.sizes[at])) for at in map(self.names.index, names)]
        taken = [int(self.columns[start]) for start, _ in spans]
        more = min(sum(size for _, size in spans), most_clusters) - len(taken)
        if more <= 0:
            return taken
        rest: list[int] = []
        for start, size in spans:  # no region contributes more than `more`, and each is sorted
            rest += self.ordered[start + 1 : start + min(size, more + 1)].tolist()
        within, column = (1 << self.width) - 1, (1 << self.column_bits) - 1
        return taken + [key & column for key in sorted([key & within for key in rest])[:more]]


def _walk(rooms: Sequence[int], want: int, least_clusters: int) -> tuple[int, int]:
    """The capacity of the first clusters of a region that reach what is wanted, and how many clusters these are."""
    room = used = 0
    for here in rooms:
        room += here
        used += 1
        if room >= want and used >= least_clusters:
            break
    return room, used


def _truncated(total: int, count: int) -> int:
    return total // count if total >= 0 else -(-total // count)
