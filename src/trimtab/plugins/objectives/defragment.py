"""Move a few small pods so that a large one fits on a node."""

from collections.abc import Iterator, Mapping

import msgspec

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import QuantityText, Value
from trimtab.decide.pods.node_info import NodeInfo, PodInfo, build_pod_info
from trimtab.decide.pods.request import pod_request_for
from trimtab.decide.pods.schedule import DEFAULT_SCHEDULER_PROFILE, node_rejection, schedule
from trimtab.decide.rescheduling.objectives import FULL_GAIN, MoveCandidate, objective
from trimtab.decide.rescheduling.score_gain import TrialFleet
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

MAX_STEPS = 5
MAX_NODES_TRIED = 20
"""The maximum number of nodes on which another pod is moved to make room."""


class DefragmentArgs(Value):
    probes: tuple[dict[str, QuantityText], ...] = ()
    """Requests of large pods that should always fit somewhere."""
    most_moves: int = 5
    for_pending: bool = True
    """Also make room for pending pods."""


@objective("Defragment", args=DefragmentArgs)
def defragment(args: DefragmentArgs, snapshot: ReschedulingSnapshot) -> Iterator[MoveCandidate]:
    for number, probe in enumerate(_probes(args, snapshot)):
        if schedule(probe, snapshot.fleet).node is not None:
            continue
        found = _fewest_moves(args, snapshot, probe)
        if found is None:
            continue
        node, steps = found
        real = probe.pod.metadata.uid
        reason = f"{'/'.join(probe.key) if real else 'a large pod'} would fit on {node}"
        for step, pod in enumerate(steps, start=1):
            together = f"defragment-{number}"
            yield MoveCandidate(
                pod, FULL_GAIN, reason, for_pod=real, group=together, step=step if len(steps) > 1 else 0
            )
        return  # one at a time: the next round observes the outcome


def _probes(args: DefragmentArgs, snapshot: ReschedulingSnapshot) -> Iterator[PodInfo]:
    if args.for_pending:
        yield from snapshot.pending_pods
    for requests in args.probes:
        yield build_pod_info(_probe_pod(requests))


def _probe_pod(requests: Mapping[str, QuantityText]) -> Pod:
    container = {"name": "probe", "resources": {"requests": dict(requests)}}
    raw = {"metadata": {"name": "probe", "namespace": "trimtab-probe"}, "spec": {"containers": [container]}}
    return msgspec.convert(raw, Pod, strict=False)


def _fewest_moves(
    args: DefragmentArgs, snapshot: ReschedulingSnapshot, probe: PodInfo
) -> tuple[str, list[PodInfo]] | None:
    """The node that needs the fewest moves before the probe fits, and the pods to move, in order."""
    best: tuple[str, list[PodInfo]] | None = None
    for name in sorted(snapshot.fleet.nodes.names):
        most = min(args.most_moves, MAX_STEPS) if best is None else len(best[1]) - 1
        if name in snapshot.excluded_nodes or most < 1 or not _is_large_enough(snapshot, name, probe):
            continue
        found = _moves_from(name, snapshot, probe, most)
        if found is not None and (best is None or len(found) < len(best[1])):
            best = name, found
    return best


def _is_large_enough(snapshot: ReschedulingSnapshot, node: str, probe: PodInfo) -> bool:
    node_info = snapshot.fleet.get(node)
    return node_info is not None and all(
        amount <= node_info.allocatable.get(resource, 0) for resource, amount in probe.resources.requests.items()
    )


def _moves_from(node: str, snapshot: ReschedulingSnapshot, probe: PodInfo, most: int) -> list[PodInfo] | None:
    """Pods of this node to move away, each after the one other pod that must make room for it, if any."""
    bench = snapshot.new_trial()
    node_info = bench.fleet.get(node)
    steps: list[PodInfo] = []
    movable = [one for one in (node_info.pods if node_info else ()) if _can_move(one, probe)]
    for pod in sorted(movable, key=lambda one: (-one.resources.requests.get("cpu", 0), one.priority, one.key)):
        needed = _moves_to_leave(pod, node, bench, snapshot, probe)
        if needed is None or len(steps) + len(needed) > most:
            continue
        for one, target in needed:
            bench.move(one, target)
            steps.append(one)
        if node_rejection(pod_request_for(probe, bench.fleet), bench.fleet, node, DEFAULT_SCHEDULER_PROFILE) is None:
            return steps
    return None


def _moves_to_leave(
    pod: PodInfo, node: str, bench: TrialFleet, snapshot: ReschedulingSnapshot, probe: PodInfo
) -> list[tuple[PodInfo, str]] | None:
    """The moves after which the pod has left its node: its own, or that of one other pod before it."""
    target = bench.best_move(pod, snapshot.excluded_nodes).node
    if target is not None:
        return [(pod, target)]
    for there in _nodes_short_of_capacity(pod, node, bench, snapshot):
        for other in sorted(there.pods, key=lambda one: (one.resources.requests.get("cpu", 0), one.priority, one.key)):
            if _can_move(other, probe) and (moves := _moves_after_other(other, pod, node, bench, snapshot)) is not None:
                return moves
    return None


def _nodes_short_of_capacity(
    pod: PodInfo, node: str, bench: TrialFleet, snapshot: ReschedulingSnapshot
) -> list[NodeInfo]:
    """Nodes that lack only capacity for the pod, those that lack least first."""
    hosts = [
        node_info
        for node_info in bench.fleet.nodes
        if node_info.name != node and node_info.name not in snapshot.excluded_nodes
    ]
    asked = pod.resources.requests
    fitting = [node_info for node_info in hosts if all(n <= node_info.allocatable.get(r, 0) for r, n in asked.items())]
    return sorted(
        fitting,
        key=lambda node_info: (
            sum(n > node_info.free_amount(r) for r, n in asked.items()),
            -node_info.free_amount("cpu"),
        ),
    )[:MAX_NODES_TRIED]


def _moves_after_other(
    other: PodInfo, pod: PodInfo, node: str, bench: TrialFleet, snapshot: ReschedulingSnapshot
) -> list[tuple[PodInfo, str]] | None:
    """First move the other pod, not to the node that is being cleared; then the pod takes its place."""
    before, place = bench.fleet, other.pod.spec.node_name
    target = bench.best_move(other, snapshot.excluded_nodes).node
    if target is None or target == node:
        return None
    bench.move(other, target)
    fits = bench.best_move(pod, snapshot.excluded_nodes).node == place
    bench.fleet = before
    return [(other, target), (pod, place)] if fits else None


def _can_move(pod: PodInfo, probe: PodInfo) -> bool:
    plain = bool(pod.traits.controller_uid) and not pod.traits.is_daemon and not pod.traits.has_local_storage
    return plain and (pod.priority <= probe.priority or not probe.pod.metadata.uid)
