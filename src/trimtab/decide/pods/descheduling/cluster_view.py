"""A cluster as movers read it: every pod of every node, finished ones too."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import ParsedSelector
from trimtab.decide.fleet import MIN_TIME
from trimtab.decide.pods.affinity.affinity_terms import Labels
from trimtab.decide.pods.node_info import Host, Resident, resident
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.preemption.preempt import Cover

EVERY_NODE = ParsedSelector()


class Scene:
    """One snapshot; it does not change during a cycle."""

    def __init__(
        self,
        fleet: NodeFleet,
        finished: Mapping[str, tuple[Resident, ...]],
        *,
        homeless: tuple[Resident, ...] = (),
        now: datetime = MIN_TIME,
        covers: tuple[Cover, ...] = (),
        storage_classes: Mapping[tuple[str, str], str] | None = None,
        priorities: Mapping[str, int] | None = None,
        nodes: ParsedSelector = EVERY_NODE,
    ) -> None:
        self.fleet = fleet
        self.finished = finished
        """Finished pods that still exist, by node."""
        self.homeless = homeless
        """Pods without a node that are not finished."""
        self.now = now
        self.covers = covers
        """Disruption budgets, for the protection PodsWithoutPDB."""
        self.storage_classes = storage_classes or {}
        """The storage class of each claim that can be resolved, by namespace and name."""
        self.priorities = priorities or {}
        """The value of each PriorityClass, by name."""
        self.nodes = nodes
        """Selects the nodes that movers consider."""

    @staticmethod
    def of(
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        *,
        now: datetime = MIN_TIME,
        namespaces: Mapping[str, Labels] | None = None,
        covers: tuple[Cover, ...] = (),
        storage_classes: Mapping[tuple[str, str], str] | None = None,
        priorities: Mapping[str, int] | None = None,
    ) -> "Scene":
        running: list[Pod] = []
        pending: list[Resident] = []
        finished: dict[str, list[Resident]] = {}
        for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
            if pod.is_terminal:
                finished.setdefault(pod.spec.node_name, []).append(resident(pod))
            elif not pod.spec.node_name:
                pending.append(resident(pod))
            else:
                running.append(pod)
        fleet = NodeFleet.of(nodes, running, namespaces=namespaces, now=now)
        finished_by_node = {node: tuple(listed) for node, listed in finished.items()}
        return Scene(
            fleet,
            finished_by_node,
            homeless=tuple(pending),
            now=now,
            covers=covers,
            storage_classes=storage_classes,
            priorities=priorities,
        )

    @cached_property
    def hosts(self) -> tuple[Host, ...]:
        """The selected nodes, without those known not to be ready."""
        return tuple(
            node_info
            for node_info in self.fleet.hosts
            if _may_be_ready(node_info.node) and self.nodes.matches(node_info.labels)
        )

    def among(self, nodes: ParsedSelector) -> "Scene":
        """Return the same view, restricted to the nodes that the selector matches."""
        return Scene(
            self.fleet,
            self.finished,
            homeless=self.homeless,
            now=self.now,
            covers=self.covers,
            storage_classes=self.storage_classes,
            priorities=self.priorities,
            nodes=nodes,
        )

    def pods_on(self, node: str) -> list[Resident]:
        """Return the unfinished pods of a node, by namespace and name."""
        node_info = self.fleet.get(node)
        return sorted(node_info.residents if node_info is not None else (), key=lambda one: one.key)

    def all_pods_on(self, node: str) -> list[Resident]:
        """Return every pod of a node, finished ones too, by namespace and name."""
        return sorted((*self.pods_on(node), *self.finished.get(node, ())), key=lambda one: one.key)

    @property
    def everyone(self) -> Iterator[Resident]:
        """Every pod of the cluster, whatever its node and phase."""
        yield from self.homeless
        for node_info in self.fleet.hosts:
            yield from node_info.residents
        for listed in (*self.finished.values(), *self.fleet.strays.values()):
            yield from listed

    @cached_property
    def siblings(self) -> Mapping[str, int]:
        """The number of pods per only owner, whatever their phase and with or without a node."""
        return _by_owner(self.everyone)

    @cached_property
    def ready_siblings(self) -> Mapping[str, int]:
        """The number of those that are ready and not terminating."""
        return _by_owner(one for one in self.everyone if one.pod.is_ready and not one.terminating)


def _by_owner(pods: Iterable[Resident]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for one in pods:
        counts[one.traits.owner_uid] = counts.get(one.traits.owner_uid, 0) + 1
    return counts


def _may_be_ready(node: Node) -> bool:
    return not any(condition.type == "Ready" and condition.status != "True" for condition in node.status.conditions)
