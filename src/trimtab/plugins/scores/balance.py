"""Score clusters higher the less often other requests have selected them."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.decide.framework import Scorer, SparseScores, prioritizer
from trimtab.decide.request import ScoreQuery

NEVER_CHOSEN = 100


class CountScores(NamedTuple):
    """Scores by number of selections."""

    scores: Array
    gains: list[int]
    """How much higher the score is with one selection less."""


@lru_cache(maxsize=256)
def scores_by_count(most: int, highest: int) -> CountScores:
    """The scores, given the highest number of selections; all numbers above `most` have its score."""
    times = np.minimum(np.arange(highest + 1), most)
    scores = 2 * (100 * (0.5 - times / max(most, 1))).astype(np.int64)  # rounds towards zero
    scores[0 if most else slice(None)] = NEVER_CHOSEN
    gains = np.empty_like(scores)
    gains[0], gains[1:] = scores[-1] - scores[0], scores[:-1] - scores[1:]
    return CountScores(scores, gains.tolist())


def balance_scores(query: ScoreQuery, fleet: Fleet[Named]) -> SparseScores:
    """All counts and the highest one give the shared scores; own decisions do not count in their columns."""
    counts = query.decision_counts
    if counts is None:
        return SparseScores("Balance", lambda: np.full(len(fleet), NEVER_CHOSEN, dtype=np.int64))
    columns = fleet.sparse_columns_of(query.decided)
    if isinstance(columns, list) and len(set(columns)) == len(columns):
        few = list(map(counts.counts.item, columns))
        most = counts.highest_without(columns, few, 1, query.decided)
        # only the requester's own columns can have counts above `most`
        by_count = scores_by_count(most, max(most, counts.highest))
        added: list[int] | Array = list(map(by_count.gains.__getitem__, few))
    else:
        columns, times = np.unique(columns, return_counts=True)
        selected = counts.counts[columns]
        most = counts.highest_without(columns, selected, times, query.decided)
        by_count = scores_by_count(most, max(most, counts.highest))
        added = by_count.scores[selected - times] - by_count.scores[selected]
    return SparseScores(("Balance", counts, most), lambda: by_count.scores.take(counts.counts), columns, added)


@prioritizer("Balance", sparse=balance_scores)
def balance(query: ScoreQuery, fleet: Fleet[Named]) -> Scorer[Named]:
    scores = balance_scores(query, fleet).by_column(len(fleet))
    return lambda target: int(scores[fleet.index[target.name]])
