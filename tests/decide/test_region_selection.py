from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.decide.region_selection import RegionGroup, RegionRequirement, choose_groups


def select_by_trying_all(groups: list[RegionGroup], wanted: RegionRequirement) -> list[RegionGroup]:
    """Karmada's rule: depth first, every combination."""
    ordered = sorted(groups, key=lambda g: (g.size, -g.weight, g.number))
    paths: list[list[RegionGroup]] = []

    def walk(path: list[RegionGroup], following: int) -> None:
        if sum(g.size for g in path) >= wanted.min_clusters and wanted.min_groups <= len(path) <= wanted.max_groups:
            paths.append(path)
        elif len(path) < wanted.max_groups:
            for position in range(following, len(ordered)):
                walk([*path, ordered[position]], position + 1)
                if len(ordered) == wanted.min_groups:
                    break

    walk([], 0)
    if not paths:
        return []
    ranked = [sorted(path, key=lambda g: (-g.weight, g.number)) for path in paths]
    ranked.sort(key=lambda path: (-sum(g.weight for g in path), -sum(g.size for g in path)))
    best = ranked[0]
    for path in ranked[1:]:
        if len(path) < len(best) and path == best[: len(path)]:
            best = path
    return best


groups = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4)), min_size=1, max_size=7).map(
    lambda pairs: [RegionGroup(i, size, weight) for i, (size, weight) in enumerate(pairs)]
)


@settings(max_examples=400, deadline=None)
@given(groups, st.integers(1, 4), st.integers(0, 6), st.integers(1, 16))
def test_the_selection_equals_that_of_trying_all_combinations(
    offered: list[RegionGroup], least: int, most: int, clusters: int
) -> None:
    wanted = RegionRequirement(least, most, clusters)
    assert choose_groups(offered, wanted) == [group.number for group in select_by_trying_all(offered, wanted)]


def test_many_regions_are_selected_without_trying_all_combinations() -> None:
    many = [RegionGroup(i, 1 + i % 5, i * 37 % 101) for i in range(120)]
    assert 6 <= len(choose_groups(many, RegionRequirement(6, 12, 40))) <= 12
    assert 10 <= len(choose_groups(many, RegionRequirement(10, 120, 60))) <= 60
