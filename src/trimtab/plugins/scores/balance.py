"""Score clusters higher the less often other requests have selected them."""

from functools import lru_cache

import numpy as np

from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.decide.framework import Scorer, SparseScores, prioritizer
from trimtab.decide.request import ScoreQuery

NEVER_CHOSEN = 100


@lru_cache(maxsize=256)
def scores_by_count(most: int, highest: int) -> Array:
    """The score by number of selections, given the highest number; the same for all numbers above it."""
    chosen = [2 * int(100 * (0.5 - times / most)) for times in range(1, most + 1)]
    scores = [NEVER_CHOSEN, *chosen]
    return np.array(scores + scores[-1:] * (highest - most), dtype=np.int64)


def balance_scores(query: ScoreQuery, fleet: Fleet[Named]) -> SparseScores:
    """All counts and the highest one give the shared scores; own decisions do not count in their columns."""
    counts = query.decision_counts
    if counts is None:
        return SparseScores("Balance", lambda: np.full(len(fleet), NEVER_CHOSEN, dtype=np.int64))
    columns = fleet.columns_of(query.decided)
    times: Array | int = 1
    if len(set(query.decided)) < len(query.decided):
        columns, times = np.unique(columns, return_counts=True)
    most = counts.highest_without(columns, times, query.decided)
    # only the requester's own columns can have counts above `most`
    scores = scores_by_count(most, max(most, counts.highest))
    selected = counts.counts[columns]
    return SparseScores(
        ("Balance", counts, most),
        lambda: scores.take(counts.counts),
        columns,
        scores[selected - times] - scores[selected],
    )


@prioritizer("Balance", sparse=balance_scores)
def balance(query: ScoreQuery, fleet: Fleet[Named]) -> Scorer[Named]:
    scores = balance_scores(query, fleet).by_column(len(fleet))
    return lambda target: int(scores[fleet.index[target.name]])
