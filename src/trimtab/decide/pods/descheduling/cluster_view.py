"""A cluster as movers read it: every pod of every node, finished ones too."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import ParsedSelector
from trimtab.decide.fleet import MIN_TIME
from trimtab.decide.pods.affinity.affinity_terms import Labels
from trimtab.decide.pods.node_info import NodeInfo, PodInfo, build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.preemption.preempt import PreemptionBudget

ALL_NODES = ParsedSelector()


class ClusterView:
    """One snapshot; it does not change during a cycle."""

    def __init__(
        self,
        fleet: NodeSnapshot,
        finished: Mapping[str, tuple[PodInfo, ...]],
        *,
        pending: tuple[PodInfo, ...] = (),
        now: datetime = MIN_TIME,
        budgets: tuple[PreemptionBudget, ...] = (),
        storage_classes: Mapping[tuple[str, str], str] | None = None,
        priorities: Mapping[str, int] | None = None,
        node_selector: ParsedSelector = ALL_NODES,
    ) -> None:
        self.fleet = fleet
        self.finished = finished
        """Finished pods that still exist, by node."""
        self.pending = pending
        """Pods without a node that are not finished."""
        self.now = now
        self.budgets = budgets
        """Disruption budgets, for the protection PodsWithoutPDB."""
        self.storage_classes = storage_classes or {}
        """The storage class of each claim that can be resolved, by namespace and name."""
        self.priorities = priorities or {}
        """The value of each PriorityClass, by name."""
        self.node_selector = node_selector
        """Selects the nodes that movers consider."""

    @staticmethod
    def of(
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        *,
        now: datetime = MIN_TIME,
        namespaces: Mapping[str, Labels] | None = None,
        budgets: tuple[PreemptionBudget, ...] = (),
        storage_classes: Mapping[tuple[str, str], str] | None = None,
        priorities: Mapping[str, int] | None = None,
    ) -> "ClusterView":
        running: list[Pod] = []
        pending: list[PodInfo] = []
        finished: dict[str, list[PodInfo]] = {}
        for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
            if pod.is_terminal:
                finished.setdefault(pod.spec.node_name, []).append(build_pod_info(pod))
            elif not pod.spec.node_name:
                pending.append(build_pod_info(pod))
            else:
                running.append(pod)
        fleet = NodeSnapshot.of(nodes, running, namespaces=namespaces, now=now)
        finished_by_node = {node: tuple(listed) for node, listed in finished.items()}
        return ClusterView(
            fleet,
            finished_by_node,
            pending=tuple(pending),
            now=now,
            budgets=budgets,
            storage_classes=storage_classes,
            priorities=priorities,
        )

    @cached_property
    def nodes(self) -> tuple[NodeInfo, ...]:
        """The selected nodes, without those known not to be ready."""
        return tuple(
            node_info
            for node_info in self.fleet.nodes
            if _may_be_ready(node_info.node) and self.node_selector.matches(node_info.labels)
        )

    def with_node_selector(self, selector: ParsedSelector) -> "ClusterView":
        """Return the same view, restricted to the nodes that the selector matches."""
        return ClusterView(
            self.fleet,
            self.finished,
            pending=self.pending,
            now=self.now,
            budgets=self.budgets,
            storage_classes=self.storage_classes,
            priorities=self.priorities,
            node_selector=selector,
        )

    def pods_on(self, node: str) -> list[PodInfo]:
        """Return the unfinished pods of a node, by namespace and name."""
        node_info = self.fleet.get(node)
        return sorted(node_info.pods if node_info is not None else (), key=lambda one: one.key)

    def all_pods_on(self, node: str) -> list[PodInfo]:
        """Return every pod of a node, finished ones too, by namespace and name."""
        return sorted((*self.pods_on(node), *self.finished.get(node, ())), key=lambda one: one.key)

    @property
    def all_pods(self) -> Iterator[PodInfo]:
        """Every pod of the cluster, whatever its node and phase."""
        yield from self.pending
        for node_info in self.fleet.nodes:
            yield from node_info.pods
        for listed in (*self.finished.values(), *self.fleet.pods_of_missing_nodes.values()):
            yield from listed

    @cached_property
    def pods_per_owner(self) -> Mapping[str, int]:
        """The number of pods per only owner, whatever their phase and with or without a node."""
        return _count_by_owner(self.all_pods)

    @cached_property
    def ready_pods_per_owner(self) -> Mapping[str, int]:
        """The number of those that are ready and not terminating."""
        return _count_by_owner(one for one in self.all_pods if one.pod.is_ready and not one.is_terminating)


def _count_by_owner(pods: Iterable[PodInfo]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for one in pods:
        counts[one.traits.owner_uid] = counts.get(one.traits.owner_uid, 0) + 1
    return counts


def _may_be_ready(node: Node) -> bool:
    return not any(condition.type == "Ready" and condition.status != "True" for condition in node.status.conditions)
