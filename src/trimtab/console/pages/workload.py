"""Workload: where it is, how it came there, why there and not elsewhere, and what happens next."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Raw
from trimtab.client.client import Client, resource_of
from trimtab.console.actions import FIELD_MANAGER, ActionError, Form, action, value_of
from trimtab.console.facts import CLUSTER_WIDE, NOWHERE, STUCK, WAITING, BudgetFacts, Facts, WorkloadFacts
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.moves import move_rows
from trimtab.console.permissions import sees
from trimtab.console.pictures.history import stages_of
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import cause_text, path_to, plural, workload_path
from trimtab.controllers.movement import state
from trimtab.decide.explain import ClusterExplanation, Explanation, explain
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import decide
from trimtab.decide.ocm.snapshot import external_value_of, score_key
from trimtab.decide.request import placement_request_of
from trimtab.errors import NotFound
from trimtab.server.auth.authorize import Action

MAX_CLUSTERS = 60
"""Rows of the why matrix; the selected ones come first."""


ROUTINE = {"SyncSucceed", "SyncWorkSucceed", "AggregateStatusSucceed", "ApplyPolicySucceed"}
"""Reasons of events that every change of an object causes; the timeline leaves them out."""


class WhyRow(Facts):
    """One cluster in the why matrix."""

    name: str
    replicas: int | None
    before: int
    fits: int | None
    rejections: dict[str, str]
    """What each filter that rejects it says."""
    selected: bool
    scores: dict[str, int]
    total: int
    verdict: str
    is_last_of_kind: bool = False
    """Whether a line follows: below the chosen ones, and below those that fit."""


class WhyMatrix(Facts):
    """Clusters against filters and scores."""

    rows: tuple[WhyRow, ...]
    filters: tuple[str, ...]
    scores: tuple[str, ...]
    has_total: bool
    feasible: int
    clusters: int
    omitted: int
    mode: str
    rule: str
    message: str
    groups: tuple[tuple[str, str], ...]
    tie_break: str
    valid_until: datetime | None
    is_remembered: bool
    """Whether it explains the last decision; else the one that would be made now."""


def workload_of(context: PageContext) -> WorkloadFacts:
    found = context.model.workloads.get("/".join(context.segments))
    if found is None or not sees(context.visibility.workloads, found.namespace):
        raise NotFound("there is no such workload, or you may not see it")
    return found


def fleet_of(context: PageContext) -> Fleet[Cluster]:
    """The clusters of the model, with the published scores."""
    fleet = Fleet.of(context.model.typed_clusters.values(), now=context.now)
    for score in context.model.scores.values():
        fleet = fleet.with_external_value_changes(score_key(score.name), {score.namespace: external_value_of(score)})
    return fleet


def explanation_of(context: PageContext, binding: Binding) -> tuple[Explanation, bool]:
    """The last decision; when nobody remembers it, the one that would be made now."""
    remembered = context.services.last_decision(binding)
    if remembered is not None:
        return remembered, True
    request = placement_request_of(binding, candidates=candidates_of(context, binding))
    return explain(decide(request, fleet_of(context), context.services.profile)), False


def candidates_of(context: PageContext, binding: Binding) -> list[str] | None:
    """The clusters of the Placement that the policy refers to; None when it refers to none."""
    reference = binding.spec.placement.placement_ref if binding.spec.placement is not None else None
    if reference is None:
        return None
    label = "cluster.open-cluster-management.io/placement"
    return [
        decision.cluster_name
        for one in context.model.decisions.values()
        if one.namespace == (reference.namespace or binding.namespace)
        and one.metadata.labels.get(label) == reference.name
        and one.status is not None
        for decision in one.status.decisions
    ]


def verdict_of(one: ClusterExplanation) -> str:
    if one.refused is not None:
        return one.refused.message
    if one.replicas is not None:
        return "selected" + (f", overflow {one.overflow}" if one.overflow else "")
    return "fits, but got no replicas" if one.selected else "fits, but not selected by the spread constraints"


def why_matrix(explanation: Explanation, *, is_remembered: bool) -> WhyMatrix:
    ordered = sorted(
        explanation.clusters,
        key=lambda one: (one.refused is not None, one.replicas is None, not one.selected, -one.total, one.name),
    )
    names = dict.fromkeys(name for one in ordered for name in (*one.scores, *one.prioritizers))
    shown = ordered[:MAX_CLUSTERS]
    rows = []
    for number, one in enumerate(shown):
        kind = (one.refused is not None, one.replicas is None)
        following = shown[number + 1] if number + 1 < len(shown) else None
        ends = following is not None and (following.refused is not None, following.replicas is None) != kind
        rows.append(
            WhyRow(
                name=one.name,
                replicas=one.replicas,
                before=one.before,
                fits=one.fits,
                rejections={rejection.plugin: rejection.message for rejection in one.rejections},
                selected=one.selected,
                scores={**one.scores, **one.prioritizers},
                total=one.total,
                verdict=verdict_of(one),
                is_last_of_kind=ends,
            )
        )
    return WhyMatrix(
        rows=tuple(rows),
        filters=explanation.filters,
        scores=tuple(names),
        has_total=any(one.prioritizers for one in ordered),
        feasible=sum(one.refused is None for one in ordered),
        clusters=len(ordered),
        omitted=len(ordered) - len(shown),
        mode=explanation.mode,
        rule=explanation.rule,
        message=explanation.message if not explanation.ok else "",
        groups=tuple((group.name, group.message or "selected") for group in explanation.groups if group.name),
        tie_break=explanation.tie_break,
        valid_until=explanation.valid_until,
        is_remembered=is_remembered,
    )


def pending_placement(workload: WorkloadFacts, why: WhyMatrix) -> dict[str, int] | None:
    """The placement of a decision that waits."""
    if workload.state != WAITING or why.message:
        return None
    return {row.name: row.replicas for row in why.rows if row.replicas}


def help_for(workload: WorkloadFacts, why: WhyMatrix) -> str:
    """What would help a workload that is stuck: the filter that keeps most clusters away."""
    counts: dict[str, int] = {}
    for row in why.rows:
        if len(row.rejections) == 1:
            (name,) = row.rejections
            counts[name] = counts.get(name, 0) + 1
    if workload.state not in (NOWHERE, STUCK) or not counts:
        return ""
    name, count = max(counts.items(), key=lambda item: item[1])
    return f"Without the filter {name}, {plural(count, 'more cluster')} would fit."


def budgets_of(context: PageContext, workload: WorkloadFacts) -> list[BudgetFacts]:
    found = []
    for key, budget in context.model.typed_budgets.items():
        selector = budget.spec.selector
        if (
            budget.namespace == workload.namespace
            and budget.spec.target == "Workloads"
            and selector is not None
            and selector.matches(workload.labels)
        ):
            found.append(context.model.budgets[key])
    return found


def timeline_of(context: PageContext, workload: WorkloadFacts, binding: Binding) -> list[dict[str, Any]]:
    """Events of the template and of its binding, and the moves, the latest first."""
    entries: list[dict[str, Any]] = []
    if sees(context.visibility.events, workload.namespace):
        kind = "ResourceBinding" if workload.namespace else "ClusterResourceBinding"
        for subject in ((workload.kind, workload.namespace, workload.name), (kind, binding.namespace, binding.name)):
            entries += [
                {
                    "at": event.at,
                    "state": "wait" if event.warning else "ok",
                    "title": event.reason,
                    "text": event.message,
                }
                for event in context.model.events.get(subject, {}).values()
                if event.warning or event.reason not in ROUTINE
            ]
    for move in context.model.moves_in(workload.key):
        where = ", ".join(f"{name} {count}" for name, count in move.targets) or "nowhere"
        if move.started is not None:
            text = f"{plural(move.replicas, 'replica')} from {move.source} to {where}"
            entries.append(
                {"at": move.started, "state": "move", "title": f"Move begins: {cause_text(move.cause)}", "text": text}
            )
        if move.finished is not None:
            entries.append(
                {
                    "at": move.finished,
                    "state": "done",
                    "title": f"Move ends: {move.outcome.lower()}",
                    "text": move.message,
                }
            )
    return sorted(entries, key=lambda entry: entry["at"], reverse=True)[:40]


def rules_of(binding: Binding) -> list[tuple[str, str]]:
    placement = binding.spec.placement
    rules: list[tuple[str, str]] = []
    if placement is None:
        return rules
    rules += [
        ("Spread", f"{one.min_groups} to {one.max_groups} by {one.spread_by_field or one.spread_by_label}")
        for one in placement.spread_constraints
    ]
    if placement.cluster_affinities:
        rules.append(("Groups", ", ".join(term.affinity_name for term in placement.cluster_affinities)))
    previous = binding.status.previous_placement
    if previous is not None:
        rules.append(("Before the failover", ", ".join(f"{one.name} {one.replicas}" for one in previous.clusters)))
    return [*rules, *(("Failed in", entry.cluster_name) for entry in binding.spec.active_eviction_history)]


def actions_of(context: PageContext) -> Mapping[str, Action]:
    namespace = "" if context.segments[0] == CLUSTER_WIDE else context.segments[0]
    resource = "resourcebindings" if namespace else "clusterresourcebindings"
    return {
        "rebalance": Action("create", "apps.karmada.io", "workloadrebalancers"),
        "patch": Action("patch", "work.karmada.io", resource, namespace=namespace),
    }


@page(
    "workloads/{namespace}/{kind}/{name}",
    "workload.html",
    "workloads",
    live={
        "pulse": PULSE_TOPICS,
        "lead": ("workload:*",),
        "note": ("workload:*",),
        "history": ("workload:*",),
        "rules": ("workload:*", "budgets"),
        "why": ("workload:*",),
        "timeline": ("workload:*", "events"),
    },
    rows={"move-rows": ("move_row", "moves", ("workload:*",))},
    actions=actions_of,
)
def workload(context: PageContext) -> View:
    facts = workload_of(context)
    binding = context.model.bindings[facts.key]
    explanation, is_remembered = explanation_of(context, binding)
    why = why_matrix(explanation, is_remembered=is_remembered)
    moves = context.model.moves_in(facts.key) if sees(context.visibility.moves, facts.namespace) else []
    current = {name: cell.target for name, cell in facts.cells.items() if cell.target}
    return {
        "workload": facts,
        "why": why,
        "help": help_for(facts, why),
        "stages": stages_of(current, moves, pending_placement(facts, why)) if current and facts.counted else [],
        "runs": {name: cell.runs() for name, cell in facts.cells.items()},
        "lost": [
            name for name in facts.cells if (one := context.model.clusters.get(name)) is not None and not one.is_ready
        ],
        "rules": rules_of(binding),
        "budgets": budgets_of(context, facts),
        "moves": move_rows(moves[:40], context.now, wide=False),
        "timeline": timeline_of(context, facts, binding),
        "blocked_in": [entry.cluster_name for entry in binding.spec.active_eviction_history],
        "kept_in": [task.from_cluster for task in binding.spec.graceful_eviction_tasks if task.suppress_deletion],
        "command": f"trimtab explain {facts.kind.lower()}/{facts.name}"
        + (f" -n {facts.namespace}" if facts.namespace else ""),
    }


def binding_of(context: PageContext) -> Binding:
    facts = workload_of(context)
    return context.model.bindings[facts.key]


async def patch_binding(client: Client, binding: Binding, spec: Mapping[str, Any]) -> None:
    """Change the spec, if the binding was not written meanwhile."""
    kind = kind_of(ResourceBinding if binding.namespace else ClusterResourceBinding)
    patch = {"metadata": {"resourceVersion": binding.metadata.resource_version}, "spec": dict(spec)}
    await client.patch(resource_of(kind), binding.namespace, binding.name, patch, manager=FIELD_MANAGER)


def spec_field(binding: Binding, field: str) -> Raw:
    """One field of the binding's spec in its wire form."""
    return {field: to_wire(binding)["spec"].get(field)}


@action("workloads/{namespace}/{kind}/{name}/unblock")
async def unblock(context: PageContext, client: Client, form: Form) -> str:
    """Allow the workload again in a cluster where it failed."""
    binding, cluster = binding_of(context), value_of(form, "cluster")
    kind = kind_of(ResourceBinding if binding.namespace else ClusterResourceBinding)
    raw = await client.get(resource_of(kind), binding.namespace, binding.name)
    current = cast("Binding", kind.decode(raw))
    entries = current.spec.active_eviction_history
    kept = tuple(entry for entry in entries if entry.cluster_name != cluster)
    if len(kept) == len(entries):
        raise ActionError(f"the workload is not blocked in {cluster}")
    await patch_binding(client, current, spec_field(state.with_history(current, kept), "activeEvictionHistory"))
    return workload_path("/".join(context.segments))


@action("workloads/{namespace}/{kind}/{name}/purge")
async def purge(context: PageContext, client: Client, form: Form) -> str:
    """Delete the old copy in a cluster that purge mode Never has kept."""
    binding, cluster = binding_of(context), value_of(form, "cluster")
    kind = kind_of(ResourceBinding if binding.namespace else ClusterResourceBinding)
    raw = await client.get(resource_of(kind), binding.namespace, binding.name)
    current = cast("Binding", kind.decode(raw))
    tasks = current.spec.graceful_eviction_tasks
    if not any(task.from_cluster == cluster and task.suppress_deletion for task in tasks):
        raise ActionError(f"there is no old copy in {cluster}")
    ended = tuple(task.but(suppress_deletion=False) if task.from_cluster == cluster else task for task in tasks)
    await patch_binding(client, current, spec_field(state.finish_tasks(current, ended), "gracefulEvictionTasks"))
    return workload_path("/".join(context.segments))


def plan_path(workload: WorkloadFacts) -> str:
    return path_to("rebalance", "plan") + f"?workload={workload.key}"
