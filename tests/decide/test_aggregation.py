import numpy as np

from trimtab.decide.aggregation import aggregate
from trimtab.decide.fleet import Array
from trimtab.decide.spread import ClusterRanking

CAPACITY = np.array([4, 10, 6, 6])
ALL = np.arange(4)


def aggregated(
    target: int, keep: dict[int, int] | None = None, capacity: Array = CAPACITY, *, selected: list[int] | None = None
) -> dict[int, int] | None:
    shares = aggregate(
        target, selected or ALL, capacity, keep or {}, lambda: ClusterRanking(capacity), last_wins_ties=False
    )
    return None if shares is None else shares.by_column()


def test_one_cluster_with_room_for_all_gets_all() -> None:
    assert aggregated(10) == {1: 10}
    assert aggregated(9, selected=[3, 1]) == {1: 9}


def test_the_largest_clusters_share_what_one_cannot_take() -> None:
    assert aggregated(13) == {1: 8, 2: 5}
    assert aggregated(26) == {0: 4, 1: 10, 2: 6, 3: 6}


def test_clusters_in_use_come_first_even_if_others_are_larger() -> None:
    assert aggregated(5, {2: 1}) == {2: 5}
    assert aggregated(8, {0: 1}) == {0: 2, 1: 6}


def test_too_little_capacity_gives_nothing() -> None:
    assert aggregated(27) is None
    assert aggregated(27, {1: 3}) is None


def test_clusters_are_ranked_only_where_those_in_use_do_not_suffice() -> None:
    def rank() -> ClusterRanking:
        raise AssertionError("not needed")

    shares = aggregate(6, ALL, CAPACITY, {2: 1}, rank, last_wins_ties=False)
    assert shares is not None
    assert shares.by_column() == {2: 6}
