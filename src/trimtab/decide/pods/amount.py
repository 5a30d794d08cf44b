"""Amounts of all nodes as arrays, for rules that do arithmetic on the whole cluster."""

from collections.abc import Callable

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.pods.host import Host


def allocatable(hosts: Fleet[Host], resource: str) -> Array:
    return hosts.column(("allocatable", resource), lambda: lambda here: here.allocatable.get(resource, 0), np.int64)


def used(hosts: Fleet[Host], resource: str) -> Array:
    return hosts.column(("used", resource), lambda: lambda here: here.used.get(resource, 0), np.int64)


def free_pods(hosts: Fleet[Host]) -> Array:
    return hosts.column("free pods", lambda: lambda here: here.free_pods, np.int64)


def pod_counts(hosts: Fleet[Host]) -> Array:
    return hosts.column("pods", lambda: lambda here: len(here.residents), np.int64)


def assumed(hosts: Fleet[Host], resource: str) -> Array:
    """What scoring believes is used: cpu or memory."""
    return hosts.column(("assumed", resource), lambda: _ASSUMED[resource], np.int64)


def _assumed_cpu(here: Host) -> int:
    return here.assumed_cpu


def _assumed_memory(here: Host) -> int:
    return here.assumed_memory


_ASSUMED: dict[str, Callable[[Host], int]] = {"cpu": _assumed_cpu, "memory": _assumed_memory}
