"""Selects regions for spread constraints: the result that Karmada finds by trying all combinations, without doing so.

Groups are sorted by size, then falling weight, then name. A combination is an ascending sequence of them. It is
complete when it has enough groups and clusters, and was not complete without its last group. The heaviest complete
combination wins, then the one with more clusters, then the lexicographically first positions. Of the winner, the
shortest prefix (by weight) that is itself complete is selected.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias


class Group(NamedTuple):
    name: str
    size: int
    weight: int


Offer: TypeAlias = tuple[str, int, int]
"""The fields of a group."""


class Wanted(NamedTuple):
    """The minimum and maximum number of groups, and the minimum number of clusters they have together."""

    least: int
    most: int
    clusters: int


class _Choice(NamedTuple):
    """Sorts before another when it is better."""

    lighter: int
    smaller: int
    positions: tuple[int, ...]


def choose_groups(groups: Sequence[Offer], wanted: Wanted) -> list[str]:
    """The names of the selected groups, heaviest first; empty when no combination is complete."""
    if wanted.most <= 0:
        return []
    if 0 < wanted.least <= min(wanted.most, len(groups)) and _smallest(groups, wanted.least) >= wanted.clusters:
        # even the smallest groups have enough clusters, so every combination has the minimum length: take the heaviest
        heaviest = sorted([(-weight, -size, name) for name, size, weight in groups])[: wanted.least]
        return [name for _, name in sorted([(weight, name) for weight, _, name in heaviest])]
    return [group.name for group in _search([Group(*group) for group in groups], wanted)]


def _search(groups: Sequence[Group], wanted: Wanted) -> list[Group]:
    ordered = sorted(groups, key=lambda group: (group.size, -group.weight, group.name))
    search = _Search(ordered, wanted)
    choices = [
        choice for length in range(wanted.least, min(wanted.most, len(ordered)) + 1) if (choice := search.best(length))
    ]
    if not choices:
        return []
    best = _by_weight(ordered[position] for position in min(choices).positions)
    for length in range(wanted.least, len(best)):
        if search.is_complete(best[:length]):
            return best[:length]
    return best


def _smallest(groups: Sequence[Offer], count: int) -> int:
    return sum(sorted([size for _, size, _ in groups])[:count])


def _by_weight(groups: Iterable[Group]) -> list[Group]:
    return sorted(groups, key=lambda group: (-group.weight, group.name))


class _Search:
    """The heaviest complete combination per length; dynamic programming over (position, groups, clusters left)."""

    def __init__(self, ordered: Sequence[Group], wanted: Wanted) -> None:
        self.ordered = ordered
        self.wanted = wanted
        self.known: dict[tuple[int, int, int, bool], tuple[int, int] | None] = {}

    def is_complete(self, groups: Sequence[Group]) -> bool:
        chosen = sorted(groups, key=lambda group: (group.size, -group.weight, group.name))
        size = sum(group.size for group in chosen)
        if size < self.wanted.clusters:
            return False
        return len(chosen) == self.wanted.least or size - chosen[-1].size < self.wanted.clusters

    def best(self, length: int) -> _Choice | None:
        if length == 0:
            return _Choice(0, 0, ()) if self.wanted.clusters <= 0 else None
        strict = length > self.wanted.least
        need = max(0, self.wanted.clusters)
        if strict and need == 0:
            return None
        self._fill(strict=strict)
        value = self.known[0, length, need, strict]
        if value is None:
            return None
        return _Choice(-value[0], -value[1], self._first_positions(length, need, strict=strict))

    def _fill(self, *, strict: bool) -> None:
        """Fill the whole table once, from the last position to the first, to avoid deep recursion."""
        if (0, 0, 0, strict) in self.known:
            return
        longest = min(self.wanted.most, len(self.ordered)) if strict else self.wanted.least
        for position in range(len(self.ordered), -1, -1):
            for left in range(longest + 1):
                for clusters in range(max(0, self.wanted.clusters) + 1):
                    self.known[position, left, clusters, strict] = self._solve(position, left, clusters, strict=strict)

    def _solve(self, position: int, left: int, clusters: int, *, strict: bool) -> tuple[int, int] | None:
        if left == 0:
            return (0, 0) if clusters == 0 else None
        if position == len(self.ordered):
            return None
        skipped = self.known[position + 1, left, clusters, strict]
        taken = self._taking(position, left, clusters, strict=strict)
        if skipped is None or taken is None:
            return taken or skipped
        return max(skipped, taken)

    def _taking(self, position: int, left: int, clusters: int, *, strict: bool) -> tuple[int, int] | None:
        group = self.ordered[position]
        remaining = max(0, clusters - group.size)
        if strict and left > 1 and remaining == 0:
            return None  # complete before its last group
        rest = self.known[position + 1, left - 1, remaining, strict]
        return None if rest is None else (rest[0] + group.weight, rest[1] + group.size)

    def _first_positions(self, length: int, need: int, *, strict: bool) -> tuple[int, ...]:
        """Of all equally good combinations the first: take a group as soon as that loses nothing."""
        positions: list[int] = []
        left, clusters = length, need
        for position, group in enumerate(self.ordered):
            if left == 0:
                break
            if self._taking(position, left, clusters, strict=strict) == self.known[position, left, clusters, strict]:
                positions.append(position)
                left, clusters = left - 1, max(0, clusters - group.size)
        return tuple(positions)
