"""Plays a story: a whole fleet lives through the script, and every moment is held against what must be true."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator
from collections.abc import Set as AbstractSet
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm import AddOnPlacementScore
from trimtab.api.profile import PROFILES
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Raw
from trimtab.app import Embedded
from trimtab.client.client import Client, PatchType, Resource, resource_of
from trimtab.clock import Clock, LoopClock
from trimtab.errors import AlreadyExists, ApiFault, Conflict, InputFault, TooManyRequests
from trimtab.rescheduling.eviction_client import PODS, evict, eviction, why
from trimtab.server.admission.peer_webhooks import PolicyAdmission
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.local import LocalClient
from trimtab.simulate.behaviour import CRASH, NEVER_READY, OUT_OF_MEMORY, Spell
from trimtab.simulate.member import Member, seeded_uids
from trimtab.simulate.usage import Load
from trimtab.store.store import Store
from trimtab.stories.expectations import HOST, Found, Ref, Saying
from trimtab.stories.story import Evicted, Expectation, Step, Story, Trouble, Used, many, seconds

CLUSTERS = resource_of(kind_of(Cluster))
SCORES = resource_of(kind_of(AddOnPlacementScore))
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
AILMENTS = {"not-ready": NEVER_READY, "crash": CRASH, "out-of-memory": OUT_OF_MEMORY}
GETS_READY_SECONDS = 120.0
DEFAULT_WITHIN = 60.0
Tell = Callable[[float, str], None]


class Failed(Exception):
    """Something that had to be true was not."""

    def __init__(self, expectation: str, at: float, facts: list[str]) -> None:
        super().__init__(expectation)
        self.expectation = expectation
        self.at = at
        self.facts = facts


class Scene(NamedTuple):
    """Everything a moment needs to be judged: who may be asked, and what they said."""

    objects: dict[Ref, list[Raw]]

    def found(self, ref: Ref) -> list[Raw]:
        return self.objects[ref]


class Watchful:
    """One expectation, while it counts."""

    def __init__(self, expectation: Expectation, start: float | None, steps: AbstractSet[str]) -> None:
        self.expectation = expectation
        self.saying = Saying(expectation.text)
        self.from_step = str(expectation.start) if expectation.start in steps else ""
        self.until_step = str(expectation.until) if expectation.until in steps else ""
        self.start: float | None = start
        self.until: float | None = None
        self.met = False
        self.looked_at = False
        if expectation.start is not None:
            self.start = None if self.from_step else seconds(expectation.start)
        if expectation.until is not None and not self.until_step:
            self.until = seconds(expectation.until)

    def reach(self, step: str, now: float) -> None:
        """A step with a name has come: what is counted from it, or up to it."""
        if step and step == self.from_step:
            self.start = now
        if step and step == self.until_step:
            self.until = now

    @property
    def deadline(self) -> float:
        within = self.expectation.within
        end = (self.start or 0.0) + (DEFAULT_WITHIN if within is None else seconds(within))
        return end if self.until is None else min(end, self.until)

    def counts(self, now: float) -> bool:
        if self.met or self.start is None or now < self.start:
            return False
        # What has to become true is judged at the first look after its end: else nobody would ever say that it did not.
        return self.until is None or now <= self.until or bool(self.expectation.that)

    @property
    def pending(self) -> bool:
        """The story cannot end before this has been judged."""
        return bool(self.expectation.that) and not self.met


def new_fleet(story: Story, clock: Clock, **options: Any) -> Embedded:
    """A host in memory and the members of the story; the host is to be started first. `options` are Embedded's."""
    dice = random.Random(f"{story.seed}/host")  # noqa: S311 - a story must be repeatable
    uids = seeded_uids(dice)
    settings = Settings(clock=clock, plugins=[PolicyAdmission(uids)], new_uid=uids, token_key=dice.randbytes(32))
    host = ApiServer(Store(), settings)
    return Embedded(
        story.plan,
        host=host,
        clock=clock,
        profile=PROFILES[story.profile],
        settings=story.settings,
        seed=story.seed,
        **options,
    )


async def play_in_memory(
    story: Story, tell: Tell, progress: Callable[[float], None] = lambda _: None, **options: Any
) -> float:
    """Play the story on the running loop's clock; how long it took there. `Failed` when it does not come true."""
    clock = LoopClock()
    fleet = new_fleet(story, clock, **options)
    await fleet.host.start()
    try:
        await fleet.start()
        return await Stage(story, fleet, clock, tell, progress).play()
    finally:
        await fleet.stop()
        await fleet.host.stop()


class Stage:
    """One performance of one story."""

    def __init__(
        self,
        story: Story,
        fleet: Embedded,
        clock: Clock,
        tell: Tell,
        progress: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._story = story
        self._fleet = fleet
        self._clock = clock
        self._tell = tell
        self._progress = progress
        self._zero = 0.0
        self._every = seconds(story.every)
        self._resources: dict[str, dict[str, Resource]] = {}
        self._watchful: list[Watchful] = []
        self._narrated: dict[str, str] = {}
        self._steps_done = 0
        self._errands: set[asyncio.Task[None]] = set()
        """What somebody in the story does while it goes on."""

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time() - self._zero

    async def play(self) -> float:
        await self._curtain()
        for expectation in self._story.expect:
            self._expect(expectation, None if expectation.that else 0.0)
        for step in self._story.timeline:
            await self._step(step)
            self._steps_done += 1
        for watchful in self._watchful:
            if watchful.start is None:
                watchful.start = self.now
        await self._until_judged()
        for watchful in self._watchful:
            if not watchful.looked_at:
                fact = f"it counts from {clock_text(watchful.start or 0.0)} on, and the story ended before"
                raise Failed(f"somebody looks whether {watchful.expectation}", self.now, [fact])
        for errand in self._errands:
            errand.cancel()
        return self.now

    async def _curtain(self) -> None:
        """The story begins when every cluster is ready."""
        self._zero = asyncio.get_running_loop().time()
        ready = Saying("ready(Cluster/*) == count(Cluster/*)")
        await self._narrate(aloud=False)
        while not ready.holds((await self._look(ready)).found):
            if self.now > GETS_READY_SECONDS:
                raise Failed("every cluster is ready at the beginning", self.now, await self.state())
            await asyncio.sleep(0.5)
        await self._narrate(aloud=False)
        self._zero = asyncio.get_running_loop().time()

    # time

    async def _pass(self, until: float, when: Saying | None = None) -> bool:
        """Let time go by, watching; whether `when` came true."""
        while True:
            await self._judge()
            if when is not None and when.holds((await self._look(when)).found):
                return True
            left = until - self.now
            if left <= 1e-9:
                return False
            await asyncio.sleep(min(self._every, left))

    async def _until_judged(self) -> None:
        ends = [one.until for one in self._watchful if one.until is not None]
        await self._pass(max([seconds(self._story.lasts), *ends]))
        while any(one.pending for one in self._watchful):
            await self._pass(self.now + self._every)

    # what must be true

    def _expect(self, expectation: Expectation, default: float | None) -> None:
        names = {step.name for step in self._story.timeline if step.name}
        self._watchful.append(Watchful(expectation, default, names))

    async def _judge(self) -> None:
        await self._narrate()
        for watchful in self._watchful:
            if watchful.counts(self.now):
                await self._hold_against(watchful)
        total = len(self._story.timeline) + sum(bool(one.expectation.that) for one in self._watchful)
        met = sum(one.met for one in self._watchful)
        self._progress((self._steps_done + met) / max(1, total))

    async def _hold_against(self, watchful: Watchful) -> None:
        expectation = watchful.expectation
        watchful.looked_at = True
        found = (await self._look(watchful.saying)).found
        holds = watchful.saying.holds(found)
        if expectation.that:
            if holds:
                watchful.met = True
                self._tell(self.now, f"✓ {expectation.that}")
            elif self.now >= watchful.deadline:
                await self._fail(watchful, found)
        elif holds is bool(expectation.never):
            await self._fail(watchful, found)

    async def _fail(self, watchful: Watchful, found: Found) -> None:
        facts = [f"{text} is {shown(value)}" for text, value in watchful.saying.seen(found)]
        if watchful.expectation.that:
            facts.append(f"waited from {clock_text(watchful.start or 0.0)} to {clock_text(self.now)}")
        if watchful.expectation.because:
            facts.append(f"it must be so because {watchful.expectation.because}")
        raise Failed(str(watchful.expectation), self.now, [*facts, *(await self.state())])

    async def _look(self, saying: Saying) -> Scene:
        return Scene({ref: await self._objects(ref) for ref in saying.refs})

    async def _objects(self, ref: Ref) -> list[Raw]:
        found: list[Raw] = []
        for where in self._places(ref.where):
            client = self._client(where)
            resource = await self._resource(where, ref.kind)
            exact = resource.namespaced and ref.namespace is not None and "*" not in ref.namespace
            namespace = ref.namespace or "" if exact else "default" if ref.namespace is None else ""
            listing = await client.list(resource, namespace if resource.namespaced else "")
            found += [obj for obj in listing.items if ref.names(obj)]
        return found

    def _places(self, where: str) -> list[str]:
        if where == HOST:
            return [HOST]
        return [name for name in self._fleet.world.members if fnmatchcase(name, where)]

    def _client(self, where: str) -> Client:
        """Members are asked directly: a story knows the truth even where the control plane cannot look."""
        if where and where not in self._fleet.world.members:
            raise InputFault(f"no member is called {where}")
        return LocalClient(self._fleet.world[where].server) if where else self._fleet.client

    async def _resource(self, where: str, kind: str) -> Resource:
        known = self._resources.get(where, {})
        if kind not in known:
            known = self._resources[where] = {}
            for resource in await self._client(where).resources():
                known.setdefault(resource.kind, resource)
        if kind not in known:
            raise InputFault(f"no kind is called {kind} {'in ' + where if where else 'in the control plane'}")
        return known[kind]

    # what happens

    async def _step(self, step: Step) -> None:
        if step.at is not None:
            await self._pass(seconds(step.at))
        elif step.after is not None:
            await self._pass(self.now + seconds(step.after))
        elif step.when:
            saying = Saying(step.when)
            if not await self._pass(self.now + seconds(step.timeout), saying):
                found = (await self._look(saying)).found
                facts = [f"{text} is {shown(value)}" for text, value in saying.seen(found)]
                raise Failed(f"when {step.when}", self.now, [*facts, *(await self.state())])
        if step.say:
            self._tell(self.now, step.say)
        for watchful in self._watchful:
            watchful.reach(step.name, self.now)
        try:
            await self._act(step)
        except ApiFault as fault:
            raise Failed(f"the step at {clock_text(self.now)} is possible", self.now, [str(fault)]) from fault
        for expectation in step.expect:
            self._expect(expectation, self.now)
        if step.wait is not None:
            await self._pass(self.now + seconds(step.wait))

    async def _act(self, step: Step) -> None:
        await self._write(step)
        await self._trouble(step)
        await self._shape(step)
        if step.restart is not None:
            await self._restart(step)

    async def _write(self, step: Step) -> None:
        client = self._client(step.where)
        there = f" in {step.where}" if step.where else ""
        for obj in step.apply or ():
            await self._apply(step.where, obj)
            self._tell(self.now, f"apply {name_of(obj)}{there}")
        if step.patch is not None:
            resource, namespace, name = await self._at(step.where, step.patch.object)
            kind = cast("PatchType", step.patch.type)
            sub = step.patch.subresource
            await client.patch(resource, namespace, name, step.patch.body, type=kind, subresource=sub, manager="story")
            self._tell(self.now, f"patch {step.patch.object}{there}: {shown(step.patch.body)}")
        if step.scale is not None:
            resource, namespace, name = await self._at(step.where, step.scale.object)
            await client.patch(resource, namespace, name, {"spec": {"replicas": step.scale.replicas}}, manager="story")
            self._tell(self.now, f"scale {step.scale.object}{there} to {step.scale.replicas}")
        for text in many(step.delete):
            resource, namespace, name = await self._at(step.where, text)
            await client.delete(resource, namespace, name)
            self._tell(self.now, f"delete {text}{there}")

    async def _apply(self, where: str, obj: Raw) -> None:
        resource = await self._resource(where, obj["kind"])
        if resource.api_version != obj["apiVersion"]:
            group, _, version = obj["apiVersion"].rpartition("/")
            resource = resource._replace(group=group, version=version)
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "default") if resource.namespaced else ""
        body = {**obj, "metadata": {**metadata, "namespace": namespace}} if namespace else obj
        await self._client(where).patch(
            resource, namespace, metadata["name"], body, type="apply", manager="story", force=True
        )

    async def _at(self, where: str, text: str) -> tuple[Resource, str, str]:
        kind, *names = text.split("/")
        if not 1 <= len(names) <= 2:
            raise InputFault(f"{text!r} names no object; write Kind/namespace/name or Kind/name")
        resource = await self._resource(where, kind)
        namespace = names[0] if len(names) == 2 else "default"
        return resource, namespace if resource.namespaced else "", names[-1]

    async def _trouble(self, step: Step) -> None:
        world = self._fleet.world
        if step.fail is not None:
            await self._failing(step.fail)
        if step.recover is not None:
            await self._recovering(step.recover)
        for name in many(step.partition):
            world[name].partition()
            self._tell(self.now, f"{name} is cut off")
        for name in many(step.heal):
            world[name].heal()
            self._tell(self.now, f"{name} can be reached again")
        if step.slow is not None:
            for name in many(step.slow.cluster):
                world[name].slow(seconds(step.slow.by))
                self._tell(self.now, f"{name} answers {step.slow.by} later")

    async def _failing(self, trouble: Trouble) -> None:
        for member in self._troubled(trouble):
            if trouble.app:
                if trouble.how not in AILMENTS:
                    raise InputFault(f"an app fails by {', '.join(AILMENTS)}, not by {trouble.how!r}")
                namespace, _, app = trouble.app.rpartition("/")
                selector = LabelSelector(match_labels={"app": app})
                member.cast(Spell(f"story/{trouble.app}", AILMENTS[trouble.how], namespace, selector, trouble.node))
                self._tell(self.now, f"{trouble.app} fails in {member.name}: {trouble.how}")
            elif trouble.node:
                member.fail_node(trouble.node)
                self._tell(self.now, f"node {trouble.node} of {member.name} fails")
            else:
                member.stop_api()
                self._tell(self.now, f"{member.name} fails")

    async def _recovering(self, trouble: Trouble) -> None:
        for member in self._troubled(trouble):
            if trouble.app:
                member.lift(f"story/{trouble.app}")
                self._tell(self.now, f"{trouble.app} is well again in {member.name}")
            elif trouble.node:
                await member.recover_node(trouble.node)
                self._tell(self.now, f"node {trouble.node} of {member.name} is back")
            else:
                member.start_api()
                self._tell(self.now, f"{member.name} is back")

    async def _evict(self, wanted: Evicted) -> None:
        client = self._client(wanted.cluster)
        namespace, _, name = wanted.pods.rpartition("/")
        pods = [
            pod
            for pod in (await client.list(PODS, namespace or "default")).items
            if fnmatchcase(pod["metadata"]["name"], name)
            and not pod["metadata"].get("deletionTimestamp")
            and (not wanted.node or pod["spec"].get("nodeName") == wanted.node)
        ][: wanted.count]
        answers = await asyncio.gather(*(self._asked_to_go(client, pod, wanted) for pod in pods))
        refused = [answer for answer in answers if answer]
        granted = len(answers) - len(refused)
        said = f"evict {len(pods)} of {wanted.pods} in {wanted.cluster}: {granted} granted"
        self._tell(self.now, f"{said}; refused: {refused[0]}" if refused else said)
        if wanted.granted is not None and granted != wanted.granted:
            raise Failed(f"{wanted.granted} evictions are granted", self.now, [f"{granted} were", *refused])

    async def _asked_to_go(self, client: Client, pod: Raw, wanted: Evicted) -> str:
        """Why not; empty when it may go."""
        try:
            await evict(client, pod, eviction(pod, annotations=wanted.annotations))
        except TooManyRequests as fault:
            return why(fault)
        return ""

    def _troubled(self, trouble: Trouble) -> Iterator[Any]:
        world = self._fleet.world
        named = many(trouble.cluster)
        if trouble.node and not named:
            named = tuple(m.name for m in world if trouble.node in m.kubelets.machines)
        for name in named or (tuple(world.members) if trouble.app else ()):
            if name not in world.members:
                raise InputFault(f"no member is called {name}")
            yield world[name]

    async def _shape(self, step: Step) -> None:
        """What changes about the clusters themselves."""
        world = self._fleet.world
        if step.taint is not None:
            taint = step.taint
            added = {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})
            if taint.effect == "NoExecute":
                added["timeAdded"] = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            for name in many(taint.cluster):
                await self._taints(name, taint.key, [added])
                self._tell(self.now, f"taint {name}: {taint.key}:{taint.effect}")
        if step.untaint is not None:
            for name in many(step.untaint.cluster):
                await self._taints(name, step.untaint.key, [])
                self._tell(self.now, f"untaint {name}: {step.untaint.key}")
        if step.load is not None:
            for name in many(step.load.cluster):
                await world[name].fill(step.load.part)
                self._tell(self.now, f"{name} is filled: {step.load.part:.0%} of what was free")
        for name in many(step.empty):
            await world[name].empty()
            self._tell(self.now, f"{name} is emptied again")
        if step.drain is not None:
            member = world[step.drain.cluster]
            self._errands.add(asyncio.get_running_loop().create_task(member.drain(step.drain.node)))
            self._tell(self.now, f"node {step.drain.node} of {member.name} is drained")
        if step.evict is not None:
            await self._evict(step.evict)
        if step.use is not None:
            for name in many(step.use.cluster):
                self._use(world[name], step.use)
        if step.claim is not None:
            for name in many(step.claim.cluster):
                await world[name].claim(step.claim.factor)
                self._tell(self.now, f"{name} claims to have {step.claim.factor:g} times what it has")
        if step.score is not None:
            await self._score(step)
        if step.join is not None:
            await world.add(step.join)
            await self._fleet.join(step.join)
            self._tell(self.now, f"{step.join.name} joins")
        for name in many(step.leave):
            await self._fleet.client.delete(CLUSTERS, "", name)
            self._tell(self.now, f"{name} is asked to leave")

    def _use(self, member: Member, used: Used) -> None:
        if used.cpu is None:
            member.usage.clear(f"story/{used.app}")
            self._tell(self.now, f"{used.app} uses as much as usual in {member.name}")
            return
        selector = LabelSelector(match_labels={"app": used.app})
        member.usage.set(Load(f"story/{used.app}", selector=selector, amounts={"cpu": int(1000 * used.cpu)}))
        self._tell(self.now, f"each pod of {used.app} uses {used.cpu:g} CPUs in {member.name}")

    async def _taints(self, name: str, key: str, added: list[Raw]) -> None:
        while True:
            cluster = await self._fleet.client.get(CLUSTERS, "", name)
            taints = [taint for taint in cluster["spec"].get("taints") or () if taint["key"] != key]
            wanted = {**cluster, "spec": {**cluster["spec"], "taints": [*taints, *added]}}
            with contextlib.suppress(Conflict):
                await self._fleet.client.replace(CLUSTERS, wanted, manager="story")
                return

    async def _score(self, step: Step) -> None:
        score = step.score
        if score is None:
            return
        client = self._fleet.client
        with contextlib.suppress(AlreadyExists):
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": score.cluster}}
            await client.create(NAMESPACES, space, manager="story")
        sheet = {
            "apiVersion": SCORES.api_version,
            "kind": SCORES.kind,
            "metadata": {"name": score.resource, "namespace": score.cluster},
        }
        with contextlib.suppress(AlreadyExists):
            await client.create(SCORES, sheet, manager="story")
        status: Raw = {"scores": [{"name": name, "value": value} for name, value in score.scores.items()]}
        if score.valid is not None:
            until = self._clock.now() + timedelta(seconds=seconds(score.valid))
            status["validUntil"] = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        await client.patch(SCORES, score.cluster, score.resource, {"status": status}, subresource="status")
        self._tell(self.now, f"{score.cluster} scores {shown(score.scores)} in {score.resource}")

    async def _restart(self, step: Step) -> None:
        down = 0.0 if isinstance(step.restart, str) or step.restart is None else seconds(step.restart.down)
        self._tell(self.now, "the control plane dies")
        await self._fleet.stop_plane()
        await self._pass(self.now + down)
        await self._fleet.start_plane()
        self._tell(self.now, "the control plane is back")

    # what people see

    async def _narrate(self, *, aloud: bool = True) -> None:
        """Tell what has changed since the last look."""
        seen = {name: text async for name, text in self._sights()}
        for name in [*seen, *(name for name in self._narrated if name not in seen)]:
            text = seen.get(name, "is gone")
            if self._narrated.get(name) != text and aloud:
                self._tell(self.now, f"{name} {text}")
        self._narrated = seen

    async def _sights(self) -> AsyncIterator[tuple[str, str]]:
        for obj in await self._objects(Ref(HOST, "Cluster", None, "*")):
            ready = condition(obj, "Ready").get("status", "Unknown")
            taints = [f"{taint['key']}:{taint['effect']}" for taint in obj["spec"].get("taints") or ()]
            word = {"True": "is ready", "False": "is not ready"}.get(ready, "may or may not be ready")
            yield f"cluster {obj['metadata']['name']}", word + (f", tainted {' '.join(taints)}" if taints else "")
        for kind in ("ResourceBinding", "ClusterResourceBinding"):
            for obj in await self._objects(Ref(HOST, kind, "*", "*")):
                yield f"{obj['metadata']['name']}", placement_text(obj)
        for obj in await self._objects(Ref(HOST, "Deployment", "*", "*")):
            status = obj.get("status") or {}
            wanted, ready = obj["spec"].get("replicas", 1), status.get("readyReplicas", 0)
            yield name_of(obj), f"has {ready} ready, {wanted} asked for"

    async def state(self) -> list[str]:
        """How everything stands, for somebody who has to find out why."""
        lines = ["", "how it stood:"]
        lines += [f"  {name} {text}" async for name, text in self._sights()]
        for obj in await self._objects(Ref(HOST, "ResourceBinding", "*", "*")):
            status, spec = obj.get("status") or {}, obj["spec"]
            lines += [
                f"  {obj['metadata']['name']}: {c['type']}={c['status']} {c.get('reason', '')}: {c.get('message', '')}"
                for c in status.get("conditions") or ()
            ]
            lines += [f"    held: {shown(hold)}" for hold in status.get("holds") or ()]
            lines += [f"    leaving: {shown(task)}" for task in spec.get("gracefulEvictionTasks") or ()]
        for name in self._fleet.world.members:
            for kind in ("Deployment", "StatefulSet"):
                for obj in await self._objects(Ref(name, kind, "*", "*")):
                    ready = (obj.get("status") or {}).get("readyReplicas", 0)
                    lines.append(f"  {name}: {name_of(obj)} has {ready} of {obj['spec'].get('replicas', 1)} ready")
        events = await self._objects(Ref(HOST, "Event", "*", "*"))
        events.sort(key=lambda event: event.get("lastTimestamp") or "")
        lines += ["", "the last events:"]
        lines += [f"  {e['reason']} {name_of_ref(e['involvedObject'])}: {e['message']}" for e in events[-10:]]
        return lines


def placement_text(binding: Raw) -> str:
    targets = binding["spec"].get("clusters") or ()
    shares = [f"{t['name']}={t['replicas']}" if t.get("replicas") else t["name"] for t in targets]
    text = f"is placed on {' '.join(shares)}" if shares else "is placed nowhere"
    status = binding.get("status") or {}
    if holds := status.get("holds"):
        text += ", still held in " + " ".join(f"{hold['cluster']}={hold.get('replicas', '')}" for hold in holds)
    if tasks := binding["spec"].get("gracefulEvictionTasks"):
        text += ", leaving " + " ".join(task["fromCluster"] for task in tasks)
    return text


def condition(obj: Raw, type_: str) -> Raw:
    conditions: list[Raw] = (obj.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == type_), {})


def name_of(obj: Raw) -> str:
    metadata = obj["metadata"]
    return "/".join(part for part in (obj["kind"], metadata.get("namespace", ""), metadata["name"]) if part)


def name_of_ref(ref: Raw) -> str:
    return "/".join(part for part in (ref["kind"], ref.get("namespace", ""), ref.get("name", "")) if part)


def shown(value: Any) -> str:
    """A value, short enough for one line."""
    if isinstance(value, dict) and "kind" in value and "metadata" in value:
        return name_of(value)
    if isinstance(value, list):
        inner = ", ".join(map(shown, value[:8])) + (", ..." if len(value) > 8 else "")
        return f"[{inner}]"
    text = "missing" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def clock_text(at: float) -> str:
    whole = int(at)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
