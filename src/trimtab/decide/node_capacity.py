"""How many pods fit on the nodes of a cluster as they are: node by node, with the constraints of the pod template.

The sum of what is free says too much (six nodes with half a CPU do not take a pod of three), and a class of nodes says
too little (a node with 7 free CPUs counts as one with 4). What fits is the sum over the nodes of what fits on each: of the
nodes that the node selector and the node affinity select, and whose taints are tolerated.

What the status of a cluster does not tell is assumed to fit: names of nodes, and labels that it omits.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from trimtab.api.kinds.cluster import Cluster, FreeNodes, NodePool
from trimtab.api.kinds.work import Component, NodeClaim, NodeSelectorTerm
from trimtab.api.quantity import int_value, milli_value
from trimtab.api.selectors import LabelSelectorRequirement
from trimtab.api.value import QuantityText

ResourceRequest = tuple[tuple[str, int], ...]
UNKNOWN = -1
"""The cluster does not report its nodes."""


class PodSize(NamedTuple):
    """What one replica needs: resources, and the nodes it may run on."""

    request: ResourceRequest
    claim: NodeClaim | None = None


def amount_of(resource: str, quantity: QuantityText) -> int:
    """CPU in milli-units, everything else in whole units; never negative."""
    return max(0, milli_value(quantity) if resource == "cpu" else int_value(quantity))


def pods_that_fit_nodes(size: PodSize) -> Callable[[Cluster], int]:
    """Returns a function that counts the pods that fit into one cluster; `UNKNOWN` without a report of nodes."""

    def count(cluster: Cluster) -> int:
        found = cluster.status.free_nodes
        if found is None:
            return UNKNOWN
        total = sum(
            nodes.count * _pods_on_node(size.request, nodes.free)
            for pool in found.pools
            if is_eligible(pool, size.claim, found.omitted_labels)
            for nodes in pool.nodes
        )
        return max(0, total - _waiting_pods(size.request, found)) if total else 0

    return count


def _pods_on_node(request: ResourceRequest, free: Mapping[str, QuantityText]) -> int:
    pods = amount_of("pods", free.get("pods", 0))
    for resource, amount in request:
        if resource != "pods":
            pods = min(pods, amount_of(resource, free.get(resource, 0)) // amount)
    return pods


def _waiting_pods(request: ResourceRequest, found: FreeNodes) -> int:
    """The replicas that pods about to be bound displace, by the resource that is scarcest."""
    if not found.waiting:
        return 0
    amounts = dict(request) | {"pods": 1}
    return max(
        -(-amount_of(resource, found.waiting[resource]) // amount)
        for resource, amount in amounts.items()
        if resource in found.waiting
    )


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
