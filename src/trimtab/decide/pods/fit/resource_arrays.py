"""Amounts of all nodes as arrays, for plugins that compute over the whole cluster."""

from collections.abc import Callable

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.pods.node_info import Host


def allocatable(hosts: Fleet[Host], resource: str) -> Array:
    return hosts.column(
        ("allocatable", resource), lambda: lambda node_info: node_info.allocatable.get(resource, 0), np.int64
    )


def used(hosts: Fleet[Host], resource: str) -> Array:
    return hosts.column(("used", resource), lambda: lambda node_info: node_info.used.get(resource, 0), np.int64)


def spare(hosts: Fleet[Host], resource: str) -> Array:
    """Return the amounts that no pod has requested; negative where requests exceed the allocatable amount."""
    return hosts.column(
        ("spare", resource),
        lambda: lambda node_info: node_info.allocatable.get(resource, 0) - node_info.used.get(resource, 0),
        np.int64,
        bulk=lambda: allocatable(hosts, resource) - used(hosts, resource),
    )


def size(hosts: Fleet[Host], resource: str) -> Array:
    """Return the divisor of shares: as floating point, because integer division is slow, and never 0."""
    return hosts.column(
        ("size", resource), lambda: lambda node_info: float(max(1, node_info.allocatable.get(resource, 0))), np.float64
    )


def requested(hosts: Fleet[Host], resource: str) -> Array:
    """Return the same as `used_array`, as floating point."""
    return hosts.column(
        ("requested", resource), lambda: lambda node_info: float(node_info.used.get(resource, 0)), np.float64
    )


def free_pods(hosts: Fleet[Host]) -> Array:
    return hosts.column("free pods", lambda: lambda node_info: node_info.free_pods, np.int64)


def pod_counts(hosts: Fleet[Host]) -> Array:
    return hosts.column("pods", lambda: lambda node_info: len(node_info.residents), np.int64)


def unassumed(hosts: Fleet[Host], resource: str) -> Array:
    """Return the free cpu or memory by the assumed requests of scoring, as floating point."""
    assumed = _ASSUMED[resource]
    return hosts.column(
        ("unassumed", resource),
        lambda: lambda node_info: float(node_info.allocatable.get(resource, 0) - assumed(node_info)),
        np.float64,
    )


def _assumed_cpu(here: Host) -> int:
    return here.assumed_cpu


def _assumed_memory(here: Host) -> int:
    return here.assumed_memory


_ASSUMED: dict[str, Callable[[Host], int]] = {"cpu": _assumed_cpu, "memory": _assumed_memory}
