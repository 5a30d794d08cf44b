"""Cluster: its facts, the workloads in it with their outlook, and what lets workloads leave."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import CORDON_TAINT, Cluster
from trimtab.api.wording import plural, verb
from trimtab.client.client import Client, resource_of
from trimtab.console.actions import FIELD_MANAGER, ActionError, Form, action, check_typed_name
from trimtab.console.cluster_facts import DARK, DRAINING, JOINING, ClusterFacts
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.fleet import eviction_due, flows_of, last_known_replicas, map_cluster
from trimtab.console.pages.moves import move_rows
from trimtab.console.permissions import sees
from trimtab.console.pulse import PULSE_TOPICS, pulse_of
from trimtab.console.text import ago, cluster_path, day_time, parse_time
from trimtab.console.why import short_reason
from trimtab.console.workload_facts import WorkloadFacts
from trimtab.controllers.movement.taint_eviction import no_execute_taints
from trimtab.controllers.well_known import DRAIN, REQUESTER
from trimtab.errors import NotFound
from trimtab.server.auth.authorize import Action

CLUSTERS = resource_of(kind_of(Cluster))
CORDONED_BEFORE = "cordoned-before"
MAX_ROWS = 200
MAX_MOVES = 40


def cluster_of(context: PageContext) -> ClusterFacts:
    found = context.model.clusters.get(context.segments[0]) if context.visibility.clusters else None
    if found is None:
        raise NotFound(f"there is no cluster {context.segments[0]}, or you may not see it")
    return found


def fate_of_lost(cluster: ClusterFacts, context: PageContext) -> str:
    """What happens to replicas in a cluster that does not answer."""
    due = eviction_due(cluster, context)
    if due is None:
        return "stays until the cluster answers again: this profile does not evict by itself"
    if pulse_of(context).storm == "stop":
        return "stays until the storm brake allows evictions"
    return f"is replaced elsewhere {'soon' if due <= context.now else f'from {due:%H:%M:%S} on'}, unless the cluster answers"


def outlook(
    workload: WorkloadFacts, name: str, cluster: ClusterFacts, fate: str, why: str, *, is_moving: bool
) -> tuple[str, str]:
    """What will happen to the replicas in this cluster: a style and a text; `fate` is that of lost ones, `why` what blocks it."""
    cell = workload.cells[name]
    if cell.lost and is_moving:
        return "move", f"{'its replacement starts' if cell.lost == 1 else 'replacements start'} elsewhere"
    if cell.lost:
        return "bad", why or fate
    if cell.held:
        return (
            "move",
            f"leaves when {'its replacement is' if cell.held == 1 else f'{cell.held} replacements are'} ready",
        )
    if cell.blocked:
        return ("wait" if workload.state == "wait" else "bad"), why
    if cluster.state == DRAINING:
        return "wait", why or "is about to leave"
    if cell.starting:
        return "move", f"{cell.starting} starting here"
    return "faint", "stays"


def workload_rows(context: PageContext, cluster: ClusterFacts) -> list[dict[str, Any]]:
    keys = sorted(context.model.in_cluster.get(cluster.name, ()))
    found = [context.model.workloads[key] for key in keys]
    shown = [one for one in found if sees(context.visibility.workloads, one.namespace)]
    rows = []
    fate = fate_of_lost(cluster, context) if cluster.state == DARK else ""
    for workload in sorted(shown, key=lambda one: (one.severity, one.key))[:MAX_ROWS]:
        is_moving = any(
            move.source == cluster.name and not move.outcome for move in context.model.moves_in(workload.key)
        )
        why = short_reason(workload, context)
        style, text = outlook(workload, cluster.name, cluster, fate, why, is_moving=is_moving)
        rows.append(
            {
                "id": f"w-{workload.key}",
                "version": (workload.version_of_model, style, text),
                "workload": workload,
                "cell": workload.cells[cluster.name],
                "style": style,
                "outlook": text,
            }
        )
    return rows


def taint_text(context: PageContext, cluster: ClusterFacts) -> str:
    taints = no_execute_taints(context.model.typed_clusters[cluster.name])
    if taints:
        return ", ".join(
            f"{taint.key}" + (f" since {taint.time_added:%H:%M:%S}" if taint.time_added else "") for taint in taints
        )
    seconds = context.services.setting("evacuate-after-seconds")
    if cluster.state != DARK or cluster.since is None or not seconds:
        return "none"
    due = cluster.since + timedelta(seconds=float(seconds))
    return f"none yet; set at {due:%H:%M:%S} if the cluster still does not answer"


def lead_of(context: PageContext, cluster: ClusterFacts, counts: Mapping[str, int]) -> str:
    here = f"{plural(counts['workloads'], 'workload')} with {plural(counts['ready'] + counts['held'] + counts['blocked'], 'ready replica')}"
    if cluster.state == DARK:
        last = last_known_replicas(cluster, context)
        left = "" if counts["lost"] else " All workloads have left it."
        known = f" Its last known {plural(last, 'replica')} may still run." if last else ""
        return f"Does not answer: {cluster.message or 'no reason is known'}.{left}{known}"
    if cluster.state == DRAINING:
        by = f" by {cluster.drain_by}" if cluster.drain_by else ""
        return f"Is being drained{by}. {remaining_text(here, counts)}"
    if cluster.state == JOINING:
        return f"Has joined and has not reported its state yet. {here}."
    starting = f", {counts['starting']} starting" if counts["starting"] else ""
    return f"Ready for {ago(cluster.since, context.now)}. {here}{starting}."


def remaining_text(here: str, counts: Mapping[str, int]) -> str:
    """What a drain has still to move, and what that waits for."""
    if not counts["workloads"]:
        return "All workloads have left it."
    held, blocked = counts["held"], counts["blocked"]
    waits = [f"{held} {verb(held, 'waits for its', 'wait for their')} replacement"] if held else []
    waits += [f"{blocked} {verb(blocked, 'waits', 'wait')} for a budget or another cluster"] if blocked else []
    return f"{here} {verb(counts['workloads'], 'remains', 'remain')}{'; ' if waits else ''}{', '.join(waits)}."


def fault_note(context: PageContext, cluster: ClusterFacts) -> str:
    """What somebody broke by hand in this simulated member, and when the control plane notices."""
    what = context.services.faults().get(cluster.name)
    if what is None and cluster.state == DARK and cluster.name in context.services.simulated():
        healthy = float(context.services.setting("cluster-success-threshold"))
        return f"No fault is injected any more: it counts as ready when it has answered for {healthy:g} s."
    if what is None:
        return ""
    seconds = float(context.services.setting("cluster-failure-threshold"))
    later = "" if cluster.state == DARK else f" It counts as ready until it has not answered for {seconds:g} s."
    return f"A fault was injected: {what}.{later}"


def actions_of(context: PageContext) -> Mapping[str, Action]:
    name = context.segments[0]
    return {"patch": Action("patch", "cluster.karmada.io", "clusters", name=name)}


def drain_time(cluster: ClusterFacts, now: datetime) -> str:
    """When the drain began; what somebody wrote by hand is shown as it is."""
    began = parse_time(cluster.drain_since)
    return day_time(began, now) if began is not None else cluster.drain_since


@page(
    "clusters/{name}",
    "cluster.html",
    "fleet",
    live={
        "pulse": PULSE_TOPICS,
        "lead": ("cluster:*", "in:*"),
        "buttons": ("cluster:*",),
        "facts": ("cluster:*", "in:*", "moves"),
        "leave": ("clusters", "policy"),
        "about": ("cluster:*",),
        "timeline": ("events:Cluster//*",),
    },
    rows={
        "workload-rows": ("cluster_workload_row", "rows", ("in:*", "cluster:*")),
        "move-rows": ("move_row", "moves", ("moves",)),
    },
    actions=actions_of,
)
def cluster(context: PageContext) -> View:
    facts = cluster_of(context)
    counts = context.model.cluster_sums(facts.name, context.visibility.workloads)
    flows = flows_of(context)
    moves = [
        move
        for move in context.model.latest_moves(context.visibility.moves)
        if facts.name in (move.source, *(name for name, _ in move.targets))
    ][:MAX_MOVES]
    events = context.model.events.get(("Cluster", "", facts.name), {})
    return {
        "cluster": facts,
        "sentence": lead_of(context, facts, counts),
        "last_seen": ", last seen" if facts.state == DARK else "",
        "map": map_cluster(facts, context),
        "loads": context.services.loads(facts.name),
        "arriving": sum(flow.replicas for flow in flows if flow.target == facts.name),
        "leaving": sum(flow.replicas for flow in flows if flow.source == facts.name),
        "rows": workload_rows(context, facts),
        "workloads": counts["workloads"],
        "replicas": counts["ready"] + counts["held"] + counts["blocked"],
        "taint": taint_text(context, facts),
        "drain_since": drain_time(facts, context.now),
        "storm": pulse_of(context).storm,
        "moves": move_rows(moves, context, wide=False),
        "events": sorted(events.values(), key=lambda event: event.at, reverse=True)[:30],
        "simulated": facts.name in context.services.simulated(),
        "fault": fault_note(context, facts),
        "can_fail": context.services.inject_fault is not None and facts.name in context.services.simulated(),
    }


def is_cordoned(raw: Mapping[str, Any]) -> bool:
    return any(taint["key"] == CORDON_TAINT for taint in raw["spec"].get("taints") or [])


async def patch_marks(
    client: Client, name: str, drain: str | None, *, cordoned: bool, raw: Mapping[str, Any], user: str | None = None
) -> None:
    """Set or remove the drain annotation and the cordon taint, if the cluster was not written meanwhile."""
    taints = [taint for taint in raw["spec"].get("taints") or [] if taint["key"] != CORDON_TAINT]
    if cordoned:
        taints.append({"key": CORDON_TAINT, "effect": "NoSchedule"})
    patch = {
        "metadata": {
            "annotations": {DRAIN: drain, REQUESTER: user},
            "resourceVersion": raw["metadata"]["resourceVersion"],
        },
        "spec": {"taints": taints or None},
    }
    await client.patch(CLUSTERS, "", name, patch, manager=FIELD_MANAGER)


@action("clusters/{name}/drain")
async def drain(context: PageContext, client: Client, form: Form) -> str:
    """Cordon the cluster and move its workloads out, within all budgets."""
    (name,) = context.segments
    check_typed_name(form, name)
    raw = await client.get(CLUSTERS, "", name)
    if (raw["metadata"].get("annotations") or {}).get(DRAIN):
        raise ActionError(f"{name} is being drained already")
    since = context.now.isoformat(timespec="seconds")
    mark = f"{since} {CORDONED_BEFORE}" if is_cordoned(raw) else since
    await patch_marks(client, name, mark, cordoned=True, raw=raw, user=context.user)
    return cluster_path(name)


@action("clusters/{name}/undrain")
async def undrain(context: PageContext, client: Client, form: Form) -> str:
    """End the drain; the cluster stays cordoned if it was cordoned before."""
    (name,) = context.segments
    raw = await client.get(CLUSTERS, "", name)
    mark = (raw["metadata"].get("annotations") or {}).get(DRAIN, "")
    await patch_marks(client, name, None, cordoned=CORDONED_BEFORE in mark, raw=raw)
    return cluster_path(name)


@action("clusters/{name}/uncordon")
async def uncordon(context: PageContext, client: Client, form: Form) -> str:
    (name,) = context.segments
    await patch_marks(client, name, None, cordoned=False, raw=await client.get(CLUSTERS, "", name))
    return cluster_path(name)


async def check_may_patch(client: Client, name: str) -> None:
    """Faults of simulated members are no objects: who may patch the cluster may cause them."""
    raw = await client.get(CLUSTERS, "", name)
    version = {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}}
    await client.patch(CLUSTERS, "", name, version, manager=FIELD_MANAGER)


@action("clusters/{name}/fail")
async def fail(context: PageContext, client: Client, form: Form) -> str:
    """Let a simulated member fail."""
    (name,) = context.segments
    check_typed_name(form, name)
    if context.services.inject_fault is None:
        raise ActionError("only simulated members can be failed")
    await check_may_patch(client, name)
    await context.services.inject_fault(name, True)
    return cluster_path(name)


@action("clusters/{name}/recover")
async def recover(context: PageContext, client: Client, form: Form) -> str:
    (name,) = context.segments
    if context.services.inject_fault is None:
        raise ActionError("only simulated members can recover")
    await check_may_patch(client, name)
    await context.services.inject_fault(name, False)
    return cluster_path(name)
