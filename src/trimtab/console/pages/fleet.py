"""Fleet: is anything wrong, what needs somebody first, and where everything runs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from trimtab.api.wording import plural
from trimtab.console.cluster_facts import DARK, DRAINING, ClusterFacts
from trimtab.console.facts import BudgetFacts, Facts, MoveFacts
from trimtab.console.page import PageContext, View, page
from trimtab.console.permissions import sees
from trimtab.console.pictures.fleet_map import MapCluster, MapFlow, MapRegion
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import cluster_path, natural_order, path_to, query_of, reason_text, workload_path
from trimtab.console.why import short_reason
from trimtab.console.workload_facts import NOWHERE, STUCK, WAITING, WorkloadFacts
from trimtab.server.auth.authorize import Action

MAX_NEEDS = 8
MAX_ROWS = 400


class Need(Facts):
    """Something that needs somebody."""

    state: str
    subject: str
    path: str
    text: str
    link: str = ""
    """The word of the link at the end."""
    link_path: str = ""
    since: datetime | None = None
    until: datetime | None = None
    """When time alone helps."""


def shown_clusters(context: PageContext) -> list[ClusterFacts]:
    """The clusters that the filters leave, by region and name."""
    if not context.visibility.clusters:
        return []
    regions, providers, states = context.values("region"), context.values("provider"), context.values("state")
    found = [
        cluster
        for cluster in context.model.clusters.values()
        if (not regions or cluster.region in regions)
        and (not providers or cluster.provider in providers)
        and (not states or any(is_in_state(cluster, state) for state in states))
    ]
    return sorted(found, key=lambda cluster: (cluster.region == "", cluster.region, natural_order(cluster.name)))


def is_in_state(cluster: ClusterFacts, state: str) -> bool:
    """Whether a filter selects a cluster: by its state, or by a word of the address."""
    return cluster.state == {"draining": DRAINING}.get(state, state) or (state == "ready" and cluster.is_ready)


def map_cluster(cluster: ClusterFacts, context: PageContext, arriving: int = 0, leaving: int = 0) -> MapCluster:
    counts = context.model.cluster_sums(cluster.name, context.visibility.workloads)
    runs = tuple((kind, counts[field]) for kind, field in RUN_FIELDS)
    return MapCluster(facts=cluster, runs=runs, workloads=counts["workloads"], arriving=arriving, leaving=leaving)


RUN_FIELDS = (("ready", "ready"), ("held", "held"), ("blocked", "blocked"), ("start", "starting"), ("lost", "lost"))


def flows_of(context: PageContext) -> list[MapFlow]:
    flows = context.model.sums(context.visibility.moves).flows
    return [
        MapFlow(source=source, target=target, cause=cause, replicas=replicas)
        for (source, target, cause), replicas in sorted(flows.items())
        if replicas > 0
    ]


def flows_between(moves: Iterable[MoveFacts]) -> list[MapFlow]:
    """The replicas that these moves bring from one cluster to another."""
    sums: dict[tuple[str, str, str], int] = {}
    for move in moves:
        for target, count in move.targets:
            flow = (move.source, target, move.cause)
            sums[flow] = sums.get(flow, 0) + count
    return [MapFlow(source=a, target=b, cause=cause, replicas=count) for (a, b, cause), count in sorted(sums.items())]


def map_clusters(context: PageContext, flows: Iterable[MapFlow]) -> list[MapCluster]:
    arriving: Counter[str] = Counter()
    leaving: Counter[str] = Counter()
    for flow in flows:
        arriving[flow.target] += flow.replicas
        leaving[flow.source] += flow.replicas
    return [map_cluster(one, context, arriving[one.name], leaving[one.name]) for one in shown_clusters(context)]


def group_by_place(clusters: Iterable[MapCluster], by: str) -> list[MapRegion]:
    groups: dict[str, list[MapCluster]] = {}
    for cluster in clusters:
        groups.setdefault(cluster.facts.provider if by == "provider" else cluster.facts.region, []).append(cluster)
    names = sorted(groups, key=lambda name: (name == "", name))
    return [MapRegion(name=name, clusters=tuple(groups[name])) for name in names]


def workload_need(workload: WorkloadFacts, context: PageContext) -> Need:
    path = workload_path(workload.key)
    why = short_reason(workload, context)
    text = f"runs nowhere: {why}" if workload.state == NOWHERE else f"is stuck: {why}"
    return Need(
        state=workload.state,
        subject=workload.title,
        path=path,
        text=text,
        link="why not",
        link_path=f"{path}#why",
        since=workload.since,
    )


def budget_in(why: str, namespace: str, context: PageContext) -> BudgetFacts | None:
    """The budget that a message names, if the user may see it."""
    if not sees(context.visibility.budgets, namespace):
        return None
    for budget in context.model.budgets.values():
        if budget.namespace == namespace and f"budget {budget.name}:" in why:
            return budget
    return None


def waiting_needs(waiting: list[WorkloadFacts], context: PageContext) -> Iterator[Need]:
    """Workloads that wait, grouped by what they wait for."""
    groups: dict[str, list[WorkloadFacts]] = {}
    for workload in waiting:
        if workload.needs_approval:
            path = workload_path(workload.key)
            text = f"waits: {short_reason(workload, context)}"
            yield Need(
                state=WAITING, subject=workload.title, path=path, text=text, link="approve", link_path=path,
                since=workload.since,
            )  # fmt: skip
            continue
        groups.setdefault(workload.why, []).append(workload)
    for why, members in sorted(groups.items(), key=lambda group: -len(group[1])):
        first = members[0]
        budget = budget_in(why, first.namespace, context)
        single = len(members) == 1
        path = workload_path(first.key) if single else path_to("workloads") + query_of([("state", "wait")])
        yield Need(
            state=WAITING,
            subject=first.title if single else plural(len(members), "workload"),
            path=path,
            text=f"{'waits' if single else 'wait'}: {reason_text(why, context.now)}"
            + (";" if budget is not None and not budget.open and budget.next_allowed_at else ""),
            link="budget" if budget is not None else "details",
            link_path=f"{path_to('budgets')}#b-{budget.key}" if budget is not None else path,
            until=budget.next_allowed_at if budget is not None and not budget.open else None,
        )


def dark_need(cluster: ClusterFacts, context: PageContext) -> Need:
    last = last_known_replicas(cluster, context)
    rest = f" Its last known {plural(last, 'replica')} may still run." if last else ""
    text = f"does not answer: {cluster.message or 'no reason is known'}.{rest}"
    path = cluster_path(cluster.name)
    incident = path_to("incident") + query_of([("cluster", cluster.name)])
    return Need(
        state=DARK, subject=cluster.name, path=path, text=text, link="incident", link_path=incident, since=cluster.since
    )


def last_known_replicas(cluster: ClusterFacts, context: PageContext) -> int:
    """The replicas that a cluster had when it answered last: those still placed there, and those that have left since."""
    lost = context.model.cluster_sums(cluster.name, context.visibility.workloads)["lost"]
    return lost + context.model.replicas_that_left(cluster.name, cluster.since, context.visibility.moves)


def needs_of(context: PageContext) -> tuple[list[Need], int]:
    """The most urgent first, and how many more there are."""
    model, visibility = context.model, context.visibility

    def visible(state: str) -> list[WorkloadFacts]:
        keys = sorted(model.by_state.get(state, ()))
        found = (model.workloads[key] for key in keys)
        return [workload for workload in found if sees(visibility.workloads, workload.namespace)]

    broken = visible(NOWHERE) + visible(STUCK)
    needs = [workload_need(workload, context) for workload in broken[:MAX_NEEDS]]
    dark = [cluster for cluster in model.clusters.values() if cluster.state == DARK] if visibility.clusters else []
    needs += [dark_need(cluster, context) for cluster in sorted(dark, key=lambda one: one.name)[:MAX_NEEDS]]
    if visibility.rebalances:
        needs += [
            Need(
                state=STUCK,
                subject=f"rebalance {job.name}",
                path=path_to("rebalance", job.name),
                text=job.stalled,
                link="rebalance",
                link_path=path_to("rebalance", job.name),
            )
            for job in model.rebalances.values()
            if job.stalled and job.finished is None
        ][:MAX_NEEDS]
    needs += list(waiting_needs(visible(WAITING), context))[:MAX_NEEDS]
    total = len(broken) + len(dark) + (len(needs) - min(len(broken), MAX_NEEDS) - min(len(dark), MAX_NEEDS))
    return needs[:MAX_NEEDS], max(0, total - MAX_NEEDS)


def sentence(context: PageContext, needs: list[Need]) -> str:
    """The answer to: is anything wrong?"""
    model, visibility = context.model, context.visibility
    if not visibility.clusters:
        return "You may not list clusters; your workloads are on the page Workloads."
    if not model.clusters:
        return "No cluster has joined yet. Let one join with: trimtab join NAME --kubeconfig FILE"
    dark = sorted(one.name for one in model.clusters.values() if one.state == DARK)
    drained = sorted(one.name for one in model.clusters.values() if one.state == DRAINING)
    sums = model.sums(visibility.workloads)
    parts: list[str] = []
    if dark:
        parts.append(
            f"{enumerate_names(dark)} {'does' if len(dark) == 1 else 'do'} not answer{dark_outlook(dark, context)}."
        )
    if faults := fault_text(context):
        parts.append(faults)
    if drained:
        parts.append(f"{enumerate_names(drained)} {'is' if len(drained) == 1 else 'are'} being drained.")
    if sums.ready < sums.desired:
        parts.append(
            f"{plural(sums.desired - sums.ready, 'replica')} of {sums.desired} {'is' if sums.desired - sums.ready == 1 else 'are'} not ready."
        )
    moving = model.sums(visibility.moves)
    if moving.moves:
        parts.append(f"{plural(moving.moves, 'move')} with {plural(moving.moving_replicas, 'replica')} in progress.")
    if not parts and not needs:
        placed = (
            f"{'the replica is' if sums.desired == 1 else f'all {sums.desired} replicas are'} up, nothing moves"
            if sums.desired
            else "nothing is placed yet"
        )
        return f"{'The cluster is' if len(model.clusters) == 1 else f'All {len(model.clusters)} clusters are'} ready, {placed}."
    return " ".join(parts) or "Something needs somebody."


def fault_text(context: PageContext) -> str:
    """What somebody broke by hand in simulated members that still count as ready."""
    found = {
        name: what
        for name, what in context.services.faults().items()
        if name in context.model.clusters and context.model.clusters[name].state != DARK
    }
    if not found:
        return ""
    if len(found) > 1:
        return f"Faults were injected into {enumerate_names(sorted(found))}."
    ((name, what),) = found.items()
    return f"A fault was injected into {name}: {what}."


def dark_outlook(names: list[str], context: PageContext) -> str:
    """What becomes of the replicas in clusters that do not answer."""
    lost = sum(context.model.cluster_sums(name, context.visibility.workloads)["lost"] for name in names)
    if not lost:
        return "; all workloads have left"
    due = min(
        (at for name in names if (at := eviction_due(context.model.clusters[name], context)) is not None), default=None
    )
    if due is None or due <= context.now:
        return f"; {plural(lost, 'replica')} {'is' if lost == 1 else 'are'} still to be replaced"
    return f"; {plural(lost, 'replica')} {'is' if lost == 1 else 'are'} replaced elsewhere from {due:%H:%M:%S} on"


def eviction_due(cluster: ClusterFacts, context: PageContext) -> datetime | None:
    """When workloads are evicted from a cluster that does not answer; None when they never are."""
    seconds = float(context.services.setting("evacuate-after-seconds") or 0)
    return cluster.since + timedelta(seconds=seconds) if cluster.since is not None and seconds else None


def enumerate_names(names: list[str], most: int = 4) -> str:
    shown = names[:most]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def faulty_members(context: PageContext) -> list[str]:
    """Simulated members in which a fault was injected, which the console can end."""
    if context.services.inject_fault is None or not context.visibility.clusters:
        return []
    return sorted(name for name in context.services.faults() if name in context.model.clusters)


def actions_of(_: PageContext) -> Mapping[str, Action]:
    return {"patch": Action("patch", "cluster.karmada.io", "clusters")}


@page(
    "",
    "fleet.html",
    "fleet",
    live={
        "pulse": PULSE_TOPICS,
        "lead": ("clusters", "workloads", "moves"),
        "needs": ("clusters", "workloads", "rebalances"),
        "map": ("clusters", "workloads", "moves"),
        "start": ("workloads",),
        "faults": ("clusters",),
        "forms": ("clusters",),
    },
    rows={"cluster-rows": ("cluster_row", "rows", ("clusters", "workloads", "moves"))},
    actions=actions_of,
)
def fleet(context: PageContext) -> View:
    needs, more = needs_of(context)
    flows = flows_of(context)
    clusters = map_clusters(context, flows)
    regions = group_by_place(clusters, context.query.get("by", "region"))
    everything = context.model.clusters.values() if context.visibility.clusters else ()
    return {
        "sentence": sentence(context, needs),
        "needs": needs,
        "more_needs": more,
        "regions": regions,
        "flows": flows,
        "rows": [cluster_row(cluster) for region in regions for cluster in region.clusters][:MAX_ROWS],
        "count": len(clusters),
        "known_regions": sorted({one.region for one in everything if one.region}),
        "known_providers": sorted({one.provider for one in everything if one.provider}),
        "has_workloads": bool(context.model.workloads),
        "faulty": faulty_members(context),
    }


def cluster_row(cluster: MapCluster) -> dict[str, object]:
    """A row of the table below the map."""
    counts = dict(cluster.runs)
    return {
        "id": f"c-{cluster.facts.name}",
        "version": (cluster.facts.version_of_model, cluster.runs, cluster.workloads, cluster.arriving, cluster.leaving),
        "cluster": cluster.facts,
        "workloads": cluster.workloads,
        "replicas": counts["ready"] + counts["held"] + counts["blocked"],
        "starting": counts["start"],
        "lost": counts["lost"],
        "arriving": cluster.arriving,
        "leaving": cluster.leaving,
    }
