"""Why a decision is as it is: the same plugins, asked for their sentences; nothing is judged by a second rule."""

from collections.abc import Iterator
from datetime import datetime

import msgspec
import numpy as np

from trimtab.api.kinds.policy import AddOnScore
from trimtab.api.kinds.work import DecisionRecord, RefusedClusters
from trimtab.api.value import Value
from trimtab.decide.framework import marks, objections, prioritizers, verdicts
from trimtab.decide.karmada import Decision
from trimtab.decide.pipeline import Attempt, Failure, all_filters, all_objections, feasible, scores_for, spared_columns
from trimtab.decide.request import AGGREGATED, BY_SCORE, DUPLICATED, DYNAMIC, STATIC, Ask
from trimtab.decide.spread import Refusal

NAMES_KEPT = 5
"""Of the clusters that a rule turned down, in a record."""


class Refused(Value):
    """Which filter turned a cluster down, in a word and in a sentence."""

    plugin: str
    code: str
    message: str


class TargetStory(Value):
    """What was thought of one cluster."""

    name: str
    refused: Refused | None = None
    scores: dict[str, int] = {}
    prioritizers: dict[str, int] = {}
    total: int = 0
    """Of the prioritizers, weighted."""
    overflow: int = 0
    """0: one of the group's own clusters; n: added by its n-th overflow affinity."""
    before: int = 0
    """The replicas that were there."""
    room: int | None = None
    """How many more replicas it can take."""
    selected: bool = False
    """Left by the spread constraints."""
    replicas: int | None = None
    """Its share; absent when it gets nothing."""


class GroupStory(Value):
    """What became of one affinity group."""

    name: str
    message: str = ""
    """Why it was not taken; empty when it was."""


class Explanation(Value):
    """The whole story of one decision."""

    ok: bool
    message: str
    strategy: str
    mode: str
    """Steady keeps what is placed as far as it can; Fresh thinks anew."""
    affinity_name: str = ""
    groups: tuple[GroupStory, ...] = ()
    clusters: tuple[TargetStory, ...] = ()
    rule: str = ""
    """How replicas were shared out."""
    tie_break: str = ""
    valid_until: datetime | None = None
    """When it may have to be thought over for no other reason than time; absent: never."""


RULES = {
    DUPLICATED: "every selected cluster gets all replicas",
    STATIC: "divided by the weights of the policy, whatever the room",
    DYNAMIC: "divided by the room of the clusters",
    AGGREGATED: "put into as few clusters as can be, those in use first, and divided by room among them",
    BY_SCORE: "divided by the score of the clusters, none beyond its room",
    "": "not shared out: the strategy is not known",
}


def explain(decision: Decision) -> Explanation:
    """Think the decision over, on the picture it was made on, and write down what everybody says."""
    ask = _as_asked(decision)
    attempt = Attempt(ask, decision.fleet, decision.profile)
    return Explanation(
        ok=decision.ok,
        message=decision.condition[2],
        strategy=ask.plan.strategy,
        mode=_mode(ask),
        affinity_name=decision.affinity_name,
        groups=tuple(
            GroupStory(name=tried.affinity_name, message="" if tried.failure is None else tried.failure.message)
            for tried in decision.tried
        ),
        clusters=_stories(attempt),
        rule=_rule(ask),
        tie_break=_tie_break(ask),
        valid_until=valid_until(decision),
    )


def record(decision: Decision, now: datetime) -> DecisionRecord:
    """The same in so few words that they can be kept with the binding: no sentence is asked for twice."""
    ask = _as_asked(decision)
    refused = tuple(_refused(ask, decision))
    everybody = len(decision.fleet)
    return DecisionRecord(
        time=now,
        mode=_mode(ask),
        rule=_rule(ask),
        considered=everybody,
        feasible=everybody - sum(group.count for group in refused),
        refused=refused,
    )


def _refused(ask: Ask, decision: Decision) -> Iterator[RefusedClusters]:
    """By the filter that objects first, as `all_objections` has it, but by arrays: fleets may be large."""
    fleet = decision.fleet
    if feasible(ask, fleet).mask.all():
        return
    spared = spared_columns(ask, fleet)
    open_ = np.ones(len(fleet), dtype=bool)
    for plugin in all_filters(ask):
        passes = verdicts(plugin, ask, fleet)
        if plugin.spares_placed and spared:
            passes = passes.copy()
            passes[spared] = True
        out = np.flatnonzero(open_ & ~passes)
        if len(out):
            open_ &= passes
            _, said = next(objections([plugin], ask, fleet, [int(out[0])]))
            names = fleet.called(out[:NAMES_KEPT])
            message = "" if said is None else said.reason.message
            yield RefusedClusters(rule=plugin.name, message=message, count=len(out), clusters=tuple(names))


def _as_asked(decision: Decision) -> Ask:
    """The ask with the affinity group that was taken, or tried last."""
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
    return f"equal claims are served {end} name first, as the hash of the workload's uid says"


def _stories(attempt: Attempt) -> tuple[TargetStory, ...]:
    shares = {} if isinstance(attempt.result, Failure) else attempt.result.by_column()
    feasible = attempt.feasible.mask
    selected: set[int] = set()
    if feasible.any() and not isinstance(attempt.selected, Refusal):
        selected = set(map(int, attempt.selected))
    stories = []
    for column, objection in all_objections(attempt.ask, attempt.fleet):
        name, before = attempt.fleet.names[column], attempt.placed.get(column, 0)
        if objection is not None:
            refused = Refused(plugin=objection.plugin, code=objection.reason.code, message=objection.reason.message)
            stories.append(TargetStory(name=name, refused=refused, before=before))
        else:
            story = _feasible(attempt, column).but(selected=column in selected, replicas=shares.get(column))
            stories.append(story.but(name=name, before=before))
    return tuple(stories)


def _feasible(attempt: Attempt, column: int) -> TargetStory:
    ask = attempt.ask
    return TargetStory(
        name="",
        scores=marks(scores_for(ask), ask, attempt.fleet, column),
        prioritizers=_prioritizer_marks(attempt, column),
        total=0 if attempt.total is None else int(attempt.total[column]),
        overflow=0 if attempt.overflow is None else int(attempt.overflow[column]),
        room=int(attempt.allocatable[column]) if ask.workload else None,
    )


def _prioritizer_marks(attempt: Attempt, column: int) -> dict[str, int]:
    said: dict[str, int] = {}
    for ranked in attempt.ask.plan.prioritizers:
        plugin = prioritizers.get(ranked.plugin)
        if plugin is None:
            continue
        question = attempt.question(ranked)
        if plugin.sweep is not None:
            swept = plugin.sweep(question, attempt.fleet, attempt.feasible.mask)
            said[ranked.title] = 0 if swept is None else int(swept[column])
        else:
            said[ranked.title] = marks([plugin], question, attempt.fleet, column)[plugin.name]
    return said


def valid_until(decision: Decision) -> datetime | None:
    """The first moment at which time alone may change the answer: a block ends, or a score expires."""
    fleet, ask = decision.fleet, decision.ask
    ends = [blocked.until for blocked in ask.blocked if blocked.until is not None]
    for ranked in ask.plan.prioritizers:
        resource = (ranked.coordinate.add_on or AddOnScore()).resource_name
        notes = fleet.notes.get(f"AddOnPlacementScore/{resource}", {}) if ranked.plugin == "AddOn" else {}
        ends += [note.until for name, note in notes.items() if note.until is not None and name in fleet]
    return min((end for end in ends if end >= fleet.now), default=None)
