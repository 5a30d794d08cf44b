"""Amounts of all nodes as arrays, for plugins that compute over the whole cluster."""

from collections.abc import Callable

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.pods.node_info import NodeInfo


def allocatable_array(nodes: Fleet[NodeInfo], resource: str) -> Array:
    return nodes.column(
        ("allocatable", resource),
        lambda: lambda node_info: node_info.allocatable.get(resource, 0),
        np.int64,
        ignores_load=True,
    )


def used_array(nodes: Fleet[NodeInfo], resource: str) -> Array:
    return nodes.column(("used", resource), lambda: lambda node_info: node_info.used.get(resource, 0), np.int64)


def free_array(nodes: Fleet[NodeInfo], resource: str) -> Array:
    """Return the amounts that no pod has requested; negative where requests exceed the allocatable amount."""
    return nodes.column(
        ("spare", resource),
        lambda: lambda node_info: node_info.allocatable.get(resource, 0) - node_info.used.get(resource, 0),
        np.int64,
        bulk=lambda: allocatable_array(nodes, resource) - used_array(nodes, resource),
    )


def size_array(nodes: Fleet[NodeInfo], resource: str) -> Array:
    """Return the divisor of shares: as floating point, because integer division is slow, and never 0."""
    return nodes.column(
        ("size", resource),
        lambda: lambda node_info: float(max(1, node_info.allocatable.get(resource, 0))),
        np.float64,
        ignores_load=True,
    )


def requested_array(nodes: Fleet[NodeInfo], resource: str) -> Array:
    """Return the same as `used_array`, as floating point."""
    return nodes.column(
        ("requested", resource), lambda: lambda node_info: float(node_info.used.get(resource, 0)), np.float64
    )


def free_pods_array(nodes: Fleet[NodeInfo]) -> Array:
    return nodes.column("free pods", lambda: lambda node_info: node_info.free_pods, np.int64)


def pod_counts(nodes: Fleet[NodeInfo]) -> Array:
    return nodes.column("pods", lambda: lambda node_info: len(node_info.pods), np.int64)


def unassumed_array(nodes: Fleet[NodeInfo], resource: str) -> Array:
    """Return the free cpu or memory by the assumed requests of scoring, as floating point."""
    assumed = _ASSUMED_AMOUNTS[resource]
    return nodes.column(
        ("unassumed", resource),
        lambda: lambda node_info: float(node_info.allocatable.get(resource, 0) - assumed(node_info)),
        np.float64,
    )


def _assumed_cpu(node_info: NodeInfo) -> int:
    return node_info.assumed_cpu


def _assumed_memory(node_info: NodeInfo) -> int:
    return node_info.assumed_memory


_ASSUMED_AMOUNTS: dict[str, Callable[[NodeInfo], int]] = {"cpu": _assumed_cpu, "memory": _assumed_memory}
