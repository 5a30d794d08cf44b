"""A few small pods make way so that a large one fits somewhere."""

from collections.abc import Iterator, Mapping

import msgspec

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import QuantityText, Value
from trimtab.decide.pods.ask import ask_for
from trimtab.decide.pods.host import Resident, resident
from trimtab.decide.pods.schedule import DEFAULT, objection_to, schedule
from trimtab.decide.reschedule.gains import Bench
from trimtab.decide.reschedule.objectives import FULL, Candidate, objective
from trimtab.decide.reschedule.picture import Picture


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
        moves = _fewest(args, picture, probe)
        if moves is None:
            continue
        node = moves[0].pod.spec.node_name
        real = bool(probe.pod.metadata.uid)
        for pod in moves:
            reason = f"{'/'.join(probe.key) if real else 'a large pod'} would fit on {node} without it"
            yield Candidate(
                pod, FULL, reason, until=probe.pod.metadata.uid if real else "", together=f"defragment-{number}"
            )
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


def _fewest(args: Args, picture: Picture, probe: Resident) -> list[Resident] | None:
    """The shortest list of pods of one node after which the probe fits there and all of them elsewhere."""
    best: list[Resident] | None = None
    for name in sorted(picture.fleet.hosts.names):
        most = args.most_moves if best is None else len(best) - 1
        if name in picture.closed or most < 1:
            continue
        found = _from(name, picture, probe, most)
        if found is not None and (best is None or len(found) < len(best)):
            best = found
    return best


def _from(node: str, picture: Picture, probe: Resident, most: int) -> list[Resident] | None:
    bench = Bench(picture.fleet)
    here = bench.fleet.get(node)
    taken: list[Resident] = []
    movable = [one for one in (here.residents if here else ()) if _may_go(one, probe)]
    for pod in sorted(movable, key=lambda one: (-one.demand.requests.get("cpu", 0), one.priority, one.key)):
        target = bench.prospect(pod, picture.closed).node
        if target is None or len(taken) >= most:
            continue
        bench.move(pod, target)
        taken.append(pod)
        if objection_to(ask_for(probe, bench.fleet), bench.fleet, node, DEFAULT) is None:
            return taken
    return None


def _may_go(pod: Resident, probe: Resident) -> bool:
    plain = pod.pod.controller is not None and not pod.traits.daemon and not pod.traits.local_storage
    return plain and (pod.priority <= probe.priority or not probe.pod.metadata.uid)
