"""Score clusters by allocatable cpu or memory, the largest of the feasible best."""

from collections.abc import Callable

import numpy as np

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.quantity import approximate_float, parse_quantity
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask, Scorer, prioritizer
from trimtab.decide.request import ScoreQuery

UNKNOWN = -1.0


def allocatable_amount(resource: str) -> Callable[[Cluster | ManagedCluster], float]:
    def amount(cluster: Cluster | ManagedCluster) -> float:
        if isinstance(cluster, ManagedCluster):
            status = cluster.status
            known = resource in status.allocatable and resource in status.capacity
            return approximate_float(status.allocatable[resource]) if known else UNKNOWN
        summary = cluster.status.resource_summary
        quantity = summary.allocatable.get(resource) if summary is not None else None
        return UNKNOWN if quantity is None else float(parse_quantity(quantity))

    return amount


def normalize_amounts(amounts: Array, feasible: Mask) -> Array:
    """From -100 for the smallest to 100 for the largest of the feasible; 0 where the amount is unknown."""
    known = feasible & (amounts >= 0)
    result = np.zeros(len(amounts), dtype=np.int64)
    if not known.any():
        return result
    low, high = float(amounts[known].min()), float(amounts[known].max())
    if low == high:
        result[known] = 100
    else:
        result[known] = (((amounts[known] - low) / (high - low) - 0.5) * 2 * 100).astype(np.int64)
    return result


def score_all_by(resource: str) -> Callable[[ScoreQuery, Fleet[Cluster], Mask], Array]:
    def sweep(query: ScoreQuery, fleet: Fleet[Cluster], feasible: Mask) -> Array:
        amounts = fleet.column(("allocatable", resource), lambda: allocatable_amount(resource), np.float64)
        return normalize_amounts(amounts, feasible)

    return sweep


def prepare_by(resource: str) -> Callable[[ScoreQuery, Fleet[Cluster]], Scorer[Cluster]]:
    def study(query: ScoreQuery, fleet: Fleet[Cluster]) -> Scorer[Cluster]:
        everyone = np.ones(len(fleet), dtype=bool)
        scores = score_all_by(resource)(query, fleet, everyone)
        return lambda cluster: int(scores[fleet.index[cluster.name]])

    return study


for name, of in (("ResourceAllocatableCPU", "cpu"), ("ResourceAllocatableMemory", "memory")):
    prioritizer(name, reads=lambda _: None, array=score_all_by(of), depends_on_feasible=True)(prepare_by(of))
