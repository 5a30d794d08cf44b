"""Invariants of propagation: replicas are conserved, order and restarts do not matter, settled fleets write nothing."""

import asyncio
import random
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from properties.hypothesis_settings import example_settings
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.server.apiserver import ApiServer
from trimtab.server.local import LocalClient
from trimtab.store.records import StoreEvent
from trimtab.stories.runner import StoryRunner, new_fleet
from trimtab.stories.story import parse_story

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")
HEARTBEATS = "/registry/coordination.k8s.io/leases/"
EVENTS = "/registry/core/events/"
FEW = example_settings(3, thorough=5, suppress_health_check=list(HealthCheck), phases=[Phase.generate])


def deployment(name: str, replicas: int) -> Raw:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def policy(name: str, scheduling: Raw) -> Raw:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
            "placement": {"replicaScheduling": scheduling},
        },
    }


DIVIDED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
STRATEGIES = [
    {"replicaSchedulingType": "Duplicated"},
    DIVIDED,
    {**DIVIDED, "weightPreference": {"dynamicWeight": "AvailableReplicas"}},
    {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
]


class RunningFleet:
    """A fleet of three members on the virtual clock."""

    def __init__(self, fleet: EmbeddedFleet, runner: StoryRunner) -> None:
        self.fleet = fleet
        self._runner = runner

    async def apply(self, obj: Raw) -> None:
        await self._runner.objects.apply("", obj)

    async def settle(self) -> None:
        await asyncio.sleep(60)

    async def restart(self) -> None:
        await self.fleet.stop_plane()
        await self.fleet.start_plane()

    async def placements(self) -> dict[str, dict[str, int]]:
        return {
            obj["metadata"]["name"]: {t["name"]: t.get("replicas", 0) for t in obj["spec"].get("clusters") or ()}
            for obj in (await self.fleet.client.list(BINDINGS)).items
        }

    async def running(self) -> dict[str, dict[str, int]]:
        """Ready replicas by workload and member."""
        found: dict[str, dict[str, int]] = {}
        for member in self.fleet.world:
            for obj in (await LocalClient(member.server).list(DEPLOYMENTS)).items:
                ready = (obj.get("status") or {}).get("readyReplicas", 0)
                found.setdefault(obj["metadata"]["name"], {})[member.name] = ready
        return found

    async def works(self) -> Counter[str]:
        listing = (await self.fleet.client.list(WORKS)).items
        return Counter(f"{work['metadata']['namespace']}/{work['metadata']['name']}" for work in listing)


def run_in_fleet(scenario: Any) -> Any:
    """Run `scenario` in a new fleet."""

    async def run() -> Any:
        clock = LoopClock()
        story = parse_story({"name": "x", "expect": [{"that": "exists(Cluster/member1)"}]})
        fleet = new_fleet(story, clock)
        await fleet.host.start()
        try:
            await fleet.start()
            runner = StoryRunner(story, fleet, clock, lambda _, __: None)
            await asyncio.sleep(15)
            return await scenario(RunningFleet(fleet, runner))
        finally:
            await fleet.stop()
            await fleet.host.stop()

    return run_virtually(run())


workloads = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(STRATEGIES)), min_size=1, max_size=3)


@FEW
@given(workloads, st.lists(st.integers(0, 12), max_size=3))
def test_replicas_are_conserved(wanted: list[tuple[int, Raw]], scales: list[int]) -> None:
    async def act(running_fleet: RunningFleet) -> None:
        for number, (replicas, scheduling) in enumerate(wanted):
            await running_fleet.apply(deployment(f"app{number}", replicas))
            await running_fleet.apply(policy(f"app{number}", scheduling))
        await running_fleet.settle()
        for scaled in scales:
            await running_fleet.apply(deployment("app0", scaled))
            await running_fleet.settle()
        running = await running_fleet.running()
        for number, (replicas, scheduling) in enumerate(wanted):
            wanted_replicas = scales[-1] if number == 0 and scales else replicas
            times = 3 if scheduling["replicaSchedulingType"] == "Duplicated" else 1
            assert sum(running.get(f"app{number}", {}).values()) == wanted_replicas * times, (
                running,
                await running_fleet.placements(),
            )

    run_in_fleet(act)


@FEW
@given(workloads, st.randoms(use_true_random=False))
def test_order_and_restarts_do_not_matter(wanted: list[tuple[int, Raw]], rng: random.Random) -> None:
    objects = [
        obj
        for number, (replicas, scheduling) in enumerate(wanted)
        for obj in (deployment(f"app{number}", replicas), policy(f"app{number}", scheduling))
    ]
    by_capacity = {f"app{number}" for number, (_, scheduling) in enumerate(wanted) if reads_capacity(scheduling)}
    shuffled = rng.sample(objects, len(objects))
    restarts = [rng.random() < 0.5 for _ in objects]

    async def apply_in_order(running_fleet: RunningFleet) -> Any:
        for obj in objects:
            await running_fleet.apply(obj)
        await running_fleet.settle()
        return await final_state(running_fleet, by_capacity)

    async def apply_shuffled(running_fleet: RunningFleet) -> Any:
        for obj, restarts_now in zip(shuffled, restarts, strict=True):
            await running_fleet.apply(obj)
            await asyncio.sleep(rng.choice([0.0, 0.01, 0.2]))
            if restarts_now:
                await running_fleet.restart()
        await running_fleet.settle()
        return await final_state(running_fleet, by_capacity)

    assert run_in_fleet(apply_in_order) == run_in_fleet(apply_shuffled)


def reads_capacity(scheduling: Raw) -> bool:
    return "dynamicWeight" in scheduling.get("weightPreference", {})


async def final_state(running_fleet: RunningFleet, by_capacity: set[str]) -> Any:
    """The final state; shares are sorted because uids decide which of equal clusters gets the odd replica.

    Of a workload that is divided by free capacity only the total is compared: its shares depend on what ran already.
    """
    spread = {
        name: sum(shares.values()) if name in by_capacity else sorted(shares.values())
        for name, shares in (await running_fleet.running()).items()
    }
    return spread, sum((await running_fleet.works()).values()), sorted(await running_fleet.placements())


def test_settled_fleet_writes_nothing() -> None:
    """Zero writes in one hour except heartbeats, for every strategy."""

    async def act(running_fleet: RunningFleet) -> Counter[str]:
        for number, scheduling in enumerate(STRATEGIES):
            await running_fleet.apply(deployment(f"app{number}", 6))
            await running_fleet.apply(policy(f"app{number}", scheduling))
        await running_fleet.apply(deployment("too-large", 100_000))
        await running_fleet.apply(policy("too-large", STRATEGIES[-1]))
        await asyncio.sleep(1800)
        watching = [asyncio.ensure_future(count_writes(server)) for server in servers(running_fleet.fleet)]
        await asyncio.sleep(3600)
        for task in watching:
            task.cancel()
        counted = await asyncio.gather(*watching)
        return sum(counted, Counter())

    assert run_in_fleet(act) == Counter()


def servers(fleet: EmbeddedFleet) -> list[ApiServer]:
    return [fleet.host, *(member.server for member in fleet.world)]


async def count_writes(server: ApiServer) -> Counter[str]:
    """Writes by key until the task is cancelled."""
    keys: Counter[str] = Counter()
    watch = server.store.watch("/registry/")
    try:
        async for events in watch:
            keys.update(event.key for event in events if not is_expected(event))
    except asyncio.CancelledError:
        pass
    return keys


def is_expected(event: StoreEvent) -> bool:
    """A heartbeat, or the expiry of an Event after one hour."""
    expired = event.type == "DELETED" and event.key.startswith(EVENTS)
    return expired or event.key.startswith(HEARTBEATS)
