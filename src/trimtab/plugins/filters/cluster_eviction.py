"""Keep workloads off clusters that they are being evicted from."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, filter_plugin
from trimtab.decide.request import PlacementRequest

LEAVING = Reason("Evicting", "cluster(s) is in the process of eviction")


@filter_plugin("ClusterEviction", targets=lambda request: request.evicting)
def cluster_eviction(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
    return lambda _: LEAVING
