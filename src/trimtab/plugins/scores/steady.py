"""Score the clusters in use above all others, when a prioritizer policy includes it."""

from trimtab.decide.fleet import Fleet, Named
from trimtab.decide.framework import Scorer, SparseScores, prioritizer
from trimtab.decide.request import ScoreQuery

IN_USE = 100


def steady_scores(query: ScoreQuery, fleet: Fleet[Named]) -> SparseScores:
    return SparseScores("Steady", None, fleet.sparse_columns_of(query.placed), IN_USE)


@prioritizer("Steady", targets=lambda query: query.placed, sparse=steady_scores)
def steady(query: ScoreQuery, fleet: Fleet[Named]) -> Scorer[Named]:
    return lambda _: IN_USE
