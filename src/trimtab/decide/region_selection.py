"""Selects regions for spread constraints: the result that Karmada finds by trying all combinations, without doing so.

Groups are sorted by size, then falling weight, then name. A combination is an ascending sequence of them. It is
complete when it has enough groups and clusters, and was not complete without its last group. The heaviest complete
combination wins, then the one with more clusters, then the lexicographically first positions. Of the winner, the
shortest prefix (by weight) that is itself complete is selected.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias


class RegionGroup(NamedTuple):
    number: int
    """Groups are numbered in name order: numbers compare like names."""
    size: int
    weight: int


GroupFields: TypeAlias = tuple[int, int, int]
"""The fields of a group."""


class RegionRequirement(NamedTuple):
    """The minimum and maximum number of groups, and the minimum number of clusters they have together."""

    min_groups: int
    max_groups: int
    min_clusters: int

    @property
    def least_clusters(self) -> int:
        """The clusters of a region whose scores count at least."""
        return max(1, self.min_groups, self.min_clusters)


class _Combination(NamedTuple):
    """Sorts before another when it is better."""

    negative_weight: int
    negative_size: int
    positions: tuple[int, ...]


def choose_groups(groups: Sequence[GroupFields], wanted: RegionRequirement) -> list[int]:
    """The numbers of the selected groups, heaviest first; empty when no combination is complete."""
    if wanted.max_groups <= 0:
        return []
    if (
        0 < wanted.min_groups <= min(wanted.max_groups, len(groups))
        and _smallest_total_size(groups, wanted.min_groups) >= wanted.min_clusters
    ):
        # even the smallest groups have enough clusters, so every combination has the minimum length: take the heaviest
        heaviest = sorted([(-weight, -size, number) for number, size, weight in groups])[: wanted.min_groups]
        return [number for _, number in sorted([(weight, number) for weight, _, number in heaviest])]
    return [group.number for group in _search(tuple([RegionGroup(*group) for group in groups]), wanted)]


@lru_cache(maxsize=1024)
def _search(groups: tuple[RegionGroup, ...], wanted: RegionRequirement) -> list[RegionGroup]:
    """Workloads of one policy often have equal regions and weights: the last searches are remembered."""
    ordered = sorted(groups, key=lambda group: (group.size, -group.weight, group.number))
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
    return sorted(groups, key=lambda group: (-group.weight, group.number))


class _Search:
    """The heaviest complete combination per length; dynamic programming over (position, groups, clusters left)."""

    def __init__(self, ordered: Sequence[RegionGroup], wanted: RegionRequirement) -> None:
        self.ordered = ordered
        self.wanted = wanted
        self.need = max(0, wanted.min_clusters)
        self.tables: dict[bool, _Table] = {}

    def is_complete(self, groups: Sequence[RegionGroup]) -> bool:
        chosen = sorted(groups, key=lambda group: (group.size, -group.weight, group.number))
        size = sum(group.size for group in chosen)
        if size < self.wanted.min_clusters:
            return False
        return len(chosen) == self.wanted.min_groups or size - chosen[-1].size < self.wanted.min_clusters

    def best_combination(self, length: int) -> _Combination | None:
        if length == 0:
            return _Combination(0, 0, ()) if self.wanted.min_clusters <= 0 else None
        strict = length > self.wanted.min_groups
        if strict and self.need == 0:
            return None
        if strict not in self.tables:
            self.tables[strict] = self._table(strict=strict)
        value = self.tables[strict][0][length][self.need]
        if value is None:
            return None
        return _Combination(-(value >> _SIZE_BITS), -(value & _MAX_SIZE), self._first_positions(length, strict=strict))

    def _table(self, *, strict: bool) -> "_Table":
        """The best value by position of the first group, number of groups and clusters that are still needed.

        All of it is filled, from the last position to the first, which needs no deep recursion.
        """
        longest = min(self.wanted.max_groups, len(self.ordered)) if strict else self.wanted.min_groups
        no_groups: list[int | None] = [0, *[None] * self.need]
        none_left: list[int | None] = [None] * (self.need + 1)
        table: _Table = [[no_groups, *[none_left] * longest]]
        for group in reversed(self.ordered):
            after, size, value = table[-1], group.size, _value(group)
            row = [no_groups]
            for left in range(1, longest + 1):
                rest = after[left - 1]
                best = list(after[left])  # without this group
                # before the last group the combination must not be complete
                for clusters in range(size + 1 if strict and left > 1 else 0, self.need + 1):
                    others = rest[clusters - size if clusters > size else 0]
                    if others is not None:
                        without = best[clusters]
                        best[clusters] = others + value if without is None else max(without, others + value)
                row.append(best)
            table.append(row)
        table.reverse()
        return table

    def _first_positions(self, length: int, *, strict: bool) -> tuple[int, ...]:
        """Of all equally good combinations the first: take a group as soon as that loses nothing."""
        table, positions = self.tables[strict], list[int]()
        left, clusters = length, self.need
        for position, group in enumerate(self.ordered):
            if left == 0:
                break
            remaining = max(0, clusters - group.size)
            if strict and left > 1 and remaining == 0:
                continue  # complete before its last group
            others = table[position + 1][left - 1][remaining]
            if others is not None and others + _value(group) == table[position][left][clusters]:
                positions.append(position)
                left, clusters = left - 1, remaining
        return tuple(positions)


_Table: TypeAlias = list[list[list[int | None]]]
_SIZE_BITS = 32
_MAX_SIZE = (1 << _SIZE_BITS) - 1


def _value(group: RegionGroup) -> int:
    """Weight and size as one number: sums of it compare as the sums of weights, then of sizes."""
    return (group.weight << _SIZE_BITS) + group.size
