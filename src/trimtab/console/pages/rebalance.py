"""Rebalance: plan it, see whether it is worth it, start it, and watch, pause or abort it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.selectors import InvalidSelector, parse_selector
from trimtab.api.value import Raw
from trimtab.api.wording import plural
from trimtab.client.client import Client, resource_of
from trimtab.console.actions import FIELD_MANAGER, ActionError, Form, PlanChanged, action, value_of
from trimtab.console.facts import CLUSTER_WIDE, RebalanceFacts
from trimtab.console.page import PageContext, View, page
from trimtab.console.permissions import sees
from trimtab.console.pictures.charts import LoadChange
from trimtab.console.pictures.fleet_map import MapFlow
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import path_to, query_of, reason_text, without_command
from trimtab.console.why import short_reason
from trimtab.console.workload_facts import NOWHERE
from trimtab.controllers.well_known import REQUESTER
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_result import (
    LATER,
    MOVE,
    NOW,
    REFUSED,
    STEPS,
    UNCHANGED,
    BudgetCost,
    Plan,
    PlannedWorkload,
    differences,
)
from trimtab.errors import Forbidden, InputError, NotFound
from trimtab.server.auth.authorize import Action

REBALANCERS = resource_of(kind_of(WorkloadRebalancer))
KINDS = {"Deployment": "apps/v1", "StatefulSet": "apps/v1"}
OPTIONS = ("selector", "kind", "ns", "strategy", "mode", "max", "exclude", "workload")
SELECTION = ("selector", "kind", "ns")
"""An address with one of them selects workloads; an empty selector selects all."""
KEEP_SECONDS = 86400
MAX_JOBS = 50
MAX_ROWS = 300
"""Workloads of a plan or of a run that a page lists."""
MAX_ADDRESS = 8 << 10
"""Characters of a selection: every row of the page has a link with all of them."""


def spec_of(query: Mapping[str, str], model: Any) -> Raw | None:
    """The spec of the WorkloadRebalancer that the address describes; None when it selects nothing."""
    if sum(len(query.get(name, "")) for name in OPTIONS) > MAX_ADDRESS:
        raise InputError(f"the selection has more than {MAX_ADDRESS} characters; use a label selector")
    parallel = query.get("max", "")
    spec: Raw = {
        "maxParallel": max(1, min(1000, int(parallel))) if parallel.isdecimal() and len(parallel) < 5 else 10,
        "ttlSecondsAfterFinished": KEEP_SECONDS,
    }
    if query.get("strategy") == "PreserveAvailable":
        spec["strategy"] = "PreserveAvailable"
    if query.get("mode") == "AtOnce":
        spec["move"] = {"mode": "AtOnce"}
    keys = [key for key in query.get("workload", "").split(",") if key]
    if keys:
        spec["workloads"] = [reference(key, model) for key in keys]
        return spec
    if query.keys().isdisjoint(SELECTION):
        return None
    kind = query.get("kind") or "Deployment"
    rule: Raw = {"apiVersion": KINDS.get(kind, "apps/v1"), "kind": kind}
    if query.get("ns"):
        rule["namespace"] = query["ns"]
    selector = query.get("selector", "").strip()
    try:
        rules = parse_selector(selector).rules if selector else ()
    except InvalidSelector as fault:
        raise InputError(
            f"the selector {selector!r} cannot be read: {fault}; examples: team=blue, env in (prod, test)"
        ) from fault
    if rules:
        rule["labelSelector"] = {
            "matchExpressions": [
                {"key": one.key, "operator": one.operator, **({"values": list(one.values)} if one.values else {})}
                for one in rules
            ]
        }
    spec["selectors"] = [rule]
    return spec


def reference(key: str, model: Any) -> Raw:
    known = model.workloads.get(key)
    namespace, _, rest = key.partition("/")
    kind, _, name = rest.partition("/")
    if not kind or not name:
        raise InputError(f"{key!r} is not a workload; use NAMESPACE/KIND/NAME")
    found: Raw = {
        "apiVersion": known.api_version if known is not None else KINDS.get(kind, "apps/v1"),
        "kind": kind,
        "name": name,
    }
    return found if namespace == CLUSTER_WIDE else {**found, "namespace": namespace}


def key_of(planned: str) -> str:
    """The key of a workload that a plan names `Kind/namespace/name`."""
    kind, _, rest = planned.partition("/")
    namespace, slash, name = rest.partition("/")
    return f"{namespace}/{kind}/{name}" if slash else f"{CLUSTER_WIDE}/{kind}/{namespace}"


class ChosenPlan(NamedTuple):
    """The plan of what would be started."""

    spec: Raw
    plan: Plan
    others: tuple[PlannedWorkload, ...] = ()
    """Workloads of the selection that are not in the plan: they were left out, or would not move."""


async def choose_plan(spec: Raw, excluded: list[str], context: PageContext) -> ChosenPlan:
    """The plan of a selection; where workloads were left out, that of the others alone."""
    make_plan = context.services.plan
    if make_plan is None:
        raise ActionError("this console cannot plan")
    check_may_plan(context)
    everything = await make_plan(Change(rebalance=spec), context.now, context.user)
    if not excluded:
        return ChosenPlan(spec, everything)
    reduced = without_workloads(spec, everything, excluded, context.model)
    plan = await make_plan(Change(rebalance=reduced), context.now, context.user)
    planned = {row.workload for row in plan.workloads}
    return ChosenPlan(reduced, plan, tuple(row for row in everything.workloads if row.workload not in planned))


def without_workloads(spec: Raw, plan: Plan, excluded: list[str], model: Any) -> Raw:
    """The spec that names the workloads of the plan without those that were left out."""
    kept = [
        key_of(row.workload) for row in plan.workloads if key_of(row.workload) not in excluded and row.action == MOVE
    ]
    return {
        **{name: value for name, value in spec.items() if name != "selectors"},
        "workloads": [reference(key, model) for key in kept],
    }


def has_selection(context: PageContext) -> bool:
    return spec_of(context.query, context.model) is not None and context.services.plan is not None


async def prepare_plan(context: PageContext) -> ChosenPlan | None:
    spec = spec_of(context.query, context.model)
    if spec is None or context.services.plan is None:
        return None
    return await choose_plan(spec, context.values("exclude"), context)


def check_may_plan(context: PageContext) -> None:
    """A plan shows the load of all clusters, and reads all workloads."""
    if not context.visibility.clusters:
        raise Forbidden("a plan needs list on clusters.cluster.karmada.io, which you do not have")


OUTCOMES = ("go", "wait", "out", "none", "same", "anyway")
"""What becomes of a row of a plan; `out` was left out by the user."""


def row_kind(row: PlannedWorkload) -> str:
    if row.action == REFUSED:
        return "none"
    if row.action == UNCHANGED or row.before == row.after:
        return "same"
    if row.is_pending:
        return "anyway"
    return "go" if row.start in (NOW, STEPS) else "wait"


def note_of(row: PlannedWorkload) -> str:
    """How and when it begins, or why not."""
    if row.refusal is not None:
        message = without_command(row.refusal.message)  # nothing waits yet that could be approved
        return f"in steps: {message}" if row.start == STEPS else message
    return row.note or {NOW: "at once", STEPS: "in steps", LATER: "later"}.get(row.start, "")


def plan_row(row: PlannedWorkload, excluded: list[str]) -> dict[str, Any]:
    before, after = ({one.name: one.replicas for one in shares} for shares in (row.before, row.after))
    key = key_of(row.workload)
    namespace, kind, name = key.split("/", 2)
    return {
        "key": key,
        "namespace": "" if namespace == CLUSTER_WIDE else namespace,
        "kind": kind,
        "name": name,
        "what": "out" if key in excluded else row_kind(row),
        "before": before,
        "after": after,
        "moved": sum(max(0, count - after.get(place, 0)) for place, count in before.items()),
        "note": note_of(row),
        "until": row.refusal.until if row.refusal is not None else row.starts_at,
    }


def in_words(row: dict[str, Any], context: PageContext) -> dict[str, Any]:
    """The row with its note as pages say it; why something runs nowhere is what the page Fleet says about it."""
    known = context.model.workloads.get(row["key"])
    if known is not None and known.state == NOWHERE and row["what"] == "none":
        return {**row, "note": short_reason(known, context)}
    return {**row, "note": reason_text(row["note"], context.now)}


def held_up(rows: Sequence[dict[str, Any]], parallel: int) -> int:
    """Workloads that may begin and yet do not: those before them that wait keep all places of the rebalance."""
    waiting = held = 0
    for row in sorted(rows, key=lambda one: (one["kind"], one["namespace"], one["name"])):
        waiting += row["what"] == "wait"
        held += row["what"] == "go" and waiting >= parallel
    return held


def sees_planned(planned: str, context: PageContext) -> bool:
    """Whether the user may see a workload that a plan names `Kind/namespace/name`."""
    namespace = key_of(planned).partition("/")[0]
    return sees(context.visibility.workloads, "" if namespace == CLUSTER_WIDE else namespace)


def visible_budgets(plan: Plan, context: PageContext) -> list[BudgetCost]:
    return [cost for cost in plan.budgets if sees(context.visibility.budgets, cost.budget.partition("/")[0])]


def needs_approval(cost: BudgetCost, context: PageContext) -> bool:
    known = context.model.budgets.get(cost.budget)
    return known is not None and known.needs_approval


def visible_lines(lines: Sequence[str], context: PageContext) -> list[str]:
    """The sentences about workloads and budgets that the user may see; each begins with one of them."""
    found = []
    for line in lines:
        subject = line.partition(": ")[0]
        budget = subject.removeprefix("budget ")
        if (
            sees_planned(subject, context)
            if budget == subject
            else sees(context.visibility.budgets, budget.partition("/")[0])
        ):
            found.append(line)
    return found


def verdict_of(plan: Plan, context: PageContext) -> str:
    """What the plan does; it counts the workloads of all namespaces."""
    if context.visibility.workloads is None:
        return plan.verdict.message
    return "The page shows what happens in the namespaces that you may see."


def flows_of_plan(plan: Plan, context: PageContext) -> list[MapFlow]:
    sums: dict[tuple[str, str, str], int] = {}
    for move in plan.moves:
        if not sees_planned(move.workload, context):
            continue
        for target in move.to:
            flow = (move.source, target.name, move.cause)
            sums[flow] = sums.get(flow, 0) + target.replicas
    return [MapFlow(source=a, target=b, cause=cause, replicas=count) for (a, b, cause), count in sorted(sums.items())]


def loads_of_plan(plan: Plan) -> list[LoadChange]:
    return [
        LoadChange(
            name=one.cluster, region=one.region, now=one.cpu_before or 0.0, then=one.cpu_after or 0.0, lost=one.is_lost
        )
        for one in sorted(plan.load, key=lambda one: (one.region, one.cluster))
    ]


def is_visible(row: dict[str, Any], context: PageContext) -> bool:
    return sees(context.visibility.workloads, row["namespace"])


def plan_view(plan: Plan, context: PageContext, others: tuple[PlannedWorkload, ...] = ()) -> dict[str, Any]:
    planned = (in_words(plan_row(one, context.values("exclude")), context) for one in (*plan.workloads, *others))
    rows = [row for row in planned if is_visible(row, context)]
    counts = {what: sum(row["what"] == what for row in rows) for what in OUTCOMES}
    verdict = plan.verdict
    return {
        "hash": plan.hash,
        "rows": sorted(rows, key=lambda row: OUTCOMES.index(row["what"]))[:MAX_ROWS],
        "more": max(0, len(rows) - MAX_ROWS),
        "counts": counts,
        "moved": sum(row["moved"] for row in rows if row["what"] not in ("anyway", "out")),
        "workloads": counts["go"] + counts["wait"],
        "verdict": verdict_of(plan, context),
        "is_worse": verdict.is_worse,
        "spread_before": verdict.spread_before,
        "spread_after": verdict.spread_after,
        "load": loads_of_plan(plan),
        "flows": flows_of_plan(plan, context),
        "budgets": visible_budgets(plan, context),
        "approvals": [cost.budget for cost in visible_budgets(plan, context) if needs_approval(cost, context)],
        "warnings": visible_lines(plan.warnings, context)[:20],
    }


def create_action(_: PageContext) -> Mapping[str, Action]:
    return {"create": Action("create", "apps.karmada.io", "workloadrebalancers")}


@page(
    "rebalance",
    "rebalances.html",
    "rebalance",
    live={"pulse": PULSE_TOPICS, "jobs": ("rebalances",)},
    actions=create_action,
)
def rebalances(context: PageContext) -> View:
    jobs = list(context.model.rebalances.values()) if context.visibility.rebalances else []
    jobs.sort(key=lambda job: (job.finished is not None, str(job.created)), reverse=False)
    active = [job for job in jobs if job.finished is None]
    return {
        "sentence": sentence_of_jobs(active, context),
        "jobs": (
            active
            + sorted((job for job in jobs if job.finished is not None), key=lambda job: str(job.finished), reverse=True)
        )[:MAX_JOBS],
        "may_see": context.visibility.rebalances,
        "namespaces": sorted(
            {
                one.namespace
                for one in context.model.workloads.values()
                if one.namespace and sees(context.visibility.workloads, one.namespace)
            }
        ),
    }


def sentence_of_jobs(active: list[RebalanceFacts], context: PageContext) -> str:
    if not context.visibility.rebalances:
        return "You may not list WorkloadRebalancers."
    if not active:
        return "No rebalance runs. Plan one: nothing is written before you start it."
    return f"{plural(len(active), 'rebalance')} {'runs' if len(active) == 1 else 'run'} now."


@page(
    "rebalance/plan",
    "plan.html",
    "rebalance",
    live={"pulse": PULSE_TOPICS},
    actions=create_action,
    prepare=prepare_plan,
    is_slow=has_selection,
)
def rebalance_plan(context: PageContext) -> View:
    chosen: ChosenPlan | None = context.extra
    plan = chosen.plan if chosen is not None else None
    shown = plan_view(chosen.plan, context, chosen.others) if chosen is not None else None
    parallel = int(chosen.spec["maxParallel"]) if chosen is not None else 0
    known = (
        context.services.known_plan(context.query.get("changed", ""))
        if context.services.known_plan is not None
        else None
    )
    return {
        "is_pending": context.is_pending,
        "plan": shown,
        "parallel": parallel,
        "held_up": held_up(shown["rows"], parallel) if shown is not None else 0,
        "changed": context.query.get("changed", ""),
        "differences": (
            visible_lines(differences(known, plan), context)[:20] if known is not None and plan is not None else []
        ),
        "options": {name: context.query.get(name, "") for name in OPTIONS},
        "suggestions": suggestions(context),
        "name": f"rebalance-{context.now:%Y%m%d-%H%M%S}",
        "command": command_of(context.query),
    }


def suggestions(context: PageContext) -> list[tuple[str, str]]:
    """Selections with one click: all, each namespace, and frequent labels."""
    found: list[tuple[str, str]] = [("all Deployments", query_of([("kind", "Deployment")]))]
    spaces: dict[str, int] = {}
    labels: dict[str, int] = {}
    for workload in context.model.workloads.values():
        if workload.kind == "Deployment" and sees(context.visibility.workloads, workload.namespace):
            spaces[workload.namespace] = spaces.get(workload.namespace, 0) + 1
            for name, value in workload.labels.items():
                if "/" not in name:
                    labels[f"{name}={value}"] = labels.get(f"{name}={value}", 0) + 1
    found += [
        (f"{name} ({count})", query_of([("kind", "Deployment"), ("ns", name)]))
        for name, count in sorted(spaces.items())[:10]
    ]
    frequent = sorted(
        (label for label, count in labels.items() if count > 1), key=lambda label: (-labels[label], label)
    )
    found += [
        (f"{label} ({labels[label]})", query_of([("kind", "Deployment"), ("selector", label)]))
        for label in frequent[:8]
    ]
    return found


def command_of(query: Mapping[str, str]) -> str:
    parts = ["trimtab rebalance"]
    if query.get("workload"):
        namespace, _, rest = query["workload"].split(",")[0].partition("/")
        parts += [rest.lower(), f"-n {namespace}"]
    else:
        parts += [f"-l '{query.get('selector', '')}'", f"-n {query['ns']}" if query.get("ns") else "-A"]
    if query.get("strategy") == "PreserveAvailable":
        parts.append("--preserve-available")
    return " ".join([*parts, "--dry-run"])


def job_of(context: PageContext) -> RebalanceFacts:
    found = context.model.rebalances.get(context.segments[0]) if context.visibility.rebalances else None
    if found is None:
        raise NotFound(f"there is no rebalance {context.segments[0]}, or you may not see it")
    return found


def run_actions(context: PageContext) -> Mapping[str, Action]:
    return {"patch": Action("patch", "apps.karmada.io", "workloadrebalancers", name=context.segments[0])}


@page(
    "rebalance/{name}",
    "run.html",
    "rebalance",
    live={
        "pulse": PULSE_TOPICS,
        "lead": ("rebalance:*",),
        "facts": ("rebalance:*", "moves"),
        "flow": ("rebalance:*", "moves"),
        "buttons": ("rebalance:*",),
        "consequences": ("rebalance:*",),
    },
    rows={"run-rows": ("run_row", "rows", ("rebalance:*",))},
    actions=run_actions,
)
def run(context: PageContext) -> View:
    job = job_of(context)
    rows = [row for row in job.rows if sees(context.visibility.workloads, row.namespace)]
    order = {"Moving": 0, "Blocked": 1, "Pending": 2, "Failed": 3}
    keys = {row.key for row in rows}
    flows: dict[tuple[str, str, str], int] = {}
    for name in context.model.going:
        move = context.model.moves[name]
        if move.key in keys and move.cause == "Rebalance":
            for target, count in move.targets:
                flow = (move.source, target, move.cause)
                flows[flow] = flows.get(flow, 0) + count
    return {
        "job": job,
        "rows": [
            {
                "id": f"r-{row.key}",
                "version": (row.phase, row.before, row.after, row.message),
                "row": row,
                "message": reason_text(row.message, context.now),
            }
            for row in sorted(rows, key=lambda row: (order.get(row.phase, 4), row.key))[:MAX_ROWS]
        ],
        "more": max(0, len(rows) - MAX_ROWS),
        "total": len(job.rows),
        "settled": job.settled,
        "moving": job.count("Moving"),
        "blocked": job.count("Blocked"),
        "pending": job.count("Pending"),
        "is_full": job.finished is None and bool(job.count("Pending")) and job.count("Blocked") >= job.max_parallel > 0,
        "failed": job.count("Failed"),
        "moving_replicas": sum(flows.values()),
        "flows": [
            MapFlow(source=a, target=b, cause=cause, replicas=count) for (a, b, cause), count in sorted(flows.items())
        ],
    }


@action("rebalance/start")
async def start(context: PageContext, client: Client, form: Form) -> str:
    """Create the WorkloadRebalancer of a plan, if the plan is still what would happen."""
    query = {name: value_of(form, name) for name in OPTIONS}
    if not query["workload"]:
        query.pop("workload")
    spec = spec_of(query, context.model)
    if spec is None:
        raise ActionError("choose workloads first")
    excluded = [key for key in query["exclude"].split(",") if key]
    chosen = await choose_plan(spec, excluded, context)
    if chosen.plan.hash != value_of(form, "hash"):
        known = context.services.known_plan
        old = known(value_of(form, "hash")) if known is not None else None
        location = path_to("rebalance", "plan") + query_of([*query.items(), ("changed", value_of(form, "hash"))])
        raise PlanChanged(location, visible_lines(differences(old, chosen.plan), context) if old is not None else [])
    name = value_of(form, "name") or f"rebalance-{context.now:%Y%m%d-%H%M%S}"
    kind = kind_of(WorkloadRebalancer)
    job = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "annotations": {REQUESTER: context.user}},
        "spec": chosen.spec,
    }
    made = await client.create(REBALANCERS, job, manager=FIELD_MANAGER)
    return path_to("rebalance", str(made["metadata"]["name"]))


async def patch_job(context: PageContext, client: Client, spec: Raw) -> str:
    (name,) = context.segments
    await client.patch(REBALANCERS, "", name, {"spec": spec}, manager=FIELD_MANAGER)
    return path_to("rebalance", name)


@action("rebalance/{name}/pause")
async def pause(context: PageContext, client: Client, form: Form) -> str:
    return await patch_job(context, client, {"suspend": True})


@action("rebalance/{name}/resume")
async def resume(context: PageContext, client: Client, form: Form) -> str:
    return await patch_job(context, client, {"suspend": False})


@action("rebalance/{name}/abort")
async def abort(context: PageContext, client: Client, form: Form) -> str:
    return await patch_job(context, client, {"cancel": True})
