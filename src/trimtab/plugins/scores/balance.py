"""Score clusters higher the less often other requests have selected them."""

from functools import lru_cache

import numpy as np

from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.decide.framework import Mask, Scorer, prioritizer
from trimtab.decide.request import ScoreQuery

NEVER_CHOSEN = 100


@lru_cache(maxsize=256)
def scores_by_count(most: int) -> Array:
    """The score by number of selections, given the highest number."""
    chosen = (2 * int(100 * (0.5 - times / most)) for times in range(1, most + 1))
    return np.array([NEVER_CHOSEN, *chosen], dtype=np.int64)


def balance_scores(query: ScoreQuery, fleet: Fleet[Named], feasible: Mask) -> Array:
    if query.decision_counts is None:
        return np.full(len(fleet), NEVER_CHOSEN, dtype=np.int64)
    times, elsewhere = query.decision_counts
    if query.decided:
        times = times - np.bincount(fleet.columns_of(query.decided), minlength=len(fleet))
        if elsewhere:
            elsewhere = {name: count - query.decided.count(name) for name, count in elsewhere.items()}
    most = max(int(times.max(initial=0)), max(elsewhere.values(), default=0))
    return scores_by_count(most).take(times)


@prioritizer("Balance", array=balance_scores)
def balance(query: ScoreQuery, fleet: Fleet[Named]) -> Scorer[Named]:
    scores = balance_scores(query, fleet, np.ones(len(fleet), dtype=bool))
    return lambda target: int(scores[fleet.index[target.name]])
