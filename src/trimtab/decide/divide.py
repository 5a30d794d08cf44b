"""Divides replicas: Webster's method with Karmada's tie-breaking, and the fewest clusters that can take them."""

import heapq
import math
from collections.abc import Sequence

import numpy as np

from trimtab.decide.fleet import Array

_PARTITION_SIZE = 24


def positions_that_can_win(seats: int, weights: Array, *, last_wins_ties: bool) -> Array:
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
    return np.sort(np.concatenate((able[~level], last[-seats:] if last_wins_ties else last[:seats])))


def apportion(seats: int, weights: Sequence[int], *, last_wins_ties: bool) -> list[int]:
    """Divide seats by weight: each goes to the party with the largest weight / (2 * seats so far + 1).

    Ties go to the party with fewer seats, then by position: the first one, or the last one if `last_wins_ties`.
    """
    if len(weights) == 1:
        return [seats if weights[0] > 0 else 0]
    seats_of = [0] * len(weights)
    order = [position for position, weight in enumerate(weights) if weight > 0]
    if seats <= 0 or not order:
        return seats_of
    if last_wins_ties:
        order.reverse()
    order.sort(key=weights.__getitem__, reverse=True)  # a stable sort keeps equal weights in tie-breaking order
    for position, share in zip(order, _distribute(seats, [weights[position] for position in order]), strict=True):
        seats_of[position] = share
    return seats_of


def _distribute(seats: int, weights: Sequence[int]) -> list[int]:
    """The seats of parties sorted by falling weight, equal weights in tie-breaking order.

    Parties without a seat follow in this order; parties with a seat are in the heap, keyed by their next quotient.
    """
    seats_of = _initial_seats(seats, weights) if seats >= 2 * len(weights) else [0] * len(weights)
    seats -= sum(seats_of)
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
    """Seats that are certain when there are many: all those with a quotient above a safe bound.

    The seat with the larger quotient is always given first. All seats above any bound are therefore given before all
    seats below it, provided that there are enough seats for them.
    """
    bar = sum(weights) / (2 * seats - len(weights)) * (1 + 1e-9)
    sure = [_quotients_above(bar, weight) for weight in weights]
    return sure if sum(sure) <= seats else [0] * len(weights)


def _quotients_above(bar: float, weight: int) -> int:
    count = max(0, math.ceil((weight / bar - 1) / 2))
    while count > 0 and weight / (2 * count - 1) <= bar:
        count -= 1  # corrects a rounding error upwards
    return count


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


def fewest_reaching(target: int, weights: Sequence[int], first: frozenset[int]) -> list[int]:
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
