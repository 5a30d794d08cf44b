"""Plans one round: candidates of all objectives, the checks against each, and the moves that remain."""

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

import msgspec

from trimtab.decide.pods.descheduling.evictor import DeschedulingCycle, PlannedEviction
from trimtab.decide.rescheduling.history import CandidateStreak, MoveRecord, ReschedulingHistory
from trimtab.decide.rescheduling.move_simulation import MoveProposal, MoveSimulation, PlannedMove, RejectedMove
from trimtab.decide.rescheduling.objectives import FULL_GAIN, MoveCandidate, objectives
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

NO_METRICS = "no pod metrics (metrics.k8s.io): interference is not evaluated"


class ReschedulingPlan(NamedTuple):
    moves: tuple[PlannedMove, ...]
    rejected: tuple[RejectedMove, ...]
    history: ReschedulingHistory
    """Including what this round observed; moves are added when they are made."""
    notes: tuple[str, ...] = ()
    """Messages about the round as a whole."""


def plan_moves(snapshot: ReschedulingSnapshot, *, confirmations: int | None = None) -> ReschedulingPlan:
    """The moves to make now; the snapshot is not changed."""
    proposals = list(_best_proposals(snapshot))
    needed = snapshot.settings.confirmations if confirmations is None else confirmations
    streaks = tuple(_candidate_streak(one, snapshot) for one in proposals if _reaches_threshold(one, snapshot))
    seen = {(one.pod, one.objective): one.rounds for one in streaks}
    round_ = MoveSimulation(snapshot)
    chains = tuple(chain for one in snapshot.history.chains if (chain := round_.continue_chain(one)) is not None)
    against = {
        _pod_key(one): round_.rejection_reason(one)
        or _confirmation_shortage(one, seen.get((_pod_uid(one), one.objective)), needed)
        for one in proposals
    }
    for group in _ordered_groups(proposals, snapshot):
        stays = next((one for one in group if against[_pod_key(one)]), None)
        if stays is not None:
            round_.reject_all(group, stays, str(against[_pod_key(stays)]))
        elif chains and not group[0].candidate.urgent:
            round_.reject_all(group, group[0], "a plan of several steps is under way")
        elif (chain := round_.apply_group(group)) is not None:
            chains = (*chains, chain)
    history = snapshot.history.but(streaks=streaks, chains=chains)
    return ReschedulingPlan(tuple(round_.moves), tuple(round_.rejected), history, _plan_notes(snapshot))


def plan_policy_moves(snapshot: ReschedulingSnapshot, turn: DeschedulingCycle) -> ReschedulingPlan:
    """The moves of a DeschedulerPolicy, in its order, as far as owners, budgets, history and capacity allow."""
    proposals = [MoveProposal(one.strategy, _policy_candidate(one)) for one in turn.evictions]
    snapshot.owners.load_pods(snapshot.owners.of(one.candidate.pod.pod).uid for one in proposals)
    round_ = MoveSimulation(snapshot)
    for one in turn.rejected:
        round_.reject(MoveProposal(one.strategy, _policy_candidate(one)), one.reason)
    for proposal in proposals:
        if (against := round_.rejection_reason(proposal)) is not None:
            round_.reject(proposal, against)
        else:
            round_.apply_group([proposal])
    return ReschedulingPlan(tuple(round_.moves), tuple(round_.rejected), snapshot.history, tuple(turn.notes))


def _policy_candidate(one: PlannedEviction) -> MoveCandidate:
    """The policy itself decides that the move is worthwhile; a finished pod disrupts nothing."""
    return MoveCandidate(one.pod, FULL_GAIN, one.reason, free=one.pod.pod.is_terminal)


def _pod_uid(one: MoveProposal) -> str:
    return one.candidate.pod.pod.metadata.uid


def _pod_key(one: MoveProposal) -> tuple[str, str]:
    return one.candidate.pod.key


def _candidate_streak(one: MoveProposal, snapshot: ReschedulingSnapshot) -> CandidateStreak:
    rounds = snapshot.history.rounds_of(_pod_uid(one), one.objective) + 1
    return CandidateStreak(pod=_pod_uid(one), objective=one.objective, rounds=rounds)


def _reaches_threshold(one: MoveProposal, snapshot: ReschedulingSnapshot) -> bool:
    return one.candidate.gain >= snapshot.settings.gain_threshold


def _confirmation_shortage(one: MoveProposal, rounds: int | None, needed: int) -> str | None:
    """Why the gain is not confirmed yet; a gain below the threshold is rejected later."""
    if rounds is None or rounds >= needed or one.candidate.free:
        return None
    return f"it has reached the threshold in {rounds} of {needed} rounds"


def _plan_notes(snapshot: ReschedulingSnapshot) -> tuple[str, ...]:
    judged = any(one.name == "PoorService" and one.enabled for one in snapshot.settings.objectives)
    return (NO_METRICS,) if judged and snapshot.objects.measures is None else ()


def _best_proposals(snapshot: ReschedulingSnapshot) -> Iterator[MoveProposal]:
    """The best proposal for each pod."""
    best: dict[tuple[str, str], MoveProposal] = {}
    for setting in snapshot.settings.objectives:
        if not setting.enabled:
            continue
        one = objectives[setting.name]
        for candidate in one.find(msgspec.convert(setting.args, one.args, strict=False), snapshot):
            known = best.get(candidate.pod.key)
            if known is None or candidate.gain > known.candidate.gain:
                best[candidate.pod.key] = MoveProposal(one.name, candidate)
    snapshot.owners.load_pods(snapshot.owners.of(one.candidate.pod.pod).uid for one in best.values())
    yield from (best[key] for key in sorted(best))


def _ordered_groups(proposals: list[MoveProposal], snapshot: ReschedulingSnapshot) -> list[list[MoveProposal]]:
    """Highest gain for its cost first; moves of one group stay together."""

    def rank(one: MoveProposal) -> tuple[float, int, int, tuple[str, str]]:
        pod, history = one.candidate.pod, snapshot.history
        cost = 1 + snapshot.recent_disruptions(pod.pod).recent_per_replica
        return (
            -one.candidate.gain / cost,
            pod.priority,
            history.recent_moves_of_service(snapshot.service_name(pod), snapshot.now),
            pod.key,
        )

    groups: dict[str, list[MoveProposal]] = {}
    for one in sorted(proposals, key=rank):
        groups.setdefault(one.candidate.group or "/".join(one.candidate.pod.key), []).append(one)
    return [sorted(group, key=lambda one: one.candidate.step) for group in groups.values()]


def move_record(move: PlannedMove, snapshot: ReschedulingSnapshot) -> MoveRecord:
    """The history record of a move."""
    owner = snapshot.owners.of(move.pod.pod)
    return MoveRecord(
        owner=owner.uid,
        whose=f"{move.pod.namespace}/{owner.name}",
        service=snapshot.service_name(move.pod),
        pod=move.pod.pod.metadata.uid,
        name="/".join(move.pod.key),
        source=move.source,
        expected=move.expected,
        objective=move.objective,
        gain=round(min(move.gain, inf), 1),
        at=snapshot.now,
        free=move.free,
    )
