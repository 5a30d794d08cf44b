"""A cluster as those who move pods see it: every pod of every node, finished ones too."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import Selector
from trimtab.decide.fleet import LONG_AGO
from trimtab.decide.pods.affinity.affinity_terms import Labels
from trimtab.decide.pods.node_info import Host, Resident, resident
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.preemption.preempt import Cover

EVERY_NODE = Selector()


class Scene:
    """One picture; nothing in it changes while movers look at it."""

    def __init__(
        self,
        fleet: NodeFleet,
        finished: Mapping[str, tuple[Resident, ...]],
        *,
        homeless: tuple[Resident, ...] = (),
        now: datetime = LONG_AGO,
        covers: tuple[Cover, ...] = (),
        storage_classes: Mapping[tuple[str, str], str] | None = None,
        priorities: Mapping[str, int] | None = None,
        nodes: Selector = EVERY_NODE,
    ) -> None:
        self.fleet = fleet
        self.finished = finished
        """Pods that are done but still listed, by node."""
        self.homeless = homeless
        """Pods that are neither done nor have a node."""
        self.now = now
        self.covers = covers
        """Disruption budgets, for movers that spare pods without one."""
        self.storage_classes = storage_classes or {}
        """The class of each claim that can be resolved, by namespace and name."""
        self.priorities = priorities or {}
        """The value of each PriorityClass, by name."""
        self.nodes = nodes
        """Which nodes are looked at."""

    @staticmethod
    def of(
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        *,
        now: datetime = LONG_AGO,
        namespaces: Mapping[str, Labels] | None = None,
        covers: tuple[Cover, ...] = (),
        storage_classes: Mapping[tuple[str, str], str] | None = None,
        priorities: Mapping[str, int] | None = None,
    ) -> "Scene":
        running: list[Pod] = []
        homeless: list[Resident] = []
        finished: dict[str, list[Resident]] = {}
        for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
            if pod.terminal:
                finished.setdefault(pod.spec.node_name, []).append(resident(pod))
            elif not pod.spec.node_name:
                homeless.append(resident(pod))
            else:
                running.append(pod)
        fleet = NodeFleet.of(nodes, running, namespaces=namespaces, now=now)
        done = {node: tuple(there) for node, there in finished.items()}
        return Scene(
            fleet,
            done,
            homeless=tuple(homeless),
            now=now,
            covers=covers,
            storage_classes=storage_classes,
            priorities=priorities,
        )

    @cached_property
    def hosts(self) -> tuple[Host, ...]:
        """Nodes on which pods can be judged: all that are meant, but those known not to be ready."""
        return tuple(here for here in self.fleet.hosts if _may_be_ready(here.node) and self.nodes.matches(here.labels))

    def among(self, nodes: Selector) -> "Scene":
        """The same scene, where only these nodes are looked at."""
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
        """The pods of a node that are not finished, by namespace and name."""
        here = self.fleet.get(node)
        return sorted(here.residents if here is not None else (), key=lambda one: one.key)

    def all_pods_on(self, node: str) -> list[Resident]:
        """Every pod of a node, finished ones too, by namespace and name."""
        return sorted((*self.pods_on(node), *self.finished.get(node, ())), key=lambda one: one.key)

    @property
    def everyone(self) -> Iterator[Resident]:
        """Every pod there is, wherever it is and whatever its phase."""
        yield from self.homeless
        for here in self.fleet.hosts:
            yield from here.residents
        for together in (*self.finished.values(), *self.fleet.strays.values()):
            yield from together

    @cached_property
    def siblings(self) -> Mapping[str, int]:
        """How many pods share an only owner, whatever their phase, with a node or without."""
        return _by_owner(self.everyone)

    @cached_property
    def ready_siblings(self) -> Mapping[str, int]:
        """How many of them are ready and stay."""
        return _by_owner(one for one in self.everyone if one.pod.ready and not one.terminating)


def _by_owner(pods: Iterable[Resident]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for one in pods:
        counts[one.traits.owner_uid] = counts.get(one.traits.owner_uid, 0) + 1
    return counts


def _may_be_ready(node: Node) -> bool:
    return not any(condition.type == "Ready" and condition.status != "True" for condition in node.status.conditions)
