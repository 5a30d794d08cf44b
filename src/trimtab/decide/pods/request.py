"""One pod that wants a node, with all that plugins may look at."""

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
    """A topology spread constraint with its selector as a key."""

    topology_key: str
    max_skew: int
    selector: Choice | None
    counts_itself: bool
    min_domains: int
    honours_affinity: bool
    honours_taints: bool
    hard: bool
    lenient: bool = False
    """Nodes without the label are ranked too: the cluster's default, not the pod's own wish."""


class PodAsk(NamedTuple):
    pod: Pod
    me: Resident
    atlas: Atlas
    wanted: tuple[Carried, ...]
    """Its own affinity terms, their namespaces written out."""
    watched: tuple[Carried, ...]
    """Terms of pods already running that look at this pod."""
    spreads: tuple[Spread, ...]
    nodes: int
    """How many nodes the cluster has."""


def ask_for(pod: Pod | Resident, fleet: NodeFleet) -> PodAsk:
    me = pod if isinstance(pod, Resident) else resident(pod)
    return PodAsk(
        pod=me.pod,
        me=me,
        atlas=fleet.atlas,
        wanted=tuple(own._replace(term=resolved(own.term, fleet.namespaces)) for own in me.carried),
        watched=_watching(me, fleet.carried, fleet.namespaces),
        spreads=spreads(me.pod) or default_spreads(me, fleet.groups),
        nodes=len(fleet),
    )


def _watching(me: Resident, running: Mapping[Carried, int], namespaces: Mapping[str, Labels]) -> tuple[Carried, ...]:
    return tuple(other for other in running if other.term.covers(me.namespace, me.labels, namespaces))


def default_spreads(me: Resident, groups: Groups) -> tuple[Spread, ...]:
    """Pods of one service or workload prefer different nodes and zones, unless they say what they want."""
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
