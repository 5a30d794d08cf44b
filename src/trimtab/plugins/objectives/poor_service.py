"""Move pods off nodes where they fail while their siblings elsewhere do not."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Value
from trimtab.decide.pods.fit.requests import ASSUMED
from trimtab.decide.pods.metrics.measurements import Measures
from trimtab.decide.pods.node_info import Resident, resident
from trimtab.decide.rescheduling.objectives import FULL, Candidate, objective
from trimtab.decide.rescheduling.snapshot import Picture, restarts_of, was_killed

INFERRED = 0.75
"""The confidence that pods disturb each other when only usage is known, not which containers wait."""
REJECTED = ("UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError")


class Args(Value):
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


@objective("PoorService", args=Args)
def poor_service(args: Args, picture: Picture) -> Iterator[Candidate]:
    for pod in picture.running:
        yield from _failing(args, picture, pod)
    yield from _rejected(args, picture)
    yield from _disturbed(args, picture)


def _failing(args: Args, picture: Picture, pod: Resident) -> Iterator[Candidate]:
    if not restarts_of(pod.pod) and pod.pod.status.phase != "Failed":
        return
    node, owner = pod.pod.spec.node_name, picture.owner(pod.pod).uid
    elsewhere = [one for one in picture.family(pod.pod) if one.spec.node_name not in ("", node)]
    if not elsewhere:
        return  # without siblings elsewhere it is unknown whether the node or the application is at fault
    hour = timedelta(seconds=args.kills_within)
    kills = picture.killed(owner, node, hour)
    others = {one.spec.node_name for one in elsewhere}
    if was_killed(pod.pod) and kills >= args.kills and not any(picture.killed(owner, other, hour) for other in others):
        reason = f"it was killed for lack of memory {kills} times on {node}, its siblings elsewhere never"
        yield Candidate(pod, FULL, reason, urgent=True)
        return
    lately = timedelta(seconds=args.restarts_within)
    restarts = picture.fallen(pod.pod, lately)
    usual = sum(picture.fallen(one, lately) for one in elsewhere) / len(elsewhere)
    if restarts >= args.restarts and restarts >= args.ratio * max(usual, 1.0):
        minutes = args.restarts_within // 60
        reason = f"it was restarted {restarts} times in {minutes} minutes on {node}, its siblings elsewhere {usual:.1f} times"
        yield Candidate(pod, FULL, reason, urgent=True)


def _rejected(args: Args, picture: Picture) -> Iterator[Candidate]:
    """Pods of an owner that a kubelet rejects repeatedly; the removed pods have failed already."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in picture.facts.pods:
        turned_down = pod.status.reason.startswith("OutOf") or pod.status.reason in REJECTED
        since = pod.metadata.creation_timestamp
        recent = since is not None and picture.now - since <= timedelta(seconds=args.rejections_within)
        owned = pod.controller is not None and pod.spec.node_name
        if pod.status.phase == "Failed" and turned_down and recent and owned:
            found.setdefault((picture.owner(pod).uid, pod.spec.node_name), []).append(pod)
    for (owner, node), pods in sorted(found.items()):
        times = len(pods) + _taken_away(args, picture, owner, node)
        if times >= args.rejections:
            reason = f"the kubelet of {node} turned {times} pods of its owner away ({pods[0].status.reason})"
            yield from (Candidate(resident(pod), FULL, reason, urgent=True, free=True) for pod in pods)


def _taken_away(args: Args, picture: Picture, owner: str, node: str) -> int:
    """How many rejected pods of this owner were removed from this node before."""
    within = timedelta(seconds=args.rejections_within)
    return sum(
        move.objective == "PoorService" and move.source == node and picture.now - (move.at or picture.now) <= within
        for move in picture.history.of(owner)
    )


def _disturbed(args: Args, picture: Picture) -> Iterator[Candidate]:
    """On a node under pressure, move the pod that uses too much, or one that suffers from it."""
    measures = picture.facts.measures
    if measures is None:
        return
    for pressure in picture.history.pressures:
        node_info = picture.fleet.get(pressure.node)
        since = pressure.since or picture.now
        if node_info is None or picture.now - since < timedelta(seconds=args.pressed_for):
            continue
        movable = [one for one in node_info.residents if one.traits.controller and not one.traits.daemon]
        chosen = _aggressor(args, movable, node_info.residents, measures) or _victim(movable, node_info.residents)
        if chosen is None or picture.history.lately(picture.owner(chosen.pod).uid, picture.now):
            continue  # a pod that was moved within the hour probably causes the pressure itself
        used = measures.cpu_of(chosen.key)
        reason = (
            f"{pressure.node} has been short of CPU since {since:%H:%M}; "
            f"it uses {used}m and asked for {chosen.demand.requests.get('cpu', 0)}m"
        )
        yield Candidate(chosen, FULL * (1.0 if pressure.told else INFERRED), reason, urgent=True)


def _aggressor(args: Args, movable: list[Resident], around: Sequence[Resident], measures: Measures) -> Resident | None:
    """The pod that exceeds its request most, if it disturbs others and none of them has lower priority."""
    greedy = []
    for pod in movable:
        others = [one for one in around if one.key != pod.key]
        times = measures.cpu_of(pod.key) / (pod.demand.requests.get("cpu", 0) or ASSUMED["cpu"])
        if times > args.greed and others and all(pod.priority <= other.priority for other in others):
            greedy.append((times, pod.key, pod))
    return max(greedy, key=lambda one: one[:2])[2] if greedy else None


def _victim(movable: list[Resident], around: Sequence[Resident]) -> Resident | None:
    """The pod that costs least to move; None when it is alone."""
    return min(movable, key=lambda one: one.traits.order, default=None) if len(around) > 1 else None
