"""Move a few small pods so that a large one fits on a node."""

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
"""The maximum number of nodes on which another pod is moved to make room."""


class Args(Value):
    probes: tuple[dict[str, QuantityText], ...] = ()
    """Requests of large pods that should always fit somewhere."""
    most_moves: int = 5
    for_pending: bool = True
    """Also make room for pending pods."""


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
        return  # one at a time: the next round observes the outcome


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
    """The node that needs the fewest moves before the probe fits, and the pods to move, in order."""
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
    node_info = picture.fleet.get(node)
    return node_info is not None and all(
        amount <= node_info.allocatable.get(resource, 0) for resource, amount in probe.demand.requests.items()
    )


def _from(node: str, picture: Picture, probe: Resident, most: int) -> list[Resident] | None:
    """Pods of this node to move away, each after the one other pod that must make room for it, if any."""
    bench = picture.fresh_bench()
    node_info = bench.fleet.get(node)
    steps: list[Resident] = []
    movable = [one for one in (node_info.residents if node_info else ()) if _may_go(one, probe)]
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
    """Nodes that lack only capacity for the pod, those that lack least first."""
    hosts = [
        node_info for node_info in bench.fleet.hosts if node_info.name != node and node_info.name not in picture.closed
    ]
    asked = pod.demand.requests
    fitting = [node_info for node_info in hosts if all(n <= node_info.allocatable.get(r, 0) for r, n in asked.items())]
    return sorted(
        fitting, key=lambda node_info: (sum(n > node_info.free(r) for r, n in asked.items()), -node_info.free("cpu"))
    )[:TRIED]


def _after(
    other: Resident, pod: Resident, node: str, bench: Bench, picture: Picture
) -> list[tuple[Resident, str]] | None:
    """First move the other pod, not to the node that is being cleared; then the pod takes its place."""
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
