"""Move pods to nodes that match more of their preferences: soft affinity, soft spread, PreferNoSchedule taints."""

from collections.abc import Iterator

from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.rescheduling.objectives import MoveCandidate, NoArgs, objective
from trimtab.decide.rescheduling.score_gain import PREFERENCE_SCORES, MoveForecast, TrialFleet
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot


@objective("BetterAffinity")
def better_affinity(args: NoArgs, snapshot: ReschedulingSnapshot) -> Iterator[MoveCandidate]:
    repelling = any(
        taint.effect == "PreferNoSchedule" for node_info in snapshot.fleet.nodes for taint in node_info.node.spec.taints
    )
    alike: dict[tuple[str, str], MoveForecast] = {}
    for pod in snapshot.running_pods:
        owner, node = pod.pod.controller, pod.pod.spec.node_name
        if owner is None or not (repelling or has_preferences(pod)) or node in snapshot.excluded_nodes:
            continue
        if (owner.uid, node) not in alike:  # pods of one owner on one node have the same forecast
            alike[owner.uid, node] = snapshot.trial.best_move(
                pod, snapshot.excluded_nodes, snapshot.avoided_nodes(pod.pod)
            )
        found = alike[owner.uid, node]
        if (gain := preference_gain(found)) > 0:
            preferences = ", ".join(name for name in PREFERENCE_SCORES if found.gain_by_score.get(name, 0) > 0)
            reason = f"{found.node} satisfies more of its preferences ({preferences})"
            yield MoveCandidate(pod, gain, reason, reevaluate_gain)


def reevaluate_gain(bench: TrialFleet, found: MoveForecast) -> float:
    return preference_gain(found)


def preference_gain(found: MoveForecast) -> float:
    """The gain of its preferences; 0 when the scheduler's total disagrees, because the pod would return."""
    return found.gain_of(PREFERENCE_SCORES) if found.gain > 0 else 0.0


def has_preferences(pod: PodInfo) -> bool:
    spec = pod.pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.preferred_during_scheduling_ignored_during_execution:
        return True
    soft = any(one.when_unsatisfiable == "ScheduleAnyway" for one in spec.topology_spread_constraints)
    return soft or any(not own.is_required for own in pod.affinity_terms)
