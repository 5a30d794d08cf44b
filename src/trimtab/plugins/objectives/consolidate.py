"""Empty underutilised nodes when the other nodes can take all their pods."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from trimtab.api.value import Value, never_omit
from trimtab.decide.pods.node_info import Host, Resident
from trimtab.decide.rescheduling.objectives import FULL, Candidate, objective
from trimtab.decide.rescheduling.protections import unwilling
from trimtab.decide.rescheduling.score_gain import WISHES, Bench, Prospect
from trimtab.decide.rescheduling.snapshot import Picture

MOST_TRIED = 200
"""Nodes that one round tries to empty: most of those that fail, fail for the same reason."""


class Args(Value):
    low: dict[str, float] = never_omit({"cpu": 20.0, "memory": 20.0})
    """A node at or below all of these may be emptied, in percent of its allocatable."""
    high: dict[str, float] = never_omit({"cpu": 70.0, "memory": 70.0})
    """No node is filled above these."""
    nodes: int = 1
    """The maximum number of nodes in one round."""


@objective("Consolidate", args=Args)
def consolidate(args: Args, picture: Picture) -> Iterator[Candidate]:
    hosts = [node_info for node_info in picture.fleet.hosts if node_info.name not in picture.closed]
    low_nodes = sorted(
        (node_info for node_info in hosts if _is_low(node_info, args)),
        key=lambda node_info: (len(node_info.residents), node_info.name),
    )
    again = partial(_again, _limits(args, picture))
    bench, freed = picture.fresh_bench(), 0
    for node_info in [one for one in low_nodes if _movable(one)][:MOST_TRIED]:
        if freed >= args.nodes:
            return
        if not _emptied(node_info, bench, picture, again):
            continue
        reason = f"{node_info.name} is used little, and the other nodes have room for all its pods"
        candidates = [Candidate(pod, FULL, reason, partial(again, pod)) for pod in _movable(node_info)]
        is_protected = any(unwilling(one, picture) is not None for one in candidates)
        freed += not is_protected
        # owners and budgets limit the pace, round by round; but do not start to empty a node that cannot be emptied
        yield from (
            one._replace(together=f"consolidate-{node_info.name}" if is_protected else "") for one in candidates
        )


def _limits(args: Args, picture: Picture) -> Mapping[str, float]:
    """How full a node may become: an objective that balances nodes would move back anything above its limit."""
    limits = dict(args.high)
    for one in picture.settings.objectives:
        for resource, limit in (one.args.get("high") or {}).items() if one.enabled else ():
            limits[resource] = min(limits.get(resource, FULL), float(limit))
    return limits


def _again(limits: Mapping[str, float], pod: Resident, bench: Bench, found: Prospect) -> float:
    """0 when no node would be freed, a node would be too full, or the pod's preferences would be worse."""
    there = bench.fleet.get(found.node or "")
    if there is None or not _movable(there) or found.gain_of(WISHES) < 0:
        return 0.0
    after = there.joined(pod)
    sizes = {resource: after.allocatable.get(resource, 0) for resource in limits}
    full = any(FULL * after.used.get(one, 0) > limits[one] * size for one, size in sizes.items() if size)
    return 0.0 if full else FULL


def _is_low(here: Host, args: Args) -> bool:
    return all(
        100.0 * here.used.get(resource, 0) <= limit * here.allocatable.get(resource, 0)
        for resource, limit in args.low.items()
    )


def _movable(here: Host) -> list[Resident]:
    return [pod for pod in here.residents if not (pod.traits.daemon or pod.traits.immovable or pod.terminating)]


def _emptied(here: Host, bench: Bench, picture: Picture, again: Callable[[Resident, Bench, Prospect], float]) -> bool:
    """Try to move this node's pods to nodes in use; False, and nothing moves, when one does not fit."""
    before = bench.fleet
    for pod in _movable(here):
        found = bench.prospect(pod, picture.closed, picture.avoided_by(pod.pod))
        if not again(pod, bench, found):
            bench.fleet = before
            return False
        bench.move(pod, found.node)
    return True
