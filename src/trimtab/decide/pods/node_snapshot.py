"""Snapshot of the nodes of one cluster with their pods, updated one event at a time."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime
from itertools import count
from typing import Any, TypeVar

import numpy as np

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.fleet import MIN_TIME, Array, Fleet
from trimtab.decide.pods.affinity.affinity_terms import Carried, Labels
from trimtab.decide.pods.affinity.selector_groups import NO_GROUPS, Groups
from trimtab.decide.pods.affinity.topology_counts import Atlas
from trimtab.decide.pods.node_info import Host, Resident, host, resident

P = TypeVar("P")


class Notebook:
    """Cached results about nodes; successive snapshots and their forks share one cache."""

    def __init__(self) -> None:
        self._pages: dict[Hashable, Any] = {}
        self.stamps = count(1)
        """A new number for every value that a node ever has: a result for a generation stays valid."""

    def page(self, question: Hashable, blank: Callable[[], P]) -> P:
        """Return the cached result; the least recently used one is dropped when there are too many."""
        result: P | None = self._pages.pop(question, None)
        return self.anew(question, blank() if result is None else result)

    def anew(self, question: Hashable, page: P) -> P:
        """Store a new result for the key."""
        self._pages.pop(question, None)
        if len(self._pages) >= PAGES_KEPT:
            del self._pages[next(iter(self._pages))]
        self._pages[question] = page
        return page


PAGES_KEPT = 64


class NodeFleet:
    """An immutable snapshot of a cluster; every change returns the next one, which shares all unchanged parts."""

    __slots__ = ("atlas", "carried", "groups", "hosts", "namespaces", "nominated", "notebook", "strays")

    def __init__(
        self,
        hosts: Fleet[Host],
        atlas: Atlas,
        *,
        carried: Mapping[Carried, int],
        namespaces: Mapping[str, Labels],
        nominated: Mapping[str, tuple[Resident, ...]],
        strays: Mapping[str, tuple[Resident, ...]],
        groups: Groups = NO_GROUPS,
        notebook: Notebook | None = None,
    ) -> None:
        self.hosts = hosts
        self.atlas = atlas
        self.carried = carried
        """Every distinct affinity term of the running pods, and how many pods have it."""
        self.namespaces = namespaces
        """Labels of namespaces, for terms that select namespaces by label."""
        self.nominated = nominated
        """Pods with a nominated node, waiting for the victims of preemption to leave."""
        self.strays = strays
        """Pods bound to nodes that are not in the snapshot (yet)."""
        self.groups = groups
        """Services and workloads, whose pods are spread by default when they have no constraints."""
        self.notebook = notebook or Notebook()

    @staticmethod
    def of(
        nodes: Iterable[Node],
        pods: Iterable[Pod] = (),
        *,
        namespaces: Mapping[str, Labels] | None = None,
        now: datetime = MIN_TIME,
    ) -> "NodeFleet":
        """Return the first snapshot; finished pods and pods without a node are left out."""
        pods_by_node: dict[str, list[Resident]] = {}
        counts: dict[Carried, int] = {}
        for pod in pods:
            if takes_room(pod):
                one = resident(pod)
                pods_by_node.setdefault(pod.spec.node_name, []).append(one)
        hosts = Fleet.of((host(node, pods_by_node.pop(node.name, ())) for node in nodes), now=now)
        for node_info in hosts:
            for one in node_info.residents:
                for term in one.carried:
                    counts[term] = counts.get(term, 0) + 1
        return NodeFleet(
            hosts,
            Atlas(),
            carried=counts,
            namespaces=namespaces or {},
            nominated={},
            strays={name: tuple(pods_there) for name, pods_there in pods_by_node.items()},
        )

    def __len__(self) -> int:
        return len(self.hosts)

    def get(self, name: str) -> Host | None:
        return self.hosts.get(name)

    @property
    def stamps(self) -> Array:
        """A number for each node that changes whenever the node or its pods change."""
        return self.hosts.column("stamp", lambda: lambda _: next(self.notebook.stamps), np.int64)

    def with_node(self, node: Node) -> "NodeFleet":
        """Add the node, or replace the one of the same name and keep its pods."""
        before = self.hosts.get(node.name)
        residents = before.residents if before is not None else self.strays.get(node.name, ())
        arriving = () if before is not None else residents
        strays = {name: pods for name, pods in self.strays.items() if name != node.name}
        return self._with(
            hosts=self.hosts.change([host(node, residents)]), carried=self._recount(arriving, 1), strays=strays
        )

    def without_node(self, name: str) -> "NodeFleet":
        """Remove the node; its pods are kept in case it comes back."""
        leaving = self.hosts.get(name)
        if leaving is None:
            return self
        strays = {**self.strays, name: leaving.residents} if leaving.residents else self.strays
        return self._with(
            hosts=self.hosts.change(removed=[name]), carried=self._recount(leaving.residents, -1), strays=strays
        )

    def with_pod(self, pod: Pod) -> "NodeFleet":
        """Add the pod to its node, or replace it there."""
        if not takes_room(pod):
            return self.without_pod(pod)
        return self.without_pod(pod).settled(resident(pod), pod.spec.node_name)

    def settled(self, one: Resident, node: str) -> "NodeFleet":
        """As `with_pod`, for a pod that is known not to be in the snapshot."""
        node_info = self.hosts.get(node)
        if node_info is None:
            return self._with(strays={**self.strays, node: (*self.strays.get(node, ()), one)})
        return self._with(hosts=self.hosts.change([node_info.joined(one)]), carried=self._recount((one,), 1))

    def without_pod(self, pod: Pod) -> "NodeFleet":
        """Remove the pod from its node."""
        node_info = self.hosts.get(pod.spec.node_name)
        key = (pod.metadata.namespace, pod.metadata.name)
        if node_info is None:
            return self._without_stray(pod.spec.node_name, key)
        known = next((one for one in node_info.residents if one.key == key), None)
        return self if known is None else self.vacated([known], pod.spec.node_name)

    def vacated(self, residents: Iterable[Resident], node: str) -> "NodeFleet":
        """Return the next snapshot without these pods of one node, which must be the same objects."""
        node_info, leaving = self.hosts.targets[self.hosts.index[node]], tuple(residents)
        return self._with(hosts=self.hosts.change([node_info.left(leaving)]), carried=self._recount(leaving, -1))

    def fork(self) -> "NodeFleet":
        """Return an equal snapshot for trials, whose changes do not fill the caches of this one."""
        return self._with(hosts=self.hosts.fork())

    def with_nominated(self, nominated: Mapping[str, tuple[Resident, ...]]) -> "NodeFleet":
        """Return the next snapshot with exactly these nominated pods, by node."""
        return self._with(nominated=nominated)

    def with_groups(self, groups: Groups) -> "NodeFleet":
        """Return the next snapshot with these services and workloads."""
        return self._with(groups=groups)

    def with_namespaces(self, namespaces: Mapping[str, Labels]) -> "NodeFleet":
        """Return the next snapshot with these namespace labels."""
        return self._with(namespaces=namespaces)

    def _without_stray(self, node: str, key: tuple[str, str]) -> "NodeFleet":
        if node not in self.strays:
            return self
        staying = tuple(one for one in self.strays[node] if one.key != key)
        return self._with(strays={**self.strays, node: staying})

    def _recount(self, residents: Iterable[Resident], sign: int) -> Mapping[Carried, int]:
        terms = [term for one in residents for term in one.carried]
        if not terms:
            return self.carried
        counts = dict(self.carried)
        for term in terms:
            counts[term] = counts.get(term, 0) + sign
            if not counts[term]:
                del counts[term]
        return counts

    def _with(
        self,
        *,
        hosts: Fleet[Host] | None = None,
        carried: Mapping[Carried, int] | None = None,
        namespaces: Mapping[str, Labels] | None = None,
        nominated: Mapping[str, tuple[Resident, ...]] | None = None,
        strays: Mapping[str, tuple[Resident, ...]] | None = None,
        groups: Groups | None = None,
    ) -> "NodeFleet":
        return NodeFleet(
            self.hosts if hosts is None else hosts,
            self.atlas,
            carried=self.carried if carried is None else carried,
            namespaces=self.namespaces if namespaces is None else namespaces,
            nominated=self.nominated if nominated is None else nominated,
            strays=self.strays if strays is None else strays,
            groups=self.groups if groups is None else groups,
            notebook=self.notebook,
        )


def takes_room(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.is_terminal
