"""A pod to be scheduled, with everything that node filters and scores may read."""

from collections.abc import Mapping
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.affinity.affinity_terms import Carried, Choice, Labels, choice, resolved
from trimtab.decide.pods.affinity.selector_groups import Groups
from trimtab.decide.pods.affinity.topology_counts import Atlas
from trimtab.decide.pods.node_info import Resident, resident
from trimtab.decide.pods.node_snapshot import NodeFleet

HOSTNAME = "kubernetes.io/hostname"
DEFAULT_SPREADS = ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))


class Spread(NamedTuple):
    """A topology spread constraint with a hashable selector."""

    topology_key: str
    max_skew: int
    selector: Choice | None
    counts_itself: bool
    min_domains: int
    honours_affinity: bool
    honours_taints: bool
    hard: bool
    lenient: bool = False
    """Nodes without the label are scored too: a constraint of the cluster's defaults, not of the pod."""


class PodAsk(NamedTuple):
    pod: Pod
    me: Resident
    atlas: Atlas
    wanted: tuple[Carried, ...]
    """The pod's own affinity terms with resolved namespaces."""
    watched: tuple[Carried, ...]
    """Terms of running pods that select this pod."""
    spreads: tuple[Spread, ...]
    nodes: int
    """The number of nodes of the cluster."""


def ask_for(pod: Pod | Resident, fleet: NodeFleet) -> PodAsk:
    pod_info = pod if isinstance(pod, Resident) else resident(pod)
    return PodAsk(
        pod=pod_info.pod,
        me=pod_info,
        atlas=fleet.atlas,
        wanted=tuple(own._replace(term=resolved(own.term, fleet.namespaces)) for own in pod_info.carried),
        watched=_watching(pod_info, fleet.carried, fleet.namespaces),
        spreads=spreads(pod_info.pod) or default_spreads(pod_info, fleet.groups),
        nodes=len(fleet),
    )


def _watching(me: Resident, running: Mapping[Carried, int], namespaces: Mapping[str, Labels]) -> tuple[Carried, ...]:
    return tuple(other for other in running if other.term.covers(me.namespace, me.labels, namespaces))


def default_spreads(me: Resident, groups: Groups) -> tuple[Spread, ...]:
    """Return the cluster's default constraints: pods of one service or workload prefer different nodes and zones."""
    selector = groups.selector_for(me.pod)
    if selector is None:
        return ()
    return tuple(
        Spread(key, skew, selector, selector.matches(me.labels), 1, True, False, hard=False, lenient=True)
        for key, skew in DEFAULT_SPREADS
    )


def spreads(pod: Pod) -> tuple[Spread, ...]:
    labels = pod.metadata.labels
    found = []
    for constraint in pod.spec.topology_spread_constraints:
        selector = choice(constraint.label_selector, labels, constraint.match_label_keys)
        found.append(
            Spread(
                topology_key=constraint.topology_key,
                max_skew=constraint.max_skew,
                selector=selector,
                counts_itself=selector is not None and selector.matches(labels),
                min_domains=constraint.min_domains or 1,
                honours_affinity=constraint.node_affinity_policy != "Ignore",
                honours_taints=constraint.node_taints_policy == "Honor",
                hard=constraint.when_unsatisfiable != "ScheduleAnyway",
            )
        )
    return tuple(found)
