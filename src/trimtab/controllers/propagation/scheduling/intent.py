"""Why a binding is scheduled now, and the request for the decision."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import Binding, TargetCluster
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import is_drained, is_drained_to_leave
from trimtab.controllers.contract import Ref, Topic, View
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.taint_eviction import task_for
from trimtab.controllers.placement_requests import request_for
from trimtab.controllers.propagation.scheduling.candidates import placement_candidates
from trimtab.decide.fleet import Fleet
from trimtab.decide.request import AGGREGATED, DUPLICATED, FeatureGates, PlacementRequest
from trimtab.decide.reschedule_trigger import reschedule_reason

CAUSE_OF_TRIGGER = {
    "PlacementChanged": "PolicyChange",
    "ReplicasChanged": "Scale",
    "DuplicatedOrNonWorkload": "Reschedule",
    "TargetClusterTerminating": "ClusterFailover",
}


LAST_REQUEST: Topic[Ref, tuple[datetime | None]] = Topic("last reschedule request", limit=4_096)
"""The `rescheduleTriggeredAt` that a binding had at its last decision."""


class SchedulingIntent(NamedTuple):
    """Why a binding is scheduled now, and the request for it."""

    cause: str
    request: PlacementRequest
    restore: tuple[TargetCluster, ...] = ()
    """The shares to restore, if the clusters have capacity for them."""
    only_if_fewer_clusters: bool = False
    """Move only when the new decision needs fewer clusters."""
    keep: tuple[TargetCluster, ...] = ()
    """The shares to keep in clusters that are still feasible."""
    is_policy_edit: bool = False
    """The author of the policy changed the placement. The cause is another one when a cluster leaves at the same time."""


def intent_of(binding: Binding, fleet: Fleet[Cluster], gates: FeatureGates, view: View) -> SchedulingIntent | None:
    """Why and how this binding is scheduled now; None when nothing is to be decided."""
    reason = reschedule_reason(binding, fleet, gates)
    is_new_request = reason == "None" and is_requested_in_second_of_decision(binding, view)
    if is_new_request:
        reason = "RescheduleTriggered"
    replacement_first = view.profile.replacement_first
    offered = placement_candidates(binding, view)
    leaves = any(
        is_drained_to_leave(view.get(Cluster, "", target.name), view.profile) for target in binding.spec.clusters
    )
    if leaves and reason == "TargetClusterTerminating":
        reason = "None"
    unchanged = reason in ("None", "DuplicatedOrNonWorkload")
    if replacement_first and unchanged and (rest := without_draining_clusters(binding, view)) is not binding:
        return SchedulingIntent("Drain", request_for(rest, view, offered))
    if unchanged and offered is not None and (intent := intent_of_new_candidates(binding, offered, view)) is not None:
        return intent
    if reason == "None" and not lacks_result(binding, view):
        return None
    request = request_for(binding, view, offered)
    if is_new_request:
        request = msgspec.structs.replace(request, fresh=True)
    if not replacement_first or not request.fresh:
        # No decision selects a cluster that leaves, so every decision takes its replicas away: that is its drain.
        cause = "Drain" if leaves else CAUSE_OF_TRIGGER.get(reason, "")
        return SchedulingIntent(cause, request, is_policy_edit=reason == "PlacementChanged")
    return intent_of_reschedule(binding, request, view)


def lacks_result(binding: Binding, view: View) -> bool:
    """Whether the process that created the binding with its clusters ended before it wrote the status."""
    is_new = not binding.status.scheduler_observed_generation and not binding.status.conditions
    return is_new and bool(binding.spec.clusters) and view.profile.create_with_decision


def is_requested_in_second_of_decision(binding: Binding, view: View) -> bool:
    """Whether a reschedule request came after the last decision, but in the same second: both times have whole seconds."""
    stamp = binding.spec.reschedule_triggered_at
    if stamp is None or stamp != binding.status.last_scheduled_time:
        return False
    last = view.recall(LAST_REQUEST, well_known.ref_of(binding))
    return last is not None and last[0] != stamp


def without_draining_clusters(binding: Binding, view: View) -> Binding:
    """The binding without the clusters that are being drained."""
    for target in binding.spec.clusters:
        if is_drained(view.get(Cluster, "", target.name), view.profile):
            binding = state.evict_from(binding, target.name, task_for(binding, view))
    return binding


def intent_of_new_candidates(binding: Binding, candidates: Sequence[str], view: View) -> SchedulingIntent | None:
    """The intent after a change in the decisions of the binding's Placement; None when the binding keeps its clusters.

    The binding leaves the clusters that are no longer selected. When more clusters were added than removed, all
    replicas are divided again: otherwise the new clusters would get none until the workload is scaled.
    """
    kept = tuple(target for target in binding.spec.clusters if target.name in candidates)
    lost = len(binding.spec.clusters) - len(kept)
    joined = (
        set(candidates).difference(binding.status.placement_ref_clusters)
        if binding.status.placement_ref_clusters
        else ()
    )
    request = request_for(binding, view, candidates)
    if request.is_workload and request.placement.strategy != DUPLICATED and len(joined) > lost:
        aggregate = request.placement.strategy == AGGREGATED and not lost
        return SchedulingIntent(
            "ScoreChange", msgspec.structs.replace(request, fresh=True), only_if_fewer_clusters=aggregate
        )
    if not lost:
        return None
    rest = state.place(binding, kept)
    return SchedulingIntent("ScoreChange", request_for(rest, view, candidates))


def intent_of_reschedule(binding: Binding, request: PlacementRequest, view: View) -> SchedulingIntent:
    """The intent of a reschedule request: all replicas, only the unavailable ones, or the way back of a failback."""
    asked = binding_moves.reschedule_request_of(binding)
    previous = binding.status.previous_placement
    failback = binding.spec.placement.failback if binding.spec.placement is not None else None
    if asked.reason == "Failback" and previous is not None and failback is not None and returns_to_previous(binding):
        clusters = frozenset(target.name for target in previous.clusters)
        return SchedulingIntent("Failback", msgspec.structs.replace(request, candidates=clusters), previous.clusters)
    job = view.get(WorkloadRebalancer, "", asked.rebalancer) if asked.rebalancer else None
    if job is not None and job.spec.strategy == "PreserveAvailable":
        kept = binding_moves.targets_of(available_shares(binding, view))
        partial = request_for(state.place(binding, kept), view, request.candidates)
        return SchedulingIntent(asked.reason, msgspec.structs.replace(partial, fresh=False), keep=kept)
    return SchedulingIntent(asked.reason, request)


def returns_to_previous(binding: Binding) -> bool:
    """Whether failback restores the previous clusters: by the policy, or because there are no affinity groups."""
    placement = binding.spec.placement or Placement()
    return placement.failback is not None and (placement.failback.to == "Previous" or not placement.cluster_affinities)


def available_shares(binding: Binding, view: View) -> dict[str, int]:
    """The replicas of each cluster that are ready."""
    shares = {
        name: min(n, binding_moves.ready_replicas_in(binding, name, view))
        for name, n in binding_moves.current_placement(binding).items()
    }
    return {name: n for name, n in shares.items() if n > 0}
