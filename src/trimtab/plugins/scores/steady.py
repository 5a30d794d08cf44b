"""Score the clusters in use above all others, when a prioritizer policy includes it."""

import numpy as np

from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.decide.framework import Grade, Mask, prioritizer
from trimtab.decide.request import Question


def sweep(question: Question, fleet: Fleet[Named], feasible: Mask) -> Array:
    scores = np.zeros(len(fleet), dtype=np.int64)
    scores[fleet.columns(question.placed)] = 100
    return scores


@prioritizer("Steady", targets=lambda query: query.placed, evaluate_all=sweep)
def steady(question: Question, fleet: Fleet[Named]) -> Grade[Named]:
    return lambda _: 100
