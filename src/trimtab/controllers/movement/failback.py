"""Returns a workload to its preferred clusters after these have been healthy for the whole failback window."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

import msgspec

from trimtab.api.duration import parse_duration
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, PreviousPlacement, ResourceBinding
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.contract import Effect, Index, RecordEvent, RequeueAfter, Trigger, View, controller
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.gate import SOURCE
from trimtab.controllers.placement_requests import request_for
from trimtab.controllers.propagation.scheduling.candidates import placement_candidates
from trimtab.controllers.propagation.scheduling.intent import returns_to_previous
from trimtab.controllers.propagation.scheduling.scope import is_scheduled_here
from trimtab.decide.karmada import BindingDecision, decide

DEFAULT_WINDOW = timedelta(minutes=10)
MAX_WINDOW = timedelta(days=1)
MAX_DOUBLINGS = 16


RETURNS = "returns"


def failback_states(binding: Binding) -> Iterable[str]:
    """`RETURNS` if the policy wants the workload back where it was before."""
    return (RETURNS,) if binding.spec.placement is not None and binding.spec.placement.failback is not None else ()


RETURNING_BINDINGS = Index("bindings with failback", ResourceBinding, failback_states)
RETURNING_CLUSTER_BINDINGS = Index("cluster bindings with failback", ClusterResourceBinding, failback_states)


def bindings_awaiting_failback(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """Wake bindings that may return when a cluster changes readiness, taints or labels, so that no flap is missed."""
    if old is None or (new is not None and scheduling_inputs_of(old) == scheduling_inputs_of(new)):
        return
    for binding in (*view.by_index(RETURNING_BINDINGS, RETURNS), *view.by_index(RETURNING_CLUSTER_BINDINGS, RETURNS)):
        if has_better_placement(binding):
            yield key_of(binding)


def scheduling_inputs_of(cluster: Cluster) -> tuple[object, ...]:
    return is_ready(cluster), cluster.spec.taints, cluster.metadata.labels


def concerns_failback(old: Binding | None, new: Binding) -> bool:
    return new.spec.placement is not None and new.spec.placement.failback is not None


@controller(
    *well_known.BINDINGS,
    writes=[
        "spec.rescheduleTriggeredAt",
        f"metadata.annotations[{well_known.REQUESTED_BY}]",
        "status.previousPlacement",
    ],
    predicate=concerns_failback,
    triggers=[Trigger(Cluster, bindings_awaiting_failback)],
    resumes=True,
)
def failback(binding: Binding, view: View) -> Iterator[Effect]:
    placement = binding.spec.placement
    if (
        placement is None
        or placement.failback is None
        or not is_scheduled_here(binding)
        or not view.profile.replacement_first
    ):
        return
    if binding.metadata.deletion_timestamp is not None or is_busy(binding):
        return
    previous = binding.status.previous_placement
    if not has_better_placement(binding):
        if previous is not None:
            yield state.forget_placement(binding)
        return
    healthy_since = previous.healthy_since if previous is not None else None
    reverted = previous.reverted_failbacks if previous is not None else 0
    if not can_return(binding, view):
        if healthy_since is not None or reverted:
            # Whatever closed the clusters may also have fixed them, so the count of undone returns starts again at 0.
            yield state.time_return(binding, None, reverted=0)
        return
    window = failback_window(placement, reverted)
    if healthy_since is None:
        yield state.time_return(binding, view.now)
        yield RequeueAfter(window.total_seconds())
        return
    remaining = (healthy_since + window - view.now).total_seconds()
    if remaining > 0:
        yield RequeueAfter(remaining)
        return
    yield from trigger_failback(binding, view)


def failback_window(placement: Placement, undone: int = 0) -> timedelta:
    """How long the preferred clusters must be healthy; longer after every return that was undone."""
    text = placement.failback.after if placement.failback is not None else ""
    window = parse_duration(text) if text else DEFAULT_WINDOW
    if not undone:
        return window
    longer = max(window, DEFAULT_WINDOW / 2) * (1 << min(undone, MAX_DOUBLINGS))
    return max(window, min(longer, MAX_WINDOW))


def is_busy(binding: Binding) -> bool:
    """Another move is in progress, or a fresh decision is already requested."""
    last, stamp = binding.status.last_scheduled_time, binding.spec.reschedule_triggered_at
    waits = last is None or (stamp is not None and stamp > last)
    return waits or bool(binding.status.holds or binding.spec.graceful_eviction_tasks)


def has_better_placement(binding: Binding) -> bool:
    """Whether a better placement exists: an earlier affinity group, or the clusters that the workload left."""
    if returns_to_previous(binding):
        previous = binding.status.previous_placement
        return (
            previous is not None
            and bool(previous.clusters)
            and previous_cluster_names(previous) != set(binding_moves.current_placement(binding))
        )
    return affinity_group_index(binding) > 0


def previous_cluster_names(previous: PreviousPlacement) -> set[str]:
    return {target.name for target in previous.clusters}


def affinity_group_index(binding: Binding) -> int:
    """The position of the affinity group in use; 0 without groups."""
    groups = [t.affinity_name for t in binding.spec.placement.cluster_affinities] if binding.spec.placement else []
    observed = binding.status.scheduler_observing_affinity_name
    return groups.index(observed) if observed in groups else 0


def can_return(binding: Binding, view: View) -> bool:
    """Whether a fresh decision would select the preferred clusters now, and all of them are ready."""
    decision = decide_return(binding, view)
    if not decision.ok:
        return False
    if not all(binding_moves.is_cluster_ready(name, view) for name, _ in decision.clusters):
        return False
    previous = binding.status.previous_placement
    if returns_to_previous(binding) and previous is not None:
        return {name for name, _ in decision.clusters} == previous_cluster_names(previous)
    return 0 <= decision.group < affinity_group_index(binding)


def decide_return(binding: Binding, view: View) -> BindingDecision:
    request = request_for(binding, view, placement_candidates(binding, view))
    request = msgspec.structs.replace(request, fresh=True)
    previous = binding.status.previous_placement
    if returns_to_previous(binding) and previous is not None:
        request = msgspec.structs.replace(request, candidates=frozenset(previous_cluster_names(previous)))
    return decide(request, view.fleet, view.profile)


def trigger_failback(binding: Binding, view: View) -> Iterator[Effect]:
    """Request the decision that returns the workload; its moves pass the disruption gate like all others."""
    stalled = binding_moves.stalled_condition_of(binding)
    if stalled is not None and stalled.reason == "NoFeasibleCluster":
        return
    at = view.now.replace(microsecond=0)
    if binding.status.last_scheduled_time is not None:
        at = max(at, binding.status.last_scheduled_time + timedelta(seconds=1))
    yield state.request(binding, at, "Failback")
    text = "The preferred clusters have been healthy long enough; the workload moves back."
    yield RecordEvent(well_known.ref_of(binding), "FailbackTriggered", text, SOURCE)
