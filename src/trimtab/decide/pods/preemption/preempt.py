"""Preemption: finds victims per node, and the node where their eviction costs least."""

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
"""From this priority on a pod may violate budgets in either profile."""
NOT_STARTED = datetime.max.replace(tzinfo=UTC)
FEWEST_CANDIDATES = 100
AT_ONCE = 16
"""Minimum number of nodes to evaluate before checking whether there are enough candidates."""
COSTS = 9
"""The length of a cost tuple."""
PRIORITY_OFFSET = 1 << 31
"""Makes every priority positive, so that fewer victims never sum up to more."""
PREEMPTED = "PreemptionByScheduler"
Columns: TypeAlias = NDArray[np.intp]
Borne: TypeAlias = tuple[tuple[str, Burden], ...]
"""The recent disruptions of owners when a result was computed, by controller."""


class Cover(NamedTuple):
    """A disruption budget as preemption reads it."""

    namespace: str
    selector: Choice | None
    allowed: int
    disrupted: frozenset[str] = frozenset()
    """Pods whose disruption is already granted."""
    exact: bool = False
    """As evictions are evaluated: an empty selector selects all pods, and terminating pods cost nothing. Otherwise as
    kube-scheduler reads budgets.
    """
    spares_ill: bool = True
    """Whether the budget also protects pods that are not ready."""

    def selects(self, pod: Resident) -> bool:
        if pod.namespace != self.namespace or self.selector is None:
            return False
        if not self.exact and (not pod.labels or self.selector.empty):
            return False
        return self.selector.matches(pod.labels)

    def covers(self, pod: Resident) -> bool:
        """Return whether the end of this pod is charged to the budget."""
        if pod.name in self.disrupted or not self.selects(pod):
            return False
        return not self.exact or not (pod.terminating or (not self.spares_ill and not pod.pod.is_ready))


class Limits(NamedTuple):
    """How many pods may be disrupted: what budgets allow, and the default limit for owners without a budget."""

    covers: tuple[Cover, ...]
    burdens: Burdens | None = None

    def breaking(self, pods: Iterable[Resident]) -> frozenset[tuple[str, str]]:
        """Return the pods that would exceed a limit if all were evicted in this order."""
        remaining: dict[int | str, int] = {i: cover.allowed for i, cover in enumerate(self.covers)}
        found = set()
        for one in pods:
            charged: list[int | str] = [i for i, cover in enumerate(self.covers) if cover.covers(one)]
            if (owner := self._bearer(one)) is not None:
                remaining.setdefault(owner.owner, owner.spare)
                charged.append(owner.owner)
            for limit in charged:
                remaining[limit] -= 1
                if remaining[limit] < 0:
                    found.add(one.key)
        return frozenset(found)

    def hold(self, victims: Iterable[Resident]) -> bool:
        return not self.breaking(victims)

    def borne_by(self, pod: Resident) -> Burden | None:
        """Return the recent disruptions of the pod's owner; None when it has no owner or they are not tracked."""
        return self.burdens(pod.traits.controller) if self.burdens is not None and pod.traits.controller else None

    def _bearer(self, pod: Resident) -> Burden | None:
        """Return the owner that is charged for a pod that no budget selects."""
        if self.burdens is None or pod.terminating or any(cover.selects(pod) for cover in self.covers):
            return None
        owner = self.borne_by(pod)
        return None if owner is None or pod.pod.metadata.uid in owner.leaving else owner

    def leaves(self, pod: Resident) -> bool:
        """Return whether this pod is already being removed."""
        owner = None if pod.terminating else self.borne_by(pod)
        return pod.terminating or (owner is not None and pod.pod.metadata.uid in owner.leaving)


class Candidate(NamedTuple):
    """A node where preemption helps, with its victims."""

    node: str
    victims: tuple[Resident, ...]
    """Most important first."""
    violations: int
    """The number of victims whose budget does not allow it."""
    cost: tuple[float, ...]
    """Compared in order, less is better: violated budgets, the highest priority of a victim, victims without a
    controller, sum of priorities, number of victims, small shares of their owners and services (among equals), recent
    disruptions of their owners, and how long the most important of them have run.
    """


class Preemption(NamedTuple):
    """The cheapest candidate, all candidates, and the nodes that cost the same."""

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
    """Find victims for a pod that fits on no node; a `Reason` when preemption does not help or is not allowed.

    With `fairness`, when lower priorities do not help, pods of equal priority may yield to an owner that has less.
    With `disruptions`, owners without a budget lose few pods at once, and those with the fewest recent ones first.
    """
    pod_info = pod if isinstance(pod, Resident) else resident(pod)
    request = ask_for(pod_info, fleet)
    if (ineligibility := ineligible(request, fleet, taste, pod_info.priority + (fairness is not None))) is not None:
        return ineligibility
    enforced = profile.preemption_obeys_budgets and pod_info.priority < SYSTEM_CRITICAL
    shared = profile.preemption_spreads_disruptions
    limits = Limits(tuple(covers), burdens if shared else None)
    search = Hunt(request, fleet, limits, taste, enforced, spares_unmanaged=shared)
    table, columns = _candidates(search)
    if not len(columns) and fairness is not None:
        shares = Shares(pod_info, fleet, fairness, limits.leaves)
        table, columns = _candidates(search._replace(shares=shares))
        even = [shares.stay_even(candidate.victims) for candidate in table.at(columns)]
        columns = columns[np.array(even, dtype=bool)]
    if not len(columns):
        return Reason("NoVictims", "evicting pods of lower priority makes room on no node")
    tied = table.cheapest(columns)
    return Preemption(table.at(tied[:1])[0], table.at(columns), tuple(fleet.hosts.names_at(tied)))


def ineligible(ask: PodAsk, fleet: NodeFleet, taste: Taste, top: int) -> Reason | None:
    """Return why the pod cannot preempt: its policy, or victims (priority below `priority_bound`) still leaving."""
    if ask.pod.spec.preemption_policy == "Never":
        return Reason("NeverPreempts", "the pod's preemptionPolicy is Never")
    nominated_node = fleet.get(ask.pod.status.nominated_node_name)
    if nominated_node is None:
        return None
    rejection = objection_to(ask, fleet, nominated_node.name, taste)
    if rejection is not None and rejection.reason.code == HOPELESS:
        return None
    leaving = [one for one in nominated_node.residents if one.priority < top and preempted(one.pod)]
    if leaving:
        return Reason("VictimsLeaving", f"{len(leaving)} pods are still leaving {nominated_node.name} for it")
    return None


def preempted(pod: Pod) -> bool:
    """Return whether the pod is being deleted because of preemption."""
    return pod.metadata.deletion_timestamp is not None and any(
        condition.type == "DisruptionTarget" and condition.status == "True" and condition.reason == PREEMPTED
        for condition in pod.status.conditions
    )


class Hunt(NamedTuple):
    """The inputs of a search for victims."""

    ask: PodAsk
    fleet: NodeFleet
    limits: Limits
    taste: Taste
    enforced: bool
    spares_unmanaged: bool
    """Pods without a controller are evicted last among pods of equal priority: nothing replaces them."""
    shares: Shares | None = None
    """When set, pods of equal priority can be victims too."""

    @property
    def top(self) -> int:
        """Only pods with a priority below this can be victims."""
        return self.ask.me.priority + (self.shares is not None)

    def may_take(self, pod: Resident) -> bool:
        return pod.priority < self.ask.me.priority or (self.shares is not None and self.shares.may_yield(pod))

    def importance(self, pod: Resident) -> tuple[object, ...]:
        """Sort key, most important first: priority, share of the owner, recent disruptions, running time.

        Age comes last, because a replacement is young: a disrupted pod would otherwise be the first to be disrupted again.
        """
        is_managed = self.spares_unmanaged and pod.pod.controller is not None
        started = pod.pod.status.start_time or NOT_STARTED
        return -pod.priority, is_managed, self._plenty(pod), -self._borne(pod), started, pod.key

    def _plenty(self, pod: Resident) -> tuple[float, float]:
        return self.shares.plenty(pod) if self.shares is not None else (0.0, 0.0)

    def _borne(self, pod: Resident) -> float:
        found = self.limits.borne_by(pod)
        return found.per_replica if found is not None else 0.0

    def cost(self, victims: Sequence[Resident], violations: int) -> tuple[float, ...]:
        """See `PreemptionCandidate.cost`; `victims` are sorted, most important first."""
        if not victims:
            return (violations, -PRIORITY_OFFSET, 0, 0, 0, 0, 0, 0, 0)
        highest = victims[0].priority
        unmanaged = sum(one.pod.controller is None for one in victims) if self.spares_unmanaged else 0
        owner, service = min(map(self._plenty, victims)) if self.shares is not None else (0.0, 0.0)
        recent = max(map(self._borne, victims)) if self.limits.burdens is not None else 0.0
        started = min(one.pod.status.start_time or NOT_STARTED for one in victims if one.priority == highest)
        total = sum(one.priority + PRIORITY_OFFSET for one in victims)
        return (violations, highest, unmanaged, total, len(victims), -owner, -service, recent, -started.timestamp())


def _candidates(hunt: Hunt) -> tuple["Findings", Columns]:
    """Find candidates by node name; the search ends with enough of them, at least one of which violates no budget."""
    columns, trial = potential(hunt), Trial(hunt)
    table = trial.findings()
    enough = max(len(columns) // 10, FEWEST_CANDIDATES)
    if hunt.limits.burdens is None:  # with `disruptions`, cached results may be outdated
        without_candidate = (table.stamps == hunt.fleet.stamps) & (table.costs[0] == np.inf)
        columns = columns[~without_candidate[columns]]
    found: list[Columns] = []
    start, count, has_harmless = 0, 0, False
    while start < len(columns) and not (has_harmless and count >= enough):
        batch = columns[start : start + max(enough - count, AT_ONCE)]
        start += len(batch)
        _examine(batch, trial, table)
        with_candidate = batch[table.costs[0][batch] < np.inf]
        needed = enough - count
        if not has_harmless:
            clean = np.flatnonzero(table.costs[0][with_candidate] == 0)
            has_harmless = len(clean) > 0
            needed = max(needed, int(clean[0]) + 1) if has_harmless else len(with_candidate)
        found.append(with_candidate[:needed])
        count += len(found[-1])
    return table, np.concatenate(found) if found else columns


def _examine(asked: Columns, trial: "Trial", findings: "Findings") -> None:
    """Evaluate those of these nodes without a valid cached result."""
    search = trial.hunt
    names, nominated, generations = search.fleet.hosts.names, search.fleet.nominated, search.fleet.stamps
    known = findings.stamps[asked] == generations[asked]
    if search.limits.burdens is not None:
        known &= np.array([trial.still_bear(findings.borne[column]) for column in asked.tolist()], dtype=bool)
    for column in asked[~known].tolist():
        candidate = victims_on(names[column], trial)
        # a nomination may be withdrawn without any change of the node
        generation = 0 if names[column] in nominated else int(generations[column])
        findings.note(column, generation, candidate, trial.borne)


def potential(hunt: Hunt) -> Columns:
    """Return the columns of nodes that are rejected because of their pods and have possible victims."""
    lowest = hunt.fleet.hosts.column("weakest", lambda: _weakest, np.int64)
    return np.flatnonzero(crowded_nodes(hunt.ask, hunt.fleet, hunt.taste) & (lowest < hunt.top))


def _weakest(here: Host) -> int:
    return min((one.priority for one in here.residents), default=PRIORITY_OFFSET)


class Findings:
    """The results of one search by column; arrays, because most results are reused by the next search."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.stamps = np.zeros(len(names), dtype=np.int64)
        """The generation of the node that each result is for; 0 is none."""
        self.borne: list[Borne] = [()] * len(names)
        self.costs = np.full((COSTS, len(names)), np.inf)
        """Infinite where there is no candidate."""
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
        """Return the candidates in these columns, each of which has one."""
        return tuple(self._candidates[columns].tolist())

    def cheapest(self, columns: Columns) -> Columns:
        """Return the columns with the lowest cost; more than one when costs are equal."""
        for place in np.flatnonzero(self._least < self._most).tolist():  # most costs are the same everywhere
            costs = self.costs[place][columns]
            columns = columns[costs == costs.min()]
            if len(columns) == 1:
                break
        return columns


class Trial:
    """A copy of the cluster for removing and restoring pods.

    When every filter reads one node alone, only that node is copied; otherwise the whole cluster is, because removing a
    pod changes the results of other nodes.
    """

    def __init__(self, hunt: Hunt) -> None:
        request, fleet = hunt.ask, hunt.fleet
        self.me, self.hunt = request.me, hunt
        plugins = active_filters(request, hunt.taste)
        self._alone = all(plugin.evaluate_all is None for plugin in plugins)
        self._checks = [plugin.as_predicate(request, fleet.hosts) for plugin in plugins] if self._alone else []
        self._fleet = fleet if self._alone else fleet.fork()
        self._here: Host | None = None
        self._node = ""
        self.borne: Borne = ()
        """The recent disruptions of the owners of possible victims, by controller."""
        self._question = tuple((plugin.name, plugin.reads(request)) for plugin in plugins if plugin.reads is not None)
        self._comparable = self._alone and hunt.shares is None and len(self._question) == len(plugins)

    def findings(self) -> Findings:
        """Return the cached table of the same search; a new one when results depend on other nodes or shares."""
        nodes, search = self._fleet.hosts, self.hunt
        if not self._comparable:
            return Findings(nodes.names)
        search_key = (self._question, self.me.priority, search.limits.covers, search.enforced, search.spares_unmanaged)
        cache, key = self._fleet.notebook, (*search_key, search.limits.burdens is None)
        table = cache.page(key, lambda: Findings(nodes.names))
        if table.names is not nodes.names:  # nodes were added or removed, and columns have changed
            table = cache.anew(key, Findings(nodes.names))
        for node in self._fleet.nominated:
            if (column := nodes.index.get(node)) is not None:
                table.stamps[column] = 0
        return table

    def still_bear(self, borne: Borne) -> bool:
        """Return whether the recent disruptions of these owners are as they were."""
        lookup = self.hunt.limits.burdens
        return lookup is None or all(lookup(controller) == before for controller, before in borne)

    def enter(self, node: str) -> tuple[Resident, ...]:
        """Start a trial on this node; return all possible victims, most important first."""
        node_info = self._fleet.hosts.targets[self._fleet.hosts.index[node]]
        self._node, self._here = node, node_info if self._alone else None
        evictable = [one for one in node_info.residents if self.hunt.may_take(one)]
        if self.hunt.limits.burdens is not None:
            observed = ((one.traits.controller, self.hunt.limits.borne_by(one)) for one in evictable)
            self.borne = tuple(
                {controller: disruptions for controller, disruptions in observed if disruptions is not None}.items()
            )
        return tuple(sorted(evictable, key=self.hunt.importance))

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
        """Restore this pod if the preemptor still fits beside it."""
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
            request = ask_for(self.me, self._fleet)
            column = self._fleet.hosts.index[self._node]
            ((_, rejection),) = refusals(request, self._fleet, [column], self.hunt.taste)
            return rejection is None
        return self._passes(self._here) and self._passes_with_promised(self._here)

    def _passes(self, here: Host) -> bool:
        return all(check(here) for check in self._checks)

    def _passes_with_promised(self, here: Host) -> bool:
        """Return whether pods of equal or higher priority nominated to this node still fit."""
        nominated = self._fleet.nominated.get(self._node, ())
        ahead = [one for one in nominated if one.priority >= self.me.priority and one.key != self.me.key]
        if not ahead:
            return True
        for one in ahead:
            here = here.joined(one)
        return self._passes(here)


def victims_on(node: str, trial: Trial) -> Candidate | None:
    """Return the fewest and least important victims on this node; None when removing all of them does not help."""
    evictable, limits, enforced = trial.enter(node), trial.hunt.limits, trial.hunt.enforced
    if enforced:
        # the least important pods that their budgets allow
        forbidden = limits.breaking(reversed(evictable))
        candidate = _tried(node, trial, [one for one in evictable if one.key not in forbidden], spare=frozenset())
        if candidate is not None or not forbidden:
            return candidate
    candidate = _tried(node, trial, evictable, spare=limits.breaking(evictable))
    if candidate is None or not enforced or limits.hold(candidate.victims):
        return candidate
    return None


def _tried(
    node: str, trial: Trial, leaving: Sequence[Resident], *, spare: frozenset[tuple[str, str]]
) -> Candidate | None:
    """Remove all; if the preemptor fits, restore as many as possible: first those in `restored_first`."""
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
    """Predict for each victim where its replacement fits; shown to people and not used in the choice."""
    after = fleet.fork().vacated(chosen.victims, chosen.node).settled(pod, chosen.node)
    outcomes = []
    for one in chosen.victims:
        if one.pod.controller is None:
            outcomes.append((one, "nothing replaces it"))
            continue
        replacement = one._replace(pod=one.pod.but(spec=one.pod.spec.but(node_name="")))
        decision = schedule(replacement, after, taste)
        after = book(decision, after)
        outcomes.append((one, f"{decision.node or 'no node'} would take its replacement"))
    return outcomes
