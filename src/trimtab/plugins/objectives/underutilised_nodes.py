"""Move pods from overutilised nodes to underutilised nodes."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from trimtab.api.value import Value, never_omit
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.pods.fit.resource_arrays import allocatable_array, pod_counts, used_array
from trimtab.decide.pods.node_info import NodeInfo, PodInfo
from trimtab.decide.rescheduling.objectives import FULL_GAIN, MoveCandidate, objective
from trimtab.decide.rescheduling.protections import protection_reason
from trimtab.decide.rescheduling.score_gain import MoveForecast, TrialFleet
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

NOTHING = 0.0
CPU = "cpu"
CANDIDATE_FACTOR, MIN_CANDIDATES = 3, 30
"""How many times the surplus is considered as candidates, because some cannot move; and the minimum."""
MAX_REPORTED = 200
"""The maximum number of pods reported that cannot move at all."""


class UnderutilisedNodesArgs(Value):
    low: dict[str, float] = never_omit({"cpu": 30.0, "memory": 30.0})
    """A node at or below all of these is underutilised, in percent of its allocatable."""
    high: dict[str, float] = never_omit({"cpu": 70.0, "memory": 70.0})
    """A node above one of these is overutilised."""


@objective("UnderutilisedNodes", args=UnderutilisedNodesArgs)
def underutilised_nodes(args: UnderutilisedNodesArgs, snapshot: ReschedulingSnapshot) -> Iterator[MoveCandidate]:
    hosts = snapshot.trial.fleet.nodes
    open_ = np.array([name not in snapshot.excluded_nodes for name in hosts.names], dtype=bool)
    idle = open_.copy()
    for resource, limit in args.low.items():
        idle &= percents(hosts, resource) <= limit
    if not idle.any():
        return
    idlest = hosts.targets[int(np.where(idle, percents(hosts, CPU), np.inf).argmin())]
    excess = np.max([percents(hosts, resource) - limit for resource, limit in args.high.items()], axis=0, initial=0.0)
    left = max(MIN_CANDIDATES, CANDIDATE_FACTOR * snapshot.settings.max_moves)
    hot, reported = np.flatnonzero(open_ & (excess > 0)), 0
    for column in sorted(hot.tolist(), key=lambda column: (-excess[column], column)):
        for candidate in _candidates_of_node(hosts.targets[column], idlest, args, snapshot, left):
            if candidate is None or candidate.reevaluate is not None:
                left -= 1
                if candidate is not None:
                    yield candidate
            elif reported < MAX_REPORTED:
                reported += 1
                yield candidate
        if left <= 0:
            return


def _candidates_of_node(
    node_info: NodeInfo, idlest: NodeInfo, args: UnderutilisedNodesArgs, snapshot: ReschedulingSnapshot, most: int
) -> Iterator[MoveCandidate | None]:
    """Pods of an overutilised node, least important first; None for one that would gain nothing."""
    over = most_exceeded(node_info, args.high)
    if over is None:
        return
    resource, percent = over
    limit = args.high[resource]
    reason = f"{percent:.0f} % of the {resource} of {node_info.name} is requested, more than {limit:.0f} %"
    surplus = CANDIDATE_FACTOR * (percent - limit) / 100 * node_info.allocatable.get(resource, 0)
    for pod in sorted(node_info.pods, key=lambda one: one.traits.order):
        if surplus <= 0 or most <= 0:
            return
        if not is_movable(pod, resource):
            continue
        plain = MoveCandidate(pod, usage_difference(node_info, idlest, args), reason)
        if protection_reason(plain, snapshot) is not None:
            yield plain  # it is reported why it stays, and others may move instead
            continue
        surplus, most = surplus - pod.resources.requests.get(resource, 1), most - 1
        if not snapshot.settings.require_fit:
            yield plain._replace(reevaluate=partial(reevaluate_gain, args, pod), skips_fit_check=True)
            continue
        found = snapshot.trial.best_move(pod, snapshot.excluded_nodes, snapshot.avoided_nodes(pod.pod))
        gains = found.node is not None and found.gain > 0
        yield plain._replace(gain=found.gain, reevaluate=partial(reevaluate_gain, args, pod)) if gains else None


def utilisation_state(node_info: NodeInfo, args: UnderutilisedNodesArgs) -> str:
    """The utilisation state of a node in one word; empty when it is neither overutilised nor underutilised."""
    if most_exceeded(node_info, args.high) is not None:
        return "crowded"
    return "idle" if all(percent_of(node_info, one) <= limit for one, limit in args.low.items()) else ""


def is_movable(pod: PodInfo, resource: str) -> bool:
    """Whether the node would be used less without it, and something would replace it."""
    counts = resource == "pods" or bool(pod.resources.requests.get(resource))
    return counts and not pod.traits.is_daemon and not pod.is_terminating and pod.pod.controller is not None


def usage_difference(node_info: NodeInfo, idlest: NodeInfo, args: UnderutilisedNodesArgs) -> float:
    """How much more of this node is requested than of the emptiest: the gain when the target is not simulated."""
    apart = [percent_of(node_info, resource) - percent_of(idlest, resource) for resource in args.high]
    return max(NOTHING, sum(apart) / len(apart))


def reevaluate_gain(args: UnderutilisedNodesArgs, pod: PodInfo, bench: TrialFleet, found: MoveForecast) -> float:
    """The scheduler's gain, while the old node is overutilised and the new one does not become so."""
    node_info, there = bench.fleet.get(pod.pod.spec.node_name), bench.fleet.get(found.node or "")
    if node_info is None or most_exceeded(node_info, args.high) is None:
        return NOTHING
    if there is not None and most_exceeded(there.with_pod(pod), args.high) is not None:
        return NOTHING
    return found.gain


def percent_of(node_info: NodeInfo, resource: str) -> float:
    size = node_info.allocatable.get(resource, 0)
    taken = len(node_info.pods) if resource == "pods" else node_info.used.get(resource, 0)
    return FULL_GAIN * taken / size if size else 0.0


def percents(nodes: Fleet[NodeInfo], resource: str) -> Array:
    """Like `percent_of`, for every node."""
    size = allocatable_array(nodes, resource)
    taken = pod_counts(nodes) if resource == "pods" else used_array(nodes, resource)
    share: Array = np.where(size > 0, FULL_GAIN * taken / np.maximum(size, 1), 0.0)
    return share


def most_exceeded(node_info: NodeInfo, high: Mapping[str, float]) -> tuple[str, float] | None:
    """The resource that exceeds its limit most."""
    over = [
        (percent_of(node_info, one) - limit, one) for one, limit in high.items() if percent_of(node_info, one) > limit
    ]
    return (max(over)[1], percent_of(node_info, max(over)[1])) if over else None
