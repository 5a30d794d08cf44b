"""Estimates how many more replicas each cluster can take: from its nodes, its summary or its resource models."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from trimtab.api.kinds.cluster import Cluster, ResourceSummary
from trimtab.api.kinds.work import Component
from trimtab.api.quantity import parse_quantity
from trimtab.api.value import QuantityText
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask, hashable_key
from trimtab.decide.node_capacity import CountedPods, PodSize, component_sets_on_nodes, pods_that_fit_nodes
from trimtab.decide.request import PlacementRequest, QuotaRoom, QuotaUse

UNLIMITED = (1 << 31) - 1
"""The value that Karmada uses for "no limit"."""

_PODS_PER_NODE = 110
_MAX_CACHED_REQUESTS = 64
_MAX_AMOUNT = (1 << 62) - 1

ResourceRequest = tuple[tuple[str, int], ...]


def estimate_free_replicas(request: PlacementRequest, fleet: Fleet[Cluster], *, from_nodes: bool = False) -> Array:
    """The replicas (or whole component sets) that each cluster can take in addition to what it runs.

    `from_nodes`: clusters that report their nodes are estimated node by node, instead of by sums or resource models.
    """
    capacity = _estimate_by_capacity(request, fleet, from_nodes=from_nodes)
    if not request.quota_room:
        return capacity
    needs = [(key, amount) for key, amount in request.footprint().items() if isinstance(key, QuotaUse) and amount > 0]
    limited = capacity.copy()
    for room in request.quota_room:
        if (column := fleet.index.get(room.cluster)) is not None:
            limited[column] = min([limited[column], *_fits_into_quota(room, needs, fleet, column)])
    return limited


def _fits_into_quota(
    room: QuotaRoom, needs: Sequence[tuple[QuotaUse, int]], fleet: Fleet[Cluster], column: int
) -> Iterator[int]:
    """How many further replicas, or component sets, fit by each resource that the quota limits, next to the reservations."""
    for resource, free in room.free:
        per_unit = sum(amount for use, amount in needs if use.resource == resource and room.limits(use.priority_class))
        if per_unit:
            namespace = next(use.namespace for use, _ in needs)
            reserved = sum(
                int(amounts[column])
                for use, amounts in fleet.reserved.items()
                if isinstance(use, QuotaUse)
                and (use.namespace, use.resource) == (namespace, resource)
                and room.limits(use.priority_class)
            )
            yield max(0, (free - reserved) // per_unit)


def _estimate_by_capacity(request: PlacementRequest, fleet: Fleet[Cluster], *, from_nodes: bool) -> Array:
    if request.replicas == 0 and not request.components:
        return np.full(len(fleet), UNLIMITED, dtype=np.int64)
    if request.components and request.in_component_sets:
        return _estimate_component_sets(request, fleet, from_nodes=from_nodes)
    counted = _pods_on_nodes(request, fleet) if from_nodes else None
    if counted is not None and counted.is_known.all():
        return counted.pods
    facts = _capacity_columns(fleet)
    capacity = _pods_that_fit(request.resource_request, fleet, facts)
    if counted is not None:
        capacity = np.where(counted.is_known, counted.pods, capacity)
    if facts.has_unlimited:
        return np.where(capacity >= UNLIMITED, request.replicas, capacity)  # no estimate: assume that all replicas fit
    return capacity


def _estimate_component_sets(request: PlacementRequest, fleet: Fleet[Cluster], *, from_nodes: bool) -> Array:
    components = request.components
    parts = tuple([_component_key(component, with_claim=from_nodes) for component in components])
    sets = fleet.column(
        ("component sets", from_nodes, parts),
        lambda: partial(count_component_sets, components, from_nodes=from_nodes),
    )
    sets = np.minimum(sets, UNLIMITED)
    # It is not known which nodes reservations will take: they are counted in sets, by their scarcest resource.
    needs = [(key, amount) for key, amount in request.footprint().items() if isinstance(key, str)]
    taken = [-(fleet.reserved[key] // -amount) for key, amount in needs if key in fleet.reserved and amount > 0]
    return np.maximum(sets - np.maximum.reduce(taken), 0) if taken else sets


def _pods_on_nodes(request: PlacementRequest, fleet: Fleet[Cluster]) -> CountedPods | None:
    """What fits on the nodes that clusters report, next to the reservations; None when no cluster reports them."""
    size = PodSize(request.resource_request or (), request.node_claim)
    counted = pods_that_fit_nodes(size, fleet)
    if counted is None or not fleet.reserved:
        return counted
    # It is not known which nodes reservations will take: they are counted in replicas, by their scarcest resource.
    needs = (*size.request, ("pods", 1))
    taken = [-(fleet.reserved[resource] // -amount) for resource, amount in needs if resource in fleet.reserved]
    return counted._replace(pods=np.maximum(counted.pods - np.maximum.reduce(taken), 0)) if taken else counted


def _pods_that_fit(request: ResourceRequest | None, fleet: Fleet[Cluster], facts: "_CapacityColumns") -> Array:
    """The pods of this size that fit into each cluster next to its current usage and the reservations."""
    if fleet.reserved:
        return _count_pods_that_fit(request, fleet, facts)
    counted = facts.counted.get(request)
    if counted is None:
        if len(facts.counted) >= _MAX_CACHED_REQUESTS:
            facts.counted.clear()
        counted = facts.counted[request] = _count_pods_that_fit(request, fleet, facts)
    return counted


def _count_pods_that_fit(request: ResourceRequest | None, fleet: Fleet[Cluster], facts: "_CapacityColumns") -> Array:
    reserved = fleet.reserved
    capacity = np.maximum(facts.pods - reserved["pods"], 0) if "pods" in reserved else facts.pods
    if request is None:
        return capacity
    by_summary = capacity
    for resource, amount in request:
        free = facts.free.get(resource)
        if free is None:
            free = facts.free[resource] = fleet.column(("free", resource), partial(_free_amount_of, resource))
        if resource in reserved:
            free = np.maximum(free - reserved[resource], 0)
        fits = free // amount
        by_summary = np.minimum(by_summary, fits, out=fits)
    if facts.uses_models is None:
        return by_summary
    by_models = fleet.column(("models", request), lambda: partial(_pods_that_fit_models_or_zero, request))
    # A model does not say which node is used: reservations are counted in replicas, by their scarcest resource.
    taken = [-(reserved[resource] // -amount) for resource, amount in request if resource in reserved]
    if taken:
        by_models = np.maximum(by_models - np.maximum.reduce(taken), 0)
    return np.where(facts.uses_models, np.minimum(capacity, by_models), by_summary)


class _CapacityColumns(NamedTuple):
    """What all estimates of one fleet revision share."""

    pods: Array
    has_unlimited: bool
    """Some cluster has so many free pods that its number does not count as an estimate."""
    uses_models: Mask | None
    """The clusters that report nodes by resource model; None when no cluster does."""
    free: dict[str, Array]
    """The free amounts of the resources that were needed so far."""
    counted: dict[ResourceRequest | None, Array]
    """The last results, by request, without reservations."""


def _capacity_columns(fleet: Fleet[Cluster]) -> _CapacityColumns:
    return fleet.compute_once("facts of capacity", lambda: _compute_capacity_columns(fleet))


def _compute_capacity_columns(fleet: Fleet[Cluster]) -> _CapacityColumns:
    pods = np.minimum(fleet.column("free pods", lambda: _free_pods), UNLIMITED)
    modelled = fleet.column("is modelled", lambda: has_resource_models, bool)
    return _CapacityColumns(pods, bool((pods >= UNLIMITED).any()), modelled if modelled.any() else None, {}, {})


def _free_pods(cluster: Cluster) -> int:
    return _free_amount_of("pods")(cluster)


def _free_amount_of(resource: str) -> Callable[[Cluster], int]:
    """The free amount of a resource: milli-units for cpu, else whole units; 0 when the cluster does not offer it."""
    scale = 1000 if resource == "cpu" else 1

    def free(cluster: Cluster) -> int:
        summary = cluster.status.resource_summary
        if summary is None or resource not in summary.allocatable:
            return 0
        return max(0, min(_MAX_AMOUNT, _ceil(_remaining(summary, resource) * scale)))

    return free


def _remaining(summary: ResourceSummary, resource: str) -> Fraction:
    offered = parse_quantity(summary.allocatable.get(resource, 0))
    return (
        offered
        - parse_quantity(summary.allocated.get(resource, 0))
        - parse_quantity(summary.allocating.get(resource, 0))
    )


def _ceil(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator)


def has_resource_models(cluster: Cluster) -> bool:
    """Whether the cluster reports its nodes by resource model; then the resource sums are ignored."""
    summary = cluster.status.resource_summary
    if summary is None or not summary.allocatable_modelings or not cluster.spec.resource_models:
        return False
    return all(counted.count >= 0 for counted in summary.allocatable_modelings)


def model_nodes(cluster: Cluster) -> list[tuple[int, dict[str, QuantityText]]]:
    """Node counts and node sizes, smallest model first: a node has at least the lower bound of its model."""
    summary = cluster.status.resource_summary
    if summary is None:
        return []
    counts: dict[int, int] = {}
    for counted in summary.allocatable_modelings:
        counts[counted.grade] = counts.get(counted.grade, 0) + counted.count
    models = {model.grade: model for model in cluster.spec.resource_models}
    return [
        (counts[grade], {bounds.name: bounds.min for bounds in models[grade].ranges})
        for grade in sorted(models)
        if counts.get(grade)
    ]


def _pods_that_fit_models_or_zero(request: ResourceRequest, cluster: Cluster) -> int:
    return pods_that_fit_models(request, cluster) if has_resource_models(cluster) else 0


def pods_that_fit_models(request: ResourceRequest, cluster: Cluster) -> int:
    """The pods of this size that fit on the nodes that the models report."""
    counted = [(resource, amount) for resource, amount in request if _is_modelled_resource(resource)]
    return sum(count * _pods_on_node(counted, node) for count, node in model_nodes(cluster))


def _pods_on_node(request: Sequence[tuple[str, int]], node: Mapping[str, QuantityText]) -> int:
    pods = _PODS_PER_NODE
    for resource, amount in request:
        if resource != "pods":
            pods = min(
                pods, _ceil(parse_quantity(node.get(resource, 0)) * (1000 if resource == "cpu" else 1)) // amount
            )
    return pods


def _is_modelled_resource(resource: str) -> bool:
    """Native and scalar resources count; other names are ignored, as in the node arithmetic of Kubernetes."""
    return (
        resource in ("cpu", "memory", "ephemeral-storage", "pods")
        or "/" in resource
        or resource.startswith(("hugepages-", "attachable-volumes-"))
    )


def _component_key(component: Component, *, with_claim: bool) -> Hashable:
    needs = component.replica_requirements
    claim = needs.node_claim if with_claim and needs is not None else None
    key = None if claim is None else hashable_key(claim)
    return component.replicas, tuple(sorted(_requests(component).items())), key


def _requests(component: Component) -> dict[str, QuantityText]:
    requirements = component.replica_requirements
    return requirements.resource_request if requirements is not None else {}


def count_component_sets(components: Sequence[Component], cluster: Cluster, *, from_nodes: bool = False) -> int:
    """How many whole sets of all components fit."""
    if from_nodes and cluster.status.free_nodes is not None:
        return component_sets_on_nodes(components, cluster)
    summary = cluster.status.resource_summary
    if summary is None:
        return 0
    pods = _ceil(_remaining(summary, "pods"))
    if pods <= 0:
        return 0
    per_set = sum(component.replicas for component in components)
    if per_set == 0:
        return pods
    sets = min(pods // per_set, _sets_by_summary(components, summary))
    return min(sets, _sets_on_nodes(components, cluster, sets)) if has_resource_models(cluster) else sets


def _sets_by_summary(components: Sequence[Component], summary: ResourceSummary) -> int:
    needed: dict[str, int] = {}
    for component in components:
        for resource, quantity in _requests(component).items():
            needed[resource] = needed.get(resource, 0) + component.replicas * _in_format_units(quantity)
    sets = UNLIMITED
    for resource, amount in needed.items():
        if amount > 0:
            sets = min(sets, _remaining_in_format_units(summary, resource) // amount)
    return sets


def _in_format_units(quantity: QuantityText) -> int:
    """A quantity in milli-units for the decimal format, in units for the binary one, as in Karmada's scheduler."""
    return _ceil(parse_quantity(quantity) * (1 if _is_binary_format(quantity) else 1000))


def _is_binary_format(quantity: QuantityText) -> bool:
    return isinstance(quantity, str) and quantity.endswith("i")


def _remaining_in_format_units(summary: ResourceSummary, resource: str) -> int:
    """The remainder keeps the format of the allocatable amount; zero takes the format of what is subtracted."""
    steps = (summary.allocatable, summary.allocated, summary.allocating)
    if resource not in summary.allocatable:
        return 0
    left, binary = Fraction(0), False
    for position, amounts in enumerate(steps):
        quantity = amounts.get(resource, 0)
        if position == 0 or (left == 0 and resource in amounts):
            binary = _is_binary_format(quantity)
        left = left - parse_quantity(quantity) if position else parse_quantity(quantity)
    return max(0, _ceil(left * (1 if binary else 1000)))


def _sets_on_nodes(components: Sequence[Component], cluster: Cluster, limit: int) -> int:
    """Place set after set by first fit until one component finds no node; what the failed set used stays used."""
    nodes = [
        {"pods": _PODS_PER_NODE, **{r: _node_amount(r, q) for r, q in node.items()}}
        for count, node in model_nodes(cluster)
        for _ in range(min(count, limit * sum(c.replicas for c in components)))
    ]
    templates = [
        (
            component.replicas,
            {r: _node_amount(r, q) for r, q in _requests(component).items() if _is_modelled_resource(r)},
        )
        for component in components
    ]
    for done in range(limit):
        if not all(_place_component(nodes, replicas, template) for replicas, template in templates):
            return done
    return limit


def _node_amount(resource: str, quantity: QuantityText) -> int:
    return _ceil(parse_quantity(quantity) * (1000 if resource == "cpu" else 1))


def _place_component(nodes: Sequence[dict[str, int]], replicas: int, template: Mapping[str, int]) -> bool:
    for node in nodes:
        if replicas == 0:
            break
        fits = min(
            [replicas, node["pods"], *(node.get(r, 0) // amount for r, amount in template.items() if amount > 0)]
        )
        if fits > 0:
            node["pods"] -= fits
            for resource, amount in template.items():
                node[resource] = node.get(resource, 0) - fits * amount
            replicas -= fits
    return replicas == 0
