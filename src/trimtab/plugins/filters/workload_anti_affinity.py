"""Keep workloads of one anti-affinity group apart."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, filter_plugin
from trimtab.decide.request import PlacementRequest

GROUP_PRESENT = Reason("AntiAffinityGroupPresent", "cluster already has workload with the same anti-affinity group")


@filter_plugin("WorkloadAntiAffinity", targets=lambda request: request.anti_affinity_clusters, skips_placed=True)
def workload_anti_affinity(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
    return lambda _: GROUP_PRESENT
