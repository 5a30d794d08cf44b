"""The node lifecycle controller: taints nodes by their conditions, and evicts pods from unreachable nodes."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.lease import Lease
from trimtab.api.kinds.native.node import Node, Taint
from trimtab.api.kinds.native.pod import Pod, PodCondition
from trimtab.api.value import Key
from trimtab.clock import timestamp
from trimtab.controllers.contract import Delete, Effect, Ensure, RememberInProcess, RequeueAfter, Topic, Trigger, View
from trimtab.simulate.workloads.owned_pods import PODS_BY_NODE, raw_of
from trimtab.simulate.workloads.registry import workload

LEASE_NAMESPACE = "kube-node-lease"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
PRESSURE_TAINTS = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
}
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
MANAGED_TAINTS = frozenset((NOT_READY, UNREACHABLE, UNSCHEDULABLE, *PRESSURE_TAINTS.values()))
LEASE_RENEWAL: Topic[str, datetime] = Topic("lease renewal")
"""What the shell remembers: when the lease of a node last changed, on the clock for durations."""
TAINT_START: Topic[tuple[str, str, datetime | None], datetime] = Topic("taint start")
TAINT_MET: Topic[tuple[str, str, datetime | None], datetime] = Topic("taint met")
SILENT_MESSAGE = "Kubelet stopped posting node status."
NEVER_POSTED_MESSAGE = "Kubelet never posted node status."
START_UP_GRACE = timedelta(seconds=60)
"""How long a new node may take until its kubelet reports."""
NODE_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def _is_relevant_change(old: Node | None, new: Node) -> bool:
    """Whether anything but the heartbeat changed."""
    return old is None or old.spec != new.spec or _condition_states(old) != _condition_states(new)


def _condition_states(node: Node) -> dict[str, str]:
    return {one.type: one.status for one in node.status.conditions}


def _node_of_new_pod(old: Pod | None, new: Pod | None, view: View) -> Iterator[Key]:
    """Trigger the node of a newly bound pod, if it has NoExecute taints."""
    if new is None or not new.spec.node_name or (old is not None and old.spec.node_name):
        return
    node = view.get(Node, "", new.spec.node_name)
    if node is not None and any(taint.effect == "NoExecute" for taint in node.spec.taints):
        yield Key(kind_of(Node).id, "", node.name)


def _all_nodes_of_a_disruption(old: Node | None, new: Node | None, view: View) -> Iterator[Key]:
    """Trigger all nodes when the last ready one is lost, or the first one is ready again."""
    changed = new or old
    was_ready, is_ready = (one is not None and _ready_status(one) == "True" for one in (old, new))
    if changed is None or was_ready == is_ready:
        return
    others = [one for one in view.all(Node) if one.name != changed.name]
    if not any(_ready_status(one) == "True" for one in others):
        yield from (Key(kind_of(Node).id, "", one.name) for one in others)


@workload(
    Node,
    writes=["Node", "Pod"],
    triggers=[Trigger(Pod, _node_of_new_pod), Trigger(Node, _all_nodes_of_a_disruption)],
    predicate=_is_relevant_change,
    name="node-lifecycle",
)
def node_lifecycle(node: Node, view: View) -> Iterator[Effect]:
    if not node.status.conditions and node.metadata.creation_timestamp is not None:
        remaining = node.metadata.creation_timestamp + START_UP_GRACE - view.now
        if remaining <= timedelta():
            yield from _add_unknown_conditions(node, view)
            return
        yield RequeueAfter(remaining.total_seconds())
    silent_at = _lease_expiry(node, view)
    if silent_at is not None and view.steady_now >= silent_at and _ready_status(node) != "Unknown":
        yield from _mark_unknown(node, view)
        return
    evicts = _ready_status(node) == "True" or _is_any_node_ready(view)
    marked = node.but(spec=node.spec.but(taints=_wanted_taints(node, view.now, evicts=evicts)))
    yield marked
    if _ready_status(node) != "True":
        for pod in view.by_index(PODS_BY_NODE, node.name):
            if pod.is_ready:
                yield _with_ready_false(pod, view.now)
    yield from _evict_untolerated(marked, view)
    if silent_at is not None:
        yield RequeueAfter(max(1.0, (silent_at - view.steady_now).total_seconds()))


def _is_any_node_ready(view: View) -> bool:
    """False in a full disruption: then the fault is more likely here than in all nodes, and no pod is evicted."""
    return any(_ready_status(one) == "True" for one in view.all(Node))


def _ready_status(node: Node) -> str:
    return next((one.status for one in node.status.conditions if one.type == "Ready"), "Unknown")


def _lease_expiry(node: Node, view: View) -> datetime | None:
    """When the lease expires; None when there is no lease.

    Counted from when the renewal was seen here, on the clock for durations: a wall clock that somebody sets must not
    make every node of the cluster silent, nor hide one that is.
    """
    lease = view.get(Lease, LEASE_NAMESPACE, node.name)
    if lease is None or lease.spec.renew_time is None or not lease.spec.lease_duration_seconds:
        return None
    renewed = view.recall(LEASE_RENEWAL, node.name) or lease.spec.renew_time
    return renewed + timedelta(seconds=lease.spec.lease_duration_seconds)


def _mark_unknown(node: Node, view: View) -> Iterator[Effect]:
    raw = raw_of(node, view)
    unknown = {
        "status": "Unknown",
        "lastTransitionTime": timestamp(view.now),
        "reason": "NodeStatusUnknown",
        "message": SILENT_MESSAGE,
    }
    conditions = [{**one, **unknown} for one in raw["status"]["conditions"]]
    yield Ensure({**raw, "status": {**raw["status"], "conditions": conditions}}, raw, "status")


def _add_unknown_conditions(node: Node, view: View) -> Iterator[Effect]:
    """A node whose kubelet has never reported: somebody has created the object alone."""
    raw = raw_of(node, view)
    unknown = {
        "status": "Unknown",
        "lastHeartbeatTime": raw["metadata"]["creationTimestamp"],
        "lastTransitionTime": timestamp(view.now),
        "reason": "NodeStatusNeverUpdated",
        "message": NEVER_POSTED_MESSAGE,
    }
    conditions = [{"type": type_, **unknown} for type_ in NODE_CONDITIONS]
    yield Ensure({**raw, "status": {**(raw.get("status") or {}), "conditions": conditions}}, raw, "status")


def _wanted_taints(node: Node, now: datetime, *, evicts: bool) -> tuple[Taint, ...]:
    """The taints that follow from the node's conditions, after the taints of others."""
    present = {(taint.key, taint.effect): taint for taint in node.spec.taints}
    wanted = [
        (PRESSURE_TAINTS[type_], "NoSchedule")
        for type_, status in _condition_states(node).items()
        if type_ in PRESSURE_TAINTS and status == "True"
    ]
    if node.spec.unschedulable:
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    if key := {"True": "", "False": NOT_READY}.get(_ready_status(node), UNREACHABLE):
        wanted += [(key, "NoSchedule"), *([(key, "NoExecute")] if evicts else [])]
    second = now.replace(microsecond=0)
    ours = [present.get(one) or Taint(key=one[0], effect=one[1], time_added=second) for one in wanted]
    return (*(taint for taint in node.spec.taints if taint.key not in MANAGED_TAINTS), *ours)


def _with_ready_false(pod: Pod, now: datetime) -> Pod:
    conditions = tuple(
        one.but(status="False", last_transition_time=now) if one.type == "Ready" else one
        for one in pod.status.conditions
    )
    return pod.but(status=pod.status.but(conditions=conditions))


def _evict_untolerated(node: Node, view: View) -> Iterator[Effect]:
    """Delete pods that do not tolerate the NoExecute taints of the node."""
    taints = []
    for taint in node.spec.taints:
        if taint.effect == "NoExecute":
            since, memory = _taint_start(node, taint, view)
            taints.append((taint, since))
            yield from memory
    for pod in view.by_index(PODS_BY_NODE, node.name) if taints else ():
        if pod.metadata.deletion_timestamp is not None or pod.is_terminal:
            continue
        met = []
        for taint, since in taints:
            met_at, memory = _taint_met(pod, taint, since, view)
            met.append((taint, met_at))
            yield from memory
        wait = _seconds_until_eviction(pod, met, view.steady_now)
        if wait is None:
            continue
        if wait > 0:
            yield RequeueAfter(wait)
        else:
            yield _with_disruption_target(pod, view.now)
            yield Delete(pod)


def _taint_start(node: Node, taint: Taint, view: View) -> tuple[datetime, tuple[Effect, ...]]:
    """When the taint began, on the clock for durations; its `timeAdded` counts only when it is first seen."""
    key = (node.name, taint.key, taint.time_added)
    known = view.recall(TAINT_START, key)
    if known is not None:
        return known, ()
    age = view.now - taint.time_added if taint.time_added is not None else timedelta()
    start = view.steady_now - max(timedelta(), age)
    return start, (RememberInProcess(TAINT_START, key, start),)


def _taint_met(pod: Pod, taint: Taint, since: datetime, view: View) -> tuple[datetime, tuple[Effect, ...]]:
    """When the pod met the taint, on the clock for durations; its start time counts only when the two are first seen.

    A pod that is bound to a tainted node meets the taint when it starts.
    """
    key = (pod.metadata.uid, taint.key, taint.time_added)
    known = view.recall(TAINT_MET, key)
    if known is not None:
        return known, ()
    started = pod.status.start_time
    age = max(timedelta(), view.now - started) if started is not None else timedelta()
    met_at = max(since, view.steady_now - age)
    return met_at, () if started is None else (RememberInProcess(TAINT_MET, key, met_at),)


def _seconds_until_eviction(pod: Pod, taints: list[tuple[Taint, datetime]], now: datetime) -> float | None:
    """Seconds that the pod may stay; None is without limit."""
    waits = []
    for taint, since in taints:
        covering = [one for one in pod.spec.tolerations if one.tolerates(taint)]
        if not covering:
            return 0.0
        limits = [one.toleration_seconds for one in covering if one.toleration_seconds is not None]
        if limits:
            waits.append((since + timedelta(seconds=max(0, min(limits))) - now).total_seconds())
    return min(waits, default=None)


def _with_disruption_target(pod: Pod, now: datetime) -> Pod:
    disruption_target = PodCondition(
        type="DisruptionTarget",
        status="True",
        last_transition_time=now,
        reason="DeletionByTaintManager",
        message="Taint manager: deleting due to NoExecute taint",
    )
    others = tuple(one for one in pod.status.conditions if one.type != "DisruptionTarget")
    return pod.but(status=pod.status.but(conditions=(*others, disruption_target)))
