"""Runs stories on real clusters: the host, the members and the controllers of the rig."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, cast

from kube.fleet import CLUSTERS, CachedClient, ControllersProcess, RealFleet, RealMember, wait_until

from trimtab.client.client import Client, Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.decide.pods.fit.requests import pod_resources_of
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.errors import NotFound
from trimtab.simulate.kubelets.kubelets import Kubelets
from trimtab.simulate.kubelets.pod_reports import PODS
from trimtab.simulate.placeholders import delete_placeholders, placeholder_pod
from trimtab.stories.report import WriteLine
from trimtab.stories.runner import StoryRunner
from trimtab.stories.story import Expectation, FailureAction, Story, StoryStep, as_names, parse_seconds

THRESHOLDS = {"cluster-failure-threshold": 30, "cluster-success-threshold": 30}
"""Seconds that a cluster must be unhealthy, or healthy again; stories without settings assume these."""
IN_SECONDS = frozenset(("tolerationSeconds", "blockPredecessorSeconds", "gracePeriodSeconds"))
AS_DURATION = frozenset(("period",))
ALLOWANCE_SECONDS = 180.0
"""The minimum time for expectations to become true on a busy machine."""
CLEANED_UP_KINDS = (
    Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding"),
    Resource("work.karmada.io", "v1alpha2", "clusterresourcebindings", "ClusterResourceBinding", namespaced=False),
)
MOVES = Resource("trimtab.dev", "v1alpha1", "moves", "Move")


def shorten_story(story: Story, factor: float) -> Story:
    """The story with every duration divided; the time allowed for expectations is extended, not divided."""
    settings = {
        name: as_number(value) / factor if is_duration_setting(name) else value
        for name, value in story.settings.items()
    }
    steps = {step.name for step in story.timeline if step.name}
    return story.but(
        settings={**{name: value / factor for name, value in THRESHOLDS.items()}, **settings},
        lasts=parse_seconds(story.lasts) / factor,
        timeline=tuple(shorten_step(step, factor, steps) for step in story.timeline),
        expect=tuple(shorten_expectation(one, factor, steps) for one in story.expect),
    )


def is_duration_setting(setting: str) -> bool:
    return setting.endswith(("-seconds", "-threshold", "-timeout"))


def as_number(value: Any) -> float:
    return float(value)


def shorten_step(step: StoryStep, factor: float, steps: set[str]) -> StoryStep:
    def shorter(length: Any) -> Any:
        return None if length is None else parse_seconds(length) / factor

    return step.but(
        at=shorter(step.at),
        after=shorter(step.after),
        wait=shorter(step.wait),
        timeout=max(ALLOWANCE_SECONDS, parse_seconds(step.timeout)),
        restart=step.restart.but(down=shorter(step.restart.down)) if hasattr(step.restart, "down") else step.restart,
        apply=[shorten_object(obj, factor) for obj in step.apply or ()],
        expect=tuple(shorten_expectation(one, factor, steps) for one in step.expect),
    )


def shorten_expectation(one: Expectation, factor: float, steps: set[str]) -> Expectation:
    def shorter(moment: Any) -> Any:
        return moment if moment is None or moment in steps else parse_seconds(moment) / factor

    within = max(ALLOWANCE_SECONDS, parse_seconds(one.within)) if one.within is not None else ALLOWANCE_SECONDS
    return one.but(start=shorter(one.start), until=shorter(one.until), within=within if one.that else None)


def shorten_object(value: Any, factor: float, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: shorten_object(inner, factor, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [shorten_object(inner, factor) for inner in value]
    if key in IN_SECONDS:
        return max(1, round(value / factor))
    if key in AS_DURATION:
        return f"{max(1, round(parse_seconds(value) / factor))}s"
    return value


class RealPlaceholders:
    """Pods that occupy the nodes of a real member, with the interface of the simulated ones."""

    def __init__(self, real: RealMember) -> None:
        self._real = real

    async def fill_nodes(self, fraction: float = 1.0) -> None:
        """Fill this fraction of the free capacity of every node with pods without an owner."""
        pods = [entry.typed for entry in self._real.cached_client.cache.table(PODS).entries.values()]
        for name, machine in self._real.kubelets.machines.items():
            needs = {what: int(machine.capacity[what] * fraction) for what in ("cpu", "memory")}
            for pod in pods:
                if pod.spec.node_name == name:
                    taken = pod_resources_of(pod).requests
                    needs = {what: amount - int(taken.get(what, 0) * fraction) for what, amount in needs.items()}
            await self._real.client.create(PODS, placeholder_pod(name, needs), manager="placeholder")

    async def delete(self) -> None:
        await delete_placeholders(self._real.client)


class RealStoryMember:
    """A real member with the interface of a simulated one."""

    def __init__(self, real: RealMember) -> None:
        self._real = real
        self.name = real.name
        self.placeholders = RealPlaceholders(real)
        self.cached_client = real.cached_client
        self._api_tasks: list[asyncio.Task[None]] = []
        self._api_lock = asyncio.Lock()

    @property
    def kubelets(self) -> Kubelets:
        return self._real.kubelets

    async def start_second_api(self) -> None:
        """Start a second API server for the story's observations, because the story stops the first."""
        path = await asyncio.to_thread(self._real.plane.start_second_api)
        self.cached_client = CachedClient(KubeClient(load(path)))

    async def stop_second_api(self) -> None:
        if self.cached_client is not self._real.cached_client:
            await self.cached_client.cache.close()
            await self.cached_client.close()
            await asyncio.to_thread(self._real.plane.stop_second_api)

    def stop_api(self) -> None:
        self._schedule(asyncio.to_thread(self._real.plane.stop_apiserver))

    def start_api(self) -> None:
        self._schedule(asyncio.to_thread(self._real.plane.start_apiserver))

    def _schedule(self, task: Coroutine[Any, Any, None]) -> None:
        self._api_tasks.append(asyncio.ensure_future(self._run_in_order(task)))

    async def _run_in_order(self, task: Coroutine[Any, Any, None]) -> None:
        """Run API server tasks in order: a server starts only after its stop has completed."""
        async with self._api_lock:
            await task

    async def wait_for_api_tasks(self) -> None:
        """Wait until all API server tasks are done."""
        await asyncio.gather(*self._api_tasks)


class RealStoryMembers:
    """The members by name, with the interface of a simulated world."""

    def __init__(self, fleet: RealFleet) -> None:
        self.members: Mapping[str, RealStoryMember] = {
            name: RealStoryMember(member) for name, member in fleet.real_members.items()
        }

    def __getitem__(self, name: str) -> RealStoryMember:
        return self.members[name]

    def with_pods(self, name: str) -> RealStoryMember:
        """The member of this name; a real one always has pods."""
        return self.members[name]

    def __iter__(self) -> Iterator[RealStoryMember]:
        return iter(self.members.values())


class RealStoryFleet:
    """A real fleet that runs one story."""

    def __init__(self, fleet: RealFleet, story: Story) -> None:
        self._fleet = fleet
        self._story = story
        self.client = cast("Client", fleet.cached_client)
        self.world = RealStoryMembers(fleet)
        settings = [f"--set={name}={value}" for name, value in story.settings.items()]
        self._controllers = ControllersProcess(
            fleet.host.kubeconfig,
            fleet.directory / "stories.log",
            f"--profile={story.profile}",
            "--status-seconds=1",
            *settings,
        )

    async def run(self, tell: WriteLine) -> float:
        await self._fleet.reconfigure(self._story.plan)
        for name in sorted(set(clusters_with_stopped_api(self._story))):
            await self.world[name].start_second_api()
        try:
            await self.start_plane()
            return await RealStoryRunner(self._story, cast("EmbeddedFleet", self), WallClock(), tell).run()
        finally:
            await self._clean()
            await self.stop_plane()

    async def start_plane(self) -> None:
        await asyncio.to_thread(self._controllers.__enter__)

    async def stop_plane(self) -> None:
        await asyncio.to_thread(self._controllers.stop)

    async def _clean(self) -> None:
        """Delete everything that the story created, and wait until it is gone."""
        if self._controllers.process is None:
            await self.start_plane()
        for actor in self.world:
            await actor.wait_for_api_tasks()
            if not await asyncio.to_thread(self._fleet.real_members[actor.name].plane.ready):
                await asyncio.to_thread(self._fleet.real_members[actor.name].plane.start_apiserver)
            await actor.stop_second_api()
            await actor.placeholders.delete()
            for name in list(actor.kubelets.behaviours.overrides):
                actor.kubelets.remove_override(name)
        served = {resource.kind: resource for resource in reversed(await self._fleet.client.resources())}
        for step in self._story.timeline:
            client = self._fleet.members[step.where] if step.where else self._fleet.client
            for obj in step.apply or ():
                metadata, resource = obj["metadata"], served[obj["kind"]]
                with contextlib.suppress(NotFound):
                    namespace = metadata.get("namespace", "default") if resource.namespaced else ""
                    await client.delete(resource, namespace, metadata["name"])
        for cluster in (await self._fleet.client.list(CLUSTERS)).items:
            bare = {"metadata": {"annotations": {"trimtab.dev/drain": None}}, "spec": {"taints": None}}
            await self._fleet.client.patch(CLUSTERS, "", cluster["metadata"]["name"], bare)
        await wait_until(self._is_gone)
        for move in (await self._fleet.client.list(MOVES)).items:
            with contextlib.suppress(NotFound):
                await self._fleet.client.delete(MOVES, move["metadata"]["namespace"], move["metadata"]["name"])

    async def _is_gone(self) -> bool:
        bindings = [obj for kind in CLEANED_UP_KINDS for obj in (await self._fleet.client.list(kind)).items]
        pods = [pod for member in self._fleet.members.values() for pod in (await member.list(PODS, "default")).items]
        return not bindings and not pods


class RealStoryRunner(StoryRunner):
    """Reads from watch caches, so that an expectation sees all clusters at one moment."""

    def _client(self, where: str) -> Client:
        if not where:
            return self._fleet.client
        member = cast("RealStoryMember", self._fleet.world[where])
        return cast("Client", member.cached_client)


def clusters_with_stopped_api(story: Story) -> Iterator[str]:
    """The clusters whose API server the story stops."""
    for step in story.timeline:
        if isinstance(step.fail, FailureAction) and not step.fail.app and not step.fail.node:
            yield from as_names(step.fail.cluster)
