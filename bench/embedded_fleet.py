"""A whole fleet in one process on the virtual clock, whose steps are measured in CPU time.

The members are lean: they count replicas. Every Deployment has the replicas of its `WorkloadShape` and goes to so many
clusters, whatever the size of the fleet.
"""

import asyncio
import gc
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

from trimtab.api.kinds.cluster import Cluster
from trimtab.client.client import Client, Resource
from trimtab.clock import LoopClock
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.member_server import seeded_uids
from trimtab.store.store import Store

NAMESPACE = "bench"
TIMEOUT_SECONDS = 36_000.0
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)


class WorkloadShape(NamedTuple):
    """What every workload of a fleet looks like."""

    replicas: int = 6
    clusters: int = 6
    """Clusters that each workload runs in."""
    group_size: int = 7
    """Clusters that a policy may choose from."""

    def group_count(self, members: int) -> int:
        """Groups that have all their members."""
        return max(1, members // self.group_size)


SHAPE = WorkloadShape()


def fleet_plan(
    members: int, nodes: int = 3, cpu: str = "64", shape: WorkloadShape = SHAPE, pace: str = "instant"
) -> FleetPlan:
    """Lean members in groups; a group is what one policy places its workloads in."""
    plans = [
        MemberPlan(
            name=f"member{number}",
            nodes=nodes,
            cpu=cpu,
            pods=10_000,
            region=f"region{number % 5}",
            zones=(f"zone{number % 15}",),
            provider="sim",
            labels={"group": str(number // shape.group_size)},
        )
        for number in range(members)
    ]
    return FleetPlan(members=tuple(plans), lean=True, pace=pace, heartbeat=0)


def deployment(number: int, groups: int, namespace: str = NAMESPACE, shape: WorkloadShape = SHAPE) -> dict[str, Any]:
    name = f"web-{number}"
    labels = {"app": name}
    container = {"name": "main", "image": "nginx:1.27", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {**labels, "group": str(number % groups)}},
        "spec": {
            "replicas": shape.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def policy(group: int, shape: WorkloadShape = SHAPE) -> dict[str, Any]:
    """Some clusters of a group, or up to two fewer while clusters are lost."""
    name = f"group-{group}"
    selector = {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"group": str(group)}}}
    spread = [{"spreadByField": "cluster", "minGroups": max(1, shape.clusters - 2), "maxGroups": shape.clusters}]
    scheduling = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "resourceSelectors": [selector],
            "placement": {
                "clusterAffinity": {"labelSelector": {"matchLabels": {"group": str(group)}}},
                "spreadConstraints": spread,
                "replicaScheduling": scheduling,
            },
        },
    }


@dataclass
class StepCost:
    """What one step took."""

    cpu_seconds: float
    virtual_seconds: float
    writes: int


@dataclass
class MeasuredFleet:
    """A running fleet, and the costs of the steps so far."""

    fleet: EmbeddedFleet
    client: Client
    members: int
    shape: WorkloadShape = SHAPE
    steps: dict[str, StepCost] = field(default_factory=dict)

    @classmethod
    async def start(
        cls,
        members: int,
        plan: FleetPlan | None = None,
        shape: WorkloadShape = SHAPE,
        controller_settings: Mapping[str, Any] | None = None,
        state_file: Path | None = None,
    ) -> Self:
        clock = LoopClock()
        rng = random.Random(0)
        uids = seeded_uids(rng)
        settings = ApiServerSettings(clock=clock, plugins=[PeerWebhooks(uids)], new_uid=uids)
        host = ApiServer(Store(), settings)
        await host.start()
        fleet = EmbeddedFleet(
            plan or fleet_plan(members, shape=shape),
            host=host,
            clock=clock,
            settings=controller_settings,
            state_file=state_file,
        )
        self = cls(fleet, fleet.client, members, shape)
        await self.measure("start", self._start_members)
        return self

    async def _start_members(self) -> None:
        await self.fleet.start()
        await self.wait_until(self.are_clusters_ready)

    async def prepare(self) -> None:
        """The namespace, and one policy per group of clusters."""
        namespaces = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
        for name in (NAMESPACE, "unplaced"):
            await self.client.create(namespaces, {"metadata": {"name": name}})
        for group in range(self.shape.group_count(self.members)):
            await self.client.create(POLICIES, policy(group, self.shape))
        await self.settle()

    async def measure(self, step: str, run: Callable[[], Awaitable[None]], collect_before: bool = True) -> StepCost:
        if collect_before:
            gc.collect()
        loop = asyncio.get_running_loop()
        revision, began, cpu = self.fleet.host.store.revision, loop.time(), time.process_time()
        await run()
        cpu = time.process_time() - cpu
        cost = StepCost(cpu, loop.time() - began, self.fleet.host.store.revision - revision)
        self.steps[step] = cost
        return cost

    async def create(self, count: int, first: int = 0) -> None:
        """Create the Deployments as fast as the server answers, and wait until all of them run."""
        groups = self.shape.group_count(self.members)
        for number in range(first, first + count):
            await self.client.create(DEPLOYMENTS, deployment(number, groups, shape=self.shape))
            await asyncio.sleep(0)
        await self.settle()

    async def settle(self) -> None:
        await self.wait_until(self._is_idle)

    async def _is_idle(self) -> bool:
        plane = self.fleet.plane
        return plane is not None and plane.is_idle and all(member.is_idle for member in self.fleet.world)

    async def are_clusters_ready(self) -> bool:
        """Read from the cache: a list of a large fleet every virtual second would cost more than its recovery."""
        assert self.fleet.plane is not None
        clusters = self.fleet.plane.cache.table_of(Cluster).entries.values()
        return sum(is_ready(cast("Cluster", one.typed)) for one in clusters) == len(self.fleet.world)

    async def wait_until(self, is_met: Callable[[], Awaitable[bool]]) -> None:
        """Let virtual time pass until the condition holds twice, a second apart."""
        end, held = asyncio.get_running_loop().time() + TIMEOUT_SECONDS, 0
        while held < 2:
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(f"{is_met.__name__} did not become true")
            await asyncio.sleep(1)
            held = held + 1 if await is_met() else 0

    async def ready_replicas(self) -> int:
        """Ready replicas in all reachable members."""
        total = 0
        for member in self.fleet.world:
            if member.is_reachable:
                listing = await member.client.list(DEPLOYMENTS)
                total += sum((one.get("status") or {}).get("readyReplicas", 0) for one in listing.items)
        return total

    async def stop(self) -> None:
        await self.fleet.stop()
        await self.fleet.host.stop()


def resident_mebibytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)
