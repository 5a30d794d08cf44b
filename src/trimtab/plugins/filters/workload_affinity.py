"""Keep workloads of one affinity group together."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, filter_plugin
from trimtab.decide.request import PlacementRequest

ELSEWHERE = Reason(
    "AffinityGroupElsewhere", "ResourceBinding with the same affinity group does not target this cluster"
)


@filter_plugin("WorkloadAffinity", reads=lambda request: request.affinity_clusters, skips_placed=True)
def workload_affinity(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
    companions = request.affinity_clusters

    def check(cluster: Cluster) -> Reason | None:
        return None if companions is None or cluster.metadata.name in companions else ELSEWHERE

    return check
