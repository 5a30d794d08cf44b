"""Nodes that are used little are emptied, as long as the others can take all of it."""

from collections.abc import Iterator

from trimtab.api.value import Value, always
from trimtab.decide.pods.host import Host, Resident
from trimtab.decide.reschedule.gains import Bench
from trimtab.decide.reschedule.objectives import FULL, Candidate, objective
from trimtab.decide.reschedule.picture import Picture


class Args(Value):
    low: dict[str, float] = always({"cpu": 20.0, "memory": 20.0})
    """A node at or below all of these may be emptied, in percent of what it has."""
    nodes: int = 1
    """How many nodes at most in one round."""


@objective("Consolidate", args=Args)
def consolidate(args: Args, picture: Picture) -> Iterator[Candidate]:
    hosts = [here for here in picture.fleet.hosts if here.name not in picture.closed]
    little = sorted((here for here in hosts if _is_low(here, args)), key=lambda here: (len(here.residents), here.name))
    bench, freed = Bench(picture.fleet), 0
    empty = {here.name for here in hosts if not _movable(here)}
    for here in little:
        if freed >= args.nodes or here.name in empty:
            continue
        if not _emptied(here, bench, picture, empty):
            continue
        freed += 1
        for pod in _movable(here):
            reason = f"{here.name} is used little, and the other nodes have room for all its pods"
            yield Candidate(pod, FULL, reason, together=f"consolidate-{here.name}")


def _is_low(here: Host, args: Args) -> bool:
    return all(
        100.0 * here.used.get(resource, 0) <= limit * here.allocatable.get(resource, 0)
        for resource, limit in args.low.items()
    )


def _movable(here: Host) -> list[Resident]:
    return [pod for pod in here.residents if not (pod.traits.daemon or pod.traits.immovable or pod.terminating)]


def _emptied(here: Host, bench: Bench, picture: Picture, empty: set[str]) -> bool:
    """Move this node's pods to others that are in use; False, and nothing moves, when they do not all fit."""
    before = bench.fleet
    closed = picture.closed | empty | {here.name}
    for pod in _movable(here):
        target = bench.prospect(pod, closed, picture.avoided_by(pod.pod)).node
        if target is None:
            bench.fleet = before
            return False
        bench.move(pod, target)
    return True
