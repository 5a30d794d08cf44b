from plugins.clusters import cluster, final_scores, fleet
from trimtab.api.kinds.policy import ScoreCoordinate
from trimtab.decide.framework import prioritizers
from trimtab.decide.request import ScoreQuery
from trimtab.plugins import load

load()
M1, M2, M3 = cluster("m1"), cluster("m2"), cluster("m3")


def test_steady_prefers_the_clusters_in_use() -> None:
    placed = ScoreQuery(ScoreCoordinate(), placed=("m2",))
    assert final_scores(prioritizers["Steady"], placed, fleet(M1, M2)) == [0, 100]
