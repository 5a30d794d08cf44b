"""What makes the scheduler reconcile a binding: changes of the binding, of clusters, of Placements and of budgets."""

from collections.abc import Iterable

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.ocm_placement import PlacementDecision
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.quota import FederatedResourceQuota
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import is_drained
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import Index, View
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.move_start import is_blocked
from trimtab.controllers.propagation.scheduling.scope import is_scheduled_here
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL


def needs_scheduling(old: Binding | None, new: Binding) -> bool:
    return (
        old is None
        or (old.metadata.generation != new.metadata.generation and not is_own_write(old, new))
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or (is_scheduled_here(new) and not is_scheduled_here(old))
        or bool(old.status.holds and not new.status.holds)
        or is_approved(old, new)
    )


def is_approved(old: Binding, new: Binding) -> bool:
    """Whether a person has just approved a move."""
    approved = new.metadata.annotations.get(well_known.APPROVED_MOVE, "")
    return bool(approved) and approved != old.metadata.annotations.get(well_known.APPROVED_MOVE)


def is_own_write(old: Binding, new: Binding) -> bool:
    """Whether the scheduler itself changed the spec and set schedulerObservedGeneration in the same write."""
    observed = new.status.scheduler_observed_generation
    return observed == new.metadata.generation and observed != old.status.scheduler_observed_generation


def affected_bindings(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """The bindings whose decision a change of this cluster may affect."""
    if new is None:
        return
    eager = view.profile.retry_on_fleet_change
    if old is None and not eager:
        return
    redefined = old is None or (
        (old.metadata.labels, old.metadata.generation) != (new.metadata.labels, new.metadata.generation)
        or (old.metadata.deletion_timestamp is None and new.metadata.deletion_timestamp is not None)
        or is_drained(old, view.profile) != is_drained(new, view.profile)
        # A cluster that has just joined has no API enablements before its first status.
        or (eager and old.status.api_enablements != new.status.api_enablements)
    )
    capacity_changed = (
        eager
        and old is not None
        and (old.status.resource_summary, old.status.free_nodes) != (new.status.resource_summary, new.status.free_nodes)
    )
    if not redefined and not capacity_changed:
        return
    for binding in well_known.all_bindings(view) if redefined else waiting_bindings(new, view):
        if not is_scheduled_here(binding) or binding.spec.placement is None:
            continue
        pending = not is_condition_true(binding.status.conditions, "Scheduled")
        pending |= is_drained(new, view.profile) and new.name in binding_moves.current_placement(binding)
        if (eager and pending) or (redefined and any(may_select(binding, c) for c in (old, new) if c is not None)):
            yield key_of(binding)


def decision_states(binding: Binding) -> Iterable[str]:
    """`NOT_SCHEDULED` if the binding waits for a decision."""
    return () if is_condition_true(binding.status.conditions, "Scheduled") else (NOT_SCHEDULED,)


NOT_SCHEDULED = "not scheduled"
BINDINGS_BY_DECISION = Index("bindings by the state of their decision", ResourceBinding, decision_states)
CLUSTER_BINDINGS_BY_DECISION = Index(
    "cluster bindings by the state of their decision", ClusterResourceBinding, decision_states
)


def waiting_bindings(cluster: Cluster, view: View) -> list[Binding]:
    """The bindings without a decision, and those that a drained cluster still has, in the order of `all_bindings`."""
    found: list[Binding] = [
        *view.by_index(BINDINGS_BY_DECISION, NOT_SCHEDULED),
        *view.by_index(CLUSTER_BINDINGS_BY_DECISION, NOT_SCHEDULED),
    ]
    if is_drained(cluster, view.profile):
        found += well_known.bindings_in_cluster(view, cluster.name)
    return sorted(
        {key_of(binding): binding for binding in found}.values(),
        key=lambda binding: (not binding.namespace, binding.namespace, binding.name),
    )


def may_select(binding: Binding, cluster: Cluster) -> bool:
    """Whether the affinity group in use selects the cluster; True before a group has been chosen."""
    placement = binding.spec.placement or Placement()
    if placement.cluster_affinities:
        if binding.status.scheduler_observed_generation != binding.metadata.generation:
            return True
        observed = binding.status.scheduler_observing_affinity_name
        terms = placement.cluster_affinities
        term = next((t for t in terms if t.affinity_name == observed), terms[0])
        return affinity_matcher(term)(cluster)
    return affinity_matcher(placement.cluster_affinity)(cluster)


def bindings_of_placement_decision(
    old: PlacementDecision | None, new: PlacementDecision | None, view: View
) -> Iterable[Key]:
    """A Placement has a new decision: the bindings that take their candidates from it."""
    page = new or old
    if page is None or (old is not None and new is not None and old.status == new.status):
        return
    name = page.metadata.labels.get(PLACEMENT_LABEL, "")
    for binding in well_known.all_bindings(view):
        ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
        if ref is not None and ref.name == name and (ref.namespace or binding.namespace) == page.namespace:
            yield key_of(binding)


def bindings_blocked_by(old: DisruptionBudget | None, new: DisruptionBudget | None, view: View) -> Iterable[Key]:
    """A budget changed: the blocked bindings of its namespace."""
    if (budget := new or old) is not None:
        yield from map(key_of, view.by_index(BLOCKED_BINDINGS, budget.namespace))


def namespace_if_blocked(binding: ResourceBinding) -> Iterable[str]:
    return (binding.namespace,) if is_blocked(binding) else ()


BLOCKED_BINDINGS = Index("blocked bindings by namespace", ResourceBinding, namespace_if_blocked)


def bindings_that_wait_for_approval(
    old: DisruptionPolicy | None, new: DisruptionPolicy | None, view: View
) -> Iterable[Key]:
    """The settings for disruptions changed: an approval may not be required any more."""
    if old is not None and new is not None and old.spec.approval == new.spec.approval:
        return
    for binding in well_known.all_bindings(view):
        if binding.status.pending_approval is not None:
            yield key_of(binding)


def bindings_refused_by(
    old: FederatedResourceQuota | None, new: FederatedResourceQuota | None, view: View
) -> Iterable[Key]:
    """A quota or its use changed: the bindings of its namespace that were refused for lack of quota."""
    quota = new or old
    if quota is None or (old is not None and new is not None and (old.spec, old.status) == (new.spec, new.status)):
        return
    for binding in view.all(ResourceBinding, quota.namespace):
        if any(one.type == "Scheduled" and one.reason == "QuotaExceeded" for one in binding.status.conditions):
            yield key_of(binding)


def scheduling_priority(binding: Binding) -> int:
    return binding.spec.schedule_priority.priority if binding.spec.schedule_priority is not None else 0
