"""Empty underutilised nodes when the other nodes can take all their pods."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from trimtab.api.value import Value, never_omit
from trimtab.decide.pods.node_info import NodeInfo, PodInfo
from trimtab.decide.rescheduling.objectives import FULL_GAIN, MoveCandidate, objective
from trimtab.decide.rescheduling.protections import protection_reason
from trimtab.decide.rescheduling.score_gain import PREFERENCE_SCORES, MoveForecast, TrialFleet
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

MAX_NODES_TRIED = 200
"""Nodes that one round tries to empty: most of those that fail, fail for the same reason."""


class ConsolidateArgs(Value):
    low: dict[str, float] = never_omit({"cpu": 20.0, "memory": 20.0})
    """A node at or below all of these may be emptied, in percent of its allocatable."""
    high: dict[str, float] = never_omit({"cpu": 70.0, "memory": 70.0})
    """No node is filled above these."""
    nodes: int = 1
    """The maximum number of nodes in one round."""


@objective("Consolidate", args=ConsolidateArgs)
def consolidate(args: ConsolidateArgs, snapshot: ReschedulingSnapshot) -> Iterator[MoveCandidate]:
    hosts = [node_info for node_info in snapshot.fleet.nodes if node_info.name not in snapshot.excluded_nodes]
    low_nodes = sorted(
        (node_info for node_info in hosts if _is_low(node_info, args)),
        key=lambda node_info: (len(node_info.pods), node_info.name),
    )
    again = partial(_reevaluate, _limits(args, snapshot))
    bench, freed = snapshot.new_trial(), 0
    for node_info in [one for one in low_nodes if _movable_pods(one)][:MAX_NODES_TRIED]:
        if freed >= args.nodes:
            return
        if not _try_to_empty(node_info, bench, snapshot, again):
            continue
        reason = f"{node_info.name} is underutilized, and all its pods fit on other nodes"
        candidates = [MoveCandidate(pod, FULL_GAIN, reason, partial(again, pod)) for pod in _movable_pods(node_info)]
        is_protected = any(protection_reason(one, snapshot) is not None for one in candidates)
        freed += not is_protected
        # owners and budgets limit the pace, round by round; but do not start to empty a node that cannot be emptied
        yield from (one._replace(group=f"consolidate-{node_info.name}" if is_protected else "") for one in candidates)


def _limits(args: ConsolidateArgs, snapshot: ReschedulingSnapshot) -> Mapping[str, float]:
    """How full a node may become: an objective that balances nodes would move back anything above its limit."""
    limits = dict(args.high)
    for one in snapshot.settings.objectives:
        for resource, limit in (one.args.get("high") or {}).items() if one.enabled else ():
            limits[resource] = min(limits.get(resource, FULL_GAIN), float(limit))
    return limits


def _reevaluate(limits: Mapping[str, float], pod: PodInfo, bench: TrialFleet, found: MoveForecast) -> float:
    """0 when no node would be freed, a node would be too full, or the pod's preferences would be worse."""
    there = bench.fleet.get(found.node or "")
    if there is None or not _movable_pods(there) or found.gain_of(PREFERENCE_SCORES) < 0:
        return 0.0
    after = there.with_pod(pod)
    sizes = {resource: after.allocatable.get(resource, 0) for resource in limits}
    full = any(FULL_GAIN * after.used.get(one, 0) > limits[one] * size for one, size in sizes.items() if size)
    return 0.0 if full else FULL_GAIN


def _is_low(node_info: NodeInfo, args: ConsolidateArgs) -> bool:
    return all(
        100.0 * node_info.used.get(resource, 0) <= limit * node_info.allocatable.get(resource, 0)
        for resource, limit in args.low.items()
    )


def _movable_pods(node_info: NodeInfo) -> list[PodInfo]:
    return [
        pod for pod in node_info.pods if not (pod.traits.is_daemon or pod.traits.is_static_pod or pod.is_terminating)
    ]


def _try_to_empty(
    node_info: NodeInfo,
    bench: TrialFleet,
    snapshot: ReschedulingSnapshot,
    again: Callable[[PodInfo, TrialFleet, MoveForecast], float],
) -> bool:
    """Try to move this node's pods to nodes in use; False, and nothing moves, when one does not fit."""
    before = bench.fleet
    for pod in _movable_pods(node_info):
        found = bench.best_move(pod, snapshot.excluded_nodes, snapshot.avoided_nodes(pod.pod))
        if not again(pod, bench, found):
            bench.fleet = before
            return False
        bench.move(pod, found.node)
    return True
