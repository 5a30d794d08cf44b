import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.decide.divide import (
    apportion,
    apportion_sorted,
    apportion_with_limits,
    candidates_for_fewest,
    fewest_reaching,
    heaviest,
)


def apportion_seat_by_seat(seats: int, weights: list[int], *, last_wins_ties: bool) -> list[int]:
    """Webster's method, one seat at a time."""
    given = [0] * len(weights)
    if not any(weights):
        return given
    for _ in range(seats):
        best = min(
            (i for i, w in enumerate(weights) if w),
            key=lambda i: (-(weights[i] / (2 * given[i] + 1)), given[i], -i if last_wins_ties else i),
        )
        given[best] += 1
    return given


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 80), st.lists(st.integers(0, 12), max_size=14), st.booleans())
def test_apportioning_equals_webster_seat_by_seat(seats: int, weights: list[int], leans_back: bool) -> None:
    assert apportion(seats, weights, last_wins_ties=leans_back) == apportion_seat_by_seat(
        seats, weights, last_wins_ties=leans_back
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(400, 1500), st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.booleans())
def test_initial_seats_for_large_numbers_do_not_change_the_result(
    seats: int, weights: list[int], leans_back: bool
) -> None:
    assert apportion(seats, weights, last_wins_ties=leans_back) == apportion_seat_by_seat(
        seats, weights, last_wins_ties=leans_back
    )


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 150),
    st.lists(st.integers(0, 5) | st.integers(0, 1000), min_size=1, max_size=40),
    st.booleans(),
    st.data(),
)
def test_the_heaviest_get_all_seats(seats: int, weights: list[int], leans_back: bool, data: st.DataObject) -> None:
    among = sorted(data.draw(st.sets(st.integers(0, len(weights) - 1), min_size=1)))
    expected = apportion_seat_by_seat(seats, [weights[p] for p in among], last_wins_ties=leans_back)
    able = heaviest(seats, np.array(weights, dtype=np.int64), np.array(among), last_wins_ties=leans_back)
    given_ = zip(able.positions, apportion_sorted(seats, able.weights), strict=False)
    assert {p: n for p, n in given_ if n} == {p: n for p, n in zip(among, expected, strict=True) if n}


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 50), st.lists(st.integers(0, 5), min_size=1, max_size=40), st.data())
def test_the_heaviest_of_some_positions_come_first(count: int, weights: list[int], data: st.DataObject) -> None:
    among = sorted(data.draw(st.sets(st.integers(0, len(weights) - 1))))
    able = heaviest(count, np.array(weights, dtype=np.int64), np.array(among, dtype=np.intp), last_wins_ties=False)
    expected = sorted((p for p in among if weights[p]), key=lambda position: (-weights[position], position))[:count]
    assert able == (expected, [weights[position] for position in expected])


def test_a_million_replicas_are_divided() -> None:
    assert apportion(10**6, [1, 2, 3], last_wins_ties=False) == [166667, 333333, 500000]


def test_ties_go_to_the_first_or_last_position() -> None:
    assert apportion(1, [1, 1, 1], last_wins_ties=False) == [1, 0, 0]
    assert apportion(1, [1, 1, 1], last_wins_ties=True) == [0, 0, 1]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8), st.data())
def test_limits_are_respected_and_all_seats_that_fit_are_given(
    parties: list[tuple[int, int]], data: st.DataObject
) -> None:
    weights, limits = [w for w, _ in parties], [limit for _, limit in parties]
    fits = sum(limit for w, limit in parties if w)
    seats = data.draw(st.integers(0, fits))
    given_ = apportion_with_limits(seats, weights, limits, last_wins_ties=False)
    assert sum(given_) == seats
    assert all(n <= limit for n, limit in zip(given_, limits, strict=True))


def test_aggregating_uses_the_fewest_clusters_and_prefers_those_in_use() -> None:
    assert fewest_reaching(10, [4, 9, 7], frozenset()) == [1, 2]
    assert fewest_reaching(10, [4, 9, 7], frozenset({0})) == [0, 1]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=90), st.sets(st.integers(0, 89), max_size=3), st.data())
def test_the_fewest_are_among_the_preselected_candidates(
    weights: list[int], used: set[int], data: st.DataObject
) -> None:
    target = data.draw(st.integers(0, sum(weights)))
    first = frozenset(p for p in used if p < len(weights))
    positions = candidates_for_fewest(target, np.array(weights, dtype=np.int64), sorted(first)).tolist()
    short = fewest_reaching(
        target, [weights[p] for p in positions], frozenset(i for i, p in enumerate(positions) if p in first)
    )
    assert [positions[i] for i in short] == fewest_reaching(target, weights, first)
