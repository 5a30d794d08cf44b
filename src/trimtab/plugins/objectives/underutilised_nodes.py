"""Pods of nodes that are used much move to nodes that are used little."""

from collections.abc import Iterator, Mapping
from functools import partial

from trimtab.api.value import Value, always
from trimtab.decide.pods.host import Host, Resident
from trimtab.decide.reschedule.gains import Bench
from trimtab.decide.reschedule.objectives import Candidate, objective
from trimtab.decide.reschedule.picture import Picture

NOTHING = 0.0
CHOICE, FEWEST = 3, 30
"""So many times what must go is looked at, for some of it may not."""


class Args(Value):
    low: dict[str, float] = always({"cpu": 30.0, "memory": 30.0})
    """A node at or below all of these is used little, in percent of what it has."""
    high: dict[str, float] = always({"cpu": 70.0, "memory": 70.0})
    """A node above one of these is used much."""


@objective("UnderutilisedNodes", args=Args)
def underutilised_nodes(args: Args, picture: Picture) -> Iterator[Candidate]:
    hosts = list(picture.fleet.hosts)
    idle = [here for here in hosts if here.name not in picture.closed and is_idle(here, args.low)]
    if not idle:
        return
    left = max(FEWEST, CHOICE * picture.settings.max_moves)
    for here in sorted(hosts, key=lambda one: (-excess(one, args.high), one.name)):
        over = worst(here, args.high)
        if over is None or here.name in picture.closed or left <= 0:
            continue
        resource, percent = over
        reason = f"{here.name} is used to {percent:.0f} % of its {resource}, above {args.high[resource]:.0f} %"
        surplus = CHOICE * (percent - args.high[resource]) / 100 * here.allocatable.get(resource, 0)
        for pod in sorted(here.residents, key=lambda one: one.traits.order):
            if not is_movable(pod, resource):
                continue
            if surplus <= 0 or left <= 0:
                break
            surplus, left = surplus - pod.demand.requests.get(resource, 1), left - 1
            found = picture.bench.prospect(pod, picture.closed, picture.avoided_by(pod.pod))
            if found.node is not None and found.gain > 0:
                yield Candidate(pod, found.gain, reason, partial(worth, args, picture, pod))


def is_movable(pod: Resident, resource: str) -> bool:
    """Whether the node would be used less without it, and something would replace it."""
    counts = resource == "pods" or bool(pod.demand.requests.get(resource))
    return counts and not pod.traits.daemon and not pod.terminating and pod.pod.controller is not None


def worth(args: Args, picture: Picture, pod: Resident, bench: Bench, target: str) -> float:
    """The scheduler's gain, as long as the old node is still used too much and the new one does not become so."""
    here, there = bench.fleet.get(pod.pod.spec.node_name), bench.fleet.get(target)
    if here is None or there is None or worst(here, args.high) is None:
        return NOTHING
    if worst(there.joined(pod), args.high) is not None:
        return NOTHING
    return bench.prospect(pod, picture.closed, picture.avoided_by(pod.pod)).gain


def percent_of(here: Host, resource: str) -> float:
    size = here.allocatable.get(resource, 0)
    used = len(here.residents) if resource == "pods" else here.used.get(resource, 0)
    return 100.0 * used / size if size else 0.0


def is_idle(here: Host, low: Mapping[str, float]) -> bool:
    return all(percent_of(here, resource) <= limit for resource, limit in low.items())


def worst(here: Host, high: Mapping[str, float]) -> tuple[str, float] | None:
    """The resource that is used most above its limit."""
    over = [(percent_of(here, one) - limit, one) for one, limit in high.items() if percent_of(here, one) > limit]
    return (max(over)[1], percent_of(here, max(over)[1])) if over else None


def excess(here: Host, high: Mapping[str, float]) -> float:
    return max((percent_of(here, resource) - limit for resource, limit in high.items()), default=0.0)
