"""Fleet: is anything wrong, what needs somebody first, and where everything runs."""

from collections import Counter
from collections.abc import Iterable, Iterator

from trimtab.console.facts import DARK, DRAINING, NOWHERE, STUCK, WAITING, ClusterFacts, Facts, WorkloadFacts
from trimtab.console.page import PageContext, View, page
from trimtab.console.permissions import sees
from trimtab.console.pictures.fleet_map import MapCluster, MapFlow, MapRegion
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import cluster_path, path_to, plural, query_of, workload_path

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
    since: str = ""


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
        and (not states or cluster.state in states or ("ready" in states and cluster.is_ready))
    ]
    return sorted(found, key=lambda cluster: (cluster.region == "", cluster.region, cluster.name))


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


def map_clusters(context: PageContext, flows: Iterable[MapFlow]) -> list[MapCluster]:
    arriving: Counter[str] = Counter()
    leaving: Counter[str] = Counter()
    for flow in flows:
        arriving[flow.target] += flow.replicas
        leaving[flow.source] += flow.replicas
    return [map_cluster(one, context, arriving[one.name], leaving[one.name]) for one in shown_clusters(context)]


def grouped(clusters: Iterable[MapCluster], by: str) -> list[MapRegion]:
    groups: dict[str, list[MapCluster]] = {}
    for cluster in clusters:
        groups.setdefault(cluster.facts.provider if by == "provider" else cluster.facts.region, []).append(cluster)
    names = sorted(groups, key=lambda name: (name == "", name))
    return [MapRegion(name=name, clusters=tuple(groups[name])) for name in names]


def workload_need(workload: WorkloadFacts) -> Need:
    path = workload_path(workload.key)
    text = f"runs nowhere: {workload.why}" if workload.state == NOWHERE else f"cannot move: {workload.why}"
    return Need(
        state=workload.state, subject=workload.title, path=path, text=text, link="why not", link_path=f"{path}#why"
    )


def waiting_needs(waiting: list[WorkloadFacts]) -> Iterator[Need]:
    """Workloads that wait, grouped by what they wait for."""
    groups: dict[str, list[WorkloadFacts]] = {}
    for workload in waiting:
        groups.setdefault(workload.why, []).append(workload)
    for why, members in sorted(groups.items(), key=lambda group: -len(group[1])):
        first = members[0]
        if len(members) == 1:
            path = workload_path(first.key)
            yield Need(
                state=WAITING, subject=first.title, path=path, text=f"waits: {why}", link="details", link_path=path
            )
        else:
            path = path_to("workloads") + query_of([("state", "wait")])
            subject = plural(len(members), "workload")
            yield Need(state=WAITING, subject=subject, path=path, text=f"wait: {why}", link="show", link_path=path)


def dark_need(cluster: ClusterFacts, context: PageContext) -> Need:
    lost = context.model.cluster_sums(cluster.name, context.visibility.workloads)["lost"]
    rest = f" {plural(lost, 'replica')} of the last report may still run there." if lost else ""
    text = f"does not answer: {cluster.message or 'no reason is known'}.{rest}"
    path = cluster_path(cluster.name)
    incident = path_to("incident") + query_of([("cluster", cluster.name)])
    return Need(state=DARK, subject=cluster.name, path=path, text=text, link="incident", link_path=incident)


def needs_of(context: PageContext) -> tuple[list[Need], int]:
    """The most urgent first, and how many more there are."""
    model, visibility = context.model, context.visibility

    def visible(state: str) -> list[WorkloadFacts]:
        keys = sorted(model.by_state.get(state, ()))
        found = (model.workloads[key] for key in keys)
        return [workload for workload in found if sees(visibility.workloads, workload.namespace)]

    broken = visible(NOWHERE) + visible(STUCK)
    needs = [workload_need(workload) for workload in broken[:MAX_NEEDS]]
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
    needs += list(waiting_needs(visible(WAITING)))[:MAX_NEEDS]
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
        parts.append(f"{enumerate_names(dark)} {'does' if len(dark) == 1 else 'do'} not answer.")
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
        return f"All {len(model.clusters)} clusters are ready, all {sums.desired} replicas are up, nothing moves."
    return " ".join(parts) or "Something needs somebody."


def enumerate_names(names: list[str], most: int = 4) -> str:
    shown = names[:most]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


@page(
    "",
    "fleet.html",
    "fleet",
    live={
        "pulse": PULSE_TOPICS,
        "lead": ("clusters", "workloads", "moves"),
        "needs": ("clusters", "workloads", "rebalances"),
        "map": ("clusters", "workloads", "moves"),
    },
    rows={"cluster-rows": ("cluster_row", "rows", ("clusters", "workloads", "moves"))},
)
def fleet(context: PageContext) -> View:
    needs, more = needs_of(context)
    flows = flows_of(context)
    clusters = map_clusters(context, flows)
    regions = grouped(clusters, context.query.get("by", "region"))
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
