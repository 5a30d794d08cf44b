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
from trimtab.controllers.propagation.work_rendering import is_workload
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
    states = (NOT_SCHEDULED, DECIDED_ANEW) if redefined else (NOT_SCHEDULED,)
    is_drained_now = is_drained(new, view.profile)
    found = bindings_in_states(states, view)
    if redefined or is_drained_now:
        found += well_known.bindings_in_cluster(view, new.name)
    for binding in in_order(found):
        if not is_scheduled_here(binding) or binding.spec.placement is None:
            continue
        pending = not is_condition_true(binding.status.conditions, "Scheduled")
        pending |= is_drained_now and new.name in binding_moves.current_placement(binding)
        if (eager and pending) or (redefined and any(may_select(binding, c) for c in (old, new) if c is not None)):
            yield key_of(binding)


NOT_SCHEDULED = "not scheduled"
DECIDED_ANEW = "decided anew"


def decision_states(binding: Binding) -> Iterable[str]:
    """`NOT_SCHEDULED`, or `DECIDED_ANEW` if a cluster in which the workload does not run may change the decision."""
    if not is_condition_true(binding.status.conditions, "Scheduled"):
        return (NOT_SCHEDULED,)
    return () if is_kept(binding) else (DECIDED_ANEW,)


def is_kept(binding: Binding) -> bool:
    """Whether the scheduler has nothing to decide until the binding itself or one of its clusters changes.

    So it is with a divided workload whose last decision is complete: `reschedule_reason` finds a reason only in the
    binding and its clusters.
    """
    spec, status = binding.spec, binding.status
    scheduling = spec.placement.replica_scheduling if spec.placement is not None else None
    if spec.placement is None or scheduling is None or scheduling.replica_scheduling_type != "Divided":
        return False
    requested = spec.reschedule_triggered_at
    return (
        is_workload(binding)
        and not spec.components
        and spec.placement.placement_ref is None
        and status.scheduler_observed_generation == binding.metadata.generation
        and (requested is None or (status.last_scheduled_time is not None and requested < status.last_scheduled_time))
        and sum([target.replicas for target in spec.clusters]) == spec.replicas
        and status.pending_approval is None
        and binding_moves.stalled_condition_of(binding) is None
        and bool(binding.metadata.annotations.get(well_known.APPLIED_PLACEMENT))
    )


BINDINGS_BY_DECISION = Index("bindings by what may change their decision", ResourceBinding, decision_states)
CLUSTER_BINDINGS_BY_DECISION = Index(
    "cluster bindings by what may change their decision", ClusterResourceBinding, decision_states
)


def bindings_in_states(states: Iterable[str], view: View) -> list[Binding]:
    found: list[Binding] = []
    for state in states:
        found += [*view.by_index(BINDINGS_BY_DECISION, state), *view.by_index(CLUSTER_BINDINGS_BY_DECISION, state)]
    return found


def in_order(bindings: Iterable[Binding]) -> list[Binding]:
    """Each binding once, in the order of `all_bindings`."""
    return sorted(
        {key_of(binding): binding for binding in bindings}.values(),
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
    placement = f"{page.namespace}/{page.metadata.labels.get(PLACEMENT_LABEL, '')}"
    yield from map(key_of, view.by_index(BINDINGS_BY_PLACEMENT, placement))
    yield from map(key_of, view.by_index(CLUSTER_BINDINGS_BY_PLACEMENT, placement))


def placement_of_binding(binding: Binding) -> Iterable[str]:
    """The Placement that the binding takes its candidates from, as `namespace/name`."""
    ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
    return () if ref is None else (f"{ref.namespace or binding.namespace}/{ref.name}",)


BINDINGS_BY_PLACEMENT = Index("bindings by Placement", ResourceBinding, placement_of_binding)
CLUSTER_BINDINGS_BY_PLACEMENT = Index("cluster bindings by Placement", ClusterResourceBinding, placement_of_binding)


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
