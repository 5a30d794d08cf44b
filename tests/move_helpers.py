"""A control plane with simulated members on the virtual clock, for tests about workloads that move."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, Move
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Object, Raw
from trimtab.client.client import Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.errors import NotFound
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.member_server import seeded_uids
from trimtab.store.store import Store

PODS = Resource("", "v1", "pods", "Pod")


class MoveScenario:
    """Actions and observations of a test on the fleet."""

    def __init__(self, fleet: EmbeddedFleet) -> None:
        self.fleet = fleet
        self.client = fleet.client
        self.world = fleet.world
        self.lowest_ready: dict[str, int] = {}
        self._recorders: list[asyncio.Task[None]] = []

    async def create(self, raw: Raw | Object) -> Raw:
        body = to_wire(raw) if isinstance(raw, Object) else raw
        return await self.client.create(_resource(body), body)

    async def patch(self, type_: type[Object], name: str, patch: Raw, namespace: str = "") -> None:
        await self.client.patch(resource_of(kind_of(type_)), namespace, name, patch)

    async def create_deployment(self, name: str = "web", replicas: int = 3, **metadata: Any) -> None:
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        await self.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": "default", **metadata},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name}},
                    "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
                },
            }
        )

    async def create_policy(self, placement: Raw, name: str = "pp", **spec: Any) -> None:
        selector = {"apiVersion": "apps/v1", "kind": "Deployment"}
        body = {"resourceSelectors": [selector], "placement": placement, **spec}
        kind = kind_of(PropagationPolicy)
        await self.create(
            {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "metadata": {"name": name, "namespace": "default"},
                "spec": body,
            }
        )

    async def set_placement(self, placement: Raw, name: str = "pp") -> None:
        """Edit the placement of the policy."""
        kind = resource_of(kind_of(PropagationPolicy))
        found = await self.client.get(kind, "default", name)
        await self.client.replace(kind, {**found, "spec": {**found["spec"], "placement": placement}})

    async def create_rebalancer(self, *names: str, job: str = "again", **spec: Any) -> None:
        kind = kind_of(WorkloadRebalancer)
        workloads = [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": n} for n in names]
        body = {"workloads": workloads, **spec} if workloads else spec
        await self.create({"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": job}, "spec": body})

    async def create_budget(self, name: str = "careful", **spec: Any) -> None:
        kind = kind_of(DisruptionBudget)
        await self.create(
            {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"target": "Workloads", "selector": {}, **spec},
            }
        )

    async def set_taints(self, cluster: str, *taints: str) -> None:
        """Set taints given as `key:Effect`; without arguments remove all."""
        parsed = [{"key": k, "effect": e} for k, e in (t.split(":") for t in taints)]
        await self.patch(Cluster, cluster, {"spec": {"taints": parsed or None}})

    async def get(self, type_: type[Any], name: str, namespace: str = "") -> Any:
        kind = kind_of(type_)
        return kind.decode(await self.client.get(resource_of(kind), namespace, name))

    async def list_all(self, type_: type[Any]) -> list[Any]:
        kind = kind_of(type_)
        return [kind.decode(raw) for raw in (await self.client.list(resource_of(kind))).items]

    async def get_binding(self, name: str = "web") -> ResourceBinding:
        return await self.get(ResourceBinding, f"{name}-deployment", "default")

    async def placement_of(self, name: str = "web") -> dict[str, int]:
        return {t.name: t.replicas for t in (await self.get_binding(name)).spec.clusters}

    async def list_moves(self) -> list[Move]:
        return sorted(await self.list_all(Move), key=lambda move: (move.status.started, move.name))

    def ready_pods(self, name: str = "web") -> dict[str, int]:
        """Ready pods by cluster, read from the simulated members and not from any status."""
        found = {}
        for member in self.world:
            pods = [p for p in member.pods if p.metadata.labels.get("app") == name and is_pod_ready(p)]
            if pods:
                found[member.name] = len(pods)
        return found

    def record_lowest_ready(self, name: str = "web") -> None:
        """Record the lowest number of ready replicas from now on."""

        async def record() -> None:
            while True:
                now = sum(self.ready_pods(name).values())
                self.lowest_ready[name] = min(self.lowest_ready.get(name, now), now)
                await asyncio.sleep(0.25)

        self._recorders.append(asyncio.get_running_loop().create_task(record()))

    async def wait_until(self, is_met: Callable[[], Awaitable[bool]], seconds: float = 120.0) -> None:
        for _ in range(int(seconds * 2)):
            with contextlib.suppress(NotFound):
                if await is_met():
                    return
            await asyncio.sleep(0.5)
        raise AssertionError(f"not within {seconds} seconds: {await self.report()}")

    async def wait_until_settled(self, name: str, wanted: dict[str, int], seconds: float = 120.0) -> None:
        """Wait until the placement and the ready pods are as wanted and no hold or eviction task is left."""

        async def is_settled() -> bool:
            binding = await self.get_binding(name)
            idle = not binding.status.holds and not binding.spec.graceful_eviction_tasks
            return idle and await self.placement_of(name) == wanted and self.ready_pods(name) == wanted

        await self.wait_until(is_settled, seconds)

    async def report(self) -> str:
        lines = []
        for binding in await self.list_all(ResourceBinding):
            lines.append(f"{binding.name}: {msgspec.json.encode(binding.spec.clusters).decode()}")
            status = binding.status.but(aggregated_status=())
            lines.append("  " + msgspec.json.encode(status).decode())
            lines.append("  " + msgspec.json.encode(binding.spec.graceful_eviction_tasks).decode())
            lines.append(f"  ready {self.ready_pods(binding.spec.resource.name)}")
        for type_ in (WorkloadRebalancer, DisruptionBudget, Move):
            lines += [f"{o.name}: {msgspec.json.encode(o.status).decode()}" for o in await self.list_all(type_)]
        return "\n".join(lines)

    async def stop(self) -> None:
        for task in self._recorders:
            task.cancel()


def is_pod_ready(pod: Any) -> bool:
    return pod.metadata.deletion_timestamp is None and any(
        c.type == "Ready" and c.status == "True" for c in pod.status.conditions
    )


def _resource(body: Raw) -> Resource:
    from trimtab.api.kind import find_kind

    kind = find_kind(body["apiVersion"], body["kind"])
    assert kind is not None
    return resource_of(kind)


def run_scenario(
    steps: Callable[[MoveScenario], Awaitable[Any]],
    *,
    members: int = 3,
    profile: Profile = TRIMTAB,
    pace: Any = "fast",
    settings: Raw | None = None,
    plans: tuple[MemberPlan, ...] = (),
) -> Any:
    """Run the steps on a fleet m1, m2, ... in virtual time."""

    async def run() -> Any:
        rng = random.Random("host")
        uids = seeded_uids(rng)
        server_settings = ApiServerSettings(
            clock=LoopClock(), plugins=[PeerWebhooks(uids)], new_uid=uids, token_key=rng.randbytes(32)
        )
        host = ApiServer(Store(), server_settings)
        await host.start()
        fleet = EmbeddedFleet(
            FleetPlan(
                members=plans or tuple(MemberPlan(name=f"m{n}", nodes=1) for n in range(1, members + 1)),
                pace=pace,
                heartbeat=0,
            ),
            host=host,
            clock=LoopClock(),
            profile=profile,
            settings={"cluster-failure-threshold": 10, "cluster-success-threshold": 10, **(settings or {})},
        )
        await fleet.start()
        scenario = MoveScenario(fleet)
        try:
            await asyncio.sleep(15)
            return await steps(scenario)
        finally:
            await scenario.stop()
            await fleet.stop()
            await host.stop()

    return run_virtually(run())


def divided(*weights: tuple[str, int]) -> Raw:
    """Divided by fixed weights."""
    listed = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in weights]
    return {
        "clusterAffinity": {"clusterNames": [name for name, _ in weights]},
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": listed},
        },
    }


def aggregated(*names: str) -> Raw:
    return {
        "clusterAffinity": {"clusterNames": list(names)},
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    }


def dynamic(*names: str) -> Raw:
    return {
        "clusterAffinity": {"clusterNames": list(names)},
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        },
    }
