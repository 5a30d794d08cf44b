"""Which of the feasible clusters to use: how they rank, and what spread constraints take of them."""

from typing import NamedTuple

import numpy as np

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import SpreadConstraint
from trimtab.decide.ask import DUPLICATED, Ask
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.regions import Group, Wanted, choose_groups

_GROUP_WEIGHT = 1000
_KEY_BITS = 62


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

    def keys(self, columns: Array) -> tuple[Array, int]:
        """One number per given column: the better the cluster, the smaller; its last `bits` bits are the column."""
        bits = len(self.available).bit_length()
        falling = [array[columns] for array in (self.total, self.score, self.available) if array is not None]
        key = self.overflow[columns] if self.overflow is not None else np.zeros(len(columns), dtype=np.int64)
        width = int(key.max(initial=0)).bit_length() if self.overflow is not None else 0
        for values in falling:
            top, bottom = int(values.max(initial=0)), int(values.min(initial=0))
            step = (top - bottom).bit_length()
            width += step
            key = (key << step) + (top - values)
            if width + bits > _KEY_BITS:
                return (self._ranks(columns) << bits) | columns, bits
        return (key << bits) | columns, bits

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
        keys, bits = self.keys(columns)
        return np.sort(keys) & ((1 << bits) - 1)


class Refusal(NamedTuple):
    """The constraints cannot be met."""

    message: str


def spread(ask: Ask, fleet: Fleet[Cluster], columns: Array, standing: Standing) -> Array | Refusal:
    """The clusters that the placement's spread constraints leave, in the order in which they were taken."""
    plan = ask.plan
    if plan.region_spread is not None:
        return _by_region(ask, fleet, columns, standing)
    if plan.cluster_spread is not None:
        need = None if plan.strategy == DUPLICATED else 1 if ask.in_sets else ask.replicas
        return _by_cluster(plan.cluster_spread, standing.sort(columns), standing.available, need)
    return Refusal("just support cluster and region spread constraint")


def _by_cluster(constraint: SpreadConstraint, ranked: Array, available: Array, need: int | None) -> Array | Refusal:
    if len(ranked) < constraint.min_groups:
        return Refusal("the number of feasible clusters is less than spreadConstraint.MinGroups")
    count = min(len(ranked), constraint.max_groups)
    taken = ranked[:count]
    if need is None:
        return taken
    if int(available[taken].sum()) < need:
        taken = _swap_for_room(taken, ranked[count:], available, need)
    if count == 0 or int(available[taken].sum()) < need:
        return Refusal(f"no enough resource when selecting {count} clusters")
    return taken


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


def _by_region(ask: Ask, fleet: Fleet[Cluster], columns: Array, standing: Standing) -> Array | Refusal:
    by_region, by_cluster = ask.plan.region_spread, ask.plan.cluster_spread or SpreadConstraint()
    if by_region is None:
        return Refusal("just support cluster and region spread constraint")
    regions = _Regions(fleet, columns, standing)
    if len(regions.names) < by_region.min_groups:
        return Refusal("the number of feasible region is less than spreadConstraint.MinGroups")
    weights = regions.weights(ask, by_region.min_groups, max(by_region.min_groups, by_cluster.min_groups))
    groups = [Group(*fields) for fields in zip(regions.names, regions.sizes, weights, strict=True)]
    chosen = choose_groups(groups, Wanted(by_region.min_groups, by_region.max_groups, by_cluster.min_groups))
    if not chosen:
        return Refusal("the number of clusters is less than the cluster spreadConstraint.MinGroups")
    return regions.take([group.name for group in chosen], by_cluster.max_groups)


class _Regions:
    """The feasible clusters region by region, each region's best first."""

    def __init__(self, fleet: Fleet[Cluster], columns: Array, standing: Standing) -> None:
        codes, names = fleet.derived("regions", lambda: _region_codes(fleet))
        region_of = codes[columns]
        keys, bits = standing.keys(columns)
        width = max(bits, int(keys.max(initial=0)).bit_length())
        if width + len(names).bit_length() <= _KEY_BITS:
            ordered = np.sort(keys | (region_of << width))
        else:
            ordered = keys[np.lexsort((keys, region_of))]
        self.columns = ordered & ((1 << bits) - 1)
        """All of them, region after region."""
        self.standing = standing
        counts = np.bincount(region_of, minlength=len(names)).tolist()
        self.names = [name for name, count in zip(names, counts, strict=True) if count]
        self.sizes: list[int] = [count for count in counts if count]
        self.starts: list[int] = np.cumsum([0, *self.sizes])[:-1].tolist()

    def weights(self, ask: Ask, least_regions: int, least_clusters: int) -> list[int]:
        if ask.plan.strategy == DUPLICATED:
            return self._weights_when_duplicated(ask.replicas)
        want = -(-ask.replicas // max(1, least_regions))
        return self._weights_when_divided(want, least_clusters)

    def _sums(self, values: Array) -> tuple[list[int], Array]:
        sums = np.concatenate(([0], np.cumsum(values)))
        return sums[self.starts].tolist(), sums

    def _weights_when_duplicated(self, replicas: int) -> list[int]:
        """The more clusters can take all replicas, the better; then their mean score."""
        able = self.standing.available[self.columns] >= replicas
        score = self.standing.score
        scores = np.where(able, score[self.columns], 0) if score is not None else np.zeros(len(able), dtype=np.int64)
        counts = np.add.reduceat(able.astype(np.int64), self.starts).tolist()
        totals = np.add.reduceat(scores, self.starts).tolist()
        return [
            count * _GROUP_WEIGHT + _truncated(total, count) if count else 0
            for count, total in zip(counts, totals, strict=True)
        ]

    def _weights_when_divided(self, want: int, least_clusters: int) -> list[int]:
        """Room up to what one region is wanted to take; then the mean score of the clusters that it takes for that."""
        available = self.standing.available[self.columns]
        bases, sums = self._sums(available)
        scores = self._sums(self.standing.score[self.columns])[1].tolist() if self.standing.score is not None else None
        reached = np.searchsorted(sums, np.array(bases) + want).tolist()
        ends = sums[np.array(self.starts) + np.array(self.sizes)].tolist()
        weights = []
        for start, size, base, end, position in zip(self.starts, self.sizes, bases, ends, reached, strict=True):
            used = max(least_clusters, position - start, 1)
            short = end - base < want
            used = size if used > size or short else used
            score = scores[start + used] - scores[start] if scores is not None else 0
            weights.append((end - base if short else want) * _GROUP_WEIGHT + _truncated(score, used))
        return weights

    def take(self, names: list[str], most_clusters: int) -> Array:
        """The best cluster of each region, then the best of what is left in them, up to `most_clusters`."""
        at = {name: position for position, name in enumerate(self.names)}
        spans = [(self.starts[at[name]], self.sizes[at[name]]) for name in names]
        first = self.columns[[start for start, _ in spans]]
        more = min(sum(size for _, size in spans), most_clusters) - len(first)
        if more <= 0:
            return first
        # no region gives more than `more`: the rest of each is sorted already
        rest = np.concatenate([self.columns[start + 1 : start + min(size, more + 1)] for start, size in spans])
        return np.concatenate((first, self.standing.sort(rest)[:more]))


def _truncated(total: int, count: int) -> int:
    return total // count if total >= 0 else -(-total // count)


def _region_codes(fleet: Fleet[Cluster]) -> tuple[Array, list[str]]:
    regions = fleet.column("region", lambda: lambda cluster: cluster.spec.region, object).tolist()
    names = sorted(set(regions))
    codes = {name: code for code, name in enumerate(names)}
    return np.fromiter((codes[region] for region in regions), np.int64, len(regions)), names
