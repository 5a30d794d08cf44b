import msgspec

from plugins.clusters import ask, cluster, fleet
from trimtab.decide.framework import marks, scores, tally
from trimtab.plugins import load

load()
PICTURE = fleet(cluster("m1"), cluster("m2"))


def test_clusters_in_use_are_preferred_whatever_their_replicas() -> None:
    placed = ask(clusters=[{"name": "m2", "replicas": 0}])
    assert tally([(scores["ClusterLocality"], 1)], placed, PICTURE).tolist() == [0, 100]
    assert marks([scores["ClusterLocality"]], placed, PICTURE, 1) == {"ClusterLocality": 100}


def test_a_fresh_decision_prefers_no_cluster() -> None:
    placed = msgspec.structs.replace(ask(clusters=[{"name": "m2"}]), prefers_incumbents=False)
    assert tally([(scores["ClusterLocality"], 1)], placed, PICTURE).tolist() == [0, 0]
