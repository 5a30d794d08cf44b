"""Score clusters higher the less often other requests have selected them."""

from functools import lru_cache

import numpy as np

from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.decide.framework import Grade, Mask, prioritizer
from trimtab.decide.request import Question

NEVER_CHOSEN = 100


@lru_cache(maxsize=256)
def ladder(most: int) -> Array:
    """The score by number of selections, given the highest number."""
    chosen = (2 * int(100 * (0.5 - times / most)) for times in range(1, most + 1))
    return np.array([NEVER_CHOSEN, *chosen], dtype=np.int64)


def sweep(question: Question, fleet: Fleet[Named], feasible: Mask) -> Array:
    if question.popularity is None:
        return np.full(len(fleet), NEVER_CHOSEN, dtype=np.int64)
    times, elsewhere = question.popularity
    if question.decided:
        times = times - np.bincount(fleet.columns(question.decided), minlength=len(fleet))
        if elsewhere:
            elsewhere = {name: count - question.decided.count(name) for name, count in elsewhere.items()}
    most = max(int(times.max(initial=0)), max(elsewhere.values(), default=0))
    return ladder(most).take(times)


@prioritizer("Balance", evaluate_all=sweep)
def balance(question: Question, fleet: Fleet[Named]) -> Grade[Named]:
    scores = sweep(question, fleet, np.ones(len(fleet), dtype=bool))
    return lambda target: int(scores[fleet.index[target.name]])
