"""Simulates the moves of one round on a trial fleet, after all checks against each move."""

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from trimtab.decide.pods.budgets import component_quota
from trimtab.decide.pods.budgets.eviction import Budget
from trimtab.decide.pods.node_info import Resident
from trimtab.decide.pods.request import ask_for
from trimtab.decide.pods.schedule import DEFAULT, objection_to
from trimtab.decide.rescheduling.history import Chain, Step
from trimtab.decide.rescheduling.objectives import FULL, Candidate
from trimtab.decide.rescheduling.protections import unwilling
from trimtab.decide.rescheduling.score_gain import Bench, Prospect
from trimtab.decide.rescheduling.snapshot import ERRAND, Picture

LONG, SHORT = "long", "short"
MOST_WAITING = 20
MOST_STEPS = 5
CHAIN_LIFE = timedelta(minutes=10)


class Move(NamedTuple):
    """A pod to be evicted, and the expected result."""

    pod: Resident
    source: str
    expected: str
    objective: str
    gain: float
    reason: str
    avoid: str = LONG
    until: str = ""
    plan: str = ""
    """The chain of moves that it is a step of."""
    free: bool = False
    """No running pod is disrupted."""


class Refused(NamedTuple):
    """A pod that would gain from a move, and why it is not moved."""

    pod: Resident
    objective: str
    gain: float
    reason: str


class Proposal(NamedTuple):
    objective: str
    candidate: Candidate


class Round:
    """The cluster as the moves of this round change it, and what the budgets still allow."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._settings = picture.settings
        self._bench = Bench(picture.bench.fleet, picture.taste)  # reuses what the objectives have computed
        self._spent: dict[tuple[str, str, str], int] = {}
        self._leaving: dict[str, int] = {}
        self._quota = picture.quota
        self._going: set[str] = set()
        self.moves: list[Move] = []
        self.refused: list[Refused] = []

    def refuse(self, one: Proposal, reason: str) -> None:
        self.refused.append(Refused(one.candidate.pod, one.objective, one.candidate.gain, reason))

    # checks before any move

    def objection(self, one: Proposal) -> str | None:
        return unwilling(one.candidate, self._picture) or self._family_busy(one.candidate)

    def _family_busy(self, candidate: Candidate) -> str | None:
        """Whether another pod of its owner has no node, or too few are ready."""
        snapshot, pod = self._picture, candidate.pod.pod
        owner = snapshot.owner(pod)
        if not owner.uid or candidate.free:
            return None
        owner_pods = snapshot.family(pod)
        if any(not one.spec.node_name and not one.is_terminal for one in owner_pods):
            return f"{owner.name} has a pod without a node"
        ready = sum(one.is_ready and one.metadata.deletion_timestamp is None for one in owner_pods)
        if ready < self._settings.min_replicas and (
            pod.is_ready or not candidate.urgent
        ):  # a pod that is not ready serves no traffic
            return f"{owner.name} has fewer than {self._settings.min_replicas} ready pods"
        return None

    # moves

    def take(self, group: list[Proposal]) -> Chain | None:
        """Make these moves, all or none; of moves that depend on each other only the first, and return the chain."""
        before = self._bench.fleet, dict(self._spent), dict(self._leaving), set(self._going), self._quota
        moves = len(self.moves)
        in_order = len(group) > 1 and group[-1].candidate.step > 0
        if in_order and len(group) > MOST_STEPS:
            self.refuse_all(group, group[0], f"it takes {len(group)} steps, more than {MOST_STEPS}")
            return None
        steps: list[Step] = []
        for one in group:
            found = self._foresee(one) if in_order and steps else self._try(one)
            if isinstance(found, str):
                self._bench.fleet, self._spent, self._leaving, self._going, self._quota = before
                del self.moves[moves:]
                self.refuse_all(group, one, found)
                return None
            steps.append(found or _step(one.candidate.pod, self.moves[-1].expected))
        if not in_order:
            return None
        first = group[0].candidate
        chain = Chain(
            objective=group[0].objective,
            goal=first.reason,
            until=first.until,
            steps=tuple(steps),
            made=1,
            expires=self._picture.now + CHAIN_LIFE,
        )
        self.moves[-1] = self.moves[-1]._replace(plan=chain.name)
        return chain

    def _foresee(self, one: Proposal) -> Step | str:
        """Simulate a later step: where the pod would go after the steps before it, or why it would not."""
        pod = one.candidate.pod
        found = self._prospect(pod)
        if found.node is None:
            return "no other node would take it"
        self._bench.move(pod, found.node)
        return _step(pod, found.node)

    def follow(self, chain: Chain) -> Chain | None:
        """Make the next step of a chain once the previous one has completed; None when the chain has ended."""
        found = self._continued(chain)
        if isinstance(found, str):
            self._give_up(chain, found)
            return None
        return found

    def _continued(self, chain: Chain) -> Chain | str | None:
        """The chain after this round, or why it is abandoned."""
        done = chain.steps[chain.made - 1]
        move = next((one for one in reversed(self._picture.history.moves) if one.pod == done.pod), None)
        if move is None or move.wasted:
            return f"{done.name} did not leave {done.source}"
        if move.target and move.target != done.expected:
            return f"{done.name} went to {move.target}, not to {done.expected}"
        if move.outcome and chain.made == len(chain.steps):
            return None
        if self._picture.now >= (chain.expires or self._picture.now):
            return "it has taken too long"
        return self._next_step(chain) if move.outcome else chain

    def _next_step(self, chain: Chain) -> Chain | str:
        step = chain.steps[chain.made]
        pod = self._find(step)
        if pod is None:
            return f"{step.name} is not on {step.source} any more"
        found = self._prospect(pod)
        if found.node != step.expected:
            return f"{step.name} would go to {found.node or 'no node'}, not to {step.expected}"
        proposal = Proposal(chain.objective, Candidate(pod, FULL, chain.goal, until=chain.until))
        reason = self.objection(proposal) or self._try(proposal)
        if reason is not None:
            self.refuse(proposal, f"{reason}; the next step of a plan waits for it")
            return chain
        self.moves[-1] = self.moves[-1]._replace(plan=chain.name)
        return chain.but(made=chain.made + 1)

    def _find(self, step: Step) -> Resident | None:
        node_info = self._picture.fleet.get(step.source)
        return (
            next((one for one in node_info.residents if one.pod.metadata.uid == step.pod), None) if node_info else None
        )

    def _give_up(self, chain: Chain, why: str) -> None:
        """Completed steps are not undone; the next chain starts from there."""
        for step in chain.steps[chain.made :]:
            if (pod := self._find(step)) is not None:
                detail = f"the plan it was a step of is abandoned: {why}"
                self.refuse(Proposal(chain.objective, Candidate(pod, FULL, chain.goal)), detail)

    def refuse_all(self, group: list[Proposal], stays: Proposal, reason: str) -> None:
        """Moves of one group are rejected together."""
        for one in group:
            name = stays.candidate.pod.name
            self.refuse(one, reason if one is stays else f"{name}, which must move too, is not moved: {reason}")

    def _try(self, one: Proposal) -> str | None:
        """Returns why the move is rejected, or None after applying it to the trial fleet."""
        candidate, snapshot = one.candidate, self._picture
        pod, source = candidate.pod, candidate.pod.pod.spec.node_name
        owner = snapshot.owner(pod.pod)
        if len(self.moves) >= self._settings.max_moves:
            return f"this round has reached its limit of {self._settings.max_moves} moves"
        if candidate.free:
            self.moves.append(Move(pod, source, "", one.objective, candidate.gain, candidate.reason, free=True))
            return None
        if (
            spent := component_quota.exhausted(self._quota, ERRAND, pod.namespace, self._goes_on, snapshot.now)
        ) is not None:
            return spent.message
        if (closed := self._over_budget(pod)) is not None:
            return closed
        if (in_flight := self._too_many(pod)) is not None:
            return in_flight
        found = Prospect(None, candidate.gain) if candidate.blind else self._prospect(pod)
        if found.node is None and self._settings.require_fit:
            return "no other node would take it"
        if self._comes_back(pod, found):
            return f"its scheduler would put it back on {source}"
        gain = candidate.gain
        if candidate.again is not None and (found.node is not None or candidate.blind):
            gain = candidate.again(self._bench, found)
        threshold = self._settings.gain_threshold
        if gain < threshold:
            return f"it gains {gain:.0f} %, less than {threshold:.0f} %"
        target = found.node or ""
        back = snapshot.history.went_the_other_way(owner.uid, source, target, snapshot.now)
        if target and back and gain < 2 * threshold:
            return f"a pod of {owner.name} came from {target} less than an hour ago"
        if (waiting := self._waited_for(target, candidate.until)) is not None:
            return f"{waiting} has no node yet and could go to {target}"
        self._book(pod, source, found.node)
        avoid = SHORT if candidate.until else LONG
        self.moves.append(
            Move(pod, source, found.node or "", one.objective, gain, candidate.reason, avoid, candidate.until)
        )
        return None

    def _comes_back(self, pod: Resident, found: Prospect) -> bool:
        """Whether the replacement could return: avoid lists are not honoured, or all nodes are on one."""
        is_avoided = self._picture.facts.avoidance and found.node not in self._picture.avoided_by(pod.pod)
        return found.node is not None and found.stays and not is_avoided

    def _prospect(self, pod: Resident) -> Prospect:
        return self._bench.prospect(pod, self._picture.closed, self._picture.avoided_by(pod.pod))

    def _waited_for(self, target: str, but: str) -> str | None:
        """A pending pod that could use the capacity that this move would take."""
        for one in self._picture.pending[:MOST_WAITING] if target else ():
            fleet = self._bench.fleet
            if one.pod.metadata.uid != but and objection_to(ask_for(one, fleet), fleet, target, DEFAULT) is None:
                return "/".join(one.key)
        return None

    def _over_budget(self, pod: Resident) -> str | None:
        standings = self._picture.standings(pod.pod)
        if self._picture.facts.overlap_refused and len(standings) > 1:
            return blocked_by_overlap(standings)
        for budget in standings:
            if not pod.pod.is_ready and budget.exempts_unhealthy():
                continue
            spent = self._spent.get((budget.kind, pod.namespace, budget.name), 0)
            if (
                reason := _no_room(budget, spent, self._settings.head_room, self._settings.unused_rate, self)
            ) is not None:
                return reason
        return None

    @property
    def picture(self) -> Picture:
        return self._picture

    def _too_many(self, pod: Resident) -> str | None:
        """Limits the pods of one owner that are down at once, also without a budget."""
        snapshot = self._picture
        owner = snapshot.owner(pod.pod)
        if not owner.uid:
            return None
        most = self._settings.most_in_flight(owner.replicas)
        going = self._leaving.get(owner.uid, 0) + snapshot.history.on_their_way(owner.uid)
        if going >= most:
            return f"{going} of {owner.name} are on their way"
        if snapshot.standings(pod.pod):
            return None
        disruptions, leaving = snapshot.burden(pod.pod), self._leaving.get(owner.uid, 0)
        if leaving < disruptions.spare:
            return None
        return f"{disruptions.down + leaving} of {owner.name} were disrupted and are not ready again, and no budget allows more"

    def _goes_on(self, name: str) -> bool:
        """Whether the disruption of this pod is still ongoing."""
        return name in self._going or name in self._picture.on_their_way

    def _book(self, pod: Resident, source: str, target: str | None) -> None:
        self._bench.move(pod, target)
        self._going.add("/".join(pod.key))
        self._quota = component_quota.charged(self._quota, ERRAND, pod.key, self._goes_on, self._picture.now)
        owner = self._picture.owner(pod.pod)
        self._leaving[owner.uid] = self._leaving.get(owner.uid, 0) + 1
        for budget in self._picture.standings(pod.pod):
            key = (budget.kind, pod.namespace, budget.name)
            self._spent[key] = self._spent.get(key, 0) + 1


def blocked_by_overlap(standings: Iterable[Budget]) -> str:
    names = " and ".join(sorted(one.name for one in standings))
    return f"BlockedByOverlap: the budgets {names} both select it, which this API server refuses to judge"


def _no_room(budget: Budget, spent: int, head_room: int, unused: float, round_: Round) -> str | None:
    """Why this budget does not allow one more disruption and the headroom that the preset requires."""
    if budget.closed:
        return budget.closed
    if budget.observed_generation < budget.generation:
        return f"the budget {budget.name} has no current status yet"
    left = budget.disruptions_allowed - spent - 1
    if left < 0:
        detail = f", of which {spent} will be evicted" if spent else ""
        needs = f"needs {budget.desired_healthy} healthy pods and has {budget.current_healthy}"
        return f"the budget {budget.name} {needs}{detail}"
    if left < head_room:
        return f"the budget {budget.name} would have {left} disruptions left, {head_room} must be"
    if budget.rate is not None:
        now = round_.picture.now
        rest = budget.rate.left(now) - spent - 1
        if rest < max(0.0, unused * budget.rate.disruptions):
            wait = (budget.rate.next_allowed(now) - now).total_seconds()
            later = f", the next in {wait:.0f} s" if wait > 0 else ""
            return f"the rate of the budget {budget.name} would have too little left{later}"
    return None


def _step(pod: Resident, expected: str) -> Step:
    source = pod.pod.spec.node_name
    return Step(pod=pod.pod.metadata.uid, name="/".join(pod.key), source=source, expected=expected)
