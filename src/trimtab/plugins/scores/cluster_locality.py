"""Prefer the clusters where the workload already is."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Grade, score_plugin
from trimtab.decide.request import Ask


@score_plugin("ClusterLocality", targets=lambda request: request.incumbents)
def cluster_locality(ask: Ask, fleet: Fleet[Cluster]) -> Grade[Cluster]:
    return lambda _: 100
