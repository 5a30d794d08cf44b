"""Score clusters higher the less often other requests have selected them."""

from functools import lru_cache

import numpy as np

from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.decide.framework import Scorer, SparseScores, prioritizer
from trimtab.decide.request import ScoreQuery

NEVER_CHOSEN = 100


@lru_cache(maxsize=256)
def scores_by_count(most: int, highest: int) -> tuple[Array, Array]:
    """The score by number of selections, given the highest number, and how much higher it is with one selection less.

    All numbers above `most` have its score.
    """
    times = np.minimum(np.arange(highest + 1), most)
    scores = 2 * (100 * (0.5 - times / max(most, 1))).astype(np.int64)  # rounds towards zero
    scores[0 if most else slice(None)] = NEVER_CHOSEN
    gains = np.empty_like(scores)
    gains[0], gains[1:] = scores[-1] - scores[0], scores[:-1] - scores[1:]
    return scores, gains


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
    scores, gains = scores_by_count(most, max(most, counts.highest))
    selected = counts.counts[columns]
    return SparseScores(
        ("Balance", counts, most),
        lambda: scores.take(counts.counts),
        columns,
        gains[selected] if isinstance(times, int) else scores[selected - times] - scores[selected],
    )


@prioritizer("Balance", sparse=balance_scores)
def balance(query: ScoreQuery, fleet: Fleet[Named]) -> Scorer[Named]:
    scores = balance_scores(query, fleet).by_column(len(fleet))
    return lambda target: int(scores[fleet.index[target.name]])
