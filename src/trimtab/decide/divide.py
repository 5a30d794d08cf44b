"""Divides replicas: Webster's method with Karmada's tie-breaking, and the fewest clusters that can take them."""

import heapq
import math
from collections.abc import Sequence

import numpy as np

from trimtab.decide.fleet import Array

_FEW = 24


def contenders(seats: int, weights: Array, *, leans_back: bool) -> Array:
    """The positions that can get one of the `seats` at all, in ascending order; the others can be ignored.

    With n seats, only the n largest weights can win a seat. Of the positions that share the smallest of these weights,
    at most n can win, in tie-breaking order.
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
    """Divide seats by weight: each goes to the party with the largest weight / (2 * seats so far + 1).

    Ties go to the party with fewer seats, then by position: the first one, or the last one if `last_wins_ties`.
    """
    if len(weights) == 1:
        return [seats if weights[0] > 0 else 0]
    seats_of = [0] * len(weights)
    order = [position for position, weight in enumerate(weights) if weight > 0]
    if seats <= 0 or not order:
        return seats_of
    if leans_back:
        order.reverse()
    order.sort(key=weights.__getitem__, reverse=True)  # a stable sort keeps equal weights in tie-breaking order
    for position, share in zip(order, _served(seats, [weights[position] for position in order]), strict=True):
        seats_of[position] = share
    return seats_of


def _served(seats: int, heavy: Sequence[int]) -> list[int]:
    """The seats of parties sorted by falling weight, equal weights in tie-breaking order.

    Parties without a seat follow in this order; parties with a seat are in the heap, keyed by their next quotient.
    """
    seats_of = _head_start(seats, heavy) if seats >= 2 * len(heavy) else [0] * len(heavy)
    seats -= sum(seats_of)
    queue = [(-heavy[i] / (2 * done + 1), done, i) for i, done in enumerate(seats_of) if done]
    heapq.heapify(queue)
    line, following = len(heavy), len(queue)  # only parties at the end of the order can be without an initial seat
    for _ in range(seats):
        if following < line and (not queue or heavy[following] >= -queue[0][0]):
            seats_of[following] = 1
            heapq.heappush(queue, (-heavy[following] / 3, 1, following))
            following += 1
        else:
            done, i = queue[0][1] + 1, queue[0][2]
            seats_of[i] = done
            heapq.heapreplace(queue, (-heavy[i] / (2 * done + 1), done, i))
    return seats_of


def _head_start(seats: int, heavy: Sequence[int]) -> list[int]:
    """Seats that are certain when there are many: all those with a quotient above a safe bound.

    The seat with the larger quotient is always given first. All seats above any bound are therefore given before all
    seats below it, provided that there are enough seats for them.
    """
    bar = sum(heavy) / (2 * seats - len(heavy)) * (1 + 1e-9)
    sure = [_quotients_above(bar, weight) for weight in heavy]
    return sure if sum(sure) <= seats else [0] * len(heavy)


def _quotients_above(bar: float, weight: int) -> int:
    count = max(0, math.ceil((weight / bar - 1) / 2))
    while count > 0 and weight / (2 * count - 1) <= bar:
        count -= 1  # corrects a rounding error upwards
    return count


def apportion_within(seats: int, weights: Sequence[int], limits: Sequence[int], *, leans_back: bool) -> list[int]:
    """Divide seats by weight with a limit per party; what exceeds a limit is divided again among the others."""
    weights, seats_of = list(weights), [0] * len(weights)
    while seats > 0 and any(weights):
        shares = apportion(seats, weights, leans_back=leans_back)
        full = [i for i, share in enumerate(shares) if weights[i] and share >= limits[i]]
        if all(share <= limit for share, limit in zip(shares, limits, strict=True)):
            return [before + share for before, share in zip(seats_of, shares, strict=True)]
        for position in full:
            seats_of[position] = limits[position]
            seats -= limits[position]
            weights[position] = 0
    return seats_of


def roomiest(target: int, weights: Array, first: Sequence[int]) -> Array:
    """Positions that contain the fewest that reach `target`, without sorting all of them.

    These are a few large weights with all their equals, and those in `first`; all positions if they do not suffice.
    """
    if len(weights) <= _FEW:
        return np.arange(len(weights))
    able = weights >= np.partition(weights, len(weights) - _FEW)[len(weights) - _FEW]
    if first:
        able[first] = True
    positions = np.flatnonzero(able)
    return positions if sum(weights[positions].tolist()) >= target else np.arange(len(weights))


def fewest(target: int, weights: Sequence[int], first: frozenset[int]) -> list[int]:
    """The positions of the fewest parties, largest weight first, that reach `target`; those in `first` come first.

    Parties of equal weight keep their order.
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
