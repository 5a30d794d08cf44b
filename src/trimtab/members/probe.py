"""Probes each member every few seconds: health, served APIs, capacity and unschedulable pods."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import orjson

from trimtab.api.kinds.cluster import (
    APIEnablement,
    APIResource,
    Cluster,
    FreeNodes,
    NodeSummary,
    ResourceModel,
    ResourceSummary,
)
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.client.client import Resource
from trimtab.clock import Clock, SteadyClock
from trimtab.controllers.clusters.capacity import node_summary, resource_summary
from trimtab.controllers.clusters.free_nodes import free_nodes
from trimtab.controllers.clusters.health import Probe
from trimtab.controllers.movement.unschedulable_replicas import UnschedulablePod, unschedulable_pods
from trimtab.errors import ApiError
from trimtab.members.roster import MemberHandle, Roster
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.tasks import LoggedFailure

PROBE_SECONDS = 10.0
PROBE_TIMEOUT_SECONDS = 5.0
VERSION_SECONDS = 60.0
log = logging.getLogger("trimtab.probe")

ReportProbe = Callable[[str, Probe], None]
KnownCapacity = Callable[[str, Sequence[ResourceModel]], "CapacitySummary | None"]
IsProbed = Callable[[Cluster], bool]
"""Whether this process probes the cluster; what it does not probe, it reports nothing about."""


class Prober:
    """Probes every member in a task of its own and reports each result."""

    def __init__(
        self,
        roster: Roster,
        host: Cache,
        clock: Clock,
        report: ReportProbe,
        *,
        is_probed: IsProbed = lambda _: True,
        period: float = PROBE_SECONDS,
        counts_nodes: bool = True,
        known_capacity: KnownCapacity = lambda _cluster, _models: None,
        observe: Callable[[str, float], None] = lambda _cluster, _seconds: None,
    ) -> None:
        """`counts_nodes`: probes report what is free on each node.

        `known_capacity` has the capacity of members that count it themselves; None: it is counted from nodes and pods.
        `observe` is told how many seconds each probe took.
        """
        self._observe = observe
        self._roster = roster
        self._host = host
        self._clock = clock
        self._steady_clock = SteadyClock(clock)
        self._report = report
        self._is_probed = is_probed
        self._period = period
        self._counts_nodes = counts_nodes
        self._known_capacity = known_capacity
        self._summaries: dict[str, tuple[object, CapacitySummary]] = {}
        self._enablements: dict[str, tuple[Sequence[Resource], tuple[APIEnablement, ...]]] = {}
        self._versions: dict[str, tuple[float, str]] = {}
        """By cluster: when its version was read, and the version."""

    async def run(self) -> None:
        """Run one task per member, started when the member joins and cancelled when it leaves."""
        tasks: dict[str, asyncio.Task[None]] = {}
        changed = asyncio.Event()

        def cluster_changed(old: CacheEntry | None, new: CacheEntry | None) -> None:
            if old is None or new is None:  # clusters change all the time; what counts is who joins and leaves
                changed.set()

        self._host.table_of(Cluster).add_listener(cluster_changed)
        try:
            while True:
                present = self._cluster_names()
                for name in present:
                    if name not in tasks:
                        tasks[name] = asyncio.get_running_loop().create_task(self._keep_probing(name))
                for name in tasks.keys() - set(present):
                    tasks.pop(name).cancel()
                    self._summaries.pop(name, None)
                    self._enablements.pop(name, None)
                    self._versions.pop(name, None)
                await changed.wait()
                changed.clear()
        finally:
            for task in tasks.values():
                task.cancel()

    def _cluster_names(self) -> list[str]:
        return [name for _, name in self._host.table_of(Cluster).names()]

    async def _keep_probing(self, name: str) -> None:
        while True:
            entry = self._host.table_of(Cluster).entries.get(("", name))
            if entry is not None and self._is_probed(cluster := cast("Cluster", entry.typed)):
                self._roster.retry_connection(cluster)
                started = time.monotonic()
                probe = await self.probe(cluster)
                self._observe(name, time.monotonic() - started)
                self._report(name, probe._replace(steady_at=self._steady_clock.now()))
            await asyncio.sleep(self._period)

    async def probe(self, cluster: Cluster) -> Probe:
        """Probe one cluster; never raises, a failure is part of the result."""
        member = self._roster.get(cluster.name)
        if member is None:
            return Probe(self._clock.now(), online=False, healthy=False, reachable=False)
        with LoggedFailure(log, "unexpected response from member %s", cluster.name):
            return await self._probe_member(member, cluster)
        # A member with malformed responses is unhealthy, and must still be probed again.
        return Probe(self._clock.now(), online=True, healthy=False)

    async def _probe_member(self, member: MemberHandle, cluster: Cluster) -> Probe:
        now = self._clock.now()
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                healthy = await self._is_healthy(member)
                if not healthy:
                    return Probe(now, online=True, healthy=False)
                return await self._read_state(member, cluster)
        except (ApiError, OSError, TimeoutError) as fault:
            log.info(
                "the member does not respond: %s", str(fault) or "no answer in time", extra={"cluster": cluster.name}
            )
            return Probe(self._clock.now(), online=False, healthy=False)
        except ValueError as fault:
            log.info("the member does not answer as an API server: %s", fault, extra={"cluster": cluster.name})
            return Probe(self._clock.now(), online=True, healthy=False)

    @staticmethod
    async def _is_healthy(member: MemberHandle) -> bool:
        response = await member.client.fetch("/readyz")
        if response.code == 404:
            response = await member.client.fetch("/healthz")
        return response.code == 200

    async def _read_state(self, member: MemberHandle, cluster: Cluster) -> Probe:
        version = await self._version(member)
        resources = await member.discover()
        summary = await self._summarize_capacity(member, cluster.spec.resource_models)
        return Probe(
            self._clock.now(),
            online=True,
            healthy=True,
            version=version,
            enablements=self._api_enablements(member.name, resources),
            complete=bool(resources),
            nodes=summary.nodes,
            resources=summary.resources,
            free_nodes=summary.free_nodes,
            unschedulable_pods=summary.unschedulable_pods,
        )

    async def _version(self, member: MemberHandle) -> str:
        """The version of the API server, read once a minute: it changes only when the server is replaced."""
        now = asyncio.get_running_loop().time()
        read_at, version = self._versions.get(member.name, (0.0, ""))
        if not version or now - read_at >= VERSION_SECONDS:
            version = orjson.loads((await member.client.fetch("/version")).body).get("gitVersion", "")
            self._versions[member.name] = (now, version)
        return version

    def _api_enablements(self, cluster: str, resources: Sequence[Resource]) -> tuple[APIEnablement, ...]:
        known = self._enablements.get(cluster)
        if known is None or known[0] is not resources:
            known = self._enablements[cluster] = (resources, api_enablements(resources))
        return known[1]

    async def _summarize_capacity(self, member: MemberHandle, models: Sequence[ResourceModel]) -> "CapacitySummary":
        """Summaries of nodes and pods, computed again only if a node or a pod has changed."""
        if (known := self._known_capacity(member.name, models)) is not None:
            return known if self._counts_nodes else known._replace(free_nodes=None)
        nodes, pods = member.unfiltered_cache.table_of(Node), member.unfiltered_cache.table_of(Pod)
        await nodes.synced.wait()
        await pods.synced.wait()
        state = (nodes.change_count, pods.change_count, tuple(models))
        cached = self._summaries.get(member.name)
        if cached is None or cached[0] != state:
            all_nodes = [cast("Node", entry.typed) for entry in nodes.entries.values()]
            all_pods = [cast("Pod", entry.typed) for entry in pods.entries.values()]
            summary = CapacitySummary(
                node_summary(all_nodes),
                resource_summary(all_nodes, all_pods, models),
                free_nodes(all_nodes, all_pods) if self._counts_nodes else None,
                unschedulable_pods(all_pods),
            )
            cached = self._summaries[member.name] = (state, summary)
        return cached[1]


class CapacitySummary(NamedTuple):
    """What the nodes and pods of a member say about its capacity."""

    nodes: NodeSummary
    resources: ResourceSummary
    free_nodes: FreeNodes | None
    unschedulable_pods: tuple[UnschedulablePod, ...]


def api_enablements(resources: Sequence[Resource]) -> tuple[APIEnablement, ...]:
    """Served APIs as Cluster status lists them: sorted by group and version, then by resource name."""
    groups: dict[str, list[APIResource]] = defaultdict(list)
    for resource in resources:
        groups[resource.api_version].append(APIResource(name=resource.plural, kind=resource.kind))
    return tuple(
        APIEnablement(group_version=group, resources=tuple(sorted(listed, key=lambda r: r.name)))
        for group, listed in sorted(groups.items())
    )
