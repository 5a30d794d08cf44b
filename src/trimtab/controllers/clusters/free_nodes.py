"""The free resources of a cluster's nodes for Cluster status, as exact as a bounded size allows.

The control plane counts for each size of pod how many fit on each node. It needs what is free on every node, and the
labels and taints that pod templates select by. Nodes with the same labels and taints are one pool; nodes of a pool with
the same free resources are one entry. A cluster of equal nodes is one line, and a full node is in no entry at all.

The number of entries is limited. Above it, labels with many values are omitted, and then free amounts are rounded down, so
that entries merge: the count becomes smaller, never larger.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trimtab.api.kinds.cluster import EqualNodes, FreeNodes, NodePool, Taint
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.controllers.clusters.capacity import FINISHED_PHASES, add_amounts, format_amounts
from trimtab.decide.pods.fit.node_predicates import REPELLING
from trimtab.decide.pods.fit.requests import Amounts, parse_amounts, pod_resources_of

MAX_ENTRIES = 200
MAX_LABEL_VALUES = 50
"""A label with more values is omitted when there are too many entries."""
ROUNDING_STEPS = (64, 32, 16, 8, 4, 2, 1)
"""Free amounts are rounded down to multiples of the allocatable amount divided by these, until the entries are few."""
HOSTNAME = "kubernetes.io/hostname"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

TaintKey = tuple[tuple[str, str, str], ...]


class FreeNode(NamedTuple):
    """What one node offers to further pods."""

    labels: Mapping[str, str]
    taints: TaintKey
    free: Amounts
    allocatable: Amounts


def free_nodes(nodes: Sequence[Node], pods: Iterable[Pod]) -> FreeNodes:
    """What is free on the ready nodes, and the requests of pods that are about to be bound to one."""
    used: dict[str, Amounts] = {}
    waiting: Amounts = {}
    for pod in pods:
        if pod.spec.node_name:
            if pod.status.phase not in FINISHED_PHASES:
                add_amounts(used.setdefault(pod.spec.node_name, {}), pod_resources_of(pod).requests | {"pods": 1})
        elif _is_about_to_be_bound(pod):
            add_amounts(waiting, pod_resources_of(pod).requests | {"pods": 1})
    return free_nodes_of_use(nodes, used, waiting)


def free_nodes_of_use(nodes: Sequence[Node], used: Mapping[str, Amounts], waiting: Amounts) -> FreeNodes:
    """The same from what is used on each node, and what is about to be bound."""
    ready = [_free_node_of(node, used.get(node.name, {})) for node in nodes if node.is_ready]
    pools, omitted = _bounded_pools([node for node in ready if node.free.get("pods", 0) > 0])
    return FreeNodes(pools=pools, omitted_labels=tuple(sorted(omitted)), waiting=format_amounts(waiting))


def _is_about_to_be_bound(pod: Pod) -> bool:
    """Whether the scheduler has still to find a node; a pod for which there is none takes no capacity."""
    if pod.status.phase in FINISHED_PHASES or pod.metadata.deletion_timestamp is not None or pod.spec.scheduling_gates:
        return False
    return not any(one.type == "PodScheduled" and one.status == "False" for one in pod.status.conditions)


def _free_node_of(node: Node, used: Amounts) -> FreeNode:
    allocatable = parse_amounts(node.status.allocatable)
    free = {name: max(0, amount - used.get(name, 0)) for name, amount in allocatable.items()}
    taints = {(taint.key, taint.value, taint.effect) for taint in node.spec.taints if taint.effect in REPELLING}
    if node.spec.unschedulable:
        taints.add((UNSCHEDULABLE, "", "NoSchedule"))
    labels = {key: value for key, value in node.metadata.labels.items() if key != HOSTNAME}
    return FreeNode(labels, tuple(sorted(taints)), free, allocatable)


def _bounded_pools(free_nodes: Sequence[FreeNode]) -> tuple[tuple[NodePool, ...], set[str]]:
    """The pools of the nodes with at most `MAX_ENTRIES` entries, and the labels that they omit."""
    omitted = {HOSTNAME}
    entries = _count_entries(free_nodes)
    if len(entries) > MAX_ENTRIES:
        omitted |= _labels_with_many_values(free_nodes)
        free_nodes = [
            node._replace(labels={key: value for key, value in node.labels.items() if key not in omitted})
            for node in free_nodes
        ]
        for entries in _coarser_entries(free_nodes):
            if len(entries) <= MAX_ENTRIES:
                break
    return tuple(_pools(dict(entries.most_common(MAX_ENTRIES)))), omitted


Entry = tuple[tuple[tuple[str, str], ...], TaintKey, tuple[tuple[str, int], ...]]


def _count_entries(free_nodes: Iterable[FreeNode]) -> Counter[Entry]:
    return Counter(
        (tuple(sorted(node.labels.items())), node.taints, tuple(sorted(node.free.items()))) for node in free_nodes
    )


def _coarser_entries(free_nodes: Sequence[FreeNode]) -> Iterator[Counter[Entry]]:
    yield _count_entries(free_nodes)
    for step in ROUNDING_STEPS:
        yield _count_entries([node._replace(free=dict(_rounded_down(node, step))) for node in free_nodes])


def _rounded_down(node: FreeNode, step: int) -> Iterator[tuple[str, int]]:
    for name, amount in node.free.items():
        unit = max(1, node.allocatable[name] // step)
        yield name, amount // unit * unit


def _labels_with_many_values(free_nodes: Iterable[FreeNode]) -> set[str]:
    values: dict[str, set[str]] = {}
    for node in free_nodes:
        for key, value in node.labels.items():
            values.setdefault(key, set()).add(value)
    return {key for key, found in values.items() if len(found) > MAX_LABEL_VALUES}


def _pools(entries: Mapping[Entry, int]) -> Iterator[NodePool]:
    by_pool: dict[tuple[tuple[tuple[str, str], ...], TaintKey], list[EqualNodes]] = {}
    for (labels, taints, free), count in sorted(entries.items()):
        found = by_pool.setdefault((labels, taints), [])
        found.append(EqualNodes(count=count, free=format_amounts({name: n for name, n in free if n})))
    for (labels, taints), nodes in by_pool.items():
        yield NodePool(
            labels=dict(labels),
            taints=tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in taints),
            nodes=tuple(nodes),
        )
