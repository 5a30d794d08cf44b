"""Who must go so that a more important pod can run: victims node by node, and the node where it hurts least."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import Profile
from trimtab.decide.framework import Reason
from trimtab.decide.pods.answer import HOPELESS
from trimtab.decide.pods.ask import PodAsk, ask_for
from trimtab.decide.pods.burden import Burden, Burdens
from trimtab.decide.pods.fleet import NodeFleet
from trimtab.decide.pods.host import Host, Resident, resident
from trimtab.decide.pods.schedule import (
    DEFAULT,
    Taste,
    active_filters,
    book,
    crowded_nodes,
    objection_to,
    refusals,
    schedule,
)
from trimtab.decide.pods.shares import Fairness, Shares
from trimtab.decide.pods.terms import Choice

SYSTEM_CRITICAL = 2_000_000_000
"""From this priority on a pod may break budgets in either profile."""
NOT_STARTED = datetime.max.replace(tzinfo=UTC)
FEWEST_CANDIDATES = 100
PRIORITY_OFFSET = 1 << 31
"""Makes every priority positive, so that fewer victims never sum up to more."""
PREEMPTED = "PreemptionByScheduler"
Columns: TypeAlias = NDArray[np.intp]


class Cover(NamedTuple):
    """A disruption budget as preemption sees it."""

    namespace: str
    selector: Choice | None
    allowed: int
    disrupted: frozenset[str] = frozenset()
    """Pods whose disruption is already granted."""
    exact: bool = False
    """As evictions are judged: an empty selector selects all, and whoever is ending already costs nothing. Else as
    kube-scheduler looks at budgets."""
    spares_ill: bool = True
    """Pods that are not ready need its leave too."""

    def selects(self, pod: Resident) -> bool:
        if pod.namespace != self.namespace or self.selector is None:
            return False
        if not self.exact and (not pod.labels or self.selector.empty):
            return False
        return self.selector.matches(pod.labels)

    def covers(self, pod: Resident) -> bool:
        """Whether the budget has a say in the end of this pod."""
        if pod.name in self.disrupted or not self.selects(pod):
            return False
        return not self.exact or not (pod.terminating or (not self.spares_ill and not pod.pod.ready))


class Limits(NamedTuple):
    """How many pods may go: what budgets allow, and what owners without one can bear."""

    covers: tuple[Cover, ...]
    burdens: Burdens | None = None

    def breaking(self, pods: Iterable[Resident]) -> frozenset[tuple[str, str]]:
        """Which pods would go too far if all were to leave in this order."""
        left: dict[int | str, int] = {i: cover.allowed for i, cover in enumerate(self.covers)}
        found = set()
        for one in pods:
            asked: list[int | str] = [i for i, cover in enumerate(self.covers) if cover.covers(one)]
            if (bearer := self._bearer(one)) is not None:
                left.setdefault(bearer.owner, bearer.spare)
                asked.append(bearer.owner)
            for who in asked:
                left[who] -= 1
                if left[who] < 0:
                    found.add(one.key)
        return frozenset(found)

    def hold(self, victims: Iterable[Resident]) -> bool:
        return not self.breaking(victims)

    def borne_by(self, pod: Resident) -> Burden | None:
        """What the owner of a pod has borne lately; None when it has none, or nobody asks."""
        return self.burdens(pod.traits.controller) if self.burdens is not None and pod.traits.controller else None

    def _bearer(self, pod: Resident) -> Burden | None:
        """The owner that must bear the loss of a pod for which no budget speaks."""
        if self.burdens is None or pod.terminating or any(cover.selects(pod) for cover in self.covers):
            return None
        bearer = self.borne_by(pod)
        return None if bearer is None or pod.pod.metadata.uid in bearer.leaving else bearer

    def leaves(self, pod: Resident) -> bool:
        """Whether this pod is on its way out already."""
        bearer = None if pod.terminating else self.borne_by(pod)
        return pod.terminating or (bearer is not None and pod.pod.metadata.uid in bearer.leaving)


class Candidate(NamedTuple):
    """A node that would do, and whom it costs."""

    node: str
    victims: tuple[Resident, ...]
    """Most important first."""
    violations: int
    """Victims whose budget does not allow it."""
    cost: tuple[float, ...]
    """Compared in order, less is better: broken budgets, the highest priority hurt, victims that nothing replaces,
    priorities together, number of victims, how little their owners and services have (among equals), what their owners
    bore lately, and how long the most important of them have run."""


class Preemption(NamedTuple):
    """The cheapest candidate, the others it was chosen from, and those that would have been as good."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    tied: tuple[str, ...]


def preempt(
    pod: Pod | Resident,
    fleet: NodeFleet,
    covers: Sequence[Cover],
    profile: Profile,
    taste: Taste = DEFAULT,
    *,
    fairness: Fairness | None = None,
    burdens: Burdens | None = None,
) -> Preemption | Reason:
    """For a pod that no node can take as it is; a `Reason` when preemption helps nowhere or is not allowed.

    With `fairness`, when lower priorities do not help, pods of equal priority may yield to an owner that has less.
    With `burdens`, owners without a budget lose few pods at once, and those that bore least lately lose them first.
    """
    me = pod if isinstance(pod, Resident) else resident(pod)
    ask = ask_for(me, fleet)
    if (refused := ineligible(ask, fleet, taste, me.priority + (fairness is not None))) is not None:
        return refused
    enforced = profile.preemption_obeys_budgets and me.priority < SYSTEM_CRITICAL
    shared = profile.preemption_shares_the_burden
    limits = Limits(tuple(covers), burdens if shared else None)
    hunt = Hunt(ask, fleet, limits, taste, enforced, spares_unmanaged=shared)
    found = _candidates(hunt)
    if not found and fairness is not None:
        shares = Shares(me, fleet, fairness, limits.leaves)
        fair = _candidates(hunt._replace(shares=shares))
        found = [candidate for candidate in fair if shares.stay_even(candidate.victims)]
    if not found:
        return Reason("NoVictims", "evicting pods of lower priority makes room on no node")
    tied = cheapest(found)
    return Preemption(tied[0], tuple(found), tuple(candidate.node for candidate in tied))


def ineligible(ask: PodAsk, fleet: NodeFleet, taste: Taste, top: int) -> Reason | None:
    """A pod that may not preempt, or whose victims, all of a priority below `top`, are still leaving."""
    if ask.pod.spec.preemption_policy == "Never":
        return Reason("NeverPreempts", "the pod's preemptionPolicy is Never")
    promised = fleet.get(ask.pod.status.nominated_node_name)
    if promised is None:
        return None
    objection = objection_to(ask, fleet, promised.name, taste)
    if objection is not None and objection.reason.code == HOPELESS:
        return None
    leaving = [one for one in promised.residents if one.priority < top and preempted(one.pod)]
    if leaving:
        return Reason("VictimsLeaving", f"{len(leaving)} pods are still leaving {promised.name} for it")
    return None


def preempted(pod: Pod) -> bool:
    """Whether the pod is ending to make room."""
    return pod.metadata.deletion_timestamp is not None and any(
        condition.type == "DisruptionTarget" and condition.status == "True" and condition.reason == PREEMPTED
        for condition in pod.status.conditions
    )


class Hunt(NamedTuple):
    """What a search for victims needs to know."""

    ask: PodAsk
    fleet: NodeFleet
    limits: Limits
    taste: Taste
    enforced: bool
    spares_unmanaged: bool
    """Pods that nothing would replace go last among their equals: what they do is lost for good."""
    shares: Shares | None = None
    """With these, pods as important may yield too."""

    @property
    def top(self) -> int:
        """Only pods of a priority below this can be victims."""
        return self.ask.me.priority + (self.shares is not None)

    def may_take(self, pod: Resident) -> bool:
        return pod.priority < self.ask.me.priority or (self.shares is not None and self.shares.may_yield(pod))

    def importance(self, pod: Resident) -> tuple[object, ...]:
        """Sorts the most important first: by priority, what its owner has, what it bore, and how long it has run.

        Age comes last, because a replacement is young: whoever was disrupted would else be the first to be so again.
        """
        replaced = self.spares_unmanaged and pod.pod.controller is not None
        started = pod.pod.status.start_time or NOT_STARTED
        return -pod.priority, replaced, self._plenty(pod), -self._borne(pod), started, pod.key

    def _plenty(self, pod: Resident) -> tuple[float, float]:
        return self.shares.plenty(pod) if self.shares is not None else (0.0, 0.0)

    def _borne(self, pod: Resident) -> float:
        found = self.limits.borne_by(pod)
        return found.per_replica if found is not None else 0.0

    def cost(self, victims: Sequence[Resident], violations: int) -> tuple[float, ...]:
        """See `Candidate.cost`; `victims` are sorted, the most important first."""
        if not victims:
            return (violations, -PRIORITY_OFFSET, 0, 0, 0, 0, 0, 0, 0)
        highest = victims[0].priority
        lost = sum(one.pod.controller is None for one in victims) if self.spares_unmanaged else 0
        owner, service = min(map(self._plenty, victims))
        borne = max(map(self._borne, victims))
        started = min(one.pod.status.start_time or NOT_STARTED for one in victims if one.priority == highest)
        total = sum(one.priority + PRIORITY_OFFSET for one in victims)
        return (violations, highest, lost, total, len(victims), -owner, -service, borne, -started.timestamp())


def _candidates(hunt: Hunt) -> list[Candidate]:
    """Candidates in the order of names; enough of them, one of which breaks no budget, end the search."""
    columns, trial = potential(hunt), Trial(hunt)
    enough = max(len(columns) // 10, FEWEST_CANDIDATES)
    found: list[Candidate] = []
    harmless = False
    for start in range(0, len(columns), enough):
        for candidate in _examined(hunt, trial, columns[start : start + enough].tolist()):
            found.append(candidate)
            harmless = harmless or candidate.violations == 0
            if len(found) >= enough and harmless:
                return found
    return found


def _examined(hunt: Hunt, trial: "Trial", columns: Sequence[int]) -> Iterable[Candidate]:
    """Those of these nodes that would do; what the same question found there before is not asked again."""
    targets, promised, known = hunt.fleet.hosts.targets, hunt.fleet.nominated, trial.known()
    for column in columns:
        here = targets[column]
        seen = known.get(here.name)
        if seen is None or seen[0] is not here or here.name in promised or not trial.still_bear(seen[1].borne):
            candidate = victims_on(here.name, trial)
            seen = known[here.name] = (here, Finding(candidate, trial.borne))
        if seen[1].candidate is not None:
            yield seen[1].candidate


def potential(hunt: Hunt) -> Columns:
    """The columns of nodes that are refused for what runs there and have pods that may yield."""
    weakest = hunt.fleet.hosts.column("weakest", lambda: _weakest, np.int64)
    return np.flatnonzero(crowded_nodes(hunt.ask, hunt.fleet, hunt.taste) & (weakest < hunt.top))


def _weakest(here: Host) -> int:
    return min((one.priority for one in here.residents), default=PRIORITY_OFFSET)


class Finding(NamedTuple):
    """What was found on a node, and what the owners of the pods that could go had borne then, by controller."""

    candidate: Candidate | None
    borne: tuple[tuple[str, Burden], ...]


class Trial:
    """A copy of the cluster on which pods are taken away and put back.

    When every rule looks at one node alone, only that node is copied; else the whole cluster is, because taking a pod
    away changes what other nodes are worth.
    """

    def __init__(self, hunt: Hunt) -> None:
        ask, fleet = hunt.ask, hunt.fleet
        self.me, self.hunt = ask.me, hunt
        plugins = active_filters(ask, hunt.taste)
        self._alone = all(plugin.sweep is None for plugin in plugins)
        self._checks = [plugin.study(ask, fleet.hosts) for plugin in plugins] if self._alone else []
        self._fleet = fleet if self._alone else fleet.fork()
        self._here: Host | None = None
        self._node = ""
        self.borne: tuple[tuple[str, Burden], ...] = ()
        """What the owners of those who could go have borne, by controller."""
        self._question = tuple((plugin.name, plugin.reads(ask)) for plugin in plugins if plugin.reads is not None)
        self._comparable = self._alone and hunt.shares is None and len(self._question) == len(plugins)

    def known(self) -> dict[str, tuple[Host, Finding]]:
        """What the same question found on nodes before; nothing when answers depend on more than node and question."""
        if not self._comparable:
            return {}
        hunt = self.hunt
        question = (self._question, self.me.priority, hunt.limits.covers, hunt.enforced, hunt.spares_unmanaged)
        return self._fleet.notebook.page((*question, hunt.limits.burdens is None))

    def still_bear(self, borne: Iterable[tuple[str, Burden]]) -> bool:
        burdens = self.hunt.limits.burdens
        return burdens is None or all(burdens(controller) == before for controller, before in borne)

    def enter(self, node: str) -> tuple[Resident, ...]:
        """From now on it is about this node; returns whom it would cost at most, most important first."""
        here = self._fleet.hosts.targets[self._fleet.hosts.index[node]]
        self._node, self._here = node, here if self._alone else None
        weaker = [one for one in here.residents if self.hunt.may_take(one)]
        found = ((one.traits.controller, self.hunt.limits.borne_by(one)) for one in weaker)
        self.borne = tuple({controller: borne for controller, borne in found if borne is not None}.items())
        return tuple(sorted(weaker, key=self.hunt.importance))

    def take(self, pods: Sequence[Resident]) -> None:
        if self._here is None:
            self._fleet = self._fleet.vacated(pods, self._node)
        else:
            self._here = self._here.left(pods)

    def put_back(self, pods: Iterable[Resident]) -> None:
        for one in pods:
            if self._here is None:
                self._fleet = self._fleet.settled(one, self._node)
            else:
                self._here = self._here.joined(one)

    def fits(self) -> bool:
        if self._here is None:
            ask = ask_for(self.me, self._fleet)
            column = self._fleet.hosts.index[self._node]
            ((_, objection),) = refusals(ask, self._fleet, [column], self.hunt.taste)
            return objection is None
        return self._passes(self._here) and self._passes_with_promised(self._here)

    def _passes(self, here: Host) -> bool:
        return all(check(here) is None for check in self._checks)

    def _passes_with_promised(self, here: Host) -> bool:
        """Pods as important that were promised room on this node must still find it."""
        waiting = self._fleet.nominated.get(self._node, ())
        ahead = [one for one in waiting if one.priority >= self.me.priority and one.key != self.me.key]
        if not ahead:
            return True
        for one in ahead:
            here = here.joined(one)
        return self._passes(here)


def victims_on(node: str, trial: Trial) -> Candidate | None:
    """The fewest pods, the least important ones, that must leave this node; None when even all of them do not help."""
    weaker, limits, enforced = trial.enter(node), trial.hunt.limits, trial.hunt.enforced
    if enforced:
        # the least important pods that their budgets let go
        forbidden = limits.breaking(reversed(weaker))
        candidate = _tried(node, trial, [one for one in weaker if one.key not in forbidden], spare=frozenset())
        if candidate is not None:
            return candidate
    candidate = _tried(node, trial, weaker, spare=limits.breaking(weaker))
    if candidate is None or not enforced or limits.hold(candidate.victims):
        return candidate
    return None


def _tried(
    node: str, trial: Trial, leaving: Sequence[Resident], *, spare: frozenset[tuple[str, str]]
) -> Candidate | None:
    """Take all away; if the newcomer fits, bring back whom it leaves room for: first those in `spare`."""
    trial.take(leaving)
    if not trial.fits():
        trial.put_back(leaving)
        return None
    victims = []
    for one in sorted(leaving, key=lambda one: one.key not in spare) if spare else leaving:
        trial.put_back([one])
        if not trial.fits():
            trial.take([one])
            victims.append(one)
    trial.put_back(victims)
    victims.sort(key=trial.hunt.importance)
    violations = sum(one.key in spare for one in victims)
    return Candidate(node, tuple(victims), violations, trial.hunt.cost(victims, violations))


def cheapest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that hurt least, by name; more than one when nothing tells them apart."""
    lowest = min([candidate.cost for candidate in candidates])
    return sorted(
        (candidate for candidate in candidates if candidate.cost == lowest), key=lambda candidate: candidate.node
    )


def foretold(pod: Resident, chosen: Candidate, fleet: NodeFleet, taste: Taste = DEFAULT) -> str:
    """Who goes, and what will become of each: told to people, and of no weight in the choice."""
    after = fleet.fork().vacated(chosen.victims, chosen.node).settled(pod, chosen.node)
    told = []
    for one in chosen.victims:
        if not one.traits.controller:
            outcome = "nothing replaces it"
        else:
            heir = one._replace(pod=one.pod.but(spec=one.pod.spec.but(node_name="")))
            decision = schedule(heir, after, taste)
            after = book(decision, after)
            outcome = f"{decision.node or 'no node'} would take its replacement"
        told.append(f"{'/'.join(one.key)} from {chosen.node}; {outcome}")
    return "evicts " + ", and ".join(told)
