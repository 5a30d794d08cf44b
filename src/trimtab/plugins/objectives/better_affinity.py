"""Move pods to nodes that match more of their preferences: soft affinity, soft spread, PreferNoSchedule taints."""

from collections.abc import Iterator

from trimtab.decide.pods.node_info import Resident
from trimtab.decide.rescheduling.objectives import Candidate, NoArgs, objective
from trimtab.decide.rescheduling.score_gain import WISHES, Bench, Prospect
from trimtab.decide.rescheduling.snapshot import Picture


@objective("BetterAffinity")
def better_affinity(args: NoArgs, picture: Picture) -> Iterator[Candidate]:
    repelling = any(
        taint.effect == "PreferNoSchedule" for node_info in picture.fleet.hosts for taint in node_info.node.spec.taints
    )
    alike: dict[tuple[str, str], Prospect] = {}
    for pod in picture.running:
        owner, node = pod.pod.controller, pod.pod.spec.node_name
        if owner is None or not (repelling or has_wishes(pod)) or node in picture.closed:
            continue
        if (owner.uid, node) not in alike:  # pods of one owner on one node have the same forecast
            alike[owner.uid, node] = picture.bench.prospect(pod, picture.closed, picture.avoided_by(pod.pod))
        found = alike[owner.uid, node]
        if (gain := granted(found)) > 0:
            preferences = ", ".join(name for name in WISHES if found.parts.get(name, 0) > 0)
            reason = f"{found.node} grants more of what it prefers ({preferences})"
            yield Candidate(pod, gain, reason, again)


def again(bench: Bench, found: Prospect) -> float:
    return granted(found)


def granted(found: Prospect) -> float:
    """The gain of its preferences; 0 when the scheduler's total disagrees, because the pod would return."""
    return found.gain_of(WISHES) if found.gain > 0 else 0.0


def has_wishes(pod: Resident) -> bool:
    spec = pod.pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.preferred_during_scheduling_ignored_during_execution:
        return True
    soft = any(one.when_unsatisfiable == "ScheduleAnyway" for one in spec.topology_spread_constraints)
    return soft or any(not own.required for own in pod.carried)
