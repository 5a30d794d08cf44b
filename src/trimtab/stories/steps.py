"""Carries out the actions of a story's steps on the fleet."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Raw
from trimtab.api.wording import plural, verb
from trimtab.client.client import Client, PatchType, Resource, resource_of
from trimtab.clock import Clock
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.errors import AlreadyExists, Conflict, InputError, TooManyRequests
from trimtab.rescheduling.eviction_client import PODS, evict, eviction_body, refusal_message
from trimtab.simulate.kubelets.behaviour import CRASH, NEVER_READY, OUT_OF_MEMORY, BehaviourOverride
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.usage import PodLoad
from trimtab.stories.objects import StoryObjects
from trimtab.stories.report import StoryFailed, WriteLine, name_of, short_text
from trimtab.stories.story import (
    EvictAction,
    FailureAction,
    RestartAction,
    ScoreAction,
    StoryStep,
    TaintAction,
    UsageAction,
    as_names,
    parse_seconds,
)

CLUSTERS = resource_of(kind_of(Cluster))
SCORES = resource_of(kind_of(AddOnPlacementScore))
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
APP_FAILURES = {"not-ready": NEVER_READY, "crash": CRASH, "out-of-memory": OUT_OF_MEMORY}


class StepActions:
    """Applies one step after the other; every action writes one line."""

    def __init__(
        self,
        fleet: EmbeddedFleet,
        clock: Clock,
        objects: StoryObjects,
        now: Callable[[], float],
        write_line: WriteLine,
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._objects = objects
        self._now = now
        self._write_line = write_line
        self._drains: set[asyncio.Task[None]] = set()
        """Node drains run in the background: they take as long as the budgets require."""

    def _write(self, text: str) -> None:
        self._write_line(self._now(), text)

    async def run(self, step: StoryStep, wait_until: Callable[[float], Awaitable[Any]]) -> None:
        """All actions of the step; `wait_until` lets the story's time pass while the control plane is down."""
        await self._write_objects(step)
        await self._change_connectivity(step)
        await self._change_taints(step)
        await self._change_load(step)
        if step.score is not None:
            await self._score(step.score)
        await self._change_membership(step)
        if step.restart is not None:
            await self._restart(step.restart, wait_until)

    def stop(self) -> None:
        """Cancel the drains that are still running."""
        for drain in self._drains:
            drain.cancel()

    async def _write_objects(self, step: StoryStep) -> None:
        client = self._objects.client_for(step.where)
        place = f" in {step.where}" if step.where else ""
        for obj in step.apply or ():
            await self._objects.apply(step.where, obj)
            self._write(f"apply {name_of(obj)}{place}")
        if step.patch is not None:
            resource, namespace, name = await self._objects.locate(step.where, step.patch.object)
            kind = cast("PatchType", step.patch.type)
            sub = step.patch.subresource
            await client.patch(resource, namespace, name, step.patch.body, type=kind, subresource=sub, manager="story")
            self._write(f"patch {step.patch.object}{place}: {short_text(step.patch.body)}")
        if step.scale is not None:
            resource, namespace, name = await self._objects.locate(step.where, step.scale.object)
            await client.patch(resource, namespace, name, {"spec": {"replicas": step.scale.replicas}}, manager="story")
            self._write(f"scale {step.scale.object}{place} to {step.scale.replicas}")
        for text in as_names(step.delete):
            resource, namespace, name = await self._objects.locate(step.where, text)
            await client.delete(resource, namespace, name)
            self._write(f"delete {text}{place}")

    async def _change_connectivity(self, step: StoryStep) -> None:
        world = self._fleet.world
        if step.fail is not None:
            self._fail(step.fail)
        if step.recover is not None:
            await self._recover(step.recover)
        for name in as_names(step.partition):
            world[name].partition()
            self._write(f"{name} is disconnected")
        for name in as_names(step.heal):
            world[name].heal()
            self._write(f"{name} is connected again")
        if step.slow is not None:
            for name in as_names(step.slow.cluster):
                world[name].delay_requests(parse_seconds(step.slow.by))
                self._write(f"{name} responds {step.slow.by} later")

    def _fail(self, failure: FailureAction) -> None:
        for member in self._members_of(failure):
            if failure.app:
                namespace, _, app = failure.app.rpartition("/")
                selector = LabelSelector(match_labels={"app": app})
                member.kubelets.override_behaviour(
                    BehaviourOverride(
                        f"story/{failure.app}", APP_FAILURES[failure.how], namespace, selector, failure.node
                    )
                )
                self._write(f"{failure.app} fails in {member.name}: {failure.how}")
            elif failure.node:
                member.kubelets.fail(failure.node)
                self._write(f"node {failure.node} of {member.name} fails")
            else:
                member.stop_api()
                self._write(f"{member.name} fails")

    async def _recover(self, failure: FailureAction) -> None:
        for member in self._members_of(failure):
            if failure.app:
                member.kubelets.remove_override(f"story/{failure.app}")
                self._write(f"{failure.app} recovers in {member.name}")
            elif failure.node:
                await member.kubelets.recover(failure.node)
                self._write(f"node {failure.node} of {member.name} recovers")
            else:
                member.start_api()
                self._write(f"{member.name} recovers")

    def _members_of(self, failure: FailureAction) -> Iterator[Any]:
        """The members that the failure names; with a node alone its member, with an app alone every member."""
        world = self._fleet.world
        names = as_names(failure.cluster)
        if failure.node and not names:
            names = tuple(
                m.name for m in world if isinstance(m, SimulatedMember) and failure.node in m.kubelets.machines
            )
        for name in names or (tuple(world.members) if failure.app else ()):
            if name not in world.members:
                raise InputError(f"there is no member {name}; members: {', '.join(world.members)}")
            yield world.with_pods(name) if failure.node or failure.app else world[name]

    async def _change_taints(self, step: StoryStep) -> None:
        if step.taint is not None:
            await self._taint(step.taint)
        if step.untaint is not None:
            for name in as_names(step.untaint.cluster):
                await self._set_taints(name, step.untaint.key, [])
                self._write(f"untaint {name}: {step.untaint.key}")

    async def _change_load(self, step: StoryStep) -> None:
        world = self._fleet.world
        if step.load is not None:
            for name in as_names(step.load.cluster):
                await world.with_pods(name).placeholders.fill_nodes(step.load.part)
                self._write(f"{name} is loaded: {step.load.part:.0%} of its free capacity is used")
        for name in as_names(step.empty):
            await world.with_pods(name).placeholders.delete()
            self._write(f"{name} is no longer loaded")
        if step.drain is not None:
            member = world.with_pods(step.drain.cluster)
            self._drains.add(asyncio.get_running_loop().create_task(member.drain(step.drain.node)))
            self._write(f"drain node {step.drain.node} of {member.name}")
        if step.evict is not None:
            await self._evict(step.evict)
        if step.use is not None:
            for name in as_names(step.use.cluster):
                self._set_usage(world.with_pods(name), step.use)
        if step.claim is not None:
            for name in as_names(step.claim.cluster):
                await world.with_pods(name).kubelets.scale_reported_capacity(step.claim.factor)
                self._write(f"{name} reports {step.claim.factor:g} times its capacity")

    async def _change_membership(self, step: StoryStep) -> None:
        if step.join is not None:
            await self._fleet.world.add(step.join)
            await self._fleet.join(step.join)
            self._write(f"{step.join.name} joins")
        for name in as_names(step.leave):
            await self._fleet.client.delete(CLUSTERS, "", name)
            self._write(f"unjoin {name}")

    async def _evict(self, wanted: EvictAction) -> None:
        client = self._objects.client_for(wanted.cluster)
        namespace, _, name = wanted.pods.rpartition("/")
        pods = [
            pod
            for pod in (await client.list(PODS, namespace or "default")).items
            if fnmatchcase(pod["metadata"]["name"], name)
            and not pod["metadata"].get("deletionTimestamp")
            and (not wanted.node or pod["spec"].get("nodeName") == wanted.node)
        ][: wanted.count]
        results = await asyncio.gather(*(eviction_refusal(client, pod, wanted) for pod in pods))
        refusals = [refusal for refusal in results if refusal]
        granted = len(results) - len(refusals)
        text = f"evict {len(pods)} of {wanted.pods} in {wanted.cluster}: {granted} granted"
        self._write(f"{text}; refused: {refusals[0]}" if refusals else text)
        if wanted.granted is not None and granted != wanted.granted:
            message = (
                f"{plural(wanted.granted, 'eviction')} must be granted, and {granted} {verb(granted, 'was', 'were')}"
            )
            raise StoryFailed(message, self._now(), refusals)

    def _set_usage(self, member: SimulatedMember, used: UsageAction) -> None:
        if used.cpu is None:
            member.usage.clear(f"story/{used.app}")
            self._write(f"pods of {used.app} use their default CPU in {member.name}")
            return
        selector = LabelSelector(match_labels={"app": used.app})
        member.usage.set(PodLoad(f"story/{used.app}", selector=selector, amounts={"cpu": int(1000 * used.cpu)}))
        self._write(f"each pod of {used.app} uses {used.cpu:g} CPUs in {member.name}")

    async def _taint(self, taint: TaintAction) -> None:
        added = {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})
        if taint.effect == "NoExecute":
            added["timeAdded"] = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        for name in as_names(taint.cluster):
            await self._set_taints(name, taint.key, [added])
            self._write(f"taint {name}: {taint.key}:{taint.effect}")

    async def _set_taints(self, name: str, key: str, added: list[Raw]) -> None:
        """Replace the taints with this key; try again when the cluster was written meanwhile."""
        while True:
            cluster = await self._fleet.client.get(CLUSTERS, "", name)
            taints = [taint for taint in cluster["spec"].get("taints") or () if taint["key"] != key]
            wanted = {**cluster, "spec": {**cluster["spec"], "taints": [*taints, *added]}}
            with contextlib.suppress(Conflict):
                await self._fleet.client.replace(CLUSTERS, wanted, manager="story")
                return

    async def _score(self, score: ScoreAction) -> None:
        client = self._fleet.client
        with contextlib.suppress(AlreadyExists):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": score.cluster}}
            await client.create(NAMESPACES, namespace, manager="story")
        obj = {
            "apiVersion": SCORES.api_version,
            "kind": SCORES.kind,
            "metadata": {"name": score.resource, "namespace": score.cluster},
        }
        with contextlib.suppress(AlreadyExists):
            await client.create(SCORES, obj, manager="story")
        status: Raw = {"scores": [{"name": name, "value": value} for name, value in score.scores.items()]}
        if score.valid is not None:
            until = self._clock.now() + timedelta(seconds=parse_seconds(score.valid))
            status["validUntil"] = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        await client.patch(SCORES, score.cluster, score.resource, {"status": status}, subresource="status")
        self._write(f"score {score.resource} of {score.cluster}: {short_text(score.scores)}")

    async def _restart(self, restart: str | RestartAction, wait_until: Callable[[float], Awaitable[Any]]) -> None:
        down = 0.0 if isinstance(restart, str) else parse_seconds(restart.down)
        self._write("the control plane stops")
        await self._fleet.stop_plane()
        await wait_until(self._now() + down)
        await self._fleet.start_plane()
        self._write("the control plane starts")


async def eviction_refusal(client: Client, pod: Raw, wanted: EvictAction) -> str:
    """Evict the pod; the reason when that is refused, else empty."""
    try:
        await evict(client, pod, eviction_body(pod, annotations=wanted.annotations))
    except TooManyRequests as fault:
        return refusal_message(fault)
    return ""
