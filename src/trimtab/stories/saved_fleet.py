"""A simulated fleet that starts from the state of a saved one: its clusters, workloads, policies and budgets.

The members are simulated with as many nodes, of the average size, as each cluster had. What was requested in a cluster by
anything else than the saved workloads becomes one placeholder pod per node. Objects are written to the store as they were,
with their uids, so that claims, owner references and placements stay valid and nothing is decided again. They are written
while no controller runs, after the clusters have become ready: a control plane that starts then continues as after a restart.

Clusters that were not ready when the snapshot was taken are cut off. Templates of kinds that the server does not serve are
left out, and those that would give rights on it or make it call others; the caller gets their names.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.quantity import InvalidQuantity, from_milli
from trimtab.api.value import Object, Raw
from trimtab.client.client import resource_of
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.decide.node_capacity import amount_of
from trimtab.dryrun.fleet_state import FleetState
from trimtab.dryrun.snapshot import SECRET_KINDS
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.errors import AlreadyExists, InputError
from trimtab.simulate.fleet import FleetPlan, MemberPlan, NodePool, NodeTaint

READY_SECONDS = 120.0
SETTLE_SECONDS = 300.0
"""How long the workloads of the state may take to run."""
POLL_SECONDS = 0.5
BINDING_TYPES = (ResourceBinding, ClusterResourceBinding)
DEFAULT_PODS_PER_NODE = 110
MANAGER = "trimtab-snapshot"
MAX_NODES = 100_000
SERVER_GROUPS = (
    *("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io"),
    *("flowcontrol.apiserver.k8s.io", "rbac.authorization.k8s.io"),
)
"""Objects of these groups give rights on the server that stores them, or make it call others; a snapshot may be a stranger's."""


class LoadedFleet(NamedTuple):
    """What was loaded, and what could not be."""

    objects: int
    skipped: tuple[str, ...]
    """Objects of kinds that the server does not serve, or that would configure it."""


def fleet_plan_of(state: FleetState, pace: str = "typical") -> FleetPlan:
    """Members like the clusters of the state; raises InputError when there are none."""
    try:
        members = tuple(member_plan_of(cluster) for cluster in state.all(Cluster))
        other_load_of(state)
    except InvalidQuantity as fault:
        raise InputError(f"the snapshot has an invalid amount of a resource: {fault}") from fault
    if not members:
        raise InputError("the snapshot has no clusters")
    plan = FleetPlan(members=members, pace=pace)
    if plan.node_count > MAX_NODES:
        raise InputError(
            f"the clusters of the snapshot have {plan.node_count} nodes; at most {MAX_NODES} are simulated"
        )
    return plan


def member_plan_of(cluster: Cluster) -> MemberPlan:
    """A member with nodes of the average size; pools keep the labels and taints that the cluster reports."""
    summary, counted = cluster.status.resource_summary, cluster.status.node_summary
    nodes = max(1, counted.total_num if counted is not None else 1)
    total = summary.allocatable if summary is not None else {}
    size = NodePool(
        nodes=nodes,
        cpu=from_milli(amount_of("cpu", total.get("cpu", "0")) // nodes),
        memory=str(amount_of("memory", total.get("memory", "0")) // nodes),
        pods=amount_of("pods", total.get("pods", "0")) // nodes or DEFAULT_PODS_PER_NODE,
    )
    return MemberPlan(
        name=cluster.name,
        region=cluster.spec.region,
        zones=cluster.spec.zones,
        provider=cluster.spec.provider,
        labels=dict(cluster.metadata.labels),
        pools=tuple(pools_of(cluster, size)),
    )


def pools_of(cluster: Cluster, size: NodePool) -> Iterator[NodePool]:
    """One pool for each that the cluster reports; full nodes, which it does not list, form one without labels."""
    rest = size.nodes
    reported = cluster.status.free_nodes.pools if cluster.status.free_nodes is not None else ()
    for number, pool in enumerate(reported, 1):
        count = min(rest, sum(group.count for group in pool.nodes))
        if count:
            taints = tuple(NodeTaint(key=t.key, value=t.value, effect=t.effect) for t in pool.taints)
            yield size.but(nodes=count, name=f"pool{number}", labels=dict(pool.labels), taints=taints)
            rest -= count
    if rest:
        yield size.but(nodes=rest)


def other_load_of(state: FleetState) -> dict[str, dict[str, int]]:
    """What is requested in each cluster by anything else than the workloads of the state."""
    found = {}
    for cluster in state.all(Cluster):
        summary = cluster.status.resource_summary
        allocated = summary.allocated if summary is not None else {}
        found[cluster.name] = {name: amount_of(name, allocated.get(name, "0")) for name in ("cpu", "memory")}
    for binding in state.bindings:
        needs = binding.spec.replica_requirements.resource_request if binding.spec.replica_requirements else {}
        for target in binding.spec.clusters:
            load = found.get(target.name, {})
            for name in load:
                load[name] -= target.replicas * amount_of(name, needs.get(name, "0"))
    return {name: {resource: max(0, n) for resource, n in load.items()} for name, load in found.items()}


async def load_saved_state(fleet: EmbeddedFleet, state: FleetState) -> LoadedFleet:
    """Put the objects of the state into a started fleet; its control plane is restarted with them."""
    await wait_until_clusters_are_ready(fleet)
    await fleet.stop_plane()
    await add_other_load(fleet, other_load_of(state))
    loaded = await write_objects(fleet, state)
    for cluster in state.all(Cluster):
        await restore_cluster(fleet, cluster)
        if not is_ready(cluster):
            fleet.world[cluster.name].stop_api()
    await fleet.start_plane()
    return loaded


async def wait_until_clusters_are_ready(fleet: EmbeddedFleet) -> None:
    kind = kind_of(Cluster)
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        raws = (await fleet.client.list(resource_of(kind))).items
        clusters = [kind.decode(raw) for raw in raws]
        if all(isinstance(c, Cluster) and is_ready(c) and c.status.resource_summary is not None for c in clusters):
            return
        await asyncio.sleep(POLL_SECONDS)
    raise InputError(f"the simulated clusters did not become ready within {READY_SECONDS:.0f} seconds")


async def add_other_load(fleet: EmbeddedFleet, loads: Mapping[str, Mapping[str, int]]) -> None:
    for member in fleet.world:
        load = loads.get(member.name, {})
        nodes = len(list(member.plan.node_plans()))
        if nodes and any(load.values()):
            await member.occupy_nodes({name: amount // nodes for name, amount in load.items()})


async def write_objects(fleet: EmbeddedFleet, state: FleetState) -> LoadedFleet:
    """Write all objects except Clusters, which the members have joined as."""
    raws = [
        kind_of(thing).encode(without_observations(thing))
        for type_, found in state.objects.items()
        if type_ is not Cluster
        for thing in found.values()
    ]
    templates = [raw for found in state.templates.values() for raw in found.values()]
    raws += [raw for raw in templates if not configures_server(raw)]
    await create_namespaces(fleet, {raw["metadata"].get("namespace", "") for raw in raws} - {""})
    skipped = await fleet.host.load(raws)
    loaded = len(raws) - len(skipped)
    skipped += [raw for raw in templates if configures_server(raw)]
    names = [f"{raw['kind']} {raw['metadata'].get('namespace', '')}/{raw['metadata']['name']}" for raw in skipped]
    return LoadedFleet(loaded, tuple(names))


def configures_server(raw: Raw) -> bool:
    """Whether the object would change who may do what on the server, or what it calls."""
    return raw["apiVersion"].partition("/")[0] in SERVER_GROUPS or raw["kind"] in SECRET_KINDS


def without_observations(thing: Object) -> Object:
    """A binding without what members reported: the simulated ones have not started its pods yet."""
    if not isinstance(thing, BINDING_TYPES):
        return thing
    return thing.but(status=thing.status.but(aggregated_status=()))


async def create_namespaces(fleet: EmbeddedFleet, names: set[str]) -> None:
    for name in sorted(names):
        body: Raw = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await fleet.client.create(resource_of(kind_of(Namespace)), body, manager=MANAGER)
        except AlreadyExists:
            continue


async def restore_cluster(fleet: EmbeddedFleet, saved: Cluster) -> None:
    """Give the joined cluster the taints, annotations and resource models that it had."""
    raw = kind_of(Cluster).encode(saved)
    spec = {name: raw["spec"][name] for name in ("taints", "resourceModels") if raw["spec"].get(name)}
    patch: Raw = {"metadata": {"annotations": dict(saved.metadata.annotations)}, "spec": spec}
    await fleet.client.patch(resource_of(kind_of(Cluster)), "", saved.name, patch, manager=MANAGER)


async def wait_until_workloads_run(fleet: EmbeddedFleet, state: FleetState) -> None:
    """Wait until the workloads run as they did in the state, as far as their clusters can be reached."""
    reachable = {cluster.name for cluster in state.all(Cluster) if is_ready(cluster)}
    tables = [] if fleet.plane is None else [fleet.plane.cache.table_of(type_) for type_ in BINDING_TYPES]
    deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        bindings = [cast("Binding", entry.typed) for table in tables for entry in table.entries.values()]
        if all(
            ready_in(binding, target.name) >= target.replicas
            for binding in bindings
            for target in binding.spec.clusters
            if target.name in reachable
        ):
            return
        await asyncio.sleep(POLL_SECONDS)


def ready_in(binding: Binding, cluster: str) -> int:
    """The ready replicas that a cluster reports; 1 for an applied object without replicas."""
    for item in binding.status.aggregated_status:
        if item.cluster_name == cluster:
            status = item.status or {}
            ready = status.get("readyReplicas", status.get("numberReady"))
            return ready if isinstance(ready, int) else int(item.applied and not binding.spec.replicas)
    return 0
