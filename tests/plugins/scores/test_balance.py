import numpy as np

from plugins.clusters import cluster, fleet
from trimtab.api.kinds.policy import ScoreCoordinate
from trimtab.decide.framework import grades, prioritizers
from trimtab.decide.request import Popularity, Question
from trimtab.plugins import load

load()
M1, M2, M3 = cluster("m1"), cluster("m2"), cluster("m3")


def test_balance_prefers_clusters_that_others_seldom_select() -> None:
    chosen = Question(ScoreCoordinate(), popularity=Popularity(np.array([3, 1, 0]), {}))
    assert grades(prioritizers["Balance"], chosen, fleet(M1, M2, M3)).tolist() == [-100, 32, 100]


def test_balance_ignores_the_requesters_own_decisions() -> None:
    chosen = Question(ScoreCoordinate(), decided=("m1",), popularity=Popularity(np.array([1, 1, 0]), {}))
    assert grades(prioritizers["Balance"], chosen, fleet(M1, M2, M3)).tolist() == [100, -100, 100]
