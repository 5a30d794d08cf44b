import msgspec
import numpy as np

from plugins.clusters import cluster, fleet, placement_request
from trimtab.decide.framework import scores, scores_of_target, weighted_total
from trimtab.plugins import load

load()
PICTURE, ALL = fleet(cluster("m1"), cluster("m2")), np.ones(2, dtype=bool)


def test_clusters_in_use_are_preferred_whatever_their_replicas() -> None:
    placed = placement_request(clusters=[{"name": "m2", "replicas": 0}])
    assert weighted_total([(scores["ClusterLocality"], 1)], placed, PICTURE, ALL).tolist() == [0, 100]
    assert scores_of_target([scores["ClusterLocality"]], placed, PICTURE, ALL, 1) == {"ClusterLocality": 100}


def test_a_fresh_decision_prefers_no_cluster() -> None:
    placed = msgspec.structs.replace(placement_request(clusters=[{"name": "m2"}]), prefers_placed=False)
    assert weighted_total([(scores["ClusterLocality"], 1)], placed, PICTURE, ALL).tolist() == [0, 0]
