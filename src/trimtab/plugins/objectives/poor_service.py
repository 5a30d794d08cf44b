"""Move pods off nodes where they fail while their siblings elsewhere do not."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Value
from trimtab.api.wording import plural
from trimtab.decide.pods.fit.requests import ASSUMED_REQUESTS
from trimtab.decide.pods.metrics.measurements import UsageMetrics
from trimtab.decide.pods.node_info import PodInfo, build_pod_info
from trimtab.decide.rescheduling.history_update import restart_count, was_oom_killed
from trimtab.decide.rescheduling.objectives import FULL_GAIN, MoveCandidate, objective
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

INFERRED_CONFIDENCE = 0.75
"""The confidence that pods disturb each other when only usage is known, not which containers wait."""
REJECTED = ("UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError")


class PoorServiceArgs(Value):
    restarts: int = 5
    restarts_within: int = 1800
    ratio: float = 3.0
    """How many times more often than its siblings elsewhere a pod must fail."""
    kills: int = 2
    kills_within: int = 3600
    rejections: int = 2
    rejections_within: int = 1800
    pressed_for: int = 600
    greed: float = 2.0
    """A pod that uses more than this multiple of its request disturbs others."""


@objective("PoorService", args=PoorServiceArgs)
def poor_service(args: PoorServiceArgs, snapshot: ReschedulingSnapshot) -> Iterator[MoveCandidate]:
    for pod in snapshot.running_pods:
        yield from _failing_candidates(args, snapshot, pod)
    yield from _rejected_candidates(args, snapshot)
    yield from _cpu_pressure_candidates(args, snapshot)


def _failing_candidates(args: PoorServiceArgs, snapshot: ReschedulingSnapshot, pod: PodInfo) -> Iterator[MoveCandidate]:
    if not restart_count(pod.pod) and pod.pod.status.phase != "Failed":
        return
    node, owner = pod.pod.spec.node_name, snapshot.owners.of(pod.pod).uid
    elsewhere = [one for one in snapshot.owners.siblings_of(pod.pod) if one.spec.node_name not in ("", node)]
    if not elsewhere:
        return  # without siblings elsewhere it is unknown whether the node or the application is at fault
    hour = timedelta(seconds=args.kills_within)
    kills = snapshot.memory_kills(owner, node, hour)
    others = {one.spec.node_name for one in elsewhere}
    if (
        was_oom_killed(pod.pod)
        and kills >= args.kills
        and not any(snapshot.memory_kills(owner, other, hour) for other in others)
    ):
        reason = f"it ran out of memory {plural(kills, 'time')} on {node}, its siblings elsewhere never"
        yield MoveCandidate(pod, FULL_GAIN, reason, urgent=True)
        return
    lately = timedelta(seconds=args.restarts_within)
    restarts = snapshot.restarts_within(pod.pod, lately)
    usual = sum(snapshot.restarts_within(one, lately) for one in elsewhere) / len(elsewhere)
    if restarts >= args.restarts and restarts >= args.ratio * max(usual, 1.0):
        minutes = args.restarts_within // 60
        reason = f"it was restarted {plural(restarts, 'time')} in {plural(minutes, 'minute')} on {node}, its siblings elsewhere {usual:.1f} times"
        yield MoveCandidate(pod, FULL_GAIN, reason, urgent=True)


def _rejected_candidates(args: PoorServiceArgs, snapshot: ReschedulingSnapshot) -> Iterator[MoveCandidate]:
    """Pods of an owner that a kubelet rejects repeatedly; the removed pods have failed already."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in snapshot.objects.pods:
        rejected = pod.status.reason.startswith("OutOf") or pod.status.reason in REJECTED
        since = pod.metadata.creation_timestamp
        recent = since is not None and snapshot.now - since <= timedelta(seconds=args.rejections_within)
        owned = pod.controller is not None and pod.spec.node_name
        if pod.status.phase == "Failed" and rejected and recent and owned:
            found.setdefault((snapshot.owners.of(pod).uid, pod.spec.node_name), []).append(pod)
    for (owner, node), pods in sorted(found.items()):
        times = len(pods) + _removed_before(args, snapshot, owner, node)
        if times >= args.rejections:
            reason = f"the kubelet of {node} rejected {plural(times, 'pod')} of its owner ({pods[0].status.reason})"
            yield from (MoveCandidate(build_pod_info(pod), FULL_GAIN, reason, urgent=True, free=True) for pod in pods)


def _removed_before(args: PoorServiceArgs, snapshot: ReschedulingSnapshot, owner: str, node: str) -> int:
    """How many rejected pods of this owner were removed from this node before."""
    within = timedelta(seconds=args.rejections_within)
    return sum(
        move.objective == "PoorService" and move.source == node and snapshot.now - (move.at or snapshot.now) <= within
        for move in snapshot.history.moves_of(owner)
    )


def _cpu_pressure_candidates(args: PoorServiceArgs, snapshot: ReschedulingSnapshot) -> Iterator[MoveCandidate]:
    """On a node under pressure, move the pod that uses too much, or one that suffers from it."""
    measures = snapshot.objects.measures
    if measures is None:
        return
    for pressure in snapshot.history.pressures:
        node_info = snapshot.fleet.get(pressure.node)
        since = pressure.since or snapshot.now
        if node_info is None or snapshot.now - since < timedelta(seconds=args.pressed_for):
            continue
        movable = [one for one in node_info.pods if one.traits.controller_uid and not one.traits.is_daemon]
        chosen = _aggressor(args, movable, node_info.pods, measures) or _victim(movable, node_info.pods)
        if chosen is None or snapshot.history.recent_moves_of(snapshot.owners.of(chosen.pod).uid, snapshot.now):
            continue  # a pod that was moved within the hour probably causes the pressure itself
        used = measures.cpu_of(chosen.key)
        reason = (
            f"{pressure.node} has been short of CPU since {since:%H:%M}; "
            f"it uses {used}m and requests {chosen.resources.requests.get('cpu', 0)}m"
        )
        yield MoveCandidate(chosen, FULL_GAIN * (1.0 if pressure.told else INFERRED_CONFIDENCE), reason, urgent=True)


def _aggressor(
    args: PoorServiceArgs, movable: list[PodInfo], around: Sequence[PodInfo], metrics: UsageMetrics
) -> PodInfo | None:
    """The pod that exceeds its request most, if it disturbs others and none of them has lower priority."""
    greedy = []
    for pod in movable:
        others = [one for one in around if one.key != pod.key]
        times = metrics.cpu_of(pod.key) / (pod.resources.requests.get("cpu", 0) or ASSUMED_REQUESTS["cpu"])
        if times > args.greed and others and all(pod.priority <= other.priority for other in others):
            greedy.append((times, pod.key, pod))
    return max(greedy, key=lambda one: one[:2])[2] if greedy else None


def _victim(movable: list[PodInfo], around: Sequence[PodInfo]) -> PodInfo | None:
    """The pod that costs least to move; None when it is alone."""
    return min(movable, key=lambda one: one.traits.order, default=None) if len(around) > 1 else None
