"""Who must go so that a more important pod can run: victims node by node, and the node where it hurts least."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import Profile
from trimtab.decide.framework import Reason
from trimtab.decide.pods.affinity.affinity_terms import Choice
from trimtab.decide.pods.node_info import Host, Resident, resident
from trimtab.decide.pods.node_rejection import HOPELESS
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.preemption.fair_share import Fairness, Shares
from trimtab.decide.pods.preemption.recent_disruptions import Burden, Burdens
from trimtab.decide.pods.request import PodAsk, ask_for
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

SYSTEM_CRITICAL = 2_000_000_000
"""From this priority on a pod may break budgets in either profile."""
NOT_STARTED = datetime.max.replace(tzinfo=UTC)
FEWEST_CANDIDATES = 100
AT_ONCE = 16
"""At least so many nodes are looked at before asking whether that is enough."""
COSTS = 9
"""How many numbers a cost is made of."""
PRIORITY_OFFSET = 1 << 31
"""Makes every priority positive, so that fewer victims never sum up to more."""
PREEMPTED = "PreemptionByScheduler"
Columns: TypeAlias = NDArray[np.intp]
Borne: TypeAlias = tuple[tuple[str, Burden], ...]
"""What owners had borne when something was found, by controller."""


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
    findings, columns = _candidates(hunt)
    if not len(columns) and fairness is not None:
        shares = Shares(me, fleet, fairness, limits.leaves)
        findings, columns = _candidates(hunt._replace(shares=shares))
        even = [shares.stay_even(candidate.victims) for candidate in findings.at(columns)]
        columns = columns[np.array(even, dtype=bool)]
    if not len(columns):
        return Reason("NoVictims", "evicting pods of lower priority makes room on no node")
    tied = findings.cheapest(columns)
    return Preemption(findings.at(tied[:1])[0], findings.at(columns), tuple(fleet.hosts.called(tied)))


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
        owner, service = min(map(self._plenty, victims)) if self.shares is not None else (0.0, 0.0)
        borne = max(map(self._borne, victims)) if self.limits.burdens is not None else 0.0
        started = min(one.pod.status.start_time or NOT_STARTED for one in victims if one.priority == highest)
        total = sum(one.priority + PRIORITY_OFFSET for one in victims)
        return (violations, highest, lost, total, len(victims), -owner, -service, borne, -started.timestamp())


def _candidates(hunt: Hunt) -> tuple["Findings", Columns]:
    """Where candidates are, in the order of names; enough of them, one of which breaks no budget, end the search."""
    columns, trial = potential(hunt), Trial(hunt)
    findings = trial.findings()
    enough = max(len(columns) // 10, FEWEST_CANDIDATES)
    if hunt.limits.burdens is None:  # else what is known may no longer be true
        hopeless = (findings.stamps == hunt.fleet.stamps) & (findings.costs[0] == np.inf)
        columns = columns[~hopeless[columns]]
    found: list[Columns] = []
    start, count, harmless = 0, 0, False
    while start < len(columns) and not (harmless and count >= enough):
        asked = columns[start : start + max(enough - count, AT_ONCE)]
        start += len(asked)
        _examine(asked, trial, findings)
        here = asked[findings.costs[0][asked] < np.inf]
        most = enough - count
        if not harmless:
            clean = np.flatnonzero(findings.costs[0][here] == 0)
            harmless = len(clean) > 0
            most = max(most, int(clean[0]) + 1) if harmless else len(here)
        found.append(here[:most])
        count += len(found[-1])
    return findings, np.concatenate(found) if found else columns


def _examine(asked: Columns, trial: "Trial", findings: "Findings") -> None:
    """Look at those of these nodes of which nothing is known, or no longer."""
    hunt = trial.hunt
    names, promised, stamps = hunt.fleet.hosts.names, hunt.fleet.nominated, hunt.fleet.stamps
    known = findings.stamps[asked] == stamps[asked]
    if hunt.limits.burdens is not None:
        known &= np.array([trial.still_bear(findings.borne[column]) for column in asked.tolist()], dtype=bool)
    for column in asked[~known].tolist():
        candidate = victims_on(names[column], trial)
        # what was promised may be withdrawn without any change of the node
        stamp = 0 if names[column] in promised else int(stamps[column])
        findings.note(column, stamp, candidate, trial.borne)


def potential(hunt: Hunt) -> Columns:
    """The columns of nodes that are refused for what runs there and have pods that may yield."""
    weakest = hunt.fleet.hosts.column("weakest", lambda: _weakest, np.int64)
    return np.flatnonzero(crowded_nodes(hunt.ask, hunt.fleet, hunt.taste) & (weakest < hunt.top))


def _weakest(here: Host) -> int:
    return min((one.priority for one in here.residents), default=PRIORITY_OFFSET)


class Findings:
    """What one question has found, by column; as arrays, because most of it is the same the next time."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.stamps = np.zeros(len(names), dtype=np.int64)
        """Which value of the node each finding is about; 0 is none."""
        self.borne: list[Borne] = [()] * len(names)
        self.costs = np.full((COSTS, len(names)), np.inf)
        """Without end where there is no candidate."""
        self._least, self._most = np.full(COSTS, np.inf), np.full(COSTS, -np.inf)
        self._candidates = np.empty(len(names), dtype=object)

    def note(self, column: int, stamp: int, candidate: Candidate | None, borne: Borne) -> None:
        self.stamps[column], self.borne[column] = stamp, borne
        if candidate is None:
            self.costs[:, column] = np.inf
        else:
            self.costs[:, column] = candidate.cost
            np.minimum(self._least, candidate.cost, out=self._least)
            np.maximum(self._most, candidate.cost, out=self._most)
        self._candidates[column] = candidate

    def at(self, columns: Columns) -> tuple[Candidate, ...]:
        """The candidates in these columns, each of which has one."""
        return tuple(self._candidates[columns].tolist())

    def cheapest(self, columns: Columns) -> Columns:
        """Those of these that hurt least; more than one when nothing tells them apart."""
        for place in np.flatnonzero(self._least < self._most).tolist():  # most numbers are the same everywhere
            costs = self.costs[place][columns]
            columns = columns[costs == costs.min()]
            if len(columns) == 1:
                break
        return columns


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
        self._checks = [plugin.truth(ask, fleet.hosts) for plugin in plugins] if self._alone else []
        self._fleet = fleet if self._alone else fleet.fork()
        self._here: Host | None = None
        self._node = ""
        self.borne: Borne = ()
        """What the owners of those who could go have borne, by controller."""
        self._question = tuple((plugin.name, plugin.reads(ask)) for plugin in plugins if plugin.reads is not None)
        self._comparable = self._alone and hunt.shares is None and len(self._question) == len(plugins)

    def findings(self) -> Findings:
        """What the same question found before; nothing when answers depend on more than node and question."""
        hosts, hunt = self._fleet.hosts, self.hunt
        if not self._comparable:
            return Findings(hosts.names)
        question = (self._question, self.me.priority, hunt.limits.covers, hunt.enforced, hunt.spares_unmanaged)
        notebook, key = self._fleet.notebook, (*question, hunt.limits.burdens is None)
        findings = notebook.page(key, lambda: Findings(hosts.names))
        if findings.names is not hosts.names:  # nodes have come or gone, and columns mean others
            findings = notebook.anew(key, Findings(hosts.names))
        for node in self._fleet.nominated:
            if (column := hosts.index.get(node)) is not None:
                findings.stamps[column] = 0
        return findings

    def still_bear(self, borne: Borne) -> bool:
        """Whether owners have borne as much as then."""
        burdens = self.hunt.limits.burdens
        return burdens is None or all(burdens(controller) == before for controller, before in borne)

    def enter(self, node: str) -> tuple[Resident, ...]:
        """From now on it is about this node; returns whom it would cost at most, most important first."""
        here = self._fleet.hosts.targets[self._fleet.hosts.index[node]]
        self._node, self._here = node, here if self._alone else None
        weaker = [one for one in here.residents if self.hunt.may_take(one)]
        if self.hunt.limits.burdens is not None:
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

    def spares(self, pod: Resident) -> bool:
        """Put this one back if the newcomer still fits beside it."""
        before = self._here
        self.put_back((pod,))
        if self.fits():
            return True
        if before is None:
            self.take((pod,))
        else:
            self._here = before
        return False

    def fits(self) -> bool:
        if self._here is None:
            ask = ask_for(self.me, self._fleet)
            column = self._fleet.hosts.index[self._node]
            ((_, objection),) = refusals(ask, self._fleet, [column], self.hunt.taste)
            return objection is None
        return self._passes(self._here) and self._passes_with_promised(self._here)

    def _passes(self, here: Host) -> bool:
        return all(check(here) for check in self._checks)

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
        if candidate is not None or not forbidden:
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
    order = sorted(leaving, key=lambda one: one.key not in spare) if spare else leaving
    victims = [one for one in order if not trial.spares(one)]
    trial.put_back(victims)
    if spare:
        victims.sort(key=trial.hunt.importance)
    violations = sum(one.key in spare for one in victims)
    return Candidate(node, tuple(victims), violations, trial.hunt.cost(victims, violations))


def foretold(pod: Resident, chosen: Candidate, fleet: NodeFleet, taste: Taste = DEFAULT) -> list[tuple[Resident, str]]:
    """What will become of each victim, in words: told to people, and of no weight in the choice."""
    after = fleet.fork().vacated(chosen.victims, chosen.node).settled(pod, chosen.node)
    told = []
    for one in chosen.victims:
        if one.pod.controller is None:
            told.append((one, "nothing replaces it"))
            continue
        heir = one._replace(pod=one.pod.but(spec=one.pod.spec.but(node_name="")))
        decision = schedule(heir, after, taste)
        after = book(decision, after)
        told.append((one, f"{decision.node or 'no node'} would take its replacement"))
    return told
