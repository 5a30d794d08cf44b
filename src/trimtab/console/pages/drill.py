"""Drill: what happens when clusters or regions fail now; nothing is written. Simulated members can then really fail."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from trimtab.api.wording import plural, verb
from trimtab.client.client import Client
from trimtab.console.actions import ActionError, Form, action, check_typed_name, value_of
from trimtab.console.cluster_facts import ClusterFacts
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.cluster import check_may_patch
from trimtab.console.pages.fleet import enumerate_names
from trimtab.console.pages.rebalance import (
    flows_of_plan,
    in_words,
    is_visible,
    loads_of_plan,
    plan_row,
    verdict_of,
    visible_budgets,
    visible_lines,
)
from trimtab.console.permissions import sees
from trimtab.console.pulse import PULSE_TOPICS, storm_state, thresholds_of
from trimtab.console.text import median, natural_order, path_to, query_of, span
from trimtab.console.why import filters_that_would_help
from trimtab.console.workload_facts import DIVISIONS
from trimtab.decide.request import DUPLICATED
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_result import REFUSED, Plan, PlannedWorkload
from trimtab.errors import InputError
from trimtab.server.auth.authorize import Action

MAX_NAMES = 40
MAX_FAILURES = 100
"""Clusters and regions that fail; the page has links with all of them."""
MAX_MEASURED = 200
"""Moves whose length is used to estimate how long replicas take to start."""
MAX_DOWN = 6
"""Workloads without a place for which the page says what would help."""


def failures_of(context: PageContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The clusters and the regions that fail, as the address says."""
    clusters: list[str] = []
    regions: list[str] = []
    words = context.values("fail")
    if len(words) > MAX_FAILURES:
        raise InputError(f"{len(words)} clusters and regions are more than {MAX_FAILURES}")
    for word in words:
        kind, _, name = word.partition(":")
        if kind not in ("cluster", "region") or not name:
            raise InputError(f"{word!r} is neither cluster:NAME nor region:NAME")
        (clusters if kind == "cluster" else regions).append(name)
    return tuple(clusters), tuple(regions)


def has_failures(context: PageContext) -> bool:
    return any(failures_of(context)) and context.services.plan is not None and context.visibility.clusters


async def prepare_drill(context: PageContext) -> Plan | None:
    clusters, regions = failures_of(context)
    if context.services.plan is None or not has_failures(context):
        return None
    return await context.services.plan(Change(lose_clusters=clusters, lose_regions=regions), context.now, context.user)


def actions_of(_: PageContext) -> Mapping[str, Action]:
    return {"patch": Action("patch", "cluster.karmada.io", "clusters")}


def path_with_toggled_failure(words: list[str], word: str) -> str:
    """The address with one more or one less failure."""
    kept = [one for one in words if one != word] if word in words else [*words, word]
    return path_to("drill") + query_of([("fail", ",".join(kept))])


@page(
    "drill",
    "drill.html",
    "drill",
    live={"pulse": PULSE_TOPICS, "exposure": ("clusters", "workloads")},
    actions=actions_of,
    prepare=prepare_drill,
    is_slow=has_failures,
)
def drill(context: PageContext) -> View:
    model, words = context.model, context.values("fail")
    clusters = (
        sorted(model.clusters.values(), key=lambda one: (one.region, natural_order(one.name)))
        if context.visibility.clusters
        else []
    )
    regions = sorted({one.region for one in clusters if one.region})
    plan: Plan | None = context.extra
    return {
        "words": words,
        "names": [word.partition(":")[2] for word in words],
        "regions": [
            (name, f"region:{name}" in words, path_with_toggled_failure(words, f"region:{name}")) for name in regions
        ],
        "clusters": [
            (one.name, f"cluster:{one.name}" in words, path_with_toggled_failure(words, f"cluster:{one.name}"))
            for one in clusters[:MAX_NAMES]
        ],
        "exposure": exposure(clusters, context) if not words else [],
        "more_clusters": max(0, len(clusters) - MAX_NAMES),
        "is_pending": context.is_pending,
        "result": result_of(plan, context) if plan is not None else None,
    }


def exposure(clusters: Iterable[ClusterFacts], context: PageContext) -> list[dict[str, Any]]:
    """What each cluster has to lose: its workloads and replicas, and the workloads that run nowhere else."""
    only: Counter[str] = Counter()
    for one in context.model.workloads.values():
        if len(one.cells) == 1 and sees(context.visibility.workloads, one.namespace):
            only[next(iter(one.cells))] += 1
    rows: list[dict[str, Any]] = []
    for cluster in clusters:
        sums = context.model.cluster_sums(cluster.name, context.visibility.workloads)
        rows.append(
            {
                "cluster": cluster,
                "workloads": sums["workloads"],
                "replicas": sums["ready"] + sums["held"] + sums["blocked"],
                "only": only[cluster.name],
                "path": path_to("drill") + query_of([("fail", f"cluster:{cluster.name}")]),
            }
        )
    return sorted(rows, key=lambda row: (-row["only"], -row["replicas"], row["cluster"].name))[:MAX_NAMES]


def drill_row(one: PlannedWorkload, plan: Plan, names: list[str], context: PageContext) -> dict[str, Any]:
    """A workload that loses replicas: how many, and how many of them start elsewhere."""
    row = in_words(plan_row(one, []), context)
    known = context.model.workloads.get(row["key"])
    is_copied = known is not None and known.how == DIVISIONS[DUPLICATED]
    lost = sum(row["before"].get(name, 0) for name in names)
    landed = sum(
        target.replicas
        for move in plan.moves
        if move.workload == one.workload and move.source in names
        for target in move.to
    )
    if one.action == REFUSED:
        what, text = "none", row["note"]
    elif not lost or is_copied:
        what, text = "go", "the copies in other clusters go on"
    elif landed < lost:
        what, text = "wait", f"{landed} of {lost} start elsewhere"
    else:
        what, text = "go", "all start elsewhere"
    return {**row, "what": what, "outcome": text, "lost": lost, "landed": landed, "is_copied": is_copied}


def result_of(plan: Plan, context: PageContext) -> dict[str, Any]:
    names = sorted(one.cluster for one in plan.load if one.is_lost)
    touched = [one for one in plan.workloads if any(target.name in names for target in one.before)]
    rows = [row for one in touched if is_visible(row := drill_row(one, plan, names, context), context)]
    rows.sort(key=lambda row: (row["what"] != "none", row["what"] != "wait", row["key"]))
    down = [row for row in rows if row["what"] == "none"]
    total, dark = len(context.model.clusters), sum(not one.is_ready for one in context.model.clusters.values())
    newly_dark = [name for name in names if context.model.clusters[name].is_ready]
    storm = storm_state(thresholds_of(context), dark + len(newly_dark), total)
    return {
        "names": names,
        "hit": sum(row["lost"] for row in rows),
        "landed": sum(row["landed"] for row in rows),
        "fates": fates_of(rows),
        "title": title_of(context),
        "who": f"{enumerate_names(names)} {verb(len(names), 'fails', 'fail')}."
        if failures_of(context)[1] and names
        else "",
        "down": [{**row, "help": help_for(row["key"], names, context)} for row in down[:MAX_DOWN]],
        "down_count": len(down),
        "down_replicas": sum(row["lost"] for row in down),
        "rows": rows,
        "flows": [flow for flow in flows_of_plan(plan, context) if flow.source in names],
        "load": loads_of_plan(plan),
        "order": [one.cluster for one in sorted(plan.load, key=lambda one: (one.region, one.cluster))],
        "storm": storm,
        "dark": dark + len(newly_dark),
        "total": total,
        "verdict": verdict_of(plan, context),
        "warnings": visible_lines(plan.warnings, context)[:20],
        "budgets": [cost for cost in visible_budgets(plan, context) if cost.lost or cost.missing],
        "starts_after": plan.evacuation_starts_after,
        "timeline": timeline_of(plan, storm, context),
        "story": story_of(names),
        "can_fail": context.services.inject_fault is not None and set(names) <= context.services.simulated(),
        "confirm": names[0] if len(names) == 1 else plural(len(names), "cluster"),
        "command": "trimtab plan " + " ".join(f"--lose-{word.replace(':', ' ')}" for word in context.values("fail")),
    }


def title_of(context: PageContext) -> str:
    """The regions and clusters that were chosen, as a question."""
    clusters, regions = failures_of(context)
    chosen = [*(f"the region {name}" for name in regions), *clusters]
    return f"What if {enumerate_names(chosen)} {verb(len(chosen), 'fails', 'fail')}?"


def fates_of(rows: list[dict[str, Any]]) -> list[str]:
    """What becomes of the replicas that lose their place; the counts add up to all of them."""
    landed = sum(row["landed"] for row in rows)
    copies = sum(row["lost"] for row in rows if row["is_copied"] and row["what"] == "go")
    down = sum(row["lost"] for row in rows if row["what"] == "none")
    short = sum(row["lost"] - row["landed"] for row in rows if row["what"] == "wait")
    return [
        text
        for count, text in (
            (landed, f"{landed} {verb(landed, 'starts', 'start')} elsewhere"),
            (copies, f"{copies} {verb(copies, 'is a copy', 'are copies')} of what goes on in other clusters"),
            (short, f"{short} {verb(short, 'has', 'have')} no room elsewhere"),
            (down, f"{down} {verb(down, 'finds', 'find')} no place"),
        )
        if count
    ]


def story_of(names: list[str]) -> str:
    """The drill as a story, to be played on a snapshot of this fleet."""
    steps = "".join(f"- fail: {{cluster: {name}}}\n" for name in names)
    return (
        f"# trimtab snapshot -o fleet.json && trimtab play --from fleet.json lose.yaml\n"
        f"name: Lose {', '.join(names)}\ntimeline:\n{steps}- wait: 15m\n"
        f"expect:\n- that: count(ResourceBinding/*) > 0\n"
    )


def help_for(key: str, names: list[str], context: PageContext) -> str:
    """What would give a workload a place: the filter that alone keeps most of the other clusters away."""
    binding = context.model.bindings.get(key)
    return filters_that_would_help(binding, context, without=names) if binding is not None else ""


def timeline_of(plan: Plan, storm: str, context: PageContext) -> list[tuple[str, str, str]]:
    """When what happens after the failure: a state, the time, and a sentence."""
    threshold = float(context.services.setting("cluster-failure-threshold"))
    one = sum(load.is_lost for load in plan.load) == 1
    steps = [
        ("dark", "0 s", f"The {'cluster fails; its' if one else 'clusters fail; their'} replicas are lost."),
        ("wait", span(threshold), f"{'It is' if one else 'They are'} marked not ready; nothing new is placed there."),
    ]
    if storm == "stop":
        return [
            *steps,
            ("stuck", "", "The storm brake stops evictions until clusters answer again: nothing is replaced."),
        ]
    if plan.evacuation_starts_after is None:
        return [*steps, ("stuck", "", "This profile never evicts by itself: nothing is replaced until a person acts.")]
    slow = ", slowed by the storm brake" if storm == "slow" else ""
    steps.append(("drain", span(plan.evacuation_starts_after), f"Evictions begin{slow}; replacements start elsewhere."))
    took = median(measured_starts(context))
    if took is not None:
        done = plan.evacuation_starts_after + took
        steps.append(
            ("done", span(done), f"Replacements are ready, if they start as fast as moves of late ({span(took)}).")
        )
    return steps


def measured_starts(context: PageContext) -> list[float]:
    """How long the latest moves took until their replacement was ready, in seconds."""
    found: list[float] = []
    for move in context.model.latest_moves(context.visibility.moves):
        if move.outcome == "Done" and move.targets and move.seconds is not None:
            found.append(move.seconds)
            if len(found) >= MAX_MEASURED:
                break
    return found


@action("drill/run")
async def run_drill(context: PageContext, client: Client, form: Form) -> str:
    """Let the simulated members of a drill really fail."""
    names = simulated_clusters(form, context)
    check_typed_name(form, names[0] if len(names) == 1 else plural(len(names), "cluster"))
    await set_faults(names, context, client, down=True)
    return path_to() if len(names) > 1 else path_to("clusters", names[0])


@action("drill/recover")
async def recover_members(context: PageContext, client: Client, form: Form) -> str:
    """End all faults of simulated members."""
    await set_faults(simulated_clusters(form, context), context, client, down=False)
    return path_to()


def simulated_clusters(form: Form, context: PageContext) -> list[str]:
    """The clusters of a form, all of which can fail and recover by hand."""
    names = list(dict.fromkeys(name for name in value_of(form, "clusters").split(",") if name))
    if not names:
        raise ActionError("choose clusters first")
    if context.services.inject_fault is None or not set(names) <= context.services.simulated():
        raise ActionError("only simulated members can fail and recover by hand")
    return names


async def set_faults(names: list[str], context: PageContext, client: Client, *, down: bool) -> None:
    """Let members fail or recover, if the user may patch every one of them."""
    for name in names:
        await check_may_patch(client, name)
    if context.services.inject_fault is not None:
        for name in names:
            await context.services.inject_fault(name, down)
