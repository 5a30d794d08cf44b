"""Prefer the clusters where the workload already is."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Scorer, score_plugin
from trimtab.decide.request import PlacementRequest


@score_plugin("ClusterLocality", targets=lambda request: request.placed_clusters)
def cluster_locality(request: PlacementRequest, fleet: Fleet[Cluster]) -> Scorer[Cluster]:
    return lambda _: 100
