"""Sharing out replicas: Webster's method with the peers' ties, and the fewest clusters that can take them."""

import heapq
import math
from collections.abc import Sequence

import numpy as np

from trimtab.decide.fleet import Array

_FEW = 24


def contenders(seats: int, weights: Array, *, leans_back: bool) -> Array:
    """The positions of those who can get one of `seats` at all, in rising order; the others need not be looked at.

    With n seats nobody gets one whose weight is not among the n largest; and of those who share the last of these
    weights at most n are served, first come first.
    """
    if not 0 < seats < len(weights):
        return np.flatnonzero(weights > 0)
    bar = int(np.partition(weights, len(weights) - seats)[len(weights) - seats])
    if bar <= 0:
        return np.flatnonzero(weights > 0)
    able = np.flatnonzero(weights >= bar)
    if len(able) <= 2 * seats:
        return able
    level = weights[able] == bar
    last = able[level]
    return np.sort(np.concatenate((able[~level], last[-seats:] if leans_back else last[:seats])))


def apportion(seats: int, weights: Sequence[int], *, leans_back: bool) -> list[int]:
    """Seats by weight: each goes to the party with the largest weight / (2 * seats so far + 1).

    Ties go to the party with fewer seats, then by position: first ones first, or last ones first if `leans_back`.
    """
    if len(weights) == 1:
        return [seats if weights[0] > 0 else 0]
    given = [0] * len(weights)
    order = [position for position, weight in enumerate(weights) if weight > 0]
    if seats <= 0 or not order:
        return given
    if leans_back:
        order.reverse()
    order.sort(key=weights.__getitem__, reverse=True)  # a stable sort: equals stay in the order of service
    for position, share in zip(order, _served(seats, [weights[position] for position in order]), strict=True):
        given[position] = share
    return given


def _served(seats: int, heavy: Sequence[int]) -> list[int]:
    """The seats of parties that stand in order: falling weight, equals in the order of service.

    Who has no seat yet waits in line, heaviest first; who has one waits in the queue for the next.
    """
    given = _head_start(seats, heavy) if seats >= 2 * len(heavy) else [0] * len(heavy)
    seats -= sum(given)
    queue = [(-heavy[i] / (2 * done + 1), done, i) for i, done in enumerate(given) if done]
    heapq.heapify(queue)
    line, following = len(heavy), len(queue)  # a head start leaves out the last in line, never one in the middle
    for _ in range(seats):
        if following < line and (not queue or heavy[following] >= -queue[0][0]):
            given[following] = 1
            heapq.heappush(queue, (-heavy[following] / 3, 1, following))
            following += 1
        else:
            done, i = queue[0][1] + 1, queue[0][2]
            given[i] = done
            heapq.heapreplace(queue, (-heavy[i] / (2 * done + 1), done, i))
    return given


def _head_start(seats: int, heavy: Sequence[int]) -> list[int]:
    """Seats that everybody gets for certain, when there are many: all those with a quotient above a safe bar.

    Of two seats the one with the larger quotient is given first; so all above any bar are given before all below it,
    provided that they are not more than there are.
    """
    bar = sum(heavy) / (2 * seats - len(heavy)) * (1 + 1e-9)
    sure = [_quotients_above(bar, weight) for weight in heavy]
    return sure if sum(sure) <= seats else [0] * len(heavy)


def _quotients_above(bar: float, weight: int) -> int:
    count = max(0, math.ceil((weight / bar - 1) / 2))
    while count > 0 and weight / (2 * count - 1) <= bar:
        count -= 1  # what rounding gave too much
    return count


def apportion_within(seats: int, weights: Sequence[int], limits: Sequence[int], *, leans_back: bool) -> list[int]:
    """Seats by weight, but nobody beyond his limit: what does not fit is shared out among the others anew."""
    weights, given = list(weights), [0] * len(weights)
    while seats > 0 and any(weights):
        shares = apportion(seats, weights, leans_back=leans_back)
        full = [i for i, share in enumerate(shares) if weights[i] and share >= limits[i]]
        if all(share <= limit for share, limit in zip(shares, limits, strict=True)):
            return [before + share for before, share in zip(given, shares, strict=True)]
        for position in full:
            given[position] = limits[position]
            seats -= limits[position]
            weights[position] = 0
    return given


def roomiest(target: int, weights: Array, first: Sequence[int]) -> Array:
    """Positions among which the fewest that reach `target` are sure to be found, without sorting all: a few heavy ones,
    with all their equals, and those that come `first`. All of them when that is not enough."""
    if len(weights) <= _FEW:
        return np.arange(len(weights))
    able = weights >= np.partition(weights, len(weights) - _FEW)[len(weights) - _FEW]
    if first:
        able[first] = True
    positions = np.flatnonzero(able)
    return positions if sum(weights[positions].tolist()) >= target else np.arange(len(weights))


def fewest(target: int, weights: Sequence[int], first: frozenset[int]) -> list[int]:
    """The positions of the fewest parties, heaviest first, that reach `target`; those in `first` come before others.

    Parties of equal weight come in the order in which they stand.
    """
    order = sorted(range(len(weights)), key=weights.__getitem__, reverse=True)
    if first:
        order = [position for position in order if position in first] + [p for p in order if p not in first]
    reached = 0
    for count, position in enumerate(order, 1):
        reached += weights[position]
        if reached >= target:
            return order[:count]
    return order
