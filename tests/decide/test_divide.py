import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.decide.divide import apportion, as_few_as_can_be


def seat_by_seat(seats: int, weights: list[int], *, leans_back: bool) -> list[int]:
    """Webster's method as it is written down."""
    given = [0] * len(weights)
    if not any(weights):
        return given
    for _ in range(seats):
        best = min(
            (i for i, w in enumerate(weights) if w),
            key=lambda i: (-(weights[i] / (2 * given[i] + 1)), given[i], -i if leans_back else i),
        )
        given[best] += 1
    return given


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 80), st.lists(st.integers(0, 12), max_size=14), st.booleans())
def test_dividing_in_turns_gives_what_dividing_seat_by_seat_gives(
    seats: int, weights: list[int], leans_back: bool
) -> None:
    divided = apportion(seats, np.array(weights, dtype=np.int64), leans_back=leans_back)
    assert divided.tolist() == seat_by_seat(seats, weights, leans_back=leans_back)


@settings(max_examples=60, deadline=None)
@given(st.integers(400, 1500), st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.booleans())
def test_the_head_start_of_large_numbers_changes_nothing(seats: int, weights: list[int], leans_back: bool) -> None:
    divided = apportion(seats, np.array(weights, dtype=np.int64), leans_back=leans_back)
    assert divided.tolist() == seat_by_seat(seats, weights, leans_back=leans_back)


def test_a_million_replicas_are_divided_at_once() -> None:
    divided = apportion(10**6, np.array([1, 2, 3], dtype=np.int64), leans_back=False)
    assert divided.tolist() == [166667, 333333, 500000]


def test_ties_go_to_the_end_of_the_alphabet_for_every_other_workload() -> None:
    equal = np.array([1, 1, 1], dtype=np.int64)
    assert apportion(1, equal, leans_back=False).tolist() == [1, 0, 0]
    assert apportion(1, equal, leans_back=True).tolist() == [0, 0, 1]


def test_aggregating_uses_the_fewest_clusters_and_prefers_those_in_use() -> None:
    weights = np.array([4, 9, 7], dtype=np.int64)
    nobody = np.array([False, False, False])
    assert as_few_as_can_be(weights, 10, nobody).tolist() == [1, 2]
    assert as_few_as_can_be(weights, 10, np.array([True, False, False])).tolist() == [0, 1]
