"""Amounts of all nodes as arrays, for rules that do arithmetic on the whole cluster."""

from collections.abc import Callable

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.pods.node_info import Host


def allocatable(hosts: Fleet[Host], resource: str) -> Array:
    return hosts.column(("allocatable", resource), lambda: lambda here: here.allocatable.get(resource, 0), np.int64)


def used(hosts: Fleet[Host], resource: str) -> Array:
    return hosts.column(("used", resource), lambda: lambda here: here.used.get(resource, 0), np.int64)


def spare(hosts: Fleet[Host], resource: str) -> Array:
    """What no pod has requested; below 0 where pods asked for more than the node has."""
    return hosts.column(
        ("spare", resource),
        lambda: lambda here: here.allocatable.get(resource, 0) - here.used.get(resource, 0),
        np.int64,
        bulk=lambda: allocatable(hosts, resource) - used(hosts, resource),
    )


def size(hosts: Fleet[Host], resource: str) -> Array:
    """What a share is a share of: as floating point, because whole numbers divide slowly, and never 0."""
    return hosts.column(
        ("size", resource), lambda: lambda here: float(max(1, here.allocatable.get(resource, 0))), np.float64
    )


def requested(hosts: Fleet[Host], resource: str) -> Array:
    """The same as `used`, as floating point."""
    return hosts.column(("requested", resource), lambda: lambda here: float(here.used.get(resource, 0)), np.float64)


def free_pods(hosts: Fleet[Host]) -> Array:
    return hosts.column("free pods", lambda: lambda here: here.free_pods, np.int64)


def pod_counts(hosts: Fleet[Host]) -> Array:
    return hosts.column("pods", lambda: lambda here: len(here.residents), np.int64)


def unassumed(hosts: Fleet[Host], resource: str) -> Array:
    """What scoring believes is left, of cpu or memory, as floating point."""
    assumed = _ASSUMED[resource]
    return hosts.column(
        ("unassumed", resource),
        lambda: lambda here: float(here.allocatable.get(resource, 0) - assumed(here)),
        np.float64,
    )


def _assumed_cpu(here: Host) -> int:
    return here.assumed_cpu


def _assumed_memory(here: Host) -> int:
    return here.assumed_memory


_ASSUMED: dict[str, Callable[[Host], int]] = {"cpu": _assumed_cpu, "memory": _assumed_memory}
