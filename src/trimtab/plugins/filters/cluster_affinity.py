"""Keep workloads inside the clusters that their placement names: its affinity, or the affinity group being tried."""

from collections.abc import Hashable

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, filter_plugin, hashable_key
from trimtab.decide.request import PlacementRequest

AFFINITY_MISMATCH = Reason("AffinityMismatch", "cluster(s) did not match the placement cluster affinity constraint")


def affinity_key(request: PlacementRequest) -> Hashable:
    affinity = request.placement.spec.cluster_affinity
    if affinity is not None or request.affinity_term is None:
        return hashable_key(affinity)
    return hashable_key(request.affinity_term), request.is_workload


@filter_plugin("ClusterAffinity", reads=affinity_key)
def cluster_affinity(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
    affinity, term = request.placement.spec.cluster_affinity, request.affinity_term
    if affinity is not None or term is None:
        tests = [affinity_matcher(affinity)]
    else:
        # only workloads overflow: an object without replicas needs no capacity
        tests = [
            affinity_matcher(term),
            *(affinity_matcher(more) for more in term.overflow_affinities if request.is_workload),
        ]

    def check(cluster: Cluster) -> Reason | None:
        return None if any(test(cluster) for test in tests) else AFFINITY_MISMATCH

    return check
