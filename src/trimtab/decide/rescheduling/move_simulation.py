"""Simulates the moves of one round on a trial fleet, after all checks against each move."""

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from trimtab.api.wording import plural, verb
from trimtab.decide.pods.budgets import component_quota
from trimtab.decide.pods.budgets.eviction import BudgetSnapshot
from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.pods.request import pod_request_for
from trimtab.decide.pods.schedule import DEFAULT_SCHEDULER_PROFILE, node_rejection
from trimtab.decide.rescheduling.history import ChainStep, MoveChain
from trimtab.decide.rescheduling.objectives import FULL_GAIN, MoveCandidate
from trimtab.decide.rescheduling.protections import protection_reason
from trimtab.decide.rescheduling.score_gain import MoveForecast, TrialFleet
from trimtab.decide.rescheduling.snapshot import MOVE_REQUEST, ReschedulingSnapshot

LONG, SHORT = "long", "short"
MAX_PENDING_CHECKED = 20
MAX_STEPS = 5
CHAIN_TTL = timedelta(minutes=10)


class PlannedMove(NamedTuple):
    """A pod to be evicted, and the expected result."""

    pod: PodInfo
    source: str
    expected: str
    objective: str
    gain: float
    reason: str
    avoid: str = LONG
    for_pod: str = ""
    chain_name: str = ""
    """The chain of moves that it is a step of."""
    free: bool = False
    """No running pod is disrupted."""


class RejectedMove(NamedTuple):
    """A pod that would gain from a move, and why it is not moved."""

    pod: PodInfo
    objective: str
    gain: float
    reason: str


class MoveProposal(NamedTuple):
    objective: str
    candidate: MoveCandidate


class MoveSimulation:
    """The cluster as the moves of this round change it, and what the budgets still allow."""

    def __init__(self, snapshot: ReschedulingSnapshot) -> None:
        self._snapshot = snapshot
        self._settings = snapshot.settings
        self._trial = TrialFleet(
            snapshot.trial.fleet, snapshot.scheduler_profile
        )  # reuses what the objectives have computed
        self._charges: dict[tuple[str, str, str], int] = {}
        self._leaving_by_owner: dict[str, int] = {}
        self._quota = snapshot.quota
        self._moved_pods: set[str] = set()
        self.moves: list[PlannedMove] = []
        self.rejected: list[RejectedMove] = []

    def reject(self, one: MoveProposal, reason: str) -> None:
        self.rejected.append(RejectedMove(one.candidate.pod, one.objective, one.candidate.gain, reason))

    # checks before any move

    def rejection_reason(self, one: MoveProposal) -> str | None:
        return protection_reason(one.candidate, self._snapshot) or self._owner_pods_busy(one.candidate)

    def _owner_pods_busy(self, candidate: MoveCandidate) -> str | None:
        """Whether another pod of its owner has no node, or too few are ready."""
        snapshot, pod = self._snapshot, candidate.pod.pod
        owner = snapshot.owners.of(pod)
        if not owner.uid or candidate.free:
            return None
        owner_pods = snapshot.owners.siblings_of(pod)
        if any(not one.spec.node_name and not one.is_terminal for one in owner_pods):
            return f"{owner.name} has a pod without a node"
        ready = sum(one.is_ready and one.metadata.deletion_timestamp is None for one in owner_pods)
        if ready < self._settings.min_replicas and (
            pod.is_ready or not candidate.urgent
        ):  # a pod that is not ready serves no traffic
            return f"{owner.name} has fewer than {self._settings.min_replicas} ready pods"
        return None

    # moves

    def apply_group(self, group: list[MoveProposal]) -> MoveChain | None:
        """Make these moves, all or none; of moves that depend on each other only the first, and return the chain."""
        before = (
            self._trial.fleet,
            dict(self._charges),
            dict(self._leaving_by_owner),
            set(self._moved_pods),
            self._quota,
        )
        moves = len(self.moves)
        in_order = len(group) > 1 and group[-1].candidate.step > 0
        if in_order and len(group) > MAX_STEPS:
            self.reject_all(group, group[0], f"it takes {len(group)} steps, more than {MAX_STEPS}")
            return None
        steps: list[ChainStep] = []
        for one in group:
            found = self._simulate_later_step(one) if in_order and steps else self._try_move(one)
            if isinstance(found, str):
                self._trial.fleet, self._charges, self._leaving_by_owner, self._moved_pods, self._quota = before
                del self.moves[moves:]
                self.reject_all(group, one, found)
                return None
            steps.append(found or _chain_step(one.candidate.pod, self.moves[-1].expected))
        if not in_order:
            return None
        first = group[0].candidate
        chain = MoveChain(
            objective=group[0].objective,
            goal=first.reason,
            until=first.for_pod,
            steps=tuple(steps),
            made=1,
            expires=self._snapshot.now + CHAIN_TTL,
        )
        self.moves[-1] = self.moves[-1]._replace(chain_name=chain.name)
        return chain

    def _simulate_later_step(self, one: MoveProposal) -> ChainStep | str:
        """Simulate a later step: where the pod would go after the steps before it, or why it would not."""
        pod = one.candidate.pod
        found = self._best_move(pod)
        if found.node is None:
            return "it fits on no other node"
        self._trial.move(pod, found.node)
        return _chain_step(pod, found.node)

    def continue_chain(self, chain: MoveChain) -> MoveChain | None:
        """Make the next step of a chain once the previous one has completed; None when the chain has ended."""
        found = self._continue_or_reason(chain)
        if isinstance(found, str):
            self._abandon_chain(chain, found)
            return None
        return found

    def _continue_or_reason(self, chain: MoveChain) -> MoveChain | str | None:
        """The chain after this round, or why it is abandoned."""
        done = chain.steps[chain.made - 1]
        move = next((one for one in reversed(self._snapshot.history.moves) if one.pod == done.pod), None)
        if move is None or move.is_wasted:
            return f"{done.name} did not leave {done.source}"
        if move.target and move.target != done.expected:
            return f"{done.name} went to {move.target}, not to {done.expected}"
        if move.outcome and chain.made == len(chain.steps):
            return None
        if self._snapshot.now >= (chain.expires or self._snapshot.now):
            return "it has taken too long"
        return self._apply_next_step(chain) if move.outcome else chain

    def _apply_next_step(self, chain: MoveChain) -> MoveChain | str:
        step = chain.steps[chain.made]
        pod = self._find_pod(step)
        if pod is None:
            return f"{step.name} is not on {step.source} any more"
        found = self._best_move(pod)
        if found.node != step.expected:
            return f"{step.name} would go to {found.node or 'no node'}, not to {step.expected}"
        proposal = MoveProposal(chain.objective, MoveCandidate(pod, FULL_GAIN, chain.goal, for_pod=chain.until))
        reason = self.rejection_reason(proposal) or self._try_move(proposal)
        if reason is not None:
            self.reject(proposal, f"{reason}; the next step of a plan waits for it")
            return chain
        self.moves[-1] = self.moves[-1]._replace(chain_name=chain.name)
        return chain.but(made=chain.made + 1)

    def _find_pod(self, step: ChainStep) -> PodInfo | None:
        node_info = self._snapshot.fleet.get(step.source)
        return next((one for one in node_info.pods if one.pod.metadata.uid == step.pod), None) if node_info else None

    def _abandon_chain(self, chain: MoveChain, why: str) -> None:
        """Completed steps are not undone; the next chain starts from there."""
        for step in chain.steps[chain.made :]:
            if (pod := self._find_pod(step)) is not None:
                detail = f"the plan it was a step of is abandoned: {why}"
                self.reject(MoveProposal(chain.objective, MoveCandidate(pod, FULL_GAIN, chain.goal)), detail)

    def reject_all(self, group: list[MoveProposal], rejected: MoveProposal, reason: str) -> None:
        """Moves of one group are rejected together."""
        for one in group:
            name = rejected.candidate.pod.name
            self.reject(one, reason if one is rejected else f"{name}, which must move too, is not moved: {reason}")

    def _try_move(self, one: MoveProposal) -> str | None:
        """Returns why the move is rejected, or None after applying it to the trial fleet."""
        candidate, snapshot = one.candidate, self._snapshot
        pod, source = candidate.pod, candidate.pod.pod.spec.node_name
        owner = snapshot.owners.of(pod.pod)
        if len(self.moves) >= self._settings.max_moves:
            return f"this round has reached its limit of {plural(self._settings.max_moves, 'move')}"
        if candidate.free:
            self.moves.append(PlannedMove(pod, source, "", one.objective, candidate.gain, candidate.reason, free=True))
            return None
        if (
            spent := component_quota.quota_refusal(
                self._quota, MOVE_REQUEST, pod.namespace, self._is_disruption_ongoing, snapshot.now
            )
        ) is not None:
            return spent.message
        if (closed := self._budget_rejection(pod)) is not None:
            return closed
        if (in_flight := self._in_flight_rejection(pod)) is not None:
            return in_flight
        found = MoveForecast(None, candidate.gain) if candidate.skips_fit_check else self._best_move(pod)
        if found.node is None and self._settings.require_fit:
            return "it fits on no other node"
        if self._would_return(pod, found):
            return f"its scheduler would put it back on {source}"
        gain = candidate.gain
        if candidate.reevaluate is not None and (found.node is not None or candidate.skips_fit_check):
            gain = candidate.reevaluate(self._trial, found)
        threshold = self._settings.gain_threshold
        if gain < threshold:
            return f"it gains {gain:.0f} %, less than {threshold:.0f} %"
        target = found.node or ""
        back = snapshot.history.has_reverse_move(owner.uid, source, target, snapshot.now)
        if target and back and gain < 2 * threshold:
            return f"a pod of {owner.name} came from {target} less than an hour ago"
        if (waiting := self._pending_pod_for(target, candidate.for_pod)) is not None:
            return f"{waiting} has no node yet and could go to {target}"
        self._apply_move(pod, source, found.node)
        avoid = SHORT if candidate.for_pod else LONG
        self.moves.append(
            PlannedMove(pod, source, found.node or "", one.objective, gain, candidate.reason, avoid, candidate.for_pod)
        )
        return None

    def _would_return(self, pod: PodInfo, found: MoveForecast) -> bool:
        """Whether the replacement could return: avoid lists are not honoured, or all nodes are on one."""
        is_avoided = self._snapshot.objects.honours_avoid_lists and found.node not in self._snapshot.avoided_nodes(
            pod.pod
        )
        return found.node is not None and found.prefers_current and not is_avoided

    def _best_move(self, pod: PodInfo) -> MoveForecast:
        return self._trial.best_move(pod, self._snapshot.excluded_nodes, self._snapshot.avoided_nodes(pod.pod))

    def _pending_pod_for(self, target: str, but: str) -> str | None:
        """A pending pod that could use the capacity that this move would take."""
        for one in self._snapshot.pending_pods[:MAX_PENDING_CHECKED] if target else ():
            fleet = self._trial.fleet
            if (
                one.pod.metadata.uid != but
                and node_rejection(pod_request_for(one, fleet), fleet, target, DEFAULT_SCHEDULER_PROFILE) is None
            ):
                return "/".join(one.key)
        return None

    def _budget_rejection(self, pod: PodInfo) -> str | None:
        standings = self._snapshot.budgets_of(pod.pod)
        if self._snapshot.objects.rejects_overlap and len(standings) > 1:
            return overlap_message(standings)
        for budget in standings:
            if not pod.pod.is_ready and budget.exempts_unhealthy():
                continue
            spent = self._charges.get((budget.kind, pod.namespace, budget.name), 0)
            if (
                reason := _budget_shortage(budget, spent, self._settings.head_room, self._settings.unused_rate, self)
            ) is not None:
                return reason
        return None

    @property
    def snapshot(self) -> ReschedulingSnapshot:
        return self._snapshot

    def _in_flight_rejection(self, pod: PodInfo) -> str | None:
        """Limits the pods of one owner that are down at once, also without a budget."""
        snapshot = self._snapshot
        owner = snapshot.owners.of(pod.pod)
        if not owner.uid:
            return None
        most = self._settings.max_in_flight(owner.replicas)
        going = self._leaving_by_owner.get(owner.uid, 0) + snapshot.history.moves_in_flight(owner.uid)
        if going >= most:
            return f"{going} of {owner.name} {verb(going, 'is', 'are')} being moved"
        if snapshot.budgets_of(pod.pod):
            return None
        disruptions, leaving = snapshot.recent_disruptions(pod.pod), self._leaving_by_owner.get(owner.uid, 0)
        if leaving < disruptions.remaining:
            return None
        return f"{disruptions.unreplaced + leaving} of {owner.name} were disrupted and are not ready again, and no budget allows more"

    def _is_disruption_ongoing(self, name: str) -> bool:
        """Whether the disruption of this pod is still ongoing."""
        return name in self._moved_pods or name in self._snapshot.pods_in_flight

    def _apply_move(self, pod: PodInfo, source: str, target: str | None) -> None:
        self._trial.move(pod, target)
        self._moved_pods.add("/".join(pod.key))
        self._quota = component_quota.charge_quota(
            self._quota, MOVE_REQUEST, pod.key, self._is_disruption_ongoing, self._snapshot.now
        )
        owner = self._snapshot.owners.of(pod.pod)
        self._leaving_by_owner[owner.uid] = self._leaving_by_owner.get(owner.uid, 0) + 1
        for budget in self._snapshot.budgets_of(pod.pod):
            key = (budget.kind, pod.namespace, budget.name)
            self._charges[key] = self._charges.get(key, 0) + 1


def overlap_message(budgets: Iterable[BudgetSnapshot]) -> str:
    names = " and ".join(sorted(one.name for one in budgets))
    return f"BlockedByOverlap: the budgets {names} both select it, which this API server does not support"


def _budget_shortage(
    budget: BudgetSnapshot, charged: int, head_room: int, unused: float, simulation: MoveSimulation
) -> str | None:
    """Why this budget does not allow one more disruption and the headroom that the preset requires."""
    if budget.closed_reason:
        return budget.closed_reason
    if budget.observed_generation < budget.generation:
        return f"the budget {budget.name} has no current status yet"
    left = budget.disruptions_allowed - charged - 1
    if left < 0:
        detail = f", of which {charged} will be evicted" if charged else ""
        needs = f"needs {budget.desired_healthy} healthy pods and has {budget.current_healthy}"
        return f"the budget {budget.name} {needs}{detail}"
    if left < head_room:
        return f"the budget {budget.name} would have {plural(left, 'disruption')} left, {head_room} must be"
    if budget.rate is not None:
        now = simulation.snapshot.now
        rest = budget.rate.remaining(now) - charged - 1
        if rest < max(0.0, unused * budget.rate.disruptions):
            wait = (budget.rate.next_allowed_at(now) - now).total_seconds()
            later = f", the next is allowed in {wait:.0f} s" if wait > 0 else ""
            return f"the rate of the budget {budget.name} would have too little left{later}"
    return None


def _chain_step(pod: PodInfo, expected: str) -> ChainStep:
    source = pod.pod.spec.node_name
    return ChainStep(pod=pod.pod.metadata.uid, name="/".join(pod.key), source=source, expected=expected)
