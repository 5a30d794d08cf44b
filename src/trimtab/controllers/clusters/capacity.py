"""Capacity of a member cluster for Cluster status, from its nodes and pods."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from trimtab.api.kinds.cluster import AllocatableModeling, NodeSummary, ResourceModel, ResourceSummary
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.quantity import int_value, milli_value, parse_quantity
from trimtab.api.value import QuantityText
from trimtab.decide.pods.fit.requests import Amounts, parse_amounts, pod_resources_of

FINISHED_PHASES = ("Succeeded", "Failed")
BINARY_RESOURCES = ("memory", "ephemeral-storage", "storage")


def node_summary(nodes: Sequence[Node]) -> NodeSummary:
    ready = sum(any(c.type == "Ready" and c.status == "True" for c in node.status.conditions) for node in nodes)
    return NodeSummary(total_num=len(nodes), ready_num=ready)


def resource_summary(nodes: Sequence[Node], pods: Iterable[Pod], models: Sequence[ResourceModel]) -> ResourceSummary:
    """Allocatable, allocated and pending resources, and the number of nodes per grade of free resources."""
    pending: Amounts = {}
    used: dict[str, Amounts] = {}
    for pod in pods:
        requests = pod_resources_of(pod).requests | {"pods": 1}
        if not pod.spec.node_name:
            add_amounts(pending, requests)
        elif pod.status.phase not in FINISHED_PHASES:
            add_amounts(used.setdefault(pod.spec.node_name, {}), requests)
    return summary_of_use(nodes, used, pending, models)


def summary_of_use(
    nodes: Sequence[Node], used: Mapping[str, Amounts], pending: Amounts, models: Sequence[ResourceModel]
) -> ResourceSummary:
    """The same from what is used on each node, and what pods without a node request."""
    allocatable: Amounts = {}
    for node in nodes:
        # A node that reports less than nothing takes nothing away from the others.
        add_amounts(
            allocatable, {name: max(0, amount) for name, amount in parse_amounts(node.status.allocatable).items()}
        )
    allocated: Amounts = {}
    for amounts in used.values():
        add_amounts(allocated, amounts)
    return ResourceSummary(
        allocatable=format_amounts(allocatable),
        allocated=format_amounts(allocated),
        allocating=format_amounts(pending),
        allocatable_modelings=count_nodes_by_grade(nodes, used, models),
    )


def add_amounts(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def format_amounts(total: Amounts) -> dict[str, QuantityText]:
    return {name: format_quantity(name, amount) for name, amount in sorted(total.items())}


def format_quantity(name: str, amount: int) -> str:
    if name == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in BINARY_RESOURCES and amount and amount % 1024 == 0:
        return f"{amount // 1024}Ki"
    return str(amount)


def count_nodes_by_grade(
    nodes: Sequence[Node], used: Mapping[str, Amounts], models: Sequence[ResourceModel]
) -> tuple[AllocatableModeling, ...]:
    """Number of nodes per grade of free resources; a node without a free pod slot is not counted."""
    if not models:
        return ()
    counts = {model.grade: 0 for model in models}
    for node in nodes:
        free = parse_amounts(node.status.allocatable)
        for name, amount in used.get(node.name, {}).items():
            free[name] = free.get(name, 0) - amount
        if free.get("pods", 0) > 0:
            counts[grade_of(free, models)] += 1
    return tuple(AllocatableModeling(grade=g, count=n) for g, n in sorted(counts.items()))


def grade_of(free: Amounts, models: Sequence[ResourceModel]) -> int:
    """The lowest, over the modelled resources, of the highest grade whose minimum is free."""
    ordered = sorted(models, key=lambda model: model.grade)
    names = [r.name for r in ordered[0].ranges]
    found = []
    for name in names:
        best = ordered[0].grade
        for model in ordered:
            least = next((r.min for r in model.ranges if r.name == name), 0)
            if amount_of(name, least) <= free.get(name, 0):
                best = model.grade
        found.append(best)
    return min(found, default=ordered[0].grade)


def amount_of(name: str, text: QuantityText) -> int | Fraction:
    return (
        milli_value(text) if name == "cpu" else int_value(text) if parse_quantity(text) >= 0 else parse_quantity(text)
    )
