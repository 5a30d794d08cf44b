"""How many pods fit on the nodes of a cluster as they are: node by node, with the constraints of the pod template.

The sum of what is free says too much (six nodes with half a CPU do not take a pod of three), and a class of nodes says
too little (a node with 7 free CPUs counts as one with 4). What fits is the sum over the nodes of what fits on each: of the
nodes that the node selector and the node affinity select, and whose taints are tolerated.

What the status of a cluster does not tell is assumed to fit: names of nodes, and labels that it omits.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.api.kinds.cluster import Cluster, FreeNodes, NodePool
from trimtab.api.kinds.work import Component, NodeClaim, NodeSelectorTerm
from trimtab.api.quantity import int_value, milli_value
from trimtab.api.selectors import LabelSelectorRequirement
from trimtab.api.value import QuantityText
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask, hashable_key

ResourceRequest = tuple[tuple[str, int], ...]
_MAX_AMOUNT = (1 << 62) - 1
_UNLIMITED = (1 << 31) - 1
"""The value that Karmada uses for "no limit"; a count stays below it."""
_MAX_CLAIMS = 256
_MAX_CACHED_REQUESTS = 64


class PodSize(NamedTuple):
    """What one replica needs: resources, and the nodes it may run on."""

    request: ResourceRequest
    claim: NodeClaim | None = None


def amount_of(resource: str, quantity: QuantityText) -> int:
    """CPU in milli-units, everything else in whole units; never negative."""
    return min(_MAX_AMOUNT, max(0, milli_value(quantity) if resource == "cpu" else int_value(quantity)))


class _ClusterNodes(NamedTuple):
    """The nodes of one cluster, with amounts as numbers."""

    pools: tuple[NodePool, ...]
    omitted: tuple[str, ...]
    pool_of_entry: Array
    counts: Array
    free: dict[str, Array]
    """Per resource one amount for each entry."""
    waiting: dict[str, int]


def _read_nodes(cluster: Cluster) -> _ClusterNodes | None:
    found = cluster.status.free_nodes
    if found is None:
        return None
    entries = [(number, nodes) for number, pool in enumerate(found.pools) for nodes in pool.nodes]
    resources = {name for _, nodes in entries for name in nodes.free}
    return _ClusterNodes(
        found.pools,
        found.omitted_labels,
        _array([number for number, _ in entries]),
        _array([nodes.count for _, nodes in entries]),
        {name: _array([amount_of(name, nodes.free.get(name, 0)) for _, nodes in entries]) for name in resources},
        {name: amount_of(name, quantity) for name, quantity in found.waiting.items()},
    )


def _array(values: Sequence[int]) -> Array:
    return np.array(values, dtype=np.int64)


class FleetNodes:
    """The entries of all clusters of one fleet revision as arrays: what fits is computed for all nodes at once.

    Parsing is per cluster and repeated only for clusters that changed; the parts of all clusters are then joined as
    arrays. Requests differ from binding to binding, so a request must cost only array work; the nodes that a claim
    selects are kept for as long as nothing changes.
    """

    def __init__(self, clusters: Sequence[_ClusterNodes | None]) -> None:
        reported = [(column, nodes) for column, nodes in enumerate(clusters) if nodes is not None]
        self._reported = [nodes for _, nodes in reported]
        self.is_known = np.array([nodes is not None for nodes in clusters], dtype=bool)
        sizes = np.array([len(nodes.counts) for nodes in self._reported], dtype=np.int64)
        self._size = int(sizes.sum())
        self._counts = self._concatenate([nodes.counts for nodes in self._reported])
        pools = np.array([len(nodes.pools) for nodes in self._reported], dtype=np.int64)
        offsets = np.repeat(np.cumsum(pools) - pools, sizes)
        self._pool_of_entry = self._concatenate([nodes.pool_of_entry for nodes in self._reported]) + offsets
        filled = sizes > 0
        self._first_entries = (np.cumsum(sizes) - sizes)[filled]
        self._filled_columns = np.array([column for column, _ in reported], dtype=np.intp)[filled]
        self._reported_columns = np.array([column for column, _ in reported], dtype=np.intp)
        self._has_waiting = any(nodes.waiting for nodes in self._reported)
        self._amounts: dict[str, Array] = {}
        self._eligible: dict[Hashable, Mask] = {}

    def _concatenate(self, parts: Sequence[Array]) -> Array:
        return np.concatenate(parts) if parts else _array(())

    def count_pods(self, size: PodSize) -> Array:
        """The pods of this size that fit into each cluster; 0 where nodes are not reported."""
        result = np.zeros(len(self.is_known), dtype=np.int64)
        if not self._size:
            return result
        fits = self._free("pods")
        for resource, amount in size.request:
            if resource != "pods":
                fits = np.minimum(fits, self._free(resource) // amount)
        fits = fits * self._counts
        fits[~self._eligible_pools(size.claim)[self._pool_of_entry]] = 0
        result[self._filled_columns] = np.add.reduceat(fits, self._first_entries)
        waiting = self._waiting_pods(size.request)
        return np.minimum(result if waiting is None else np.maximum(result - waiting, 0), _UNLIMITED - 1)

    def _free(self, resource: str) -> Array:
        found = self._amounts.get(resource)
        if found is None:
            parts = [nodes.free.get(resource) for nodes in self._reported]
            known = [
                np.zeros_like(nodes.counts) if part is None else part
                for part, nodes in zip(parts, self._reported, strict=True)
            ]
            found = self._amounts[resource] = self._concatenate(known)
        return found

    def _eligible_pools(self, claim: NodeClaim | None) -> Mask:
        key = None if claim is None else hashable_key(claim)
        found = self._eligible.get(key)
        if found is None:
            if len(self._eligible) >= _MAX_CLAIMS:
                self._eligible.clear()
            found = self._eligible[key] = np.array(self._eligible_flags(claim), dtype=bool)
        return found

    def _eligible_flags(self, claim: NodeClaim | None) -> list[bool]:
        if claim is None:
            return [not pool.taints for nodes in self._reported for pool in nodes.pools]
        return [is_eligible(pool, claim, nodes.omitted) for nodes in self._reported for pool in nodes.pools]

    def _waiting_pods(self, request: ResourceRequest) -> Array | None:
        """The replicas that pods about to be bound displace, by the resource that is scarcest."""
        if not self._has_waiting:
            return None
        taken = np.zeros(len(self.is_known), dtype=np.int64)
        for resource, amount in (*request, ("pods", 1)):
            waiting = np.array([nodes.waiting.get(resource, 0) for nodes in self._reported], dtype=np.int64)
            taken[self._reported_columns] = np.maximum(taken[self._reported_columns], -(waiting // -amount))
        return taken


def fleet_nodes(fleet: Fleet[Cluster]) -> FleetNodes | None:
    """The nodes of all clusters; None when no cluster reports them."""

    def build() -> FleetNodes | None:
        parsed = fleet.column("nodes", lambda: _read_nodes, np.object_)
        return FleetNodes(parsed.tolist()) if any(nodes is not None for nodes in parsed) else None

    return fleet.compute_once("nodes of the fleet", build)


class CountedPods(NamedTuple):
    """How many pods fit into each cluster, and which clusters report their nodes."""

    pods: Array
    is_known: Mask


def pods_that_fit_nodes(size: PodSize, fleet: Fleet[Cluster]) -> CountedPods | None:
    """The pods of this size that fit into each cluster; None when no cluster reports its nodes."""
    nodes = fleet_nodes(fleet)
    if nodes is None:
        return None
    key = ("pods on nodes", size.request, None if size.claim is None else hashable_key(size.claim))
    pods = fleet.compute_once(key, lambda: nodes.count_pods(size), max_entries=_MAX_CACHED_REQUESTS)
    return CountedPods(pods, nodes.is_known)


def is_eligible(pool: NodePool, claim: NodeClaim | None, omitted: Collection[str]) -> bool:
    """Whether pods with this claim may run on the nodes of the pool."""
    tolerations = claim.tolerations if claim is not None else ()
    if not all(any(one.tolerates(taint) for one in tolerations) for taint in pool.taints):
        return False
    if claim is None:
        return True
    wanted = ((key, value) for key, value in claim.node_selector.items() if key not in omitted)
    if any(pool.labels.get(key) != value for key, value in wanted):
        return False
    required = claim.hard_node_affinity
    return required is None or any(_term_matches(term, pool, omitted) for term in required.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, pool: NodePool, omitted: Collection[str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False  # as in Kubernetes: a term without parts matches no node
    rules = [
        LabelSelectorRequirement(key=rule.key, operator=rule.operator, values=rule.values)
        for rule in term.match_expressions
        if rule.key not in omitted
    ]
    return all(rule.matches(pool.labels) for rule in rules)


def free_amount(cluster: Cluster, resource: str) -> int | None:
    """The free amount on all nodes; None when the cluster does not report them."""
    found = cluster.status.free_nodes
    if found is None:
        return None
    total = sum(
        nodes.count * amount_of(resource, nodes.free.get(resource, 0)) for pool in found.pools for nodes in pool.nodes
    )
    return max(0, total - amount_of(resource, found.waiting.get(resource, 0)))


def component_sets_on_nodes(components: Sequence[Component], cluster: Cluster) -> int:
    """How many whole sets fit: set after set, each component on the first nodes with room for it.

    Nodes that few components may use come first, so that a component without constraints leaves the others to those that
    need them.
    """
    found = cluster.status.free_nodes or FreeNodes()
    templates = [(one.replicas, _size_of(one)) for one in components]
    limit = _most_sets(templates, cluster)
    nodes = list(_single_nodes(found, limit * sum(component.replicas for component in components)))
    nodes.sort(key=lambda node: sum(is_eligible(node[0], size.claim, found.omitted_labels) for _, size in templates))
    for done in range(limit):
        for replicas, size in templates:
            if not _place(nodes, replicas, size, found.omitted_labels):
                return done
    return limit


def _most_sets(templates: Sequence[tuple[int, PodSize]], cluster: Cluster) -> int:
    """The sets for which the free resources of all nodes together suffice."""
    needed: dict[str, int] = {}
    for replicas, size in templates:
        for name, amount in (*size.request, ("pods", 1)):
            needed[name] = needed.get(name, 0) + replicas * amount
    limits = [(free_amount(cluster, name) or 0) // amount for name, amount in needed.items() if amount]
    return min(limits, default=free_amount(cluster, "pods") or 0)


def _size_of(component: Component) -> PodSize:
    needs = component.replica_requirements
    if needs is None:
        return PodSize(())
    amounts = [(name, amount_of(name, quantity)) for name, quantity in needs.resource_request.items()]
    return PodSize(tuple((name, amount) for name, amount in amounts if amount), needs.node_claim)


def _single_nodes(found: FreeNodes, enough: int) -> Iterator[tuple[NodePool, dict[str, int]]]:
    for pool in found.pools:
        for nodes in pool.nodes:
            free = {name: amount_of(name, quantity) for name, quantity in nodes.free.items()}
            for _ in range(min(nodes.count, enough)):
                yield pool, dict(free)


def _place(
    nodes: Sequence[tuple[NodePool, dict[str, int]]], replicas: int, size: PodSize, omitted: Collection[str]
) -> bool:
    for pool, free in nodes:
        if replicas == 0:
            break
        if not is_eligible(pool, size.claim, omitted):
            continue
        fits = min([replicas, free.get("pods", 0), *(free.get(name, 0) // amount for name, amount in size.request)])
        for name, amount in (*size.request, ("pods", 1)):
            free[name] = free.get(name, 0) - fits * amount
        replicas -= fits
    return replicas == 0
