"""A few small pods make way so that a large one fits somewhere."""

from collections.abc import Iterator, Mapping

import msgspec

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import QuantityText, Value
from trimtab.decide.pods.node_info import Host, Resident, resident
from trimtab.decide.pods.request import ask_for
from trimtab.decide.pods.schedule import DEFAULT, objection_to, schedule
from trimtab.decide.rescheduling.objectives import FULL, Candidate, objective
from trimtab.decide.rescheduling.score_gain import Bench
from trimtab.decide.rescheduling.snapshot import Picture

LONGEST_PLAN = 5
TRIED = 20
"""Nodes on which one pod is tried to be moved to make room for another."""


class Args(Value):
    probes: tuple[dict[str, QuantityText], ...] = ()
    """Requests of large pods for which there should always be room somewhere."""
    most_moves: int = 5
    for_pending: bool = True
    """Also make room for pods that wait in vain."""


@objective("Defragment", args=Args)
def defragment(args: Args, picture: Picture) -> Iterator[Candidate]:
    for number, probe in enumerate(_probes(args, picture)):
        if schedule(probe, picture.fleet).node is not None:
            continue
        found = _fewest(args, picture, probe)
        if found is None:
            continue
        node, steps = found
        real = probe.pod.metadata.uid
        reason = f"{'/'.join(probe.key) if real else 'a large pod'} would fit on {node}"
        for step, pod in enumerate(steps, start=1):
            together = f"defragment-{number}"
            yield Candidate(pod, FULL, reason, until=real, together=together, step=step if len(steps) > 1 else 0)
        return  # one at a time: the next round sees what came of it


def _probes(args: Args, picture: Picture) -> Iterator[Resident]:
    if args.for_pending:
        yield from picture.pending
    for requests in args.probes:
        yield resident(_large(requests))


def _large(requests: Mapping[str, QuantityText]) -> Pod:
    container = {"name": "probe", "resources": {"requests": dict(requests)}}
    raw = {"metadata": {"name": "probe", "namespace": "trimtab-probe"}, "spec": {"containers": [container]}}
    return msgspec.convert(raw, Pod, strict=False)


def _fewest(args: Args, picture: Picture, probe: Resident) -> tuple[str, list[Resident]] | None:
    """The node for which the fewest pods must move before the probe fits, and those pods, in the order of their moves."""
    best: tuple[str, list[Resident]] | None = None
    for name in sorted(picture.fleet.hosts.names):
        most = min(args.most_moves, LONGEST_PLAN) if best is None else len(best[1]) - 1
        if name in picture.closed or most < 1 or not _large_enough(picture, name, probe):
            continue
        found = _from(name, picture, probe, most)
        if found is not None and (best is None or len(found) < len(best[1])):
            best = name, found
    return best


def _large_enough(picture: Picture, node: str, probe: Resident) -> bool:
    here = picture.fleet.get(node)
    return here is not None and all(
        amount <= here.allocatable.get(resource, 0) for resource, amount in probe.demand.requests.items()
    )


def _from(node: str, picture: Picture, probe: Resident, most: int) -> list[Resident] | None:
    """Pods of this node that go elsewhere, each after the one pod that must make room for it there, if any."""
    bench = picture.fresh_bench()
    here = bench.fleet.get(node)
    steps: list[Resident] = []
    movable = [one for one in (here.residents if here else ()) if _may_go(one, probe)]
    for pod in sorted(movable, key=lambda one: (-one.demand.requests.get("cpu", 0), one.priority, one.key)):
        needed = _way_out(pod, node, bench, picture, probe)
        if needed is None or len(steps) + len(needed) > most:
            continue
        for one, target in needed:
            bench.move(one, target)
            steps.append(one)
        if objection_to(ask_for(probe, bench.fleet), bench.fleet, node, DEFAULT) is None:
            return steps
    return None


def _way_out(
    pod: Resident, node: str, bench: Bench, picture: Picture, probe: Resident
) -> list[tuple[Resident, str]] | None:
    """The moves after which the pod has left its node: its own, or that of one other pod before it."""
    target = bench.prospect(pod, picture.closed).node
    if target is not None:
        return [(pod, target)]
    for there in _nearly(pod, node, bench, picture):
        for other in sorted(
            there.residents, key=lambda one: (one.demand.requests.get("cpu", 0), one.priority, one.key)
        ):
            if _may_go(other, probe) and (moves := _after(other, pod, node, bench, picture)) is not None:
                return moves
    return None


def _nearly(pod: Resident, node: str, bench: Bench, picture: Picture) -> list[Host]:
    """Nodes that could take the pod but for their room, those that lack least first."""
    hosts = [here for here in bench.fleet.hosts if here.name != node and here.name not in picture.closed]
    asked = pod.demand.requests
    fitting = [here for here in hosts if all(n <= here.allocatable.get(r, 0) for r, n in asked.items())]
    return sorted(fitting, key=lambda here: (sum(n > here.free(r) for r, n in asked.items()), -here.free("cpu")))[
        :TRIED
    ]


def _after(
    other: Resident, pod: Resident, node: str, bench: Bench, picture: Picture
) -> list[tuple[Resident, str]] | None:
    """First the other goes, and not to where room is to be made; then the pod takes its place."""
    before, place = bench.fleet, other.pod.spec.node_name
    target = bench.prospect(other, picture.closed).node
    if target is None or target == node:
        return None
    bench.move(other, target)
    fits = bench.prospect(pod, picture.closed).node == place
    bench.fleet = before
    return [(other, target), (pod, place)] if fits else None


def _may_go(pod: Resident, probe: Resident) -> bool:
    plain = bool(pod.traits.controller) and not pod.traits.daemon and not pod.traits.local_storage
    return plain and (pod.priority <= probe.priority or not probe.pod.metadata.uid)
