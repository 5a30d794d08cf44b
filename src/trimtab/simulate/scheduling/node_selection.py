"""Selects the node of one pod: its nominated node, else the best one by filters and scores, or simply the first fit."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, cast

from trimtab.api.kinds.native.apps import ReplicaSet, StatefulSet
from trimtab.api.kinds.native.pod import Pod, TopologySpreadConstraint
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.value import Object
from trimtab.clock import Clock
from trimtab.decide.pods.avoid_list import is_avoided_by
from trimtab.decide.pods.node_info import PodInfo, build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.request import pod_request_for
from trimtab.decide.pods.schedule import DEFAULT_SCHEDULER_PROFILE, node_rejections, schedule, unschedulable_message
from trimtab.runtime.cache import Cache
from trimtab.simulate.scheduling.cluster_state import ClusterState
from trimtab.simulate.scheduling.nominations import Nominations

SPREAD_OWNERS: Mapping[str, type[Object]] = {"ReplicaSet": ReplicaSet, "StatefulSet": StatefulSet}
DEFAULT_SPREAD_CONSTRAINTS = (
    TopologySpreadConstraint(max_skew=3, topology_key="kubernetes.io/hostname", when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway"
    ),
)
"""The default constraints of kube-scheduler."""


class NodeSelection(NamedTuple):
    """The selected node, or the message why there is none."""

    pod: PodInfo
    node: str | None
    message: str = ""
    may_preempt: bool = True
    """Whether the pod would fit without other pods; if not, none is evicted for it."""


class HostSelector(Protocol):
    """Selects a node for one pod."""

    def select(self, pod: Pod) -> NodeSelection: ...


class FirstFitSelector:
    """Takes the first node by name with enough free capacity, without any other filter."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def select(self, pod: Pod) -> NodeSelection:
        info, fleet = build_pod_info(self._state.ranks.with_rank(pod)), self._state.fleet
        node = first_fit(info, fleet)
        return NodeSelection(info, node, "" if node else f"0/{len(fleet)} nodes are available.")


class ScoringSelector:
    """Takes the nominated node if the pod fits there now, else the best node by the default scheduler profile."""

    def __init__(self, cache: Cache, state: ClusterState, nominations: Nominations, clock: Clock) -> None:
        self._cache, self._state, self._nominations, self._clock = cache, state, nominations, clock

    def select(self, pod: Pod) -> NodeSelection:
        info, fleet = build_pod_info(self._state.ranks.with_rank(self._with_default_spread(pod))), self._state.fleet
        if (fault := self._unusable_claim(info)) is not None:
            return NodeSelection(info, None, f"0/{len(fleet)} nodes are available: {fault}.", may_preempt=False)
        avoided = self._nodes_avoiding(pod)
        if (nominated := self._nominated_node(info)) is not None and nominated not in avoided:
            return NodeSelection(info, nominated)
        decision = schedule(info, fleet, avoided=avoided)
        return NodeSelection(info, decision.node, "" if decision.node else unschedulable_message(info, fleet))

    def _unusable_claim(self, pod: PodInfo) -> str | None:
        """What is wrong with a PersistentVolumeClaim of the pod, in the words of kube-scheduler."""
        claims = self._cache.table_of(PersistentVolumeClaim).entries if pod.traits.volume_claims else {}
        for name in pod.traits.volume_claims:
            claim = claims.get((pod.namespace, name))
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim.typed.metadata.deletion_timestamp is not None:
                return f'persistentvolumeclaim "{name}" is being deleted'
        return None

    def _with_default_spread(self, pod: Pod) -> Pod:
        """Apply the default spread constraints to pods of a set that have none."""
        owner, type_ = pod.controller, SPREAD_OWNERS.get(pod.controller.kind) if pod.controller else None
        if owner is None or type_ is None or pod.spec.topology_spread_constraints:
            return pod
        entry = self._cache.table_of(type_).entries.get((pod.namespace, owner.name))
        selector = cast("ReplicaSet | StatefulSet", entry.typed).spec.selector if entry else None
        spread = tuple(constraint.but(label_selector=selector) for constraint in DEFAULT_SPREAD_CONSTRAINTS)
        return pod.but(spec=pod.spec.but(topology_spread_constraints=spread)) if selector else pod

    def _nominated_node(self, pod: PodInfo) -> str | None:
        """The node nominated for the pod, if the pod fits there now."""
        node, fleet = self._nominations.node_of(pod.key), self._state.fleet
        column = fleet.nodes.index.get(node) if node is not None else None
        if node is None or column is None:
            return None
        ((_, objection),) = node_rejections(pod_request_for(pod, fleet), fleet, [column], DEFAULT_SCHEDULER_PROFILE)
        return node if objection is None else None

    def _nodes_avoiding(self, pod: Pod) -> list[str]:
        """Nodes whose avoid list names an owner of this pod."""
        owner, avoid_lists = pod.controller, self._state.avoid_lists
        if owner is None or not any(avoid_lists.values()):
            return []
        owners = {owner.uid}
        if (above := self._cache.table_of(ReplicaSet).entries.get((pod.namespace, owner.name))) is not None:
            owners.update(one.uid for one in above.typed.metadata.owner_references if one.controller)
        now = self._clock.now()
        return [node for node, entries in avoid_lists.items() if is_avoided_by(entries, owners, now)]


def first_fit(pod: PodInfo, fleet: NodeSnapshot) -> str | None:
    """The first node by name with enough free capacity, without any other filter."""
    for name in sorted(fleet.nodes.names):
        here = fleet.get(name)
        if here is None or here.node.spec.unschedulable or here.free_pods < 1:
            continue
        if all(here.free_amount(resource) >= amount for resource, amount in pod.resources.requests.items()):
            return name
    return None
