"""Workloads: one row per workload, one column per cluster or region; the numbers are replicas."""

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

from trimtab.api.wording import verb
from trimtab.console.facts import Facts
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.fleet import enumerate_names
from trimtab.console.permissions import sees
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import cause_text, natural_order, path_to, query_of, replaced
from trimtab.console.why import short_reason
from trimtab.console.workload_facts import MOVING, NOWHERE, PLACED, SHORT, STUCK, WAITING, Cell, WorkloadFacts

WINDOW = 100
"""Rows on one page."""
MAX_COLUMNS = 24
STATES = (
    ("", "all"),
    (f"{NOWHERE},{STUCK}", "stuck"),
    (WAITING, "waiting"),
    (SHORT, "short"),
    (MOVING, "moving"),
    (PLACED, "placed"),
)


class Column(Facts):
    """A cluster, or a region whose clusters are added up."""

    name: str
    region: str
    state: str = ""
    clusters: tuple[str, ...] = ()
    first: bool = False
    is_region: bool = False


def columns_of(context: PageContext) -> list[Column]:
    """Clusters by region; in a large fleet regions, of which some may be open."""
    if not context.visibility.clusters:
        return []
    clusters = sorted(
        context.model.clusters.values(), key=lambda one: (one.region == "", one.region, natural_order(one.name))
    )
    only = context.query.get("cluster", "")
    if only:
        clusters = [one for one in clusters if one.name == only]
    are_folded = len(clusters) > MAX_COLUMNS
    opened = set(context.values("open"))
    columns: list[Column] = []
    for region, members in groupby(clusters, key=lambda one: one.region):
        found = list(members)
        if are_folded and region not in opened:
            names = tuple(one.name for one in found)
            columns.append(
                Column(name=region or "no region", region=region, clusters=names, first=True, is_region=True)
            )
        else:
            columns += [
                Column(name=one.name, region=region, state=one.state, clusters=(one.name,), first=number == 0)
                for number, one in enumerate(found)
            ]
    return columns


def matches_words(workload: WorkloadFacts, words: list[str]) -> bool:
    """Whether each word is in the name, the namespace or a cluster, or is a label `key=value`."""
    text = workload.key.lower()
    for word in words:
        name, equals, value = word.partition("=")
        is_label = bool(equals) and workload.labels.get(name, "").lower() == value
        if not is_label and word not in text and not any(word in cluster for cluster in workload.cells):
            return False
    return True


def selected_keys(context: PageContext) -> Iterator[str]:
    """The workloads that the filters leave, in the order of their names."""
    model, visibility = context.model, context.visibility
    states, spaces = set(context.values("state")), set(context.values("ns"))
    cluster, policy, kind = (context.query.get(name, "") for name in ("cluster", "policy", "kind"))
    words = context.query.get("q", "").lower().split()
    budget = model.budgets.get(context.query.get("budget", ""))
    waiting_for = budget.name if budget is not None else ""
    for key in model.workload_keys:
        workload = model.workloads[key]
        if (
            sees(visibility.workloads, workload.namespace)
            and (not states or workload.state in states)
            and (not spaces or workload.namespace in spaces)
            and (not cluster or cluster in workload.cells)
            and (not policy or workload.policy == policy)
            and (not kind or workload.kind == kind)
            and (not waiting_for or f"budget {waiting_for}" in workload.why)
            and (not words or matches_words(workload, words))
        ):
            yield key


def main_cluster(workload: WorkloadFacts) -> str:
    """The cluster with the most replicas of a workload."""
    return max(workload.cells, key=lambda name: (workload.cells[name].shown, name), default="")


GROUPS: Mapping[str, Callable[[WorkloadFacts], str]] = {
    "ns": lambda one: one.namespace,
    "policy": lambda one: one.policy,
    "cluster": main_cluster,
}


def sort_keys(keys: list[str], context: PageContext) -> list[str]:
    order, workloads = context.query.get("sort", ""), context.model.workloads
    if order == "state":
        return sorted(keys, key=lambda key: workloads[key].severity)
    if order == "replicas":
        return sorted(keys, key=lambda key: -workloads[key].desired)
    by = context.query.get("by", "ns")
    return sorted(keys, key=lambda key: GROUPS[by](workloads[key])) if by in GROUPS and by != "ns" else keys


def merged_cell(workload: WorkloadFacts, column: Column) -> Cell | None:
    """The replicas in all clusters of a column; None when there is nothing."""
    cells = [workload.cells[name] for name in column.clusters if name in workload.cells]
    if len(cells) <= 1:
        return cells[0] if cells else None
    return Cell(**{name: sum(getattr(cell, name) for cell in cells) for name in Cell.__struct_fields__})


def heat(workload: WorkloadFacts, cell: Cell) -> int:
    """How much of the workload is in a cell: 1 to 4."""
    share = cell.shown / workload.desired if workload.desired else 1.0
    return 1 + (share > 0.15) + (share > 0.35) + (share > 0.65)


def progress_text(workload: WorkloadFacts, context: PageContext) -> str:
    """What goes on with a workload that moves or is not complete; empty for others."""
    if workload.state not in (MOVING, SHORT):
        return ""
    held, starting = (sum(getattr(cell, kind) for cell in workload.cells.values()) for kind in ("held", "starting"))
    lost_in = [name for name, cell in workload.cells.items() if cell.lost]
    lost = sum(workload.cells[name].lost for name in lost_in)
    parts = [f"{lost} lost in {enumerate_names(lost_in)}"] if lost else []
    if held and starting:
        parts.append(f"{held} {verb(held, 'stays', 'stay')} until {starting} new {verb(starting, 'is', 'are')} ready")
    elif held:
        parts.append(f"{held} {verb(held, 'is', 'are')} about to leave")
    elif starting:
        parts.append(f"{starting} {verb(starting, 'is', 'are')} starting")
    may_see = sees(context.visibility.moves, workload.namespace)
    causes = {move.cause for move in context.model.moves_in(workload.key) if not move.outcome} if may_see else set()
    cause = f"{', '.join(sorted(map(cause_text, causes)))}: " if causes and parts else ""
    return f"{cause}{', '.join(parts)}"


def workload_row(
    workload: WorkloadFacts,
    columns: list[Column],
    columns_version: Any,
    context: PageContext,
    *,
    with_namespace: bool = True,
) -> dict[str, Any]:
    reason = short_reason(workload, context) if workload.why else progress_text(workload, context)
    return {
        "id": f"w-{workload.key}",
        "version": (workload.version_of_model, columns_version, reason),
        "workload": workload,
        "reason": reason,
        "with_namespace": with_namespace,
        "_columns": columns,
        "_cells": lambda column: merged_cell(workload, column),
        "_heat": lambda cell: heat(workload, cell),
    }


def group_row(name: str, members: list[WorkloadFacts], width: int) -> dict[str, Any]:
    ready, desired = (
        sum(one.ready for one in members if one.counted),
        sum(one.desired for one in members if one.counted),
    )
    return {
        "id": f"g-{name}",
        "version": (len(members), ready, desired, width),
        "group": name or "none",
        "count": len(members),
        "ready": ready,
        "desired": desired,
        "_width": width,
    }


def rows_of(keys: list[str], context: PageContext, columns: list[Column]) -> list[dict[str, Any]]:
    workloads = [context.model.workloads[key] for key in keys]
    columns_version = hash(tuple((column.name, column.state, column.first) for column in columns))
    group_of = GROUPS.get(context.query.get("by", "ns"))
    if group_of is None or context.query.get("sort"):
        return [workload_row(workload, columns, columns_version, context) for workload in workloads]
    is_by_other = context.query.get("by", "ns") != "ns"
    rows: list[dict[str, Any]] = []
    for name, found in groupby(workloads, key=group_of):
        members = list(found)
        rows.append(group_row(name, members, len(columns) + 4))
        rows += [
            workload_row(workload, columns, columns_version, context, with_namespace=is_by_other)
            for workload in members
        ]
    return rows


def counts_of(context: PageContext) -> Mapping[str, int]:
    sums = context.model.sums(context.visibility.workloads)
    return {
        states: sum(sums.states[state] for state in states.split(",")) if states else sum(sums.states.values())
        for states, _ in STATES
    }


@page(
    "workloads",
    "workloads.html",
    "workloads",
    live={
        "pulse": PULSE_TOPICS,
        "lead": ("workloads",),
        "columns": ("clusters",),
        "chips": ("workloads",),
        "more": ("workloads",),
    },
    rows={"workload-rows": ("workload_row", "rows", ("workloads", "clusters", "moves"))},
)
def workloads(context: PageContext) -> View:
    columns = columns_of(context)
    keys = sort_keys(list(selected_keys(context)), context)
    start = int(after) if (after := context.query.get("after", "")).isdecimal() and len(after) < 9 else 0
    window = keys[start : start + WINDOW]
    sums = context.model.sums(context.visibility.workloads)
    more = path_to("workloads") + query_of([*replaced(context.query, "after", str(start + WINDOW))])
    return {
        "total": len(keys),
        "known": sum(sums.states.values()),
        "namespaces": sorted(
            name for name in context.model.namespaces() if name and sees(context.visibility.workloads, name)
        ),
        "ready": sums.ready,
        "desired": sums.desired,
        "columns": columns,
        "regions": [
            {
                "name": name,
                "width": sum(column.region == name for column in columns),
                "open": any(c.is_region for c in columns if c.region == name),
            }
            for name in dict.fromkeys(column.region for column in columns)
        ],
        "rows": rows_of(window, context, columns),
        "states": [(value, text, counts_of(context)[value]) for value, text in STATES],
        "start": start,
        "shown": len(window),
        "more": more if start + WINDOW < len(keys) else "",
        "hidden": context.visibility.hidden,
    }
