"""Preemption: finds victims per node, and the node where their eviction costs least."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import Profile
from trimtab.api.wording import plural, verb
from trimtab.decide.fleet import Array
from trimtab.decide.framework import Mask, Reason
from trimtab.decide.pods.affinity.affinity_terms import HashableSelector
from trimtab.decide.pods.node_info import NodeInfo, PodInfo, build_pod_info
from trimtab.decide.pods.node_rejection import UNRESOLVABLE
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.preemption.fair_share import FairShareInput, OwnerShares
from trimtab.decide.pods.preemption.recent_disruptions import DisruptionsLookup, RecentDisruptions
from trimtab.decide.pods.request import PodRequest, pod_request_for
from trimtab.decide.pods.schedule import (
    DEFAULT_SCHEDULER_PROFILE,
    SchedulerProfile,
    active_filters,
    apply_decision,
    node_rejection,
    node_rejections,
    resolvable_nodes,
    schedule,
)

SYSTEM_CRITICAL = 2_000_000_000
"""From this priority on a pod may violate budgets in either profile."""
NOT_STARTED = datetime.max.replace(tzinfo=UTC)
MIN_CANDIDATES = 100
MIN_BATCH_SIZE = 16
"""Minimum number of nodes to evaluate before checking whether there are enough candidates."""
COST_LENGTH = 9
"""The length of a cost tuple."""
PRIORITY_OFFSET = 1 << 31
"""Makes every priority positive, so that fewer victims never sum up to more."""
PREEMPTION_REASON = "PreemptionByScheduler"
Columns: TypeAlias = NDArray[np.intp]
ObservedDisruptions: TypeAlias = tuple[tuple[str, RecentDisruptions], ...]
"""The recent disruptions of owners when a result was computed, by controller."""


class PreemptionBudget(NamedTuple):
    """A disruption budget as preemption reads it."""

    namespace: str
    selector: HashableSelector | None
    allowed: int
    disrupted: frozenset[str] = frozenset()
    """Pods whose disruption is already granted."""
    exact: bool = False
    """As evictions are evaluated: an empty selector selects all pods, and terminating pods cost nothing. Otherwise as
    kube-scheduler reads budgets.
    """
    protects_unready: bool = True
    """Whether the budget also protects pods that are not ready."""

    def selects(self, pod: PodInfo) -> bool:
        if pod.namespace != self.namespace or self.selector is None:
            return False
        if not self.exact and (not pod.labels or self.selector.is_empty):
            return False
        return self.selector.matches(pod.labels)

    def protects(self, pod: PodInfo) -> bool:
        """Return whether the end of this pod is charged to the budget."""
        if pod.name in self.disrupted or not self.selects(pod):
            return False
        return not self.exact or not (pod.is_terminating or (not self.protects_unready and not pod.pod.is_ready))


class DisruptionLimits(NamedTuple):
    """How many pods may be disrupted: what budgets allow, and the default limit for owners without a budget."""

    budgets: tuple[PreemptionBudget, ...]
    disruptions: DisruptionsLookup | None = None

    def violating_pods(self, pods: Iterable[PodInfo]) -> frozenset[tuple[str, str]]:
        """Return the pods that would exceed a limit if all were evicted in this order."""
        remaining: dict[int | str, int] = {i: cover.allowed for i, cover in enumerate(self.budgets)}
        found = set()
        for one in pods:
            charged: list[int | str] = [i for i, cover in enumerate(self.budgets) if cover.protects(one)]
            if (owner := self._charged_owner(one)) is not None:
                remaining.setdefault(owner.owner, owner.remaining)
                charged.append(owner.owner)
            for limit in charged:
                remaining[limit] -= 1
                if remaining[limit] < 0:
                    found.add(one.key)
        return frozenset(found)

    def allow_all(self, victims: Iterable[PodInfo]) -> bool:
        return not self.violating_pods(victims)

    def disruptions_of(self, pod: PodInfo) -> RecentDisruptions | None:
        """Return the recent disruptions of the pod's owner; None when it has no owner or they are not tracked."""
        return (
            self.disruptions(pod.traits.controller_uid)
            if self.disruptions is not None and pod.traits.controller_uid
            else None
        )

    def _charged_owner(self, pod: PodInfo) -> RecentDisruptions | None:
        """Return the owner that is charged for a pod that no budget selects."""
        if self.disruptions is None or pod.is_terminating or any(cover.selects(pod) for cover in self.budgets):
            return None
        owner = self.disruptions_of(pod)
        return None if owner is None or pod.pod.metadata.uid in owner.leaving_uids else owner

    def is_leaving(self, pod: PodInfo) -> bool:
        """Return whether this pod is already being removed."""
        owner = None if pod.is_terminating else self.disruptions_of(pod)
        return pod.is_terminating or (owner is not None and pod.pod.metadata.uid in owner.leaving_uids)


class PreemptionCandidate(NamedTuple):
    """A node where preemption helps, with its victims."""

    node: str
    victims: tuple[PodInfo, ...]
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

    chosen: PreemptionCandidate
    candidate_array: Array
    tied_columns: Columns
    names: Sequence[str]
    """The names of all nodes."""

    @property
    def candidates(self) -> tuple[PreemptionCandidate, ...]:
        return tuple(self.candidate_array.tolist())

    @property
    def tied(self) -> tuple[str, ...]:
        return tuple([self.names[column] for column in self.tied_columns.tolist()])


def preempt(
    pod: Pod | PodInfo,
    fleet: NodeSnapshot,
    budgets: Sequence[PreemptionBudget],
    profile: Profile,
    scheduler_profile: SchedulerProfile = DEFAULT_SCHEDULER_PROFILE,
    *,
    fairness: FairShareInput | None = None,
    disruptions: DisruptionsLookup | None = None,
) -> Preemption | Reason:
    """Find victims for a pod that fits on no node; a `Reason` when preemption does not help or is not allowed.

    With `fairness`, when lower priorities do not help, pods of equal priority may yield to an owner that has less.
    With `disruptions`, owners without a budget lose few pods at once, and those with the fewest recent ones first.
    """
    pod_info = pod if isinstance(pod, PodInfo) else build_pod_info(pod)
    request = pod_request_for(pod_info, fleet)
    if (
        ineligibility := ineligible_reason(
            request, fleet, scheduler_profile, pod_info.priority + (fairness is not None)
        )
    ) is not None:
        return ineligibility
    enforced = profile.preemption_obeys_budgets and pod_info.priority < SYSTEM_CRITICAL
    shared = profile.preemption_spreads_disruptions
    limits = DisruptionLimits(tuple(budgets), disruptions if shared else None)
    search = VictimSearch(request, fleet, limits, scheduler_profile, enforced, evicts_unmanaged_last=shared)
    table, columns = _find_candidates(search)
    if not len(columns) and fairness is not None:
        shares = OwnerShares(pod_info, fleet, fairness, limits.is_leaving)
        table, columns = _find_candidates(search._replace(shares=shares))
        even = [shares.keeps_shares_fair(candidate.victims) for candidate in table.candidates_at(columns).tolist()]
        columns = columns[np.array(even, dtype=bool)]
    if not len(columns):
        return Reason("NoVictims", "evicting pods of lower priority frees enough capacity on no node")
    tied = table.cheapest(columns)
    return Preemption(table.candidates_at(tied[:1])[0], table.candidates_at(columns), tied, fleet.nodes.names)


def ineligible_reason(
    request: PodRequest, fleet: NodeSnapshot, scheduler_profile: SchedulerProfile, priority_bound: int
) -> Reason | None:
    """Return why the pod cannot preempt: its policy, or victims (priority below `priority_bound`) still leaving."""
    if request.pod.spec.preemption_policy == "Never":
        return Reason("NeverPreempts", "the pod's preemptionPolicy is Never")
    nominated_node = fleet.get(request.pod.status.nominated_node_name)
    if nominated_node is None:
        return None
    rejection = node_rejection(request, fleet, nominated_node.name, scheduler_profile)
    if rejection is not None and rejection.reason.code == UNRESOLVABLE:
        return None
    leaving = [one for one in nominated_node.pods if one.priority < priority_bound and is_preempted(one.pod)]
    if leaving:
        return Reason(
            "VictimsTerminating",
            f"{plural(len(leaving), 'pod')} {verb(len(leaving), 'is', 'are')} still terminating on {nominated_node.name} for it",
        )
    return None


def is_preempted(pod: Pod) -> bool:
    """Return whether the pod is being deleted because of preemption."""
    return pod.metadata.deletion_timestamp is not None and any(
        condition.type == "DisruptionTarget" and condition.status == "True" and condition.reason == PREEMPTION_REASON
        for condition in pod.status.conditions
    )


class VictimSearch(NamedTuple):
    """The inputs of a search for victims."""

    request: PodRequest
    fleet: NodeSnapshot
    limits: DisruptionLimits
    scheduler_profile: SchedulerProfile
    enforces_budgets: bool
    evicts_unmanaged_last: bool
    """Pods without a controller are evicted last among pods of equal priority: nothing replaces them."""
    shares: OwnerShares | None = None
    """When set, pods of equal priority can be victims too."""

    @property
    def priority_bound(self) -> int:
        """Only pods with a priority below this can be victims."""
        return self.request.pod_info.priority + (self.shares is not None)

    def can_evict(self, pod: PodInfo) -> bool:
        return pod.priority < self.request.pod_info.priority or (
            self.shares is not None and self.shares.can_be_victim(pod)
        )

    def importance(self, pod: PodInfo) -> tuple[object, ...]:
        """Sort key, most important first: priority, share of the owner, recent disruptions, running time.

        Age comes last, because a replacement is young: a disrupted pod would otherwise be the first to be disrupted again.
        """
        is_managed = self.evicts_unmanaged_last and pod.pod.controller is not None
        started = pod.pod.status.start_time or NOT_STARTED
        return -pod.priority, is_managed, self._shares_of(pod), -self._recent_per_replica(pod), started, pod.key

    def _shares_of(self, pod: PodInfo) -> tuple[float, float]:
        return self.shares.shares_of(pod) if self.shares is not None else (0.0, 0.0)

    def _recent_per_replica(self, pod: PodInfo) -> float:
        found = self.limits.disruptions_of(pod)
        return found.recent_per_replica if found is not None else 0.0

    def cost(self, victims: Sequence[PodInfo], violations: int) -> tuple[float, ...]:
        """See `PreemptionCandidate.cost`; `victims` are sorted, most important first."""
        if not victims:
            return (violations, -PRIORITY_OFFSET, 0, 0, 0, 0, 0, 0, 0)
        highest = victims[0].priority
        unmanaged = sum(one.pod.controller is None for one in victims) if self.evicts_unmanaged_last else 0
        owner, service = min(map(self._shares_of, victims)) if self.shares is not None else (0.0, 0.0)
        recent = max(map(self._recent_per_replica, victims)) if self.limits.disruptions is not None else 0.0
        started = min(one.pod.status.start_time or NOT_STARTED for one in victims if one.priority == highest)
        total = sum(one.priority + PRIORITY_OFFSET for one in victims)
        return (violations, highest, unmanaged, total, len(victims), -owner, -service, recent, -started.timestamp())


def _find_candidates(search: VictimSearch) -> tuple["CandidateTable", Columns]:
    """Find candidates by node name; the search ends with enough of them, at least one of which violates no budget."""
    potential, trial = potential_nodes(search), PreemptionTrial(search)
    table = trial.candidate_table()
    enough = max(int(np.count_nonzero(potential)) // 10, MIN_CANDIDATES)
    if search.limits.disruptions is None:  # with `disruptions`, cached results may be outdated
        potential &= (table.costs[0] < np.inf) | (table.generations != search.fleet.node_generations)
    columns = potential.nonzero()[0]
    found: list[Columns] = []
    start, count, has_harmless = 0, 0, False
    while start < len(columns) and not (has_harmless and count >= enough):
        batch = columns[start : start + max(enough - count, MIN_BATCH_SIZE)]
        start += len(batch)
        _evaluate_nodes(batch, trial, table)
        with_candidate = batch[table.costs[0][batch] < np.inf]
        needed = enough - count
        if not has_harmless:
            clean = np.flatnonzero(table.costs[0][with_candidate] == 0)
            has_harmless = len(clean) > 0
            needed = max(needed, int(clean[0]) + 1) if has_harmless else len(with_candidate)
        found.append(with_candidate[:needed])
        count += len(found[-1])
    return table, np.concatenate(found) if found else columns


def _evaluate_nodes(asked: Columns, trial: "PreemptionTrial", table: "CandidateTable") -> None:
    """Evaluate those of these nodes without a valid cached result."""
    search = trial.search
    names, nominated, generations = search.fleet.nodes.names, search.fleet.nominated, search.fleet.node_generations
    known = table.generations[asked] == generations[asked]
    if search.limits.disruptions is not None:
        known &= np.array(
            [trial.are_disruptions_unchanged(table.disruptions[column]) for column in asked.tolist()], dtype=bool
        )
    for column in asked[~known].tolist():
        candidate = find_victims(names[column], trial)
        # a nomination may be withdrawn without any change of the node
        generation = 0 if names[column] in nominated else int(generations[column])
        table.set_candidate(column, generation, candidate, trial.disruptions)


def potential_nodes(search: VictimSearch) -> Mask:
    """Return which nodes are rejected because of their pods and have possible victims."""
    lowest = search.fleet.nodes.column("weakest", lambda: _lowest_priority, np.int64)
    potential: Mask = lowest < search.priority_bound
    potential &= resolvable_nodes(search.request, search.fleet, search.scheduler_profile)
    return potential


def _lowest_priority(node_info: NodeInfo) -> int:
    return min((one.priority for one in node_info.pods), default=PRIORITY_OFFSET)


class CandidateTable:
    """The results of one search by column; arrays, because most results are reused by the next search."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.generations = np.zeros(len(names), dtype=np.int64)
        """The generation of the node that each result is for; 0 is none."""
        self.disruptions: list[ObservedDisruptions] = [()] * len(names)
        self.costs = np.full((COST_LENGTH, len(names)), np.inf)
        """Infinite where there is no candidate."""
        self._lowest_costs, self._highest_costs = np.full(COST_LENGTH, np.inf), np.full(COST_LENGTH, -np.inf)
        self._candidates = np.empty(len(names), dtype=object)

    def set_candidate(
        self, column: int, generation: int, candidate: PreemptionCandidate | None, disruptions: ObservedDisruptions
    ) -> None:
        self.generations[column], self.disruptions[column] = generation, disruptions
        if candidate is None:
            self.costs[:, column] = np.inf
        else:
            self.costs[:, column] = cost = np.array(candidate.cost)
            np.minimum(self._lowest_costs, cost, out=self._lowest_costs)
            np.maximum(self._highest_costs, cost, out=self._highest_costs)
        self._candidates[column] = candidate

    def candidates_at(self, columns: Columns) -> Array:
        """Return the candidates in these columns, each of which has one."""
        candidates: Array = self._candidates[columns]
        return candidates

    def cheapest(self, columns: Columns) -> Columns:
        """Return the columns with the lowest cost; more than one when costs are equal."""
        for place in np.flatnonzero(
            self._lowest_costs < self._highest_costs
        ).tolist():  # most costs are the same everywhere
            costs = self.costs[place][columns]
            columns = columns[costs == costs.min()]
            if len(columns) == 1:
                break
        return columns


class PreemptionTrial:
    """A copy of the cluster for removing and restoring pods.

    When every filter reads one node alone, only that node is copied; otherwise the whole cluster is, because removing a
    pod changes the results of other nodes.
    """

    def __init__(self, search: VictimSearch) -> None:
        request, fleet = search.request, search.fleet
        self.pod_info, self.search = request.pod_info, search
        plugins = active_filters(request, search.scheduler_profile)
        self._checks_one_node = not any(plugin.depends_on_fleet for plugin in plugins)
        self._checks = [plugin.prepare(request, fleet.nodes) for plugin in plugins] if self._checks_one_node else []
        self._fleet = fleet if self._checks_one_node else fleet.fork()
        self._node_info: NodeInfo | None = None
        self._node_name = ""
        self.disruptions: ObservedDisruptions = ()
        """The recent disruptions of the owners of possible victims, by controller."""
        self._filter_inputs = tuple(
            (plugin.name, plugin.reads(request)) for plugin in plugins if plugin.reads is not None
        )
        self._is_cacheable = (
            self._checks_one_node and search.shares is None and len(self._filter_inputs) == len(plugins)
        )

    def candidate_table(self) -> CandidateTable:
        """Return the cached table of the same search; a new one when results depend on other nodes or shares."""
        nodes, search = self._fleet.nodes, self.search
        if not self._is_cacheable:
            return CandidateTable(nodes.names)
        search_key = (
            self._filter_inputs,
            self.pod_info.priority,
            search.limits.budgets,
            search.enforces_budgets,
            search.evicts_unmanaged_last,
        )
        cache, key = self._fleet.result_cache, (*search_key, search.limits.disruptions is None)
        table = cache.get_or_create(key, lambda: CandidateTable(nodes.names))
        if table.names is not nodes.names:  # nodes were added or removed, and columns have changed
            table = cache.replace(key, CandidateTable(nodes.names))
        for node in self._fleet.nominated:
            if (column := nodes.index.get(node)) is not None:
                table.generations[column] = 0
        return table

    def are_disruptions_unchanged(self, observed: ObservedDisruptions) -> bool:
        """Return whether the recent disruptions of these owners are as they were."""
        lookup = self.search.limits.disruptions
        return lookup is None or all(lookup(controller) == before for controller, before in observed)

    def select_node(self, node: str) -> tuple[PodInfo, ...]:
        """Start a trial on this node; return all possible victims, most important first."""
        node_info = self._fleet.nodes.targets[self._fleet.nodes.index[node]]
        self._node_name, self._node_info = node, node_info if self._checks_one_node else None
        evictable = [one for one in node_info.pods if self.search.can_evict(one)]
        if self.search.limits.disruptions is not None:
            observed = ((one.traits.controller_uid, self.search.limits.disruptions_of(one)) for one in evictable)
            self.disruptions = tuple(
                {controller: disruptions for controller, disruptions in observed if disruptions is not None}.items()
            )
        return tuple(sorted(evictable, key=self.search.importance))

    def reset(self, removed: Iterable[PodInfo]) -> None:
        """End the trial: the node has all its pods again; `removed` are those that it has not."""
        if self._node_info is None:
            self.restore_pods(removed)
        else:
            self._node_info = self._fleet.nodes.targets[self._fleet.nodes.index[self._node_name]]

    def remove_pods(self, pods: Sequence[PodInfo]) -> None:
        if self._node_info is None:
            self._fleet = self._fleet.without_pods(pods, self._node_name)
        else:
            self._node_info = self._node_info.without_pods(pods)

    def restore_pods(self, pods: Iterable[PodInfo]) -> None:
        for one in pods:
            if self._node_info is None:
                self._fleet = self._fleet.with_pod_on(one, self._node_name)
            else:
                self._node_info = self._node_info.with_pod(one)

    def try_restore(self, pod: PodInfo) -> bool:
        """Restore this pod if the preemptor still fits beside it."""
        before = self._node_info
        self.restore_pods((pod,))
        if self.fits():
            return True
        if before is None:
            self.remove_pods((pod,))
        else:
            self._node_info = before
        return False

    def fits(self) -> bool:
        if self._node_info is None:
            request = pod_request_for(self.pod_info, self._fleet)
            column = self._fleet.nodes.index[self._node_name]
            ((_, rejection),) = node_rejections(request, self._fleet, [column], self.search.scheduler_profile)
            return rejection is None
        return self._passes_filters(self._node_info) and self._passes_with_nominated(self._node_info)

    def _passes_filters(self, node_info: NodeInfo) -> bool:
        for check in self._checks:  # noqa: SIM110 - a generator takes longer than most checks
            if check(node_info) is not None:
                return False
        return True

    def _passes_with_nominated(self, node_info: NodeInfo) -> bool:
        """Return whether pods of equal or higher priority nominated to this node still fit."""
        nominated = self._fleet.nominated.get(self._node_name, ())
        ahead = [one for one in nominated if one.priority >= self.pod_info.priority and one.key != self.pod_info.key]
        if not ahead:
            return True
        for one in ahead:
            node_info = node_info.with_pod(one)
        return self._passes_filters(node_info)


def find_victims(node: str, trial: PreemptionTrial) -> PreemptionCandidate | None:
    """Return the fewest and least important victims on this node; None when removing all of them does not help."""
    evictable, limits, enforced = trial.select_node(node), trial.search.limits, trial.search.enforces_budgets
    if enforced:
        # the least important pods that their budgets allow
        forbidden = limits.violating_pods(reversed(evictable))
        candidate = _minimal_victims(
            node, trial, [one for one in evictable if one.key not in forbidden], restored_first=frozenset()
        )
        if candidate is not None or not forbidden:
            return candidate
    candidate = _minimal_victims(node, trial, evictable, restored_first=limits.violating_pods(evictable))
    if candidate is None or not enforced or limits.allow_all(candidate.victims):
        return candidate
    return None


def _minimal_victims(
    node: str, trial: PreemptionTrial, leaving: Sequence[PodInfo], *, restored_first: frozenset[tuple[str, str]]
) -> PreemptionCandidate | None:
    """Remove all; if the preemptor fits, restore as many as possible: first those in `restored_first`."""
    trial.remove_pods(leaving)
    if not trial.fits():
        trial.reset(leaving)
        return None
    order = sorted(leaving, key=lambda one: one.key not in restored_first) if restored_first else leaving
    victims = [one for one in order if not trial.try_restore(one)]
    trial.reset(victims)
    if restored_first:
        victims.sort(key=trial.search.importance)
    violations = sum(one.key in restored_first for one in victims)
    return PreemptionCandidate(node, tuple(victims), violations, trial.search.cost(victims, violations))


def predict_replacements(
    pod: PodInfo,
    chosen: PreemptionCandidate,
    fleet: NodeSnapshot,
    scheduler_profile: SchedulerProfile = DEFAULT_SCHEDULER_PROFILE,
) -> list[tuple[PodInfo, str]]:
    """Predict for each victim where its replacement fits; shown to people and not used in the choice."""
    after = fleet.fork().without_pods(chosen.victims, chosen.node).with_pod_on(pod, chosen.node)
    outcomes = []
    for one in chosen.victims:
        if one.pod.controller is None:
            outcomes.append((one, "it has no controller and is not replaced"))
            continue
        replacement = one._replace(pod=one.pod.but(spec=one.pod.spec.but(node_name="")))
        decision = schedule(replacement, after, scheduler_profile)
        after = apply_decision(decision, after)
        outcomes.append((one, f"its replacement fits on {decision.node or 'no node'}"))
    return outcomes
