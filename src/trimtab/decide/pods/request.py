"""A pod to be scheduled, with everything that node filters and scores may read."""

from collections.abc import Mapping
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.affinity.affinity_terms import (
    HashableSelector,
    Labels,
    WeightedTerm,
    hashable_selector,
    with_resolved_namespaces,
)
from trimtab.decide.pods.affinity.selector_groups import SelectorGroups
from trimtab.decide.pods.affinity.topology_counts import TopologyCodes
from trimtab.decide.pods.node_info import PodInfo, build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot

HOSTNAME = "kubernetes.io/hostname"
DEFAULT_SPREADS = ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))


class TopologySpread(NamedTuple):
    """A topology spread constraint with a hashable selector."""

    topology_key: str
    max_skew: int
    selector: HashableSelector | None
    counts_own_pod: bool
    min_domains: int
    honours_affinity: bool
    honours_taints: bool
    is_hard: bool
    includes_unlabelled_nodes: bool = False
    """Nodes without the label are scored too: a constraint of the cluster's defaults, not of the pod."""


class PodRequest(NamedTuple):
    pod: Pod
    pod_info: PodInfo
    topology_codes: TopologyCodes
    own_terms: tuple[WeightedTerm, ...]
    """The pod's own affinity terms with resolved namespaces."""
    matching_terms: tuple[WeightedTerm, ...]
    """Terms of running pods that select this pod."""
    topology_spreads: tuple[TopologySpread, ...]
    node_count: int
    """The number of nodes of the cluster."""


def pod_request_for(pod: Pod | PodInfo, fleet: NodeSnapshot) -> PodRequest:
    pod_info = pod if isinstance(pod, PodInfo) else build_pod_info(pod)
    return PodRequest(
        pod=pod_info.pod,
        pod_info=pod_info,
        topology_codes=fleet.topology_codes,
        own_terms=tuple(
            own._replace(term=with_resolved_namespaces(own.term, fleet.namespaces)) for own in pod_info.affinity_terms
        ),
        matching_terms=_terms_matching(pod_info, fleet.affinity_term_counts, fleet.namespaces),
        topology_spreads=topology_spreads_of(pod_info.pod) or default_topology_spreads(pod_info, fleet.groups),
        node_count=len(fleet),
    )


def _terms_matching(
    pod_info: PodInfo, running: Mapping[WeightedTerm, int], namespaces: Mapping[str, Labels]
) -> tuple[WeightedTerm, ...]:
    return tuple(other for other in running if other.term.matches(pod_info.namespace, pod_info.labels, namespaces))


def default_topology_spreads(pod_info: PodInfo, groups: SelectorGroups) -> tuple[TopologySpread, ...]:
    """Return the cluster's default constraints: pods of one service or workload prefer different nodes and zones."""
    selector = groups.selector_for(pod_info.pod)
    if selector is None:
        return ()
    return tuple(
        TopologySpread(
            key,
            skew,
            selector,
            selector.matches(pod_info.labels),
            1,
            True,
            False,
            is_hard=False,
            includes_unlabelled_nodes=True,
        )
        for key, skew in DEFAULT_SPREADS
    )


def topology_spreads_of(pod: Pod) -> tuple[TopologySpread, ...]:
    labels = pod.metadata.labels
    found = []
    for constraint in pod.spec.topology_spread_constraints:
        selector = hashable_selector(constraint.label_selector, labels, constraint.match_label_keys)
        found.append(
            TopologySpread(
                topology_key=constraint.topology_key,
                max_skew=constraint.max_skew,
                selector=selector,
                counts_own_pod=selector is not None and selector.matches(labels),
                min_domains=constraint.min_domains or 1,
                honours_affinity=constraint.node_affinity_policy != "Ignore",
                honours_taints=constraint.node_taints_policy == "Honor",
                is_hard=constraint.when_unsatisfiable != "ScheduleAnyway",
            )
        )
    return tuple(found)
