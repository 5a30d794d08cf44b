"""What the pod scheduler knows of its cluster: nodes, pods on them, pods it has decided, priorities and avoid lists.

The state follows watch events, and runs ahead of them: a pod whose node is decided is assumed to be there before its
binding is written, so that the next decision counts it.
"""

from collections.abc import Callable, Mapping
from typing import cast

from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.decide.pods.avoid_list import AvoidEntry, entries_of
from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.pods.node_snapshot import NodeSnapshot, occupies_node
from trimtab.decide.pods.priority import RANKS_BY_VALUE, priority_ranks
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.simulate.scheduling.pod_status_writer import PODS

PodName = tuple[str, str]


class ClusterState:
    """Maintains a snapshot of the cluster incrementally."""

    def __init__(self, cache: Cache, on_capacity_change: Callable[[], None]) -> None:
        self._cache = cache
        self._on_capacity_change = on_capacity_change
        """Called after a change that may let an unschedulable pod fit."""
        self.fleet = NodeSnapshot.of(())
        self.ranks = RANKS_BY_VALUE
        self._avoid_lists: dict[str, tuple[AvoidEntry, ...]] = {}
        """Avoid-list entries of each node."""
        self._assumed: dict[PodName, str] = {}
        """Nodes of pods that are decided, and not yet seen as bound."""

    @property
    def avoid_lists(self) -> Mapping[str, tuple[AvoidEntry, ...]]:
        return self._avoid_lists

    @property
    def has_assumed_pods(self) -> bool:
        return bool(self._assumed)

    # watch events

    def follow(self) -> None:
        """Follow the watch events of everything but pods."""
        self._cache.table_of(PriorityClass).add_listener(self._on_priority_change)
        self._cache.table_of(PriorityOrder).add_listener(self._on_priority_change)
        self._cache.table_of(Node).add_listener(self._on_node_change)
        self._cache.table_of(Namespace).add_listener(self._on_namespace_change)
        self._cache.table_of(PersistentVolumeClaim).add_listener(self._on_claim_change)

    def _on_node_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        before = cast("Node", old.typed) if old else None
        if new is None:
            self.fleet = self.fleet.without_node(cast("CacheEntry", old).name[1])
            self._avoid_lists.pop(cast("CacheEntry", old).name[1], None)
            return
        node = cast("Node", new.typed)
        self._avoid_lists[node.name] = entries_of(node.metadata.annotations)
        if before is None or (before.spec, before.metadata.labels, before.status.allocatable) != (
            node.spec,
            node.metadata.labels,
            node.status.allocatable,
        ):
            self.fleet = self.fleet.with_node(node)
            self._on_capacity_change()

    def _on_namespace_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        name = (new or cast("CacheEntry", old)).name[1]
        labels = {key: value for key, value in self.fleet.namespaces.items() if key != name}
        if new is not None:
            labels[name] = cast("Namespace", new.typed).metadata.labels
        if labels != self.fleet.namespaces:
            self.fleet = self.fleet.with_namespaces(labels)

    def _on_claim_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        """A new claim may be what a pod waits for."""
        if new is not None and (old is None or old.typed.metadata.uid != new.typed.metadata.uid):
            self._on_capacity_change()

    def _on_priority_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        """Rank all pods again, because the priority order changed."""
        order = self._cache.table_of(PriorityOrder).entries.get(("", "default"))
        classes = [cast("PriorityClass", entry.typed) for entry in self._cache.table_of(PriorityClass).entries.values()]
        ranks_now = priority_ranks(classes, cast("PriorityOrder", order.typed) if order else None)
        if ranks_now == self.ranks:
            return
        self.ranks = ranks_now
        for entry in self._cache.table(PODS).entries.values():
            pod = cast("Pod", entry.typed)
            if occupies_node(pod):
                self.fleet = self.fleet.with_pod(ranks_now.with_rank(pod))

    # pods on nodes

    def add_bound_pod(self, name: PodName, before: Pod | None, after: Pod) -> None:
        was_assumed = self._assumed.pop(name, None) == after.spec.node_name
        was_bound = before is not None and occupies_node(before)
        if was_assumed and not was_bound:
            return  # it was added when it was assumed
        if before is None or not was_bound or _scheduling_facts(before) != _scheduling_facts(after):
            self.fleet = self.fleet.with_pod(after)

    def remove_bound_pod(self, pod: Pod) -> None:
        self.fleet = self.fleet.without_pod(pod)
        self._on_capacity_change()

    def is_assumed(self, name: PodName) -> bool:
        return name in self._assumed

    def assume(self, pod: PodInfo, node: str) -> None:
        """Count the pod on the node from now on."""
        self._assumed[pod.key] = node
        self.fleet = self.fleet.with_pod_on(pod, node)

    def release(self, name: PodName) -> bool:
        """Free what was assumed for this pod; whether something was."""
        node = self._assumed.pop(name, None)
        if node is None:
            return False
        here = self.fleet.get(node)
        removed = [one for one in here.pods if one.key == name] if here else []
        if removed:
            self.fleet = self.fleet.without_pods(removed, node)
            self._on_capacity_change()
        return True

    # reservations

    def add_nominated(self, pod: PodInfo, node: str) -> None:
        """Reserve the node for the pod against pods of lower or equal priority."""
        nominated = (*self.fleet.nominated.get(node, ()), pod)
        self.fleet = self.fleet.with_nominated({**self.fleet.nominated, node: nominated})

    def remove_nominated(self, name: PodName, node: str) -> None:
        nominated = tuple(one for one in self.fleet.nominated.get(node, ()) if one.key != name)
        others = {key: value for key, value in self.fleet.nominated.items() if key != node}
        self.fleet = self.fleet.with_nominated(others | ({node: nominated} if nominated else {}))


def _scheduling_facts(pod: Pod) -> tuple[object, ...]:
    """The fields of a bound pod that affect other pods and preemption."""
    return (
        pod.metadata.labels,
        pod.metadata.deletion_timestamp,
        pod.spec,
        pod.status.start_time,
    )
