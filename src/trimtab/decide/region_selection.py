"""Selects regions for spread constraints: the result that Karmada finds by trying all combinations, without doing so.

Groups are sorted by size, then falling weight, then name. A combination is an ascending sequence of them. It is
complete when it has enough groups and clusters, and was not complete without its last group. The heaviest complete
combination wins, then the one with more clusters, then the lexicographically first positions. Of the winner, the
shortest prefix (by weight) that is itself complete is selected.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias


class RegionGroup(NamedTuple):
    name: str
    size: int
    weight: int


GroupFields: TypeAlias = tuple[str, int, int]
"""The fields of a group."""


class RegionRequirement(NamedTuple):
    """The minimum and maximum number of groups, and the minimum number of clusters they have together."""

    min_groups: int
    max_groups: int
    min_clusters: int


class _Combination(NamedTuple):
    """Sorts before another when it is better."""

    negative_weight: int
    negative_size: int
    positions: tuple[int, ...]


def choose_groups(groups: Sequence[GroupFields], wanted: RegionRequirement) -> list[str]:
    """The names of the selected groups, heaviest first; empty when no combination is complete."""
    if wanted.max_groups <= 0:
        return []
    if (
        0 < wanted.min_groups <= min(wanted.max_groups, len(groups))
        and _smallest_total_size(groups, wanted.min_groups) >= wanted.min_clusters
    ):
        # even the smallest groups have enough clusters, so every combination has the minimum length: take the heaviest
        heaviest = sorted([(-weight, -size, name) for name, size, weight in groups])[: wanted.min_groups]
        return [name for _, name in sorted([(weight, name) for weight, _, name in heaviest])]
    return [group.name for group in _search([RegionGroup(*group) for group in groups], wanted)]


def _search(groups: Sequence[RegionGroup], wanted: RegionRequirement) -> list[RegionGroup]:
    ordered = sorted(groups, key=lambda group: (group.size, -group.weight, group.name))
    search = _Search(ordered, wanted)
    choices = [
        choice
        for length in range(wanted.min_groups, min(wanted.max_groups, len(ordered)) + 1)
        if (choice := search.best_combination(length))
    ]
    if not choices:
        return []
    best = _sort_by_weight(ordered[position] for position in min(choices).positions)
    for length in range(wanted.min_groups, len(best)):
        if search.is_complete(best[:length]):
            return best[:length]
    return best


def _smallest_total_size(groups: Sequence[GroupFields], count: int) -> int:
    return sum(sorted([size for _, size, _ in groups])[:count])


def _sort_by_weight(groups: Iterable[RegionGroup]) -> list[RegionGroup]:
    return sorted(groups, key=lambda group: (-group.weight, group.name))


class _Search:
    """The heaviest complete combination per length; dynamic programming over (position, groups, clusters left)."""

    def __init__(self, ordered: Sequence[RegionGroup], wanted: RegionRequirement) -> None:
        self.ordered = ordered
        self.wanted = wanted
        self.table: dict[tuple[int, int, int, bool], tuple[int, int] | None] = {}

    def is_complete(self, groups: Sequence[RegionGroup]) -> bool:
        chosen = sorted(groups, key=lambda group: (group.size, -group.weight, group.name))
        size = sum(group.size for group in chosen)
        if size < self.wanted.min_clusters:
            return False
        return len(chosen) == self.wanted.min_groups or size - chosen[-1].size < self.wanted.min_clusters

    def best_combination(self, length: int) -> _Combination | None:
        if length == 0:
            return _Combination(0, 0, ()) if self.wanted.min_clusters <= 0 else None
        strict = length > self.wanted.min_groups
        need = max(0, self.wanted.min_clusters)
        if strict and need == 0:
            return None
        self._fill_table(strict=strict)
        value = self.table[0, length, need, strict]
        if value is None:
            return None
        return _Combination(-value[0], -value[1], self._first_positions(length, need, strict=strict))

    def _fill_table(self, *, strict: bool) -> None:
        """Fill the whole table once, from the last position to the first, to avoid deep recursion."""
        if (0, 0, 0, strict) in self.table:
            return
        longest = min(self.wanted.max_groups, len(self.ordered)) if strict else self.wanted.min_groups
        for position in range(len(self.ordered), -1, -1):
            for left in range(longest + 1):
                for clusters in range(max(0, self.wanted.min_clusters) + 1):
                    self.table[position, left, clusters, strict] = self._solve(position, left, clusters, strict=strict)

    def _solve(self, position: int, left: int, clusters: int, *, strict: bool) -> tuple[int, int] | None:
        if left == 0:
            return (0, 0) if clusters == 0 else None
        if position == len(self.ordered):
            return None
        skipped = self.table[position + 1, left, clusters, strict]
        taken = self._value_with(position, left, clusters, strict=strict)
        if skipped is None or taken is None:
            return taken or skipped
        return max(skipped, taken)

    def _value_with(self, position: int, left: int, clusters: int, *, strict: bool) -> tuple[int, int] | None:
        group = self.ordered[position]
        remaining = max(0, clusters - group.size)
        if strict and left > 1 and remaining == 0:
            return None  # complete before its last group
        rest = self.table[position + 1, left - 1, remaining, strict]
        return None if rest is None else (rest[0] + group.weight, rest[1] + group.size)

    def _first_positions(self, length: int, need: int, *, strict: bool) -> tuple[int, ...]:
        """Of all equally good combinations the first: take a group as soon as that loses nothing."""
        positions: list[int] = []
        left, clusters = length, need
        for position, group in enumerate(self.ordered):
            if left == 0:
                break
            if (
                self._value_with(position, left, clusters, strict=strict)
                == self.table[position, left, clusters, strict]
            ):
                positions.append(position)
                left, clusters = left - 1, max(0, clusters - group.size)
        return tuple(positions)
