"""Snapshot of the nodes of one cluster with their pods, updated one event at a time."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime
from itertools import count
from typing import Any, TypeVar

import numpy as np

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.fleet import MIN_TIME, Array, Fleet
from trimtab.decide.pods.affinity.affinity_terms import Labels, WeightedTerm
from trimtab.decide.pods.affinity.selector_groups import NO_SELECTOR_GROUPS, SelectorGroups
from trimtab.decide.pods.affinity.topology_counts import TopologyCodes
from trimtab.decide.pods.node_info import NodeInfo, PodInfo, build_node_info, build_pod_info

P = TypeVar("P")


class NodeResultCache:
    """Cached results about nodes; successive snapshots and their forks share one cache."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self.generation_counter = count(1)
        """A new number for every value that a node ever has: a result for a generation stays valid."""

    def get_or_create(self, key: Hashable, create: Callable[[], P]) -> P:
        """Return the cached result; the least recently used one is dropped when there are too many."""
        result: P | None = self._results.pop(key, None)
        return self.replace(key, create() if result is None else result)

    def replace(self, key: Hashable, result: P) -> P:
        """Store a new result for the key."""
        self._results.pop(key, None)
        if len(self._results) >= MAX_CACHED_RESULTS:
            del self._results[next(iter(self._results))]
        self._results[key] = result
        return result


MAX_CACHED_RESULTS = 64


class NodeSnapshot:
    """An immutable snapshot of a cluster; every change returns the next one, which shares all unchanged parts."""

    __slots__ = (
        "affinity_term_counts",
        "groups",
        "namespaces",
        "nodes",
        "nominated",
        "pods_of_missing_nodes",
        "result_cache",
        "topology_codes",
    )

    def __init__(
        self,
        nodes: Fleet[NodeInfo],
        topology_codes: TopologyCodes,
        *,
        affinity_term_counts: Mapping[WeightedTerm, int],
        namespaces: Mapping[str, Labels],
        nominated: Mapping[str, tuple[PodInfo, ...]],
        pods_of_missing_nodes: Mapping[str, tuple[PodInfo, ...]],
        groups: SelectorGroups = NO_SELECTOR_GROUPS,
        result_cache: NodeResultCache | None = None,
    ) -> None:
        self.nodes = nodes
        self.topology_codes = topology_codes
        self.affinity_term_counts = affinity_term_counts
        """Every distinct affinity term of the running pods, and how many pods have it."""
        self.namespaces = namespaces
        """Labels of namespaces, for terms that select namespaces by label."""
        self.nominated = nominated
        """Pods with a nominated node, waiting for the victims of preemption to leave."""
        self.pods_of_missing_nodes = pods_of_missing_nodes
        """Pods bound to nodes that are not in the snapshot (yet)."""
        self.groups = groups
        """Services and workloads, whose pods are spread by default when they have no constraints."""
        self.result_cache = result_cache or NodeResultCache()

    @staticmethod
    def of(
        nodes: Iterable[Node],
        pods: Iterable[Pod] = (),
        *,
        namespaces: Mapping[str, Labels] | None = None,
        now: datetime = MIN_TIME,
    ) -> "NodeSnapshot":
        """Return the first snapshot; finished pods and pods without a node are left out."""
        pods_by_node: dict[str, list[PodInfo]] = {}
        counts: dict[WeightedTerm, int] = {}
        for pod in pods:
            if occupies_node(pod):
                one = build_pod_info(pod)
                pods_by_node.setdefault(pod.spec.node_name, []).append(one)
        hosts = Fleet.of((build_node_info(node, pods_by_node.pop(node.name, ())) for node in nodes), now=now)
        for node_info in hosts:
            for one in node_info.pods:
                for term in one.affinity_terms:
                    counts[term] = counts.get(term, 0) + 1
        return NodeSnapshot(
            hosts,
            TopologyCodes(),
            affinity_term_counts=counts,
            namespaces=namespaces or {},
            nominated={},
            pods_of_missing_nodes={name: tuple(pods_there) for name, pods_there in pods_by_node.items()},
        )

    def __len__(self) -> int:
        return len(self.nodes)

    def get(self, name: str) -> NodeInfo | None:
        return self.nodes.get(name)

    @property
    def node_generations(self) -> Array:
        """A number for each node that changes whenever the node or its pods change."""
        return self.nodes.column("stamp", lambda: lambda _: next(self.result_cache.generation_counter), np.int64)

    def with_node(self, node: Node) -> "NodeSnapshot":
        """Add the node, or replace the one of the same name and keep its pods."""
        before = self.nodes.get(node.name)
        residents = before.pods if before is not None else self.pods_of_missing_nodes.get(node.name, ())
        arriving = () if before is not None else residents
        strays = {name: pods for name, pods in self.pods_of_missing_nodes.items() if name != node.name}
        return self._with(
            nodes=self.nodes.change([build_node_info(node, residents)]),
            affinity_term_counts=self._update_term_counts(arriving, 1),
            pods_of_missing_nodes=strays,
        )

    def without_node(self, name: str) -> "NodeSnapshot":
        """Remove the node; its pods are kept in case it comes back."""
        leaving = self.nodes.get(name)
        if leaving is None:
            return self
        strays = {**self.pods_of_missing_nodes, name: leaving.pods} if leaving.pods else self.pods_of_missing_nodes
        return self._with(
            nodes=self.nodes.change(removed=[name]),
            affinity_term_counts=self._update_term_counts(leaving.pods, -1),
            pods_of_missing_nodes=strays,
        )

    def with_pod(self, pod: Pod) -> "NodeSnapshot":
        """Add the pod to its node, or replace it there."""
        if not occupies_node(pod):
            return self.without_pod(pod)
        return self.without_pod(pod).with_pod_on(build_pod_info(pod), pod.spec.node_name)

    def with_pod_on(self, pod: PodInfo, node: str) -> "NodeSnapshot":
        """As `with_pod`, for a pod that is known not to be in the snapshot."""
        node_info = self.nodes.get(node)
        if node_info is None:
            return self._with(
                pods_of_missing_nodes={
                    **self.pods_of_missing_nodes,
                    node: (*self.pods_of_missing_nodes.get(node, ()), pod),
                }
            )
        return self._with(
            nodes=self.nodes.change_load(node_info.with_pod(pod)),
            affinity_term_counts=self._update_term_counts((pod,), 1),
        )

    def without_pod(self, pod: Pod) -> "NodeSnapshot":
        """Remove the pod from its node."""
        node_info = self.nodes.get(pod.spec.node_name)
        key = (pod.metadata.namespace, pod.metadata.name)
        if node_info is None:
            return self._without_pod_of_missing_node(pod.spec.node_name, key)
        known = next((one for one in node_info.pods if one.key == key), None)
        return self if known is None else self.without_pods([known], pod.spec.node_name)

    def without_pods(self, pods: Iterable[PodInfo], node: str) -> "NodeSnapshot":
        """Return the next snapshot without these pods of one node, which must be the same objects."""
        node_info, leaving = self.nodes.targets[self.nodes.index[node]], tuple(pods)
        return self._with(
            nodes=self.nodes.change_load(node_info.without_pods(leaving)),
            affinity_term_counts=self._update_term_counts(leaving, -1),
        )

    def fork(self) -> "NodeSnapshot":
        """Return an equal snapshot for trials, whose changes do not fill the caches of this one."""
        return self._with(nodes=self.nodes.fork())

    def with_nominated(self, nominated: Mapping[str, tuple[PodInfo, ...]]) -> "NodeSnapshot":
        """Return the next snapshot with exactly these nominated pods, by node."""
        return self._with(nominated=nominated)

    def with_groups(self, groups: SelectorGroups) -> "NodeSnapshot":
        """Return the next snapshot with these services and workloads."""
        return self._with(groups=groups)

    def with_namespaces(self, namespaces: Mapping[str, Labels]) -> "NodeSnapshot":
        """Return the next snapshot with these namespace labels."""
        return self._with(namespaces=namespaces)

    def _without_pod_of_missing_node(self, node: str, key: tuple[str, str]) -> "NodeSnapshot":
        if node not in self.pods_of_missing_nodes:
            return self
        staying = tuple(one for one in self.pods_of_missing_nodes[node] if one.key != key)
        return self._with(pods_of_missing_nodes={**self.pods_of_missing_nodes, node: staying})

    def _update_term_counts(self, pods: Iterable[PodInfo], sign: int) -> Mapping[WeightedTerm, int]:
        terms = [term for one in pods for term in one.affinity_terms]
        if not terms:
            return self.affinity_term_counts
        counts = dict(self.affinity_term_counts)
        for term in terms:
            counts[term] = counts.get(term, 0) + sign
            if not counts[term]:
                del counts[term]
        return counts

    def _with(
        self,
        *,
        nodes: Fleet[NodeInfo] | None = None,
        affinity_term_counts: Mapping[WeightedTerm, int] | None = None,
        namespaces: Mapping[str, Labels] | None = None,
        nominated: Mapping[str, tuple[PodInfo, ...]] | None = None,
        pods_of_missing_nodes: Mapping[str, tuple[PodInfo, ...]] | None = None,
        groups: SelectorGroups | None = None,
    ) -> "NodeSnapshot":
        return NodeSnapshot(
            self.nodes if nodes is None else nodes,
            self.topology_codes,
            affinity_term_counts=self.affinity_term_counts if affinity_term_counts is None else affinity_term_counts,
            namespaces=self.namespaces if namespaces is None else namespaces,
            nominated=self.nominated if nominated is None else nominated,
            pods_of_missing_nodes=self.pods_of_missing_nodes
            if pods_of_missing_nodes is None
            else pods_of_missing_nodes,
            groups=self.groups if groups is None else groups,
            result_cache=self.result_cache,
        )


def occupies_node(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.is_terminal
