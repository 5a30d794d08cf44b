"""Placements and scores: which clusters OCM Placements select, which scores are published, and what waits for hysteresis."""

from typing import Any

from trimtab.api.wording import plural
from trimtab.console.page import PageContext, View, page
from trimtab.console.permissions import sees
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.workload_facts import WorkloadFacts
from trimtab.controllers.conditions import find_condition
from trimtab.decide.ocm.explain import ClusterOutcome
from trimtab.errors import NotFound

PLACEMENT_LABEL = "cluster.open-cluster-management.io/placement"
MAX_ROWS = 200


def decided_clusters(context: PageContext, namespace: str, name: str) -> list[str]:
    pages = [
        one
        for one in context.model.decisions.values()
        if one.namespace == namespace and one.metadata.labels.get(PLACEMENT_LABEL) == name and one.status is not None
    ]
    return sorted(decision.cluster_name for one in pages if one.status is not None for decision in one.status.decisions)


def placement_rows(context: PageContext) -> list[dict[str, Any]]:
    rows = []
    for key, placement in sorted(context.model.placements.items())[:MAX_ROWS]:
        if not sees(context.visibility.placements, placement.namespace):
            continue
        if context.values("ns") and placement.namespace not in context.values("ns"):
            continue
        satisfied = (
            find_condition(placement.status.conditions, "PlacementSatisfied") if placement.status is not None else None
        )
        rows.append(
            {
                "key": key,
                "namespace": placement.namespace,
                "name": placement.name,
                "wanted": placement.spec.number_of_clusters,
                "clusters": decided_clusters(context, placement.namespace, placement.name),
                "satisfied": satisfied.status if satisfied is not None else "Unknown",
                "message": (satisfied.message or satisfied.reason) if satisfied is not None else "not decided yet",
                "prioritizers": [describe_prioritizer(one) for one in prioritizers_of(placement)],
            }
        )
    return rows


def prioritizers_of(placement: Any) -> Any:
    policy = placement.spec.prioritizer_policy
    return policy.configurations if policy is not None else ()


def describe_prioritizer(one: Any) -> str:
    coordinate = one.score_coordinate
    if coordinate is None:
        return ""
    name = coordinate.built_in or (
        f"{coordinate.add_on.resource_name}/{coordinate.add_on.score_name}" if coordinate.add_on is not None else ""
    )
    return f"{name} x{one.weight}"


def score_table(context: PageContext) -> dict[str, Any]:
    """Published scores: a row per cluster, a column per score."""
    columns: dict[str, None] = {}
    rows: dict[str, dict[str, Any]] = {}
    for score in context.model.scores.values():
        if not sees(context.visibility.scores, score.namespace) or score.status is None:
            continue
        row = rows.setdefault(score.namespace, {"cluster": score.namespace, "scores": {}, "until": {}, "expired": {}})
        for one in score.status.scores:
            column = f"{score.name}/{one.name}"
            columns[column] = None
            row["scores"][column] = one.value
            row["until"][column] = score.status.valid_until
            row["expired"][column] = score.status.valid_until is not None and score.status.valid_until < context.now
    return {"columns": sorted(columns), "rows": [rows[name] for name in sorted(rows)]}


def scored_workloads(context: PageContext) -> list[WorkloadFacts]:
    found = (context.model.workloads[key] for key in context.model.workload_keys)
    return [one for one in found if one.how == "by score" and sees(context.visibility.workloads, one.namespace)][
        :MAX_ROWS
    ]


def better_placements(context: PageContext) -> list[dict[str, Any]]:
    rows = []
    for key, binding in context.model.bindings.items():
        better = binding.status.better_placement
        if (
            better is not None
            and key in context.model.workloads
            and sees(context.visibility.workloads, context.model.workloads[key].namespace)
        ):
            rows.append(
                {
                    "workload": context.model.workloads[key],
                    "clusters": [(one.name, one.replicas) for one in better.clusters],
                    "since": better.since,
                }
            )
    return rows[:MAX_ROWS]


def sentence_of(placements: int, scores: int, clusters: int) -> str:
    has = plural(placements, "Placement") if placements else "No Placement"
    published = (
        f"{plural(scores, 'score')} published for {plural(clusters, 'cluster')}" if scores else "no score published"
    )
    return f"{has}; {published}."


@page(
    "placements",
    "placements.html",
    "placements",
    live={
        "pulse": PULSE_TOPICS,
        "lead": ("placements", "scores"),
        "placements": ("placements",),
        "scores": ("scores",),
        "scored": ("workloads",),
    },
)
def placements(context: PageContext) -> View:
    scores, rows = score_table(context), placement_rows(context)
    return {
        "placements": rows,
        "scores": scores,
        "scored": scored_workloads(context),
        "better": better_placements(context),
        "sentence": sentence_of(len(rows), len(scores["columns"]), len(scores["rows"])),
    }


def outcome_text(outcome: ClusterOutcome | None, *, selected: bool) -> str:
    """The verdict of the decision about one cluster."""
    if outcome is None:
        return "selected" if selected else ""
    if outcome.outcome == "Filtered":
        return f"{outcome.plugin}: {outcome.reason}"
    text = {
        "Selected": "selected",
        "NotNeeded": "fits, but enough others rank higher",
        "NotInSets": "is in no cluster set that the namespace may use",
    }.get(outcome.outcome, outcome.outcome)
    return "; ".join([text, *outcome.missing_scores])


@page(
    "placements/{namespace}/{name}",
    "placement.html",
    "placements",
    live={"pulse": PULSE_TOPICS, "lead": ("placements",), "decision": ("placements", "scores", "clusters")},
)
def placement(context: PageContext) -> View:
    namespace, name = context.segments
    found = next((row for row in placement_rows(context) if (row["namespace"], row["name"]) == (namespace, name)), None)
    if found is None:
        raise NotFound("there is no such Placement, or you may not see it")
    outcomes = {one.cluster: one for one in context.services.placement_outcomes(context.model.placements[found["key"]])}
    parts = dict.fromkeys(name for one in outcomes.values() for name, _, _ in one.score_parts)
    selected = set(found["clusters"])
    clusters = (
        sorted(context.model.clusters.values(), key=lambda one: (one.name not in selected, one.name))
        if context.visibility.clusters
        else []
    )
    return {
        "placement": found,
        "scores": list(parts),
        "has_total": any(one.total is not None for one in outcomes.values()),
        "rows": [
            {
                "cluster": one,
                "selected": one.name in selected,
                "is_out": one.name in outcomes and outcomes[one.name].total is None,
                "scores": {name: (score, weight) for name, weight, score in known.score_parts} if known else {},
                "total": known.total if known else None,
                "verdict": outcome_text(known, selected=one.name in selected),
            }
            for one in clusters[:MAX_ROWS]
            for known in (outcomes.get(one.name),)
        ],
    }
