"""Explains a decision with the messages of the plugins that made it; there is no second set of rules."""

from collections.abc import Iterator
from datetime import datetime

import msgspec
import numpy as np

from trimtab.api.kinds.policy import AddOnScore
from trimtab.api.kinds.work import DecisionRecord, RejectedClusters
from trimtab.api.value import Value
from trimtab.decide.framework import marks, objections, prioritizers, verdicts
from trimtab.decide.karmada import Decision
from trimtab.decide.pipeline import Attempt, Failure, all_filters, all_objections, feasible, scores_for, spared_columns
from trimtab.decide.request import AGGREGATED, BY_SCORE, DUPLICATED, DYNAMIC, STATIC, Ask
from trimtab.decide.spread import Refusal

NAMES_KEPT = 5
"""The maximum number of rejected clusters that a record names per filter."""


class Refused(Value):
    """Which filter rejected a cluster, with reason code and message."""

    plugin: str
    code: str
    message: str


class TargetStory(Value):
    """How one cluster was evaluated."""

    name: str
    refused: Refused | None = None
    scores: dict[str, int] = {}
    prioritizers: dict[str, int] = {}
    total: int = 0
    """The weighted sum of the prioritizers."""
    overflow: int = 0
    """0: one of the group's own clusters; n: added by its n-th overflow affinity."""
    before: int = 0
    """The replicas in the cluster before the decision."""
    room: int | None = None
    """How many more replicas it can take."""
    selected: bool = False
    """Selected by the spread constraints."""
    replicas: int | None = None
    """Its share of the replicas; absent when it gets none."""


class GroupStory(Value):
    """The result for one affinity group."""

    name: str
    message: str = ""
    """Why it was not selected; empty when it was."""


class Explanation(Value):
    """The complete explanation of one decision."""

    ok: bool
    message: str
    strategy: str
    mode: str
    """Steady keeps existing placements as far as possible; Fresh ignores them."""
    affinity_name: str = ""
    groups: tuple[GroupStory, ...] = ()
    clusters: tuple[TargetStory, ...] = ()
    rule: str = ""
    """How replicas were divided."""
    tie_break: str = ""
    valid_until: datetime | None = None
    """When the decision may become outdated by time alone; absent: never."""


RULES = {
    DUPLICATED: "every selected cluster gets all replicas",
    STATIC: "divided by the weights of the policy, whatever the room",
    DYNAMIC: "divided by the room of the clusters",
    AGGREGATED: "put into as few clusters as can be, those in use first, and divided by room among them",
    BY_SCORE: "divided by the score of the clusters, none beyond its room",
    "": "not shared out: the strategy is not known",
}


def explain(decision: Decision) -> Explanation:
    """Evaluate the decision again on the fleet it was made on, and collect the messages of all plugins."""
    request = _as_asked(decision)
    attempt = Attempt(request, decision.fleet, decision.profile)
    return Explanation(
        ok=decision.ok,
        message=decision.condition[2],
        strategy=request.plan.strategy,
        mode=_mode(request),
        affinity_name=decision.affinity_name,
        groups=tuple(
            GroupStory(name=tried.affinity_name, message="" if tried.failure is None else tried.failure.message)
            for tried in decision.tried
        ),
        clusters=_stories(attempt),
        rule=_rule(request),
        tie_break=_tie_break(request),
        valid_until=valid_until(decision),
    )


def record(decision: Decision, now: datetime) -> DecisionRecord:
    """A short form that is stored with the binding."""
    request = _as_asked(decision)
    refused = tuple(_refused(request, decision))
    total = len(decision.fleet)
    return DecisionRecord(
        time=now,
        mode=_mode(request),
        division_strategy=_rule(request),
        total_clusters=total,
        feasible_clusters=total - sum(group.count for group in refused),
        rejected=refused,
    )


def _refused(ask: Ask, decision: Decision) -> Iterator[RejectedClusters]:
    """Grouped by the first rejecting filter, as in `all_rejections`, but by array arithmetic: fleets are large."""
    fleet = decision.fleet
    if feasible(ask, fleet).mask.all():
        return
    placed = spared_columns(ask, fleet)
    open_ = np.ones(len(fleet), dtype=bool)
    for plugin in all_filters(ask):
        passes = verdicts(plugin, ask, fleet)
        if plugin.spares_placed and placed:
            passes = passes.copy()
            passes[placed] = True
        out = np.flatnonzero(open_ & ~passes)
        if len(out):
            open_ &= passes
            _, scores = next(objections([plugin], ask, fleet, [int(out[0])]))
            names = fleet.called(out[:NAMES_KEPT])
            message = "" if scores is None else scores.reason.message
            yield RejectedClusters(filter=plugin.name, message=message, count=len(out), clusters=tuple(names))


def _as_asked(decision: Decision) -> Ask:
    """The request with the affinity group that was selected, or tried last."""
    return decision.ask if decision.group < 0 else msgspec.structs.replace(decision.ask, group=decision.group)


def _mode(ask: Ask) -> str:
    return "Fresh" if ask.fresh else "Steady"


def _rule(ask: Ask) -> str:
    return RULES[ask.plan.strategy] if _is_shared_out(ask) else "every selected cluster gets the object"


def _is_shared_out(ask: Ask) -> bool:
    return (ask.replicas > 0 or ask.request is not None) and len(ask.components) <= 1


def _tie_break(ask: Ask) -> str:
    if not _is_shared_out(ask) or ask.plan.strategy == DUPLICATED:
        return ""
    end = "last" if ask.leans_back else "first"
    return f"the {end} name wins, by the hash of the workload's uid"


def _stories(attempt: Attempt) -> tuple[TargetStory, ...]:
    shares = {} if isinstance(attempt.result, Failure) else attempt.result.by_column()
    feasible = attempt.feasible.mask
    selected: set[int] = set()
    if feasible.any() and not isinstance(attempt.selected, Refusal):
        selected = set(map(int, attempt.selected))
    explanations = []
    for column, objection in all_objections(attempt.ask, attempt.fleet):
        name, before = attempt.fleet.names[column], attempt.placed.get(column, 0)
        if objection is not None:
            refused = Refused(plugin=objection.plugin, code=objection.reason.code, message=objection.reason.message)
            explanations.append(TargetStory(name=name, refused=refused, before=before))
        else:
            explanation = _feasible(attempt, column).but(selected=column in selected, replicas=shares.get(column))
            explanations.append(explanation.but(name=name, before=before))
    return tuple(explanations)


def _feasible(attempt: Attempt, column: int) -> TargetStory:
    request = attempt.ask
    return TargetStory(
        name="",
        scores=marks(scores_for(request), request, attempt.fleet, column),
        prioritizers=_prioritizer_marks(attempt, column),
        total=0 if attempt.total is None else int(attempt.total[column]),
        overflow=0 if attempt.overflow is None else int(attempt.overflow[column]),
        room=int(attempt.allocatable[column]) if request.workload else None,
    )


def _prioritizer_marks(attempt: Attempt, column: int) -> dict[str, int]:
    scores: dict[str, int] = {}
    for ranked in attempt.ask.plan.prioritizers:
        plugin = prioritizers.get(ranked.plugin)
        if plugin is None:
            continue
        query = attempt.question(ranked)
        if plugin.sweep is not None:
            swept = plugin.sweep(query, attempt.fleet, attempt.feasible.mask)
            scores[ranked.title] = 0 if swept is None else int(swept[column])
        else:
            scores[ranked.title] = marks([plugin], query, attempt.fleet, column)[plugin.name]
    return scores


def valid_until(decision: Decision) -> datetime | None:
    """The first time at which time alone may change the decision: a block ends, or a score expires."""
    fleet, request = decision.fleet, decision.ask
    ends = [blocked.until for blocked in request.blocked if blocked.until is not None]
    for ranked in request.plan.prioritizers:
        resource = (ranked.coordinate.add_on or AddOnScore()).resource_name
        notes = fleet.notes.get(f"AddOnPlacementScore/{resource}", {}) if ranked.plugin == "AddOn" else {}
        ends += [note.until for name, note in notes.items() if note.until is not None and name in fleet]
    return min((end for end in ends if end >= fleet.now), default=None)
