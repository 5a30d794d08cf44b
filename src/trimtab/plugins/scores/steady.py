"""Score the clusters in use above all others, when a prioritizer policy includes it."""

import numpy as np

from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.decide.framework import Mask, Scorer, prioritizer
from trimtab.decide.request import ScoreQuery


def steady_scores(query: ScoreQuery, fleet: Fleet[Named], feasible: Mask) -> Array:
    scores = np.zeros(len(fleet), dtype=np.int64)
    scores[fleet.columns_of(query.placed)] = 100
    return scores


@prioritizer("Steady", targets=lambda query: query.placed, array=steady_scores)
def steady(query: ScoreQuery, fleet: Fleet[Named]) -> Scorer[Named]:
    return lambda _: 100
