"""Reference scheduler for tests: evaluates one cluster after the other, without arrays or shortcuts."""

from fractions import Fraction
from math import ceil
from typing import Any

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.quantity import parse_quantity
from trimtab.decide.feasible import filters_for
from trimtab.decide.fleet import Fleet
from trimtab.decide.request import AGGREGATED, DUPLICATED, STATIC, PlacementRequest

ReplicasOrError = dict[str, int] | str
"""Replicas by cluster, or an error message."""


class ClusterInfo:
    def __init__(self, cluster: Cluster, request: PlacementRequest) -> None:
        placed = dict(request.placed)
        self.cluster, self.name = cluster, cluster.name
        self.score = 100 if self.name in placed else 0
        self.estimated = estimate_replicas(cluster, request)
        self.available = self.estimated + placed.get(self.name, 0)

    def sort_key(self) -> Any:
        return (-self.score, -self.available, self.name)


def estimate_replicas(cluster: Cluster, request: PlacementRequest) -> int:
    summary = cluster.status.resource_summary
    if request.replicas == 0 and not request.components:
        return (1 << 31) - 1
    if summary is None:
        return 0

    def unallocated(resource: str) -> Fraction:
        taken = parse_quantity(summary.allocated.get(resource, 0)) + parse_quantity(summary.allocating.get(resource, 0))
        return parse_quantity(summary.allocatable.get(resource, 0)) - taken

    fits = max(0, ceil(unallocated("pods")))
    for resource, amount in request.resource_request or ():
        if resource not in summary.allocatable or unallocated(resource) <= 0:
            return 0
        fits = min(fits, ceil(unallocated(resource) * (1000 if resource == "cpu" else 1)) // amount)
    return fits


def schedule(request: PlacementRequest, fleet: Fleet[Cluster]) -> ReplicasOrError:
    feasible = [cluster for cluster in fleet if passes_filters(cluster, request, fleet)]
    if not feasible:
        return "no fit"
    selected = select_clusters(
        sorted((ClusterInfo(cluster, request) for cluster in feasible), key=ClusterInfo.sort_key), request
    )
    if isinstance(selected, str):
        return selected
    if not selected:
        return "no clusters available to schedule"
    if request.replicas == 0 and request.resource_request is None:
        return {info.name: 0 for info in selected}
    shares = assign_replicas(selected, request)
    return shares if isinstance(shares, str) else {name: n for name, n in shares.items() if n}


def passes_filters(cluster: Cluster, request: PlacementRequest, fleet: Fleet[Cluster]) -> bool:
    for plugin in filters_for(request):
        named = plugin.targets is None or cluster.name in plugin.targets(request)
        spared = plugin.skips_placed and cluster.name in request.placed_clusters
        if named and not spared and plugin.prepare(request, fleet)(cluster) is not None:
            return False
    return cluster.metadata.deletion_timestamp is None


def select_clusters(infos: list[ClusterInfo], request: PlacementRequest) -> list[ClusterInfo] | str:
    plan = request.placement
    if not plan.spec.spread_constraints or plan.ignores_spread:
        return infos
    if plan.region_spread is not None:
        return select_by_region(infos, request)
    constraint = plan.cluster_spread
    if constraint is None:
        return "just support cluster and region spread constraint"
    if len(infos) < constraint.min_groups:
        return "the number of feasible clusters is less than spreadConstraint.MinGroups"
    count = min(len(infos), constraint.max_groups)
    taken, rest = infos[:count], infos[count:]
    if plan.strategy == DUPLICATED:
        return taken
    position = count - 1
    while sum(i.available for i in taken) < request.replicas and position >= 0:
        better = [j for j, i in enumerate(rest) if i.available > taken[position].available]
        if better:
            j = max(better, key=lambda j: (rest[j].available, -j))
            taken[position], rest[j] = rest[j], taken[position]
        position -= 1
    if sum(i.available for i in taken) < request.replicas or not taken:
        return f"no enough resource when selecting {count} clusters"
    return taken


def select_by_region(infos: list[ClusterInfo], request: PlacementRequest) -> list[ClusterInfo] | str:
    rc, cc = request.placement.region_spread, request.placement.cluster_spread
    assert rc is not None
    assert cc is not None
    regions: dict[str, list[ClusterInfo]] = {}
    for info in infos:
        regions.setdefault(info.cluster.spec.region, []).append(info)
    if len(regions) < rc.min_groups:
        return "the number of feasible region is less than spreadConstraint.MinGroups"
    groups = [
        (name, len(members), region_weight(members, request, rc.min_groups, cc.min_groups))
        for name, members in regions.items()
    ]
    chosen = best_combination(groups, rc.min_groups, rc.max_groups, cc.min_groups)
    if not chosen:
        return "the number of clusters is less than the cluster spreadConstraint.MinGroups"
    taken = [regions[name][0] for name, _, _ in chosen]
    rest = sorted((info for name, _, _ in chosen for info in regions[name][1:]), key=ClusterInfo.sort_key)
    more = min(len(taken) + len(rest), cc.max_groups) - len(taken)
    return taken + rest[: max(0, more)]


def region_weight(members: list[ClusterInfo], request: PlacementRequest, regions: int, clusters: int) -> int:
    if request.placement.strategy == DUPLICATED:
        able = [info for info in members if info.available >= request.replicas]
        return len(able) * 1000 + sum(i.score for i in able) // len(able) if able else 0
    want, least = ceil(request.replicas / regions), max(regions, clusters)
    available = score = used = 0
    for info in members:
        available, score, used = available + info.available, score + info.score, used + 1
        if used >= least and available >= want:
            break
    return available * 1000 + score // len(members) if available < want else want * 1000 + score // used


def best_combination(groups: list[Any], least: int, most: int, clusters: int) -> list[Any]:
    ordered = sorted(groups, key=lambda g: (g[1], -g[2], g[0]))
    paths: list[list[Any]] = []

    def walk(path: list[Any], following: int) -> None:
        if sum(g[1] for g in path) >= clusters and least <= len(path) <= most:
            paths.append(path)
        elif len(path) < most:
            for position in range(following, len(ordered)):
                walk([*path, ordered[position]], position + 1)
                if len(ordered) == least:
                    break

    walk([], 0)
    ranked = [sorted(path, key=lambda g: (-g[2], g[0])) for path in paths]
    ranked.sort(key=lambda path: (-sum(g[2] for g in path), -sum(g[1] for g in path)))
    best = ranked[0] if ranked else []
    for path in ranked[1:]:
        if len(path) < len(best) and path == best[: len(path)]:
            best = path
    return best


def assign_replicas(selected: list[ClusterInfo], request: PlacementRequest) -> ReplicasOrError:
    plan = request.placement
    if plan.strategy == DUPLICATED:
        return {info.name: request.replicas for info in selected}
    if plan.strategy == STATIC:
        rules = plan.static_weights
        weights = {
            i.name: max((r.weight for r in rules or () if affinity_matcher(r.target_cluster)(i.cluster)), default=0)
            for i in selected
        }
        if rules is None or not any(weights.values()):
            weights = dict.fromkeys(weights, 1)
        return divide_by_webster(request.replicas, list(weights.items()), request)
    placed_replicas = {name: n for name, n in request.placed if any(i.name == name for i in selected)}
    total = sum(placed_replicas.values())
    if request.fresh:
        return divide_replicas(
            "failed to do fresh scale", request.replicas, [(i.name, i.available) for i in selected], {}, request
        )
    if total > request.replicas:
        return divide_replicas("failed to scale down", request.replicas, list(placed_replicas.items()), {}, request)
    if total < request.replicas:
        return divide_replicas(
            "failed to scale up",
            request.replicas - total,
            [(i.name, i.estimated) for i in selected],
            placed_replicas,
            request,
        )
    return placed_replicas


def divide_replicas(
    what: str, target: int, parties: list[tuple[str, int]], keep: dict[str, int], request: PlacementRequest
) -> ReplicasOrError:
    parties = sorted(parties, key=lambda p: -p[1])
    fits = sum(n for _, n in parties)
    if fits < target:
        return f"{what}: Clusters available replicas {fits} are not enough to schedule."
    if request.placement.strategy == AGGREGATED:
        parties.sort(key=lambda p: keep.get(p[0], 0) <= 0)
        reached = 0
        for count, (_, n) in enumerate(parties, 1):
            reached += n
            if reached >= target:
                parties = parties[:count]
                break
    given = divide_by_webster(target, parties, request)
    return {name: keep.get(name, 0) + given.get(name, 0) for name in keep.keys() | given.keys()}


def divide_by_webster(seats: int, parties: list[tuple[str, int]], request: PlacementRequest) -> dict[str, int]:
    digest = 2166136261
    for byte in request.uid.encode():
        digest = ((digest ^ byte) * 16777619) % (1 << 32)
    backwards = bool(request.uid) and digest % 2 == 1
    names = sorted((name for name, _ in parties), reverse=backwards)
    weights = dict(parties)
    given = dict.fromkeys(weights, 0)
    for _ in range(seats if any(weights.values()) else 0):
        best = min(
            (name for name in names if weights[name]),
            key=lambda name: (-(weights[name] / (2 * given[name] + 1)), given[name], names.index(name)),
        )
        given[best] += 1
    return given
