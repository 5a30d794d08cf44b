"""Drill: what happens when clusters or regions fail now; nothing is written. Simulated members can then really fail."""

from collections.abc import Mapping
from typing import Any

from trimtab.client.client import Client
from trimtab.console.actions import ActionError, Form, action, check_typed_name, value_of
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.cluster import check_may_patch
from trimtab.console.pages.rebalance import flows_of_plan, is_visible, loads_of_plan, plan_row
from trimtab.console.pulse import PULSE_TOPICS, storm_state, thresholds_of
from trimtab.console.text import path_to, plural, query_of
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_result import REFUSED, Plan
from trimtab.errors import InputError
from trimtab.server.auth.authorize import Action

MAX_NAMES = 40


def failures_of(context: PageContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The clusters and the regions that fail, as the address says."""
    clusters: list[str] = []
    regions: list[str] = []
    for word in context.values("fail"):
        kind, _, name = word.partition(":")
        if kind not in ("cluster", "region") or not name:
            raise InputError(f"{word!r} is neither cluster:NAME nor region:NAME")
        (clusters if kind == "cluster" else regions).append(name)
    return tuple(clusters), tuple(regions)


async def prepare_drill(context: PageContext) -> Plan | None:
    clusters, regions = failures_of(context)
    if not (clusters or regions) or context.services.plan is None or not context.visibility.clusters:
        return None
    return await context.services.plan(Change(lose_clusters=clusters, lose_regions=regions), context.now)


def actions_of(_: PageContext) -> Mapping[str, Action]:
    return {"patch": Action("patch", "cluster.karmada.io", "clusters")}


def toggled(words: list[str], word: str) -> str:
    """The address with one more or one less failure."""
    kept = [one for one in words if one != word] if word in words else [*words, word]
    return path_to("drill") + query_of([("fail", ",".join(kept))])


@page("drill", "drill.html", "drill", live={"pulse": PULSE_TOPICS}, actions=actions_of, prepare=prepare_drill)
def drill(context: PageContext) -> View:
    model, words = context.model, context.values("fail")
    clusters = (
        sorted(model.clusters.values(), key=lambda one: (one.region, one.name)) if context.visibility.clusters else []
    )
    regions = sorted({one.region for one in clusters if one.region})
    plan: Plan | None = context.extra
    return {
        "words": words,
        "regions": [(name, f"region:{name}" in words, toggled(words, f"region:{name}")) for name in regions],
        "clusters": [
            (one.name, f"cluster:{one.name}" in words, toggled(words, f"cluster:{one.name}"))
            for one in clusters[:MAX_NAMES]
        ],
        "more_clusters": max(0, len(clusters) - MAX_NAMES),
        "result": result_of(plan, context) if plan is not None else None,
    }


def result_of(plan: Plan, context: PageContext) -> dict[str, Any]:
    rows = [row for one in plan.workloads if is_visible(row := plan_row(one, []), context)]
    losses = {row.workload: row.lost_replicas for row in plan.workloads}
    names = sorted(one.cluster for one in plan.load if one.is_lost)
    touched = [row for row in rows if not set(names).isdisjoint(row["before"])]
    down = [row for row in touched if row["what"] == "none"]
    total, dark = len(context.model.clusters), sum(not one.is_ready for one in context.model.clusters.values())
    lost_now = [name for name in names if context.model.clusters[name].is_ready]
    arriving = sum(target.replicas for move in plan.moves for target in move.to)
    hit = sum(losses.values()) or sum(row["moved"] for row in touched)
    return {
        "names": names,
        "hit": hit,
        "landed": min(arriving, hit) if hit else arriving,
        "down": down,
        "down_replicas": sum(sum(row["before"].values()) for row in down),
        "rows": sorted(touched, key=lambda row: (row["what"] != "none", row["what"] != "wait", row["key"])),
        "flows": flows_of_plan(plan),
        "load": loads_of_plan(plan),
        "order": [one.cluster for one in sorted(plan.load, key=lambda one: (one.region, one.cluster))],
        "storm": storm_state(thresholds_of(context), dark + len(lost_now), total),
        "dark": dark + len(lost_now),
        "total": total,
        "verdict": plan.verdict.message,
        "warnings": list(plan.warnings)[:20],
        "budgets": [cost for cost in plan.budgets if cost.lost or cost.missing],
        "starts_after": plan.evacuation_starts_after,
        "refused": sum(one.action == REFUSED for one in plan.workloads),
        "can_fail": context.services.inject_fault is not None and set(names) <= context.services.simulated(),
        "confirm": names[0] if len(names) == 1 else plural(len(names), "cluster"),
        "command": "trimtab plan " + " ".join(f"--lose-{word.replace(':', ' ')}" for word in context.values("fail")),
    }


@action("drill/run")
async def run_drill(context: PageContext, client: Client, form: Form) -> str:
    """Let the simulated members of a drill really fail."""
    names = [name for name in value_of(form, "clusters").split(",") if name]
    check_typed_name(form, names[0] if len(names) == 1 else plural(len(names), "cluster"))
    if context.services.inject_fault is None or not set(names) <= context.services.simulated():
        raise ActionError("only simulated members can be failed")
    for name in names:
        await check_may_patch(client, name)
    for name in names:
        await context.services.inject_fault(name, True)
    return path_to() if len(names) > 1 else path_to("clusters", names[0])
