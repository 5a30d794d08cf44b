"""Keep a workload off a cluster that it was recently evicted from, until the block of its policy ends."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, filter_plugin
from trimtab.decide.request import PlacementRequest


@filter_plugin("ActiveEvictionHistory", targets=lambda request: [blocked.cluster for blocked in request.blocked])
def active_eviction_history(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
    def check(cluster: Cluster) -> Reason | None:
        for blocked in request.blocked:
            if blocked.cluster != cluster.metadata.name:
                continue
            if blocked.until is None:
                return Reason("Blocked", "the workload was evicted from the cluster(s) and may not return")
            if fleet.now < blocked.until:
                end = blocked.until.strftime("%Y-%m-%dT%H:%M:%SZ")
                return Reason("Blocked", f"the workload was evicted from the cluster(s), blocked until {end}")
        return None

    return check
