from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import FeasibleSet, ScorePlugin, Scorer, SparseScores
from trimtab.decide.shared_totals import weighted_totals


class Thing(NamedTuple):
    name: str
    size: int


class Query(NamedTuple):
    liked: tuple[int, ...] = ()
    bonus: int = 0


def size_score(query: Query, fleet: Fleet[Thing]) -> Scorer[Thing]:
    return lambda thing: thing.size


def bonus_score(query: Query, fleet: Fleet[Thing]) -> Scorer[Thing]:
    return lambda thing: query.bonus if fleet.index[thing.name] in query.liked else 0


SIZE: ScorePlugin[Query, Thing] = ScorePlugin("Size", size_score, reads=lambda _: None)
BONUS: ScorePlugin[Query, Thing] = ScorePlugin(
    "Bonus",
    bonus_score,
    sparse=lambda query, _: SparseScores("Bonus", None, np.array(query.liked, dtype=np.intp), query.bonus),
)


def best_by_sorting(
    fleet: Fleet[Thing], feasible: Sequence[int], query: Query, weights: Sequence[int], wanted: int
) -> list[int]:
    totals = [
        weights[0] * thing.size + weights[1] * (query.bonus if column in query.liked else 0)
        for column, thing in enumerate(fleet.targets)
    ]
    return sorted(sorted(feasible, key=lambda column: (-totals[column], column))[:wanted])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=30),
    st.lists(st.tuples(st.sets(st.integers(0, 29)), st.integers(-9, 9), st.integers(0, 31)), min_size=1, max_size=4),
    st.sets(st.integers(0, 29)),
    st.tuples(st.integers(-3, 3), st.integers(-3, 3)),
)
def test_the_best_of_requests_that_share_a_ranking_are_those_of_sorting_all(
    sizes: list[int], asked: list[tuple[set[int], int, int]], rejected: set[int], weights: tuple[int, int]
) -> None:
    fleet = Fleet.of([Thing(f"t{number:02}", size) for number, size in enumerate(sizes)])
    mask = np.array([column not in rejected for column in range(len(sizes))])
    feasible = FeasibleSet(mask, np.flatnonzero(mask), "shared")
    for liked, bonus, wanted in asked:
        query = Query(tuple(sorted(column for column in liked if column < len(sizes))), bonus)
        plugins: list[tuple[ScorePlugin[Any, Thing], int, Any]] = [
            (SIZE, weights[0], query),
            (BONUS, weights[1], query),
        ]
        totals = weighted_totals(plugins, fleet, feasible)
        columns = feasible.columns.tolist()
        assert totals.best_columns(wanted) == best_by_sorting(fleet, columns, query, weights, wanted)
        assert totals.by_column()[columns].tolist() == [
            weights[0] * sizes[column] + weights[1] * (bonus if column in query.liked else 0) for column in columns
        ]


def test_scores_by_the_feasible_targets_are_computed_once_while_other_scores_change() -> None:
    computed = []

    def by_feasible(query: Query, fleet: Fleet[Thing], feasible: np.ndarray) -> np.ndarray:
        computed.append(feasible.tolist())
        return np.array([thing.size for thing in fleet.targets]) * feasible

    relative: ScorePlugin[Query, Thing] = ScorePlugin(
        "Relative", size_score, reads=lambda _: None, array=by_feasible, depends_on_feasible=True
    )
    counted: ScorePlugin[Query, Thing] = ScorePlugin(
        "Counted",
        bonus_score,
        sparse=lambda query, fleet: SparseScores(
            ("Counted", query.bonus), lambda: np.full(len(fleet), query.bonus, dtype=np.int64)
        ),
    )
    fleet = Fleet.of([Thing(f"t{size}", size) for size in (3, 4, 5)])
    some, all_ = np.array([True, True, False]), np.array([True, True, True])
    shared, other, own = (
        FeasibleSet(some, np.flatnonzero(some), object()),
        FeasibleSet(all_, np.flatnonzero(all_), object()),
        FeasibleSet(some, np.flatnonzero(some)),
    )

    def totals(bonus: int, feasible: FeasibleSet) -> list[int]:
        query = Query(bonus=bonus)
        found = weighted_totals([(relative, 1, query), (counted, 1, query)], fleet, feasible).by_column()
        return [int(total) for total in found]

    assert [totals(bonus, shared) for bonus in (1, 2)] == [[4, 5, 1], [5, 6, 2]]
    assert len(computed) == 1
    assert totals(1, other) == [4, 5, 6]
    assert len(computed) == 2
    assert [totals(bonus, own) for bonus in (1, 2)] == [[4, 5, 1], [5, 6, 2]]
    assert len(computed) == 4, "a set of one request is not cached"
