from plugins.clusters import cluster, fleet
from trimtab.api.kinds.policy import ScoreCoordinate
from trimtab.decide.framework import grades, prioritizers
from trimtab.decide.request import Question
from trimtab.plugins import load

load()
M1, M2, M3 = cluster("m1"), cluster("m2"), cluster("m3")


def test_steady_prefers_the_clusters_in_use() -> None:
    placed = Question(ScoreCoordinate(), placed=("m2",))
    assert grades(prioritizers["Steady"], placed, fleet(M1, M2)).tolist() == [0, 100]
