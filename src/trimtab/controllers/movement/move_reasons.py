"""Why replicas leave a cluster, for the move log: the cause, and a sentence that names what began it.

The scheduler knows a rule for a decision (a policy edit, a drain, new scores), and the gate applies it to the whole
binding. The log is about one cluster that replicas leave. Two clusters may be left by one decision for two reasons: one
because of a taint, the other because of a score. So the reason is looked up per cluster, when the Move is written.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from trimtab.api.kinds.cluster import Cluster, Taint
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import OcmPlacement
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.work import AggregatedStatusItem, Binding, GracefulEvictionTask
from trimtab.api.value import Key
from trimtab.api.wording import plural
from trimtab.controllers import well_known
from trimtab.controllers.clusters.health import CONDITION_TAINTS
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.contract import View
from trimtab.controllers.movement import binding_moves
from trimtab.decide.feasible import all_filters, columns_in_use
from trimtab.decide.framework import Reason, Rejection, first_rejections
from trimtab.decide.karmada import BindingDecision
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.pipeline import UnlistableClusterSet, eligible_clusters, ordered_filters
from trimtab.decide.ocm.request import ocm_request_of
from trimtab.decide.ocm.snapshot import PlacementSnapshot
from trimtab.decide.reschedule_trigger import read_placement

HEALTH_TAINTS = ("/unavailable", "/unreachable", "/not-ready")
"""How the keys of the taints end that say that a cluster does not work."""
MODE_OF_PURGE = {"Directly": "AtOnce", "Gracefully": "ReplacementFirst", "Never": "Never"}


class MoveReason(NamedTuple):
    """A cause of the move log, what began the move, and the user who asked for it, if one did."""

    cause: str
    message: str
    by: str = ""


def mode_of_eviction(task: GracefulEvictionTask) -> str:
    """How the old replicas of an evicted cluster go."""
    return MODE_OF_PURGE.get(task.purge_mode, "ReplacementFirst")


def reason_of_move(binding: Binding, source: str, cause: str, decision: BindingDecision, view: View) -> MoveReason:
    """Why replicas leave this cluster; `cause` is the rule by which the binding was decided."""
    if cause == "ScoreChange":
        return _reason_of_selection(binding, source, decision, view)
    message = ""
    by = ""
    if cause == "Drain":
        message, by = _describe_drain(binding, source, view)
    elif cause == "PolicyChange":
        message = _describe_policy_edit(binding)
    elif cause == "Scale":
        return _reason_of_other_number(binding, source, decision, view)
    elif cause == "Rebalance":
        message, by = _describe_rebalance(binding), binding_moves.reschedule_request_of(binding).user
    elif cause == "Failback":
        message = _describe_failback(binding)
    elif cause == "ClusterFailover":
        message = f"the cluster {source} is being deleted"
    elif cause == "Reschedule":
        message = _describe_rejection(source, decision)
    return MoveReason(cause, message, by)


def _reason_of_other_number(binding: Binding, source: str, decision: BindingDecision, view: View) -> MoveReason:
    """The workload was scaled; or it was evicted from a cluster, and its replicas do not fit into the other ones."""
    before, after = binding_moves.placement_before_moves(binding), dict(decision.clusters)
    if not before.get(source):
        return MoveReason("Scale", f"{source} has no replicas, and the clusters that the policy selects are others")
    evicted = {task.from_cluster: task.replicas or 0 for task in binding.spec.graceful_eviction_tasks}
    if not evicted or sum(before.values()) + sum(evicted.values()) != sum(after.values()):
        scaled = plural(sum(after.values()), "replica")
        return MoveReason("Scale", f"the workload was scaled from {sum(before.values())} to {scaled}")
    cluster = view.get(Cluster, "", source)
    taints = [taint for taint in cluster.spec.taints if taint.effect == "NoExecute"] if cluster is not None else []
    if cluster is not None and taints and source not in after:
        return reason_of_taints(cluster, taints)
    names = ", ".join(sorted(evicted))
    return MoveReason("Reschedule", f"with the replicas evicted from {names} the policy selects others than {source}")


def reason_of_logged_move(move: Move) -> MoveReason:
    """Why replicas leave a cluster whose Move was written earlier."""
    return MoveReason(move.spec.cause, move.spec.message, move.spec.by)


def reason_of_taints(cluster: Cluster, taints: Sequence[Taint]) -> MoveReason:
    """Why NoExecute taints evict a workload."""
    ready = find_condition(cluster.status.conditions, "Ready")
    listed = ", ".join(format_taint(taint.key, taint.value, taint.effect) for taint in taints)
    message = f"the cluster {cluster.name} has the taint {listed}"
    if ready is not None and ready.status != "True" and any(taint.key in CONDITION_TAINTS for taint in taints):
        message += f"; Ready is {ready.status}: {ready.reason}"
    return MoveReason("ClusterFailover", message)


def reason_of_failover(
    item: AggregatedStatusItem | None, cluster: str, since: datetime | None, tolerated: float
) -> MoveReason:
    """Why application failover leaves a cluster."""
    state = (item.health if item is not None else "") or "Unhealthy"
    began = f" since {since:%Y-%m-%dT%H:%M:%SZ}" if since is not None else ""
    message = f"the workload is {state} in {cluster}{began}, longer than the tolerated {tolerated:g} s"
    return MoveReason("ApplicationFailover", message)


def format_taint(key: str, value: str, effect: str) -> str:
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _describe_drain(binding: Binding, source: str, view: View) -> tuple[str, str]:
    """Which cluster is drained and since when, and the user who asked for it."""
    draining = [
        name
        for name in binding_moves.placement_before_moves(binding)
        if (found := view.get(Cluster, "", name)) is not None and well_known.DRAIN in found.metadata.annotations
    ]
    name = source if source in draining or not draining else draining[0]
    found = view.get(Cluster, "", name)
    annotations = found.metadata.annotations if found is not None else {}
    mark = annotations.get(well_known.DRAIN, "").split()
    message = f"the cluster {name} is being drained" + (f" since {mark[0]}" if mark else "")
    return message, annotations.get(well_known.REQUESTER, "")


def _describe_policy_edit(binding: Binding) -> str:
    """Which policy changed, and which fields of its placement."""
    annotations = binding.metadata.annotations
    if name := annotations.get(well_known.PP_NAME):
        policy = f"PropagationPolicy {annotations.get(well_known.PP_NAMESPACE) or binding.namespace}/{name}"
    elif name := annotations.get(well_known.CPP_NAME):
        policy = f"ClusterPropagationPolicy {name}"
    else:
        policy = "the policy"
    placement = read_placement(annotations.get(well_known.APPLIED_PLACEMENT, ""))
    if placement is None:
        return f"{policy} changed"
    applied = msgspec.to_builtins(placement)
    wanted = msgspec.to_builtins(binding.spec.placement or Placement())
    changed = sorted(name for name in applied.keys() | wanted.keys() if applied.get(name) != wanted.get(name))
    return f"{policy} changed" + (f": {', '.join(f'placement.{name}' for name in changed)}" if changed else "")


def _describe_rebalance(binding: Binding) -> str:
    asked = binding_moves.reschedule_request_of(binding)
    if asked.rebalancer:
        return f"WorkloadRebalancer {asked.rebalancer} asked for a new decision"
    stamp = binding.spec.reschedule_triggered_at
    return "a new decision was asked for" + (f" by rescheduleTriggeredAt {stamp:%Y-%m-%dT%H:%M:%SZ}" if stamp else "")


def _describe_failback(binding: Binding) -> str:
    previous = binding.status.previous_placement
    names = ", ".join(target.name for target in previous.clusters) if previous is not None else ""
    since = previous.healthy_since if previous is not None else None
    better = f"the preferred placement ({names})" if names else "the preferred placement"
    return f"{better} can be used again" + (f" and has been healthy since {since:%Y-%m-%dT%H:%M:%SZ}" if since else "")


def _describe_rejection(source: str, decision: BindingDecision) -> str:
    """Why the cluster is not selected any more, in the words of the filter that rejects it."""
    fleet, request = decision.fleet, decision.request
    column = fleet.index.get(source)
    if column is None:
        return f"the cluster {source} is gone"
    placed = frozenset(columns_in_use(request, fleet))
    ((_, rejection),) = first_rejections(all_filters(request), request, fleet, (column,), placed)
    if rejection is None:
        return f"the clusters that the policy selects are others than before, without {source}"
    return f"{source} does not fit any more: {rejection.plugin}: {rejection.reason.message}"


def _reason_of_selection(binding: Binding, source: str, decision: BindingDecision, view: View) -> MoveReason:
    """The decisions of a Placement changed, or scores did."""
    ref = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
    candidates = decision.request.candidates
    if ref is None or candidates is None:
        gains = ", ".join(name for name, n in decision.clusters if n > _replicas_in(binding, name))
        return MoveReason("ScoreChange", f"scores are better in {gains or 'other clusters'} than in {source}")
    key = Key("", ref.namespace or binding.namespace, ref.name)
    if source in candidates:
        joined = sorted(set(candidates).difference(binding.status.placement_ref_clusters))
        return MoveReason(
            "ScoreChange", f"Placement {key.namespace}/{key.name} selects more clusters: {', '.join(joined)}"
        )
    return reason_of_unselected(source, (key,), view)


def _replicas_in(binding: Binding, cluster: str) -> int:
    return binding_moves.placement_before_moves(binding).get(cluster, 0)


def reason_of_unselected(cluster: str, placements: Iterable[Key], view: View) -> MoveReason:
    """Why these Placements do not select a cluster any more: it is gone, tainted, not wanted, or others are better."""
    found = view.get(ManagedCluster, "", cluster)
    if found is None or found.metadata.deletion_timestamp is not None:
        return MoveReason("Drain", f"the cluster {cluster} leaves the fleet")
    reason = None
    for key in placements:
        placement = view.get(OcmPlacement, key.namespace, key.name)
        if placement is None or placement.metadata.deletion_timestamp is not None:
            reason = reason or MoveReason("PolicyChange", f"Placement {key.namespace}/{key.name} is gone")
            continue
        reason = _reason_of_placement(found, placement, view)
        if reason.cause != "ScoreChange":
            break
    return reason or MoveReason("PolicyChange", f"no Placement selects {cluster}")


def _reason_of_placement(cluster: ManagedCluster, placement: OcmPlacement, view: View) -> MoveReason:
    named = f"Placement {placement.namespace}/{placement.name}"
    snapshot = view.placement_snapshot
    try:
        rejection = _placement_rejection(cluster, placement, snapshot, view)
    except (Misconfigured, UnlistableClusterSet) as fault:
        return MoveReason("PolicyChange", f"{named} cannot be decided: {fault}")
    if rejection is None:
        return MoveReason("ScoreChange", f"{named} prefers other clusters to {cluster.name}")
    if rejection.reason.code == "UntoleratedTaint":
        failed = any(
            taint.key.endswith(HEALTH_TAINTS) and f"{taint.key}:" in rejection.reason.message
            for taint in cluster.spec.taints
        )
        message = f"{named} does not select {cluster.name}: {rejection.reason.message}"
        return MoveReason("ClusterFailover" if failed else "Eviction", message)
    return MoveReason("PolicyChange", f"{named} does not select {cluster.name}: {rejection.reason.message}")


NOT_IN_SETS = "it is in no ClusterSet of the Placement"


def _placement_rejection(
    cluster: ManagedCluster, placement: OcmPlacement, snapshot: PlacementSnapshot, view: View
) -> Rejection | None:
    """The filter that rejects the cluster; as if it were still selected, because it was."""
    column = snapshot.fleet.index.get(cluster.name)
    if column is None:
        return None
    request = ocm_request_of(placement, snapshot, view.cel)
    request = msgspec.structs.replace(request, placed=(*request.placed, cluster.name))
    if not eligible_clusters(request, snapshot).mask[column]:
        return Rejection("ClusterSet", Reason("NotInSets", NOT_IN_SETS))
    ((_, rejection),) = first_rejections(ordered_filters(), request, snapshot.fleet, (column,), (column,))
    return rejection
