import numpy as np

from plugins.clusters import cluster, final_scores, fleet
from trimtab.api.kinds.policy import ScoreCoordinate
from trimtab.decide.framework import prioritizers
from trimtab.decide.request import DecisionCounts, ScoreQuery
from trimtab.plugins import load

load()
FLEET = fleet(cluster("m1"), cluster("m2"), cluster("m3"))


def test_balance_prefers_clusters_that_others_seldom_select() -> None:
    chosen = ScoreQuery(ScoreCoordinate(), decision_counts=DecisionCounts(np.array([3, 1, 0]), {}))
    assert final_scores(prioritizers["Balance"], chosen, FLEET) == [-100, 32, 100]


def test_balance_ignores_the_requesters_own_decisions() -> None:
    chosen = ScoreQuery(ScoreCoordinate(), decided=("m1",), decision_counts=DecisionCounts(np.array([1, 1, 0]), {}))
    assert final_scores(prioritizers["Balance"], chosen, FLEET) == [100, -100, 100]
