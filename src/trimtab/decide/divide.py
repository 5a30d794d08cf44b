"""Sharing out replicas: Webster's method with the peers' ties, and what it is applied to, strategy by strategy."""

import heapq
from typing import NamedTuple

import numpy as np

from trimtab.decide.fleet import Array

_SEATS_AT_ONCE = 64
"""Above so many seats per party, most are given by arithmetic before the rest is given one by one."""


class Short(NamedTuple):
    """There is less room than is needed."""

    message: str


def apportion(seats: int, weights: Array, *, leans_back: bool) -> Array:
    """Seats by weight: each goes to the party with the largest weight / (2 * seats so far + 1).

    Ties go to the party with fewer seats, then by position: first ones first, or last ones first if `leans_back`.
    Parties of equal weight take turns in that order, so they are served as one.
    """
    given = np.zeros(len(weights), dtype=np.int64)
    parties = _contenders(seats, weights)
    if seats <= 0 or len(parties) == 0:
        return given
    heavy = weights[parties]
    order = np.argsort(heavy, kind="stable")[::-1] if leans_back else np.argsort(-heavy, kind="stable")
    parties = parties[order]
    given[parties] = _turns(seats, heavy[order])
    return given


def apportion_within(seats: int, weights: Array, limits: Array, *, leans_back: bool) -> Array:
    """Seats by weight, but nobody beyond his limit: what does not fit is shared out among the others anew."""
    weights, given = weights.copy(), np.zeros(len(weights), dtype=np.int64)
    while seats > 0 and weights.any():
        shares = apportion(seats, weights, leans_back=leans_back)
        full = (shares >= limits) & (weights > 0)
        if not (shares > limits).any():
            return given + shares
        given[full] = limits[full]
        seats -= int(limits[full].sum())
        weights[full] = 0
    return given


def _contenders(seats: int, weights: Array) -> Array:
    """Who can get a seat at all: with n seats, only those whose weight is among the n largest."""
    if 0 < seats < len(weights):
        bar = max(1, int(np.partition(weights, len(weights) - seats)[len(weights) - seats]))
        return np.flatnonzero(weights >= bar)
    return np.flatnonzero(weights > 0)


def _turns(seats: int, weights: Array) -> Array:
    """The seats of parties that stand in order: falling weight, equals in the order in which they are served."""
    starts = [0, *(np.flatnonzero(weights[1:] != weights[:-1]) + 1).tolist()]
    ends = [*starts[1:], len(weights)]
    shares = _head_start(seats, weights)
    seats -= int(shares.sum())
    tiers = weights[starts].tolist()
    rounds = shares[starts].tolist()
    queue = [(-(w / (2 * s + 1)), s, tier) for tier, (w, s) in enumerate(zip(tiers, rounds, strict=True))]
    heapq.heapify(queue)
    extra: tuple[int, int] | None = None
    while seats > 0:
        _, served, tier = queue[0]
        size = ends[tier] - starts[tier]
        if size > seats:
            extra = (starts[tier], seats)
            break
        seats -= size
        rounds[tier] = served + 1
        heapq.heapreplace(queue, (-(tiers[tier] / (2 * served + 3)), served + 1, tier))
    result = np.repeat(np.array(rounds, dtype=np.int64), [end - start for start, end in zip(starts, ends, strict=True)])
    if extra is not None:
        result[extra[0] : extra[0] + extra[1]] += 1
    return result


def _head_start(seats: int, weights: Array) -> Array:
    """Seats that everybody gets for certain, when there are many: all those with a quotient above a safe bar.

    Of two seats the one with the larger quotient is given first; so all above any bar are given before all below it,
    provided that they are not more than there are.
    """
    none = np.zeros(len(weights), dtype=np.int64)
    if seats < _SEATS_AT_ONCE * len(weights):
        return none
    bar = float(weights.sum()) / (2 * seats - len(weights)) * (1 + 1e-9)
    sure = np.maximum(np.ceil((weights / bar - 1) / 2), 0).astype(np.int64)
    sure -= (sure > 0) & (weights / (2 * sure - 1) <= bar)  # what rounding gave too much
    return sure if int(sure.sum()) <= seats else none


def enough(weights: Array, target: int, what: str) -> Short | None:
    room = int(weights.sum())
    if room >= target:
        return None
    return Short(f"{what}: Clusters available replicas {room} are not enough to schedule.")


def as_few_as_can_be(weights: Array, target: int, first: Array) -> Array:
    """The positions of the fewest parties, heaviest first, that reach `target`; those in `first` come before others.

    Parties of equal weight come in the order in which they stand.
    """
    order = np.argsort(-weights, kind="stable")
    if first.any():
        ahead = first[order]
        order = np.concatenate((order[ahead], order[~ahead]))
    reached = np.searchsorted(np.cumsum(weights[order]), target)
    return order[: int(reached) + 1]
