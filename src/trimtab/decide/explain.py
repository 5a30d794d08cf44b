"""Explains a decision with the messages of the plugins that made it; there is no second set of rules."""

from collections.abc import Iterator
from datetime import datetime

import msgspec
import numpy as np

from trimtab.api.kinds.policy import AddOnScore
from trimtab.api.kinds.work import DecisionRecord, RejectedClusters
from trimtab.decide.explanation import (
    AffinityGroupExplanation,
    ClusterExplanation,
    ClusterRejection,
    Explanation,
)
from trimtab.decide.feasible import (
    all_filters,
    all_rejections,
    columns_in_use,
    feasible_clusters,
    limiting_rejections,
    scores_for,
)
from trimtab.decide.framework import (
    Rejection,
    filter_mask,
    first_rejections,
    prioritizers,
    scores_of_target,
)
from trimtab.decide.karmada import BindingDecision
from trimtab.decide.pipeline import Failure, PlacementAttempt
from trimtab.decide.request import AGGREGATED, BY_SCORE, DUPLICATED, DYNAMIC, STATIC, PlacementRequest
from trimtab.decide.spread import SpreadFailure

MAX_NAMES = 5
"""The maximum number of rejected clusters that a record names per filter."""


DIVISION_RULES = {
    DUPLICATED: "every selected cluster gets all replicas",
    STATIC: "divided by the weights of the policy, regardless of capacity",
    DYNAMIC: "divided by the available capacity of the clusters",
    AGGREGATED: "placed in as few clusters as possible, clusters in use first, and divided by capacity",
    BY_SCORE: "divided by the score of the clusters, limited by capacity",
    "": "not divided: unknown strategy",
}


def explain(decision: BindingDecision) -> Explanation:
    """Evaluate the decision again on the fleet it was made on, and collect the messages of all plugins."""
    request = _request_with_group(decision)
    attempt = PlacementAttempt(request, decision.fleet, decision.profile)
    return Explanation(
        ok=decision.ok,
        message=decision.condition[2],
        strategy=request.placement.strategy,
        mode=_mode(request),
        affinity_name=decision.affinity_name,
        groups=tuple(
            AffinityGroupExplanation(
                name=tried.affinity_name, message="" if tried.failure is None else tried.failure.message
            )
            for tried in decision.tried_groups
        ),
        clusters=_cluster_explanations(attempt, decision.ok),
        filters=tuple(plugin.name for plugin in all_filters(request)),
        rule=_rule(request),
        tie_break=_tie_break(request),
        valid_until=valid_until(decision),
        decided_at=decision.fleet.now,
    )


def decision_record(decision: BindingDecision, now: datetime) -> DecisionRecord:
    """A short form that is stored with the binding."""
    request = _request_with_group(decision)
    refused = tuple(_rejections_by_filter(request, decision))
    total = len(decision.fleet)
    return DecisionRecord(
        time=now,
        mode=_mode(request),
        division_strategy=_rule(request),
        total_clusters=total,
        feasible_clusters=total - sum(group.count for group in refused),
        rejected=refused,
    )


def _rejections_by_filter(request: PlacementRequest, decision: BindingDecision) -> Iterator[RejectedClusters]:
    """Grouped by the first rejecting filter, as in `all_rejections`, but by array arithmetic: fleets are large."""
    fleet = decision.fleet
    if feasible_clusters(request, fleet).mask.all():
        return
    placed = columns_in_use(request, fleet)
    open_ = np.ones(len(fleet), dtype=bool)
    for plugin in all_filters(request):
        passes = filter_mask(plugin, request, fleet)
        if plugin.skips_placed and placed:
            passes = passes.copy()
            passes[placed] = True
        out = np.flatnonzero(open_ & ~passes)
        if len(out):
            open_ &= passes
            _, scores = next(first_rejections([plugin], request, fleet, [int(out[0])]))
            names = fleet.names_at(out[:MAX_NAMES])
            message = "" if scores is None else scores.reason.message
            yield RejectedClusters(filter=plugin.name, message=message, count=len(out), clusters=tuple(names))


def _request_with_group(decision: BindingDecision) -> PlacementRequest:
    """The request with the affinity group that was selected, or tried last."""
    return decision.request if decision.group < 0 else msgspec.structs.replace(decision.request, group=decision.group)


def _mode(request: PlacementRequest) -> str:
    return "Fresh" if request.fresh else "Steady"


def _rule(request: PlacementRequest) -> str:
    return (
        DIVISION_RULES[request.placement.strategy]
        if _divides_replicas(request)
        else "every selected cluster gets the object"
    )


def _divides_replicas(request: PlacementRequest) -> bool:
    return (request.replicas > 0 or request.resource_request is not None) and len(request.components) <= 1


def _tie_break(request: PlacementRequest) -> str:
    if not _divides_replicas(request) or request.placement.strategy == DUPLICATED:
        return ""
    end = "last" if request.last_wins_ties else "first"
    return f"the {end} name wins, by the hash of the workload's uid"


def _cluster_explanations(attempt: PlacementAttempt, is_placed: bool) -> tuple[ClusterExplanation, ...]:
    """A decision that was refused, also by a quota after the attempt, gives no cluster a share."""
    shares = attempt.result.by_column() if is_placed and not isinstance(attempt.result, Failure) else {}
    feasible = attempt.feasible.mask
    selected: set[int] = set()
    if feasible.any() and not isinstance(attempt.selected_columns, SpreadFailure):
        selected = set(map(int, attempt.selected_columns))
    explanations = []
    limits = limiting_rejections(attempt.ask, attempt.fleet, attempt.limited_columns)
    for column, objections in all_rejections(attempt.ask, attempt.fleet):
        name, before = attempt.fleet.names[column], attempt.placed_replicas.get(column, 0)
        if objections:
            refusals = tuple(map(_cluster_rejection, objections))
            explanations.append(ClusterExplanation(name=name, refused=refusals[0], rejections=refusals, before=before))
        else:
            explanation = _feasible_cluster_explanation(attempt, column).but(
                selected=column in selected, replicas=shares.get(column)
            )
            if (limit := limits.get(column)) is not None:
                explanation = explanation.but(limited=_cluster_rejection(limit))
            explanations.append(explanation.but(name=name, before=before))
    return tuple(explanations)


def _cluster_rejection(objection: Rejection) -> ClusterRejection:
    return ClusterRejection(plugin=objection.plugin, code=objection.reason.code, message=objection.reason.message)


def _feasible_cluster_explanation(attempt: PlacementAttempt, column: int) -> ClusterExplanation:
    request = attempt.ask
    return ClusterExplanation(
        name="",
        scores=scores_of_target(scores_for(request), request, attempt.fleet, attempt.feasible.mask, column),
        prioritizers=_prioritizer_scores(attempt, column),
        total=0 if attempt.total is None else int(attempt.total[column]),
        overflow=0 if attempt.overflow is None else int(attempt.overflow[column]),
        fits=int(attempt.free_replicas[column]) if request.is_workload else None,
    )


def _prioritizer_scores(attempt: PlacementAttempt, column: int) -> dict[str, int]:
    scores: dict[str, int] = {}
    for ranked in attempt.ask.placement.prioritizers:
        plugin = prioritizers.get(ranked.plugin)
        if plugin is None:
            continue
        query, feasible = attempt.score_query(ranked), attempt.feasible.mask
        scores[ranked.title] = scores_of_target([plugin], query, attempt.fleet, feasible, column)[plugin.name]
    return scores


def valid_until(decision: BindingDecision) -> datetime | None:
    """The first time at which time alone may change the decision: a block ends, or a score expires."""
    fleet, request = decision.fleet, decision.request
    ends = [blocked.until for blocked in request.blocked if blocked.until is not None]
    for ranked in request.placement.prioritizers:
        resource = (ranked.coordinate.add_on or AddOnScore()).resource_name
        notes = fleet.external_values.get(f"AddOnPlacementScore/{resource}", {}) if ranked.plugin == "AddOn" else {}
        ends += [note.until for name, note in notes.items() if note.until is not None and name in fleet]
    return min((end for end in ends if end >= fleet.now), default=None)
