"""The strategy Aggregated: as few clusters as have room for all replicas."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

import numpy as np

from trimtab.decide.divide import apportion, candidates_for_fewest, count_reaching, fewest_reaching, heaviest
from trimtab.decide.fleet import Array
from trimtab.decide.shares import ReplicaShares, Selected, nonzero_shares, one_share
from trimtab.decide.spread import ClusterRanking

_FEW = 8
"""So many of the largest clusters usually have room for all replicas that are aggregated."""


def aggregate(
    target: int,
    selected: Selected,
    capacity: Array,
    keep: Mapping[int, int],
    rank: Callable[[], ClusterRanking],
    *,
    last_wins_ties: bool,
) -> ReplicaShares | None:
    """Use the fewest clusters, those in use first, then apportion by capacity. None: too little capacity.

    `rank` is called only where the clusters in use do not suffice.
    """
    in_use = [column for column, replicas in keep.items() if replicas > 0]
    if in_use and (enough := _enough_in_use(target, in_use, capacity)) is not None:
        given = apportion(target, list(enough.values()), last_wins_ties=last_wins_ties)
        return nonzero_shares(list(enough), given)
    ranking = rank()
    if not in_use and not isinstance(selected, list) and ranking.is_by_capacity_only:
        return _aggregate_by_capacity(target, selected, capacity, last_wins_ties=last_wins_ties)
    columns = (
        selected if isinstance(selected, list) else _aggregation_candidates(target, selected, capacity, in_use, ranking)
    )
    capacities = capacity[columns].tolist()
    if not in_use and (most := max(capacities)) >= target:
        return one_share(columns[capacities.index(most)], target)
    if sum(capacities) < target:
        return None
    first = frozenset([position for position, column in enumerate(columns) if column in in_use] if in_use else ())
    chosen = sorted(
        [(columns[position], capacities[position]) for position in fewest_reaching(target, capacities, first)]
    )
    given = apportion(target, [capacity for _, capacity in chosen], last_wins_ties=last_wins_ties)
    return nonzero_shares([column for column, _ in chosen], given)


def _enough_in_use(target: int, in_use: Sequence[int], capacity: Array) -> dict[int, int] | None:
    """The fewest clusters in use that suffice, with their capacity and by name; None when they do not suffice.

    Equal capacities are in order of selection, which is left to the general case.
    """
    pairs = sorted(zip(capacity[in_use].tolist(), in_use, strict=True), reverse=True)
    capacities = [here for here, _ in pairs]
    used = count_reaching(target, capacities)
    if used is None or len(set(capacities)) < len(capacities):
        return None
    return {column: here for here, column in sorted(pairs[:used], key=itemgetter(1))}


def _aggregate_by_capacity(
    target: int, selected: Array, capacity: Array, *, last_wins_ties: bool
) -> ReplicaShares | None:
    """The same where only capacity and name matter."""
    roomiest = int(selected[capacity[selected].argmax()])
    if capacity[roomiest] >= target:
        return one_share(roomiest, target)
    for count in (_FEW, len(selected)):
        able = heaviest(count, capacity, selected, last_wins_ties=False)
        if (used := count_reaching(target, able.weights)) is not None:
            columns = sorted(zip(able.positions[:used], able.weights[:used], strict=True))
            given = apportion(target, [weight for _, weight in columns], last_wins_ties=last_wins_ties)
            return nonzero_shares([column for column, _ in columns], given)
    return None


def _aggregation_candidates(
    target: int, columns: Array, capacity: Array, in_use: Sequence[int], ranking: ClusterRanking
) -> list[int]:
    """A few columns in order of selection that suffice to reach `target`; or all of them."""
    first = np.searchsorted(columns, in_use).tolist() if in_use else ()
    some = columns[candidates_for_fewest(target, capacity[columns], first)]
    # where only capacity and name matter, equal capacities are in the right order already
    few: list[int] = some.tolist() if ranking.is_by_capacity_only else ranking.sort(some)
    return few
