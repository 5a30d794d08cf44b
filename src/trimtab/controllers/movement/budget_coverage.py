"""Counts the replicas of the workloads that a DisruptionBudget covers."""

from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.work import Binding, ResourceBinding
from trimtab.controllers.contract import View
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.propagation.work_rendering import is_workload
from trimtab.decide.workload_counts import WorkloadCount, WorkloadCounts


def count_workloads(budget: DisruptionBudget, view: View) -> WorkloadCounts:
    """All workloads that the budget covers, counted now."""
    counts = WorkloadCounts(binding.name for binding in view.all(ResourceBinding, budget.namespace))
    count_again(counts, budget, view)
    return counts


def count_again(counts: WorkloadCounts, budget: DisruptionBudget, view: View) -> None:
    """Count the workloads that have changed."""
    for name in counts.take_changed():
        binding = view.get(ResourceBinding, budget.namespace, name)
        counts.put(name, count_of(binding, budget, view) if binding is not None and is_workload(binding) else None)


def count_of(binding: Binding, budget: DisruptionBudget, view: View) -> WorkloadCount:
    """What a workload adds to the budget: nothing if the budget does not select it."""
    reported = binding_moves.reported_by_cluster(binding)
    name, clusters = binding_moves.object_of(binding), tuple(reported)
    if not binding_moves.is_covered(binding, budget, view):
        return WorkloadCount(name, clusters)
    desired = binding_moves.desired_replicas(binding)
    ready = sum(n for cluster, n in reported.items() if binding_moves.is_cluster_ready(cluster, view))
    return WorkloadCount(name, clusters, desired, min(desired, ready), is_covered=True)
