"""Keep workloads inside the clusters that their placement names: its affinity, or the affinity group being tried."""

from collections.abc import Hashable

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, filter_plugin, sealed
from trimtab.decide.request import Ask

OUTSIDE = Reason("AffinityMismatch", "cluster(s) did not match the placement cluster affinity constraint")


def part(ask: Ask) -> Hashable:
    affinity = ask.plan.placement.cluster_affinity
    if affinity is not None or ask.term is None:
        return sealed(affinity)
    return sealed(ask.term), ask.workload


@filter_plugin("ClusterAffinity", reads=part)
def cluster_affinity(ask: Ask, fleet: Fleet[Cluster]) -> Check[Cluster]:
    affinity, term = ask.plan.placement.cluster_affinity, ask.term
    if affinity is not None or term is None:
        tests = [affinity_matcher(affinity)]
    else:
        # only workloads overflow: an object without replicas needs no capacity
        tests = [affinity_matcher(term), *(affinity_matcher(more) for more in term.overflow_affinities if ask.workload)]

    def check(cluster: Cluster) -> Reason | None:
        return None if any(test(cluster) for test in tests) else OUTSIDE

    return check
