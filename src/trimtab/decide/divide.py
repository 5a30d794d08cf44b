"""Divides replicas: Webster's method with Karmada's tie-breaking, and the fewest clusters that can take them."""

import heapq
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from trimtab.decide.fleet import Array

_PARTITION_SIZE = 24
_BELOW_HALF = 0.5 - 1e-6
"""So that no rounding error adds a seat whose quotient is not above the bound."""


class Heaviest(NamedTuple):
    """Positions by falling weight, ties in tie-breaking order, and their weights."""

    positions: list[int]
    weights: list[int]


def heaviest(count: int, weights: Array, among: Array, *, last_wins_ties: bool) -> Heaviest:
    """The largest positive weights among these positions, at most `count`. With n seats, only the n first can win one.

    Weight and position are sorted as one number, so weights must be below 2 ** 48.
    """
    bits = len(weights).bit_length()
    keys = weights << bits
    keys |= _tie_breakers(len(weights), last_wins_ties)
    keys = keys[among]
    if 0 < count < len(keys) >> 2:
        keys = np.partition(keys, len(keys) - count)[len(keys) - count :]
    keys.sort()
    largest = keys[: -count - 1 : -1].tolist()
    low, last = (1 << bits) - 1, len(weights) - 1
    if largest and largest[-1] <= low:
        largest = [key for key in largest if key > low]
    positions = [key & low for key in largest] if last_wins_ties else [last - (key & low) for key in largest]
    return Heaviest(positions, [key >> bits for key in largest])


@lru_cache(maxsize=1024)
def _tie_breakers(size: int, last_wins_ties: bool) -> Array:
    """One number per position, larger where ties are won."""
    return np.arange(size) if last_wins_ties else np.arange(size)[::-1].copy()


def apportion(seats: int, weights: Sequence[int], *, last_wins_ties: bool) -> list[int]:
    """Divide seats by weight: each goes to the party with the largest weight / (2 * seats so far + 1).

    Ties go to the party with fewer seats, then by position: the first one, or the last one if `last_wins_ties`.
    """
    if len(weights) == 1:
        return [seats if weights[0] > 0 else 0]
    seats_of = [0] * len(weights)
    order = [position for position, weight in enumerate(weights) if weight > 0]
    if last_wins_ties:
        order.reverse()
    order.sort(key=weights.__getitem__, reverse=True)  # a stable sort keeps equal weights in tie-breaking order
    shares = apportion_sorted(seats, [weights[position] for position in order])
    for position, share in zip(order, shares, strict=False):
        seats_of[position] = share
    return seats_of


def apportion_sorted(seats: int, weights: Sequence[int]) -> list[int]:
    """The seats of parties sorted by falling weight, equal weights in tie-breaking order.

    With n seats, only the first n parties can get one; the result may end with them. Parties without a seat follow in
    order; parties with a seat are in the heap, keyed by their next quotient.
    """
    if seats <= 0 or not weights:
        return []
    if seats < len(weights):
        weights = weights[:seats]
    if seats == len(weights) and weights[0] <= 3 * weights[-1]:
        return [1] * seats  # no second seat comes before a first one
    seats_of = _initial_seats(seats, weights)
    seats -= sum(seats_of)
    if not seats:
        return seats_of
    queue = [(-weights[i] / (2 * done + 1), done, i) for i, done in enumerate(seats_of) if done]
    heapq.heapify(queue)
    line, following = len(weights), len(queue)  # only parties at the end of the order can be without an initial seat
    for _ in range(seats):
        if following < line and (not queue or weights[following] >= -queue[0][0]):
            seats_of[following] = 1
            heapq.heappush(queue, (-weights[following] / 3, 1, following))
            following += 1
        else:
            done, i = queue[0][1] + 1, queue[0][2]
            seats_of[i] = done
            heapq.heapreplace(queue, (-weights[i] / (2 * done + 1), done, i))
    return seats_of


def _initial_seats(seats: int, weights: Sequence[int]) -> list[int]:
    """Seats that are certain: all those with a quotient above some bound.

    The seat with the larger quotient is always given first. All seats above any bound are therefore given before all
    seats below it, provided that there are enough seats for them. The bound 1 / (2 * per_weight) leaves about half the
    square root of the number of parties to be given one by one.
    """
    total = sum(weights)
    for left in (math.isqrt(len(weights)) // 2, math.isqrt(len(weights))):
        per_weight = (seats - left) / total
        sure = [int(weight * per_weight + _BELOW_HALF) for weight in weights]
        if sum(sure) <= seats:
            return sure
    per_weight = (2 * seats - len(weights)) / total / 2  # rounding up every party cannot exceed the seats
    return [int(weight * per_weight + _BELOW_HALF) for weight in weights]


def apportion_with_limits(
    seats: int, weights: Sequence[int], limits: Sequence[int], *, last_wins_ties: bool
) -> list[int]:
    """Divide seats by weight with a limit per party; what exceeds a limit is divided again among the others."""
    weights, seats_of = list(weights), [0] * len(weights)
    while seats > 0 and any(weights):
        shares = apportion(seats, weights, last_wins_ties=last_wins_ties)
        full = [i for i, share in enumerate(shares) if weights[i] and share >= limits[i]]
        if all(share <= limit for share, limit in zip(shares, limits, strict=True)):
            return [before + share for before, share in zip(seats_of, shares, strict=True)]
        for position in full:
            seats_of[position] = limits[position]
            seats -= limits[position]
            weights[position] = 0
    return seats_of


def candidates_for_fewest(target: int, weights: Array, first: Sequence[int]) -> Array:
    """Positions that contain the fewest that reach `target`, without sorting all of them.

    These are a few large weights with all their equals, and those in `first`; all positions if they do not suffice.
    """
    if len(weights) <= _PARTITION_SIZE:
        return np.arange(len(weights))
    able = weights >= np.partition(weights, len(weights) - _PARTITION_SIZE)[len(weights) - _PARTITION_SIZE]
    if first:
        able[first] = True
    positions = np.flatnonzero(able)
    return positions if sum(weights[positions].tolist()) >= target else np.arange(len(weights))


def count_reaching(target: int, weights: Sequence[int]) -> int | None:
    """How many of these weights, from the first on, reach `target`; None when all of them do not."""
    reached = 0
    for count, weight in enumerate(weights, 1):
        reached += weight
        if reached >= target:
            return count
    return None


def fewest_reaching(target: int, weights: Sequence[int], first: frozenset[int]) -> list[int]:
    """The positions of the fewest parties, largest weight first, that reach `target`; those in `first` come first.

    Parties of equal weight keep their order.
    """
    order = sorted(range(len(weights)), key=weights.__getitem__, reverse=True)
    if first:
        order = [position for position in order if position in first] + [p for p in order if p not in first]
    return order[: count_reaching(target, [weights[position] for position in order])]
