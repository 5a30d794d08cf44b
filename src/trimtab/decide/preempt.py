"""Who must go so that a more important pod can run: victims node by node, and the node where it hurts least."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import Profile
from trimtab.decide.framework import Reason
from trimtab.decide.pods.answer import CROWDED, HOPELESS
from trimtab.decide.pods.ask import PodAsk, ask_for
from trimtab.decide.pods.fleet import NodeFleet
from trimtab.decide.pods.host import Resident, resident
from trimtab.decide.pods.schedule import DEFAULT, Taste, objection_to, refusals
from trimtab.decide.pods.terms import Choice

SYSTEM_CRITICAL = 2_000_000_000
"""From this priority on a pod may break budgets in either profile."""
NOT_STARTED = datetime.max.replace(tzinfo=UTC)
FEWEST_CANDIDATES = 100
PRIORITY_OFFSET = 1 << 31
"""Makes every priority positive, so that fewer victims never sum up to more."""
PREEMPTED = "PreemptionByScheduler"


class Cover(NamedTuple):
    """A disruption budget as preemption sees it."""

    namespace: str
    selector: Choice | None
    allowed: int
    disrupted: frozenset[str] = frozenset()
    """Pods whose disruption is already granted."""

    def covers(self, pod: Resident) -> bool:
        if pod.namespace != self.namespace or not pod.labels or pod.name in self.disrupted:
            return False
        return self.selector is not None and not self.selector.empty and self.selector.matches(pod.labels)


class Candidate(NamedTuple):
    """A node that would do, and whom it costs."""

    node: str
    victims: tuple[Resident, ...]
    """Most important first."""
    violations: int
    """Victims whose budget does not allow it."""


class Preemption(NamedTuple):
    """The cheapest candidate, the others it was chosen from, and those that would have been as good."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    tied: tuple[str, ...]


def preempt(
    pod: Pod | Resident, fleet: NodeFleet, covers: Sequence[Cover], profile: Profile, taste: Taste = DEFAULT
) -> Preemption | Reason:
    """For a pod that no node can take as it is; a `Reason` when preemption helps nowhere or is not allowed."""
    me = pod if isinstance(pod, Resident) else resident(pod)
    ask = ask_for(me, fleet)
    if (refused := ineligible(ask, fleet, taste)) is not None:
        return refused
    enforced = profile.preemption_obeys_budgets and me.priority < SYSTEM_CRITICAL
    found = tuple(_candidates(ask, fleet, covers, taste, enforced=enforced))
    if not found:
        return Reason("NoVictims", "evicting pods of lower priority makes room on no node")
    tied = cheapest(found)
    return Preemption(tied[0], found, tuple(candidate.node for candidate in tied))


def ineligible(ask: PodAsk, fleet: NodeFleet, taste: Taste) -> Reason | None:
    """A pod that may not preempt, or whose victims are still leaving."""
    if ask.pod.spec.preemption_policy == "Never":
        return Reason("NeverPreempts", "the pod's preemptionPolicy is Never")
    promised = fleet.get(ask.pod.status.nominated_node_name)
    if promised is None:
        return None
    objection = objection_to(ask, fleet, promised.name, taste)
    if objection is not None and objection.reason.code == HOPELESS:
        return None
    leaving = [one for one in promised.residents if one.priority < ask.me.priority and _preempted(one.pod)]
    if leaving:
        return Reason("VictimsLeaving", f"{len(leaving)} pods are still leaving {promised.name} for it")
    return None


def _preempted(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None and any(
        condition.type == "DisruptionTarget" and condition.status == "True" and condition.reason == PREEMPTED
        for condition in pod.status.conditions
    )


def _candidates(
    ask: PodAsk, fleet: NodeFleet, covers: Sequence[Cover], taste: Taste, *, enforced: bool
) -> Iterable[Candidate]:
    """Candidates in the order of names; enough of them, one of which breaks no budget, end the search."""
    nodes = potential(ask, fleet, taste)
    enough = max(len(nodes) // 10, FEWEST_CANDIDATES)
    trial, found, harmless = Trial(ask, fleet, taste), 0, False
    for node in nodes:
        candidate = victims_on(node, trial, covers, enforced=enforced)
        if candidate is None:
            continue
        yield candidate
        found, harmless = found + 1, harmless or candidate.violations == 0
        if found >= enough and harmless:
            return


def potential(ask: PodAsk, fleet: NodeFleet, taste: Taste) -> list[str]:
    """Nodes that are refused for what runs there and have pods of lower priority."""
    weaker = [
        column
        for column, here in enumerate(fleet.hosts)
        if any(one.priority < ask.me.priority for one in here.residents)
    ]
    return [
        fleet.hosts.names[column]
        for column, objection in refusals(ask, fleet, weaker, taste)
        if objection is not None and objection.reason.code == CROWDED
    ]


class Trial:
    """A copy of the cluster on which pods are taken away and put back; the copy always comes back as it was."""

    def __init__(self, ask: PodAsk, fleet: NodeFleet, taste: Taste) -> None:
        self.me, self._taste = ask.me, taste
        self._fleet = fleet.fork()

    def residents(self, node: str) -> tuple[Resident, ...]:
        here = self._fleet.get(node)
        return here.residents if here is not None else ()

    def take(self, pods: Iterable[Resident], node: str) -> None:
        self._fleet = self._fleet.vacated(pods, node)

    def put_back(self, pods: Iterable[Resident], node: str) -> None:
        for one in pods:
            self._fleet = self._fleet.settled(one, node)

    def fits(self, node: str) -> bool:
        ask = ask_for(self.me, self._fleet)
        column = self._fleet.hosts.index[node]
        ((_, objection),) = refusals(ask, self._fleet, [column], self._taste)
        return objection is None


def victims_on(node: str, trial: Trial, covers: Sequence[Cover], *, enforced: bool) -> Candidate | None:
    """The fewest pods, the least important ones, that must leave this node; None when even all of them do not help."""
    weaker = sorted((one for one in trial.residents(node) if one.priority < trial.me.priority), key=importance)
    if not weaker:
        return None
    trial.take(weaker, node)
    try:
        if not trial.fits(node):
            return None
        candidate = _reprieved(node, trial, weaker, covers, spare=breaking(weaker, covers))
    finally:
        here = {one.key for one in trial.residents(node)}
        trial.put_back([one for one in weaker if one.key not in here], node)
    if not enforced or within_budgets(candidate.victims, covers):
        return candidate
    return _obedient(node, trial, weaker, covers)


def _obedient(node: str, trial: Trial, weaker: list[Resident], covers: Sequence[Cover]) -> Candidate | None:
    """The least important pods that their budgets let go, if they are enough."""
    spare = breaking(list(reversed(weaker)), covers)
    movable = [one for one in weaker if one.key not in spare]
    trial.take(movable, node)
    try:
        if not trial.fits(node):
            return None
        return _reprieved(node, trial, movable, covers, spare=frozenset())
    finally:
        here = {one.key for one in trial.residents(node)}
        trial.put_back([one for one in movable if one.key not in here], node)


def _reprieved(
    node: str, trial: Trial, gone: list[Resident], covers: Sequence[Cover], *, spare: frozenset[tuple[str, str]]
) -> Candidate:
    """Of the pods taken away, bring back whom the newcomer leaves room for: first those in `spare`."""
    victims = []
    for one in sorted(gone, key=lambda one: one.key not in spare):
        trial.put_back([one], node)
        if not trial.fits(node):
            trial.take([one], node)
            victims.append(one)
    violations = sum(one.key in spare for one in victims)
    return Candidate(node, tuple(sorted(victims, key=importance)), violations)


def importance(pod: Resident) -> tuple[int, datetime, tuple[str, str]]:
    """Sorts the most important first: by priority, then by how long it has run."""
    return -pod.priority, pod.pod.status.start_time or NOT_STARTED, pod.key


def breaking(pods: Iterable[Resident], covers: Sequence[Cover]) -> frozenset[tuple[str, str]]:
    """Which pods would break a budget if all were to leave in this order."""
    left = [cover.allowed for cover in covers]
    found = set()
    for one in pods:
        for i, cover in enumerate(covers):
            if cover.covers(one):
                left[i] -= 1
                if left[i] < 0:
                    found.add(one.key)
    return frozenset(found)


def within_budgets(victims: Sequence[Resident], covers: Iterable[Cover]) -> bool:
    return all(sum(cover.covers(one) for one in victims) <= max(0, cover.allowed) for cover in covers)


def cheapest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that hurt least, by rule after rule; those still equal are all returned, by name."""
    rules: tuple[Callable[[Candidate], float], ...] = (
        lambda candidate: candidate.violations,
        _highest_priority,
        lambda candidate: sum(one.priority + PRIORITY_OFFSET for one in candidate.victims),
        lambda candidate: len(candidate.victims),
        _youngest_first,
    )
    left = list(candidates)
    for rule in rules:
        lowest = min(map(rule, left))
        left = [candidate for candidate in left if rule(candidate) == lowest]
    return sorted(left, key=lambda candidate: candidate.node)


def _highest_priority(candidate: Candidate) -> float:
    return candidate.victims[0].priority if candidate.victims else -PRIORITY_OFFSET


def _youngest_first(candidate: Candidate) -> float:
    """Later starts are lower: the one whose most important victims have run for the shortest time is best."""
    if not candidate.victims:
        return 0
    highest = candidate.victims[0].priority
    started = [one.pod.status.start_time or NOT_STARTED for one in candidate.victims if one.priority == highest]
    return -min(started).timestamp()
