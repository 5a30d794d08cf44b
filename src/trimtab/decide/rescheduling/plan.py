"""Plans one round: candidates of all objectives, the checks against each, and the moves that remain."""

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

import msgspec

from trimtab.decide.pods.descheduling.evictor import Cycle, Eviction
from trimtab.decide.rescheduling.history import History, Moved, Streak
from trimtab.decide.rescheduling.move_simulation import Move, Proposal, Refused, Round
from trimtab.decide.rescheduling.objectives import FULL, Candidate, objectives
from trimtab.decide.rescheduling.snapshot import Picture

NO_METRICS = "nothing tells what pods use here (metrics.k8s.io): interference is not judged"


class Plan(NamedTuple):
    moves: tuple[Move, ...]
    refused: tuple[Refused, ...]
    history: History
    """Including what this round observed; moves are added when they are made."""
    notes: tuple[str, ...] = ()
    """Messages about the round as a whole."""


def plan(picture: Picture, *, confirmations: int | None = None) -> Plan:
    """The moves to make now; the snapshot is not changed."""
    proposals = list(_proposals(picture))
    needed = picture.settings.confirmations if confirmations is None else confirmations
    streaks = tuple(_streak(one, picture) for one in proposals if _is_worth_it(one, picture))
    seen = {(one.pod, one.objective): one.rounds for one in streaks}
    round_ = Round(picture)
    chains = tuple(chain for one in picture.history.chains if (chain := round_.follow(one)) is not None)
    against = {
        _id(one): round_.objection(one) or _unconfirmed(one, seen.get((_uid(one), one.objective)), needed)
        for one in proposals
    }
    for group in _in_order(proposals, picture):
        stays = next((one for one in group if against[_id(one)]), None)
        if stays is not None:
            round_.refuse_all(group, stays, str(against[_id(stays)]))
        elif chains and not group[0].candidate.urgent:
            round_.refuse_all(group, group[0], "a plan of several steps is under way")
        elif (chain := round_.take(group)) is not None:
            chains = (*chains, chain)
    history = picture.history.but(streaks=streaks, chains=chains)
    return Plan(tuple(round_.moves), tuple(round_.refused), history, _notes(picture))


def obey(picture: Picture, turn: Cycle) -> Plan:
    """The moves of a DeschedulerPolicy, in its order, as far as owners, budgets, history and capacity allow."""
    proposals = [Proposal(one.strategy, _wish(one)) for one in turn.evictions]
    picture.meet(picture.owner(one.candidate.pod.pod).uid for one in proposals)
    round_ = Round(picture)
    for one in turn.refused:
        round_.refuse(Proposal(one.strategy, _wish(one)), one.reason)
    for proposal in proposals:
        if (against := round_.objection(proposal)) is not None:
            round_.refuse(proposal, against)
        else:
            round_.take([proposal])
    return Plan(tuple(round_.moves), tuple(round_.refused), picture.history, tuple(turn.notes))


def _wish(one: Eviction) -> Candidate:
    """The policy itself decides that the move is worthwhile; a finished pod disrupts nothing."""
    return Candidate(one.pod, FULL, one.reason, free=one.pod.pod.is_terminal)


def _uid(one: Proposal) -> str:
    return one.candidate.pod.pod.metadata.uid


def _id(one: Proposal) -> tuple[str, str]:
    return one.candidate.pod.key


def _streak(one: Proposal, picture: Picture) -> Streak:
    rounds = picture.history.rounds(_uid(one), one.objective) + 1
    return Streak(pod=_uid(one), objective=one.objective, rounds=rounds)


def _is_worth_it(one: Proposal, picture: Picture) -> bool:
    return one.candidate.gain >= picture.settings.gain_threshold


def _unconfirmed(one: Proposal, rounds: int | None, needed: int) -> str | None:
    """Why the gain is not confirmed yet; a gain below the threshold is rejected later."""
    if rounds is None or rounds >= needed or one.candidate.free:
        return None
    return f"it has reached the threshold in {rounds} of {needed} rounds"


def _notes(picture: Picture) -> tuple[str, ...]:
    judged = any(one.name == "PoorService" and one.enabled for one in picture.settings.objectives)
    return (NO_METRICS,) if judged and picture.facts.measures is None else ()


def _proposals(picture: Picture) -> Iterator[Proposal]:
    """The best proposal for each pod."""
    best: dict[tuple[str, str], Proposal] = {}
    for setting in picture.settings.objectives:
        if not setting.enabled:
            continue
        one = objectives[setting.name]
        for candidate in one.find(msgspec.convert(setting.args, one.args, strict=False), picture):
            known = best.get(candidate.pod.key)
            if known is None or candidate.gain > known.candidate.gain:
                best[candidate.pod.key] = Proposal(one.name, candidate)
    picture.meet(picture.owner(one.candidate.pod.pod).uid for one in best.values())
    yield from (best[key] for key in sorted(best))


def _in_order(proposals: list[Proposal], picture: Picture) -> list[list[Proposal]]:
    """Highest gain for its cost first; moves of one group stay together."""

    def rank(one: Proposal) -> tuple[float, int, int, tuple[str, str]]:
        pod, history = one.candidate.pod, picture.history
        cost = 1 + picture.burden(pod.pod).per_replica
        return -one.candidate.gain / cost, pod.priority, history.lately_of(picture.service(pod), picture.now), pod.key

    groups: dict[str, list[Proposal]] = {}
    for one in sorted(proposals, key=rank):
        groups.setdefault(one.candidate.together or "/".join(one.candidate.pod.key), []).append(one)
    return [sorted(group, key=lambda one: one.candidate.step) for group in groups.values()]


def made(move: Move, picture: Picture) -> Moved:
    """The history record of a move."""
    owner = picture.owner(move.pod.pod)
    return Moved(
        owner=owner.uid,
        whose=f"{move.pod.namespace}/{owner.name}",
        service=picture.service(move.pod),
        pod=move.pod.pod.metadata.uid,
        name="/".join(move.pod.key),
        source=move.source,
        expected=move.expected,
        objective=move.objective,
        gain=round(min(move.gain, inf), 1),
        at=picture.now,
        free=move.free,
    )
