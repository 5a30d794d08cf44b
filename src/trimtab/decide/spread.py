"""Which of the feasible clusters to use: how they rank, and what spread constraints take of them."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import SpreadConstraint
from trimtab.decide.ask import DUPLICATED, Ask
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.regions import Group, Wanted, choose_groups

_GROUP_WEIGHT = 1000
_KEY_BITS = 62
_ROOM_BITS = 33
_MOST_ROOM = (1 << _ROOM_BITS) - 1
_HEAD = np.arange(8)


class Keys(NamedTuple):
    """One number per cluster, the better the smaller; its last `column_bits` bits are the column, all fit `width`."""

    numbers: Array
    column_bits: int
    width: int

    def columns(self, numbers: Array) -> Array:
        return numbers & ((1 << self.column_bits) - 1)


class Standing(NamedTuple):
    """What clusters are ranked by, one number per column of the fleet."""

    available: Array
    """Room, what the workload already has there included."""
    score: Array | None = None
    """None: all the same."""
    total: Array | None = None
    """By the prioritizers of the placement; None: there are none."""
    overflow: Array | None = None
    """0 for the group's own clusters, then 1, 2 ... for those of its overflow affinities; None: no groups."""

    @property
    def is_plain(self) -> bool:
        """Room and name alone decide."""
        return self.score is None and self.total is None and self.overflow is None

    def keys(self, columns: Array) -> Keys:
        column_bits = len(self.available).bit_length()
        numbers = ((_MOST_ROOM - self.available[columns]) << column_bits) | columns
        width = column_bits + _ROOM_BITS
        if self.is_plain:
            return Keys(numbers, column_bits, width)
        for values, falls in ((self.score, True), (self.total, True), (self.overflow, False)):
            if values is None:
                continue
            here = -values[columns] if falls else values[columns]
            lowest = int(here.min(initial=0))
            step = (int(here.max(initial=0)) - lowest).bit_length()
            if width + step > _KEY_BITS:
                return Keys((self._ranks(columns) << column_bits) | columns, column_bits, 2 * column_bits)
            numbers |= (here - lowest) << width
            width += step
        return Keys(numbers, column_bits, width)

    def _ranks(self, columns: Array) -> Array:
        """The slow way to the same order, for numbers too large to stand side by side in one."""
        by = [columns, -self.available[columns]]
        by += [-array[columns] for array in (self.score, self.total) if array is not None]
        by += [self.overflow[columns]] if self.overflow is not None else []
        ranks = np.empty(len(columns), dtype=np.int64)
        ranks[np.lexsort(by)] = np.arange(len(columns))
        return ranks

    def sort(self, columns: Array) -> Array:
        """The columns, best first: overflow order, prioritizers, score, available replicas, name."""
        keys = self.keys(columns)
        return keys.columns(np.sort(keys.numbers))


class Refusal(NamedTuple):
    """The constraints cannot be met."""

    message: str


def spread(ask: Ask, fleet: Fleet[Cluster], columns: Array, standing: Standing) -> list[int] | Refusal:
    """The clusters that the placement's spread constraints leave, in the order in which they were taken."""
    plan = ask.plan
    if plan.region_spread is not None:
        return _by_region(ask, fleet, columns, standing)
    if plan.cluster_spread is not None:
        need = None if plan.strategy == DUPLICATED else 1 if ask.in_sets else ask.replicas
        return _by_cluster(plan.cluster_spread, standing.sort(columns), standing.available, need)
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
    """From the last taken to the first, exchange each for the roomiest of the rest, until there is room enough."""
    taken, rest = taken.copy(), rest.copy()
    for position in range(len(taken) - 1, -1, -1):
        if int(available[taken].sum()) >= need or len(rest) == 0:
            break
        roomiest = int(np.argmax(available[rest]))
        if available[rest[roomiest]] > available[taken[position]]:
            taken[position], rest[roomiest] = rest[roomiest], taken[position]
    return taken


def _by_region(ask: Ask, fleet: Fleet[Cluster], columns: Array, standing: Standing) -> list[int] | Refusal:
    by_region, by_cluster = ask.plan.region_spread, ask.plan.cluster_spread or SpreadConstraint()
    if by_region is None:
        return Refusal("just support cluster and region spread constraint")
    regions = _Regions(fleet, columns, standing)
    if len(regions.names) < by_region.min_groups:
        return Refusal("the number of feasible region is less than spreadConstraint.MinGroups")
    weights = regions.weights(ask, by_region.min_groups, max(by_region.min_groups, by_cluster.min_groups))
    groups = list(map(Group._make, zip(regions.names, regions.sizes, weights, strict=True)))
    chosen = choose_groups(groups, Wanted(by_region.min_groups, by_region.max_groups, by_cluster.min_groups))
    if not chosen:
        return Refusal("the number of clusters is less than the cluster spreadConstraint.MinGroups")
    return regions.take([group.name for group in chosen], by_cluster.max_groups)


class _Regions:
    """The feasible clusters region by region, each region's best first."""

    def __init__(self, fleet: Fleet[Cluster], columns: Array, standing: Standing) -> None:
        codes, names = fleet.derived("regions", lambda: _region_codes(fleet))
        region_of = codes[columns]
        self.keys = standing.keys(columns)
        width = self.keys.width
        if width + len(names).bit_length() <= _KEY_BITS:
            self.ordered = np.sort(self.keys.numbers | (region_of << width))
        else:
            self.ordered = self.keys.numbers[np.lexsort((self.keys.numbers, region_of))]
        self.columns = self.keys.columns(self.ordered)
        """All of them, region after region."""
        self.standing = standing
        counts = np.bincount(region_of, minlength=len(names)).tolist()
        self.names: list[str] = [name for name, count in zip(names, counts, strict=True) if count]
        self.sizes: list[int] = [count for count in counts if count]
        self.starts: list[int] = list(accumulate(self.sizes[:-1], initial=0))

    def weights(self, ask: Ask, least_regions: int, least_clusters: int) -> list[int]:
        if ask.plan.strategy == DUPLICATED:
            return self._weights_when_duplicated(ask.replicas)
        want = -(-ask.replicas // max(1, least_regions))
        available, score = self.standing.available, self.standing.score
        heads = available[self.columns[np.minimum(np.array(self.starts)[:, None] + _HEAD, len(self.columns) - 1)]]
        weights = []
        for start, size, rooms in zip(self.starts, self.sizes, heads.tolist(), strict=True):
            room, used = _walk(rooms[:size], want, least_clusters)
            if used == len(rooms) < size and (room < want or used < least_clusters):
                # the best few of a region usually have the room that is wanted; here they do not
                room, used = _walk(available[self.columns[start : start + size]].tolist(), want, least_clusters)
            points = int(score[self.columns[start : start + used]].sum()) if score is not None else 0
            weights.append(min(room, want) * _GROUP_WEIGHT + _truncated(points, used))
        return weights

    def _weights_when_duplicated(self, replicas: int) -> list[int]:
        """The more clusters can take all replicas, the better; then their mean score."""
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
        """The best cluster of each region, then the best of what is left in them, up to `most_clusters`."""
        at = {name: position for position, name in enumerate(self.names)}
        spans = [(self.starts[at[name]], self.sizes[at[name]]) for name in names]
        taken = [int(self.columns[start]) for start, _ in spans]
        more = min(sum(size for _, size in spans), most_clusters) - len(taken)
        if more <= 0:
            return taken
        rest: list[int] = []
        for start, size in spans:  # no region gives more than `more`, and each is in order
            rest += self.ordered[start + 1 : start + min(size, more + 1)].tolist()
        within, column = (1 << self.keys.width) - 1, (1 << self.keys.column_bits) - 1
        return taken + [key & column for key in sorted(key & within for key in rest)[:more]]


def _walk(rooms: Sequence[int], want: int, least_clusters: int) -> tuple[int, int]:
    """The room of the first clusters of a region that have what it is wanted to take, and how many they are."""
    room = used = 0
    for here in rooms:
        room += here
        used += 1
        if room >= want and used >= least_clusters:
            break
    return room, used


def _truncated(total: int, count: int) -> int:
    return total // count if total >= 0 else -(-total // count)


def _region_codes(fleet: Fleet[Cluster]) -> tuple[Array, list[str]]:
    regions = fleet.column("region", lambda: lambda cluster: cluster.spec.region, object).tolist()
    names = sorted(set(regions))
    codes = {name: code for code, name in enumerate(names)}
    return np.fromiter((codes[region] for region in regions), np.int64, len(regions)), names
