"""Whatever happens, budgets hold to the last pod: concurrent evictors, restarts, illness, drains, preemption, failing nodes."""

import asyncio
import contextlib
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from server.asgi import Wire
from server.test_eviction import BUDGETS as OUR_BUDGETS
from server.test_eviction import CUSTOM, PDBS, PODS, SELECTOR, evict, merge, pod, stood
from server.test_eviction import pdb as made_pdb
from simulate.scenery import BUDGETS, CLASSES, DEPLOYMENTS, deployment, fleet, in_a_member, template, workload
from simulate.scenery import PODS as PODS_OF
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.clock import LoopClock
from trimtab.decide.pods.guard import RATE
from trimtab.errors import ApiFault
from trimtab.runtime.drain import Drain, Options
from trimtab.runtime.evicting import evict as ask_to_go
from trimtab.runtime.evicting import eviction
from trimtab.server.assembly import ApiServer, Settings
from trimtab.simulate.binder import Binder
from trimtab.simulate.member import Member
from trimtab.store.log import Store

SOME = settings(max_examples=12, deadline=None, derandomize=True)
FEW = settings(max_examples=4, deadline=None, derandomize=True)
OURS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
POLICIES = Resource("trimtab.dev", "v1alpha1", "disruptionpolicies", "DisruptionPolicy", namespaced=False)
POD = kind_of(Pod)
COUNT = 8


class Window(NamedTuple):
    """At most so many disruptions in any window of so many seconds."""

    most: int
    seconds: int

    def hold(self, granted: list[datetime]) -> None:
        for at in granted:
            inside = [other for other in granted if at - timedelta(seconds=self.seconds) < other <= at]
            assert len(inside) <= self.most, f"{len(inside)} in {self.seconds} s, {self.most} allowed"


class SetClock:
    """Stands still until somebody moves it, also backwards."""

    def __init__(self) -> None:
        self.at = datetime(2026, 8, 1, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


acts = st.lists(
    st.one_of(
        st.tuples(st.just("evict"), st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=COUNT)),
        st.tuples(st.just("ill"), st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=4)),
        st.tuples(st.just("wait"), st.integers(1, 400)),
        st.tuples(st.just("count"), st.none()),
        st.tuples(st.just("restart"), st.booleans()),
        st.tuples(st.just("replaced"), st.none()),
    ),
    min_size=6,
    max_size=16,
)
windows = st.builds(Window, st.integers(1, 3), st.integers(60, 900))


class Cluster:
    """One API server on disk that may be restarted, and nobody who keeps the budgets but the test."""

    def __init__(self, directory: Path, desired: list[int], ours: Window, theirs: Window) -> None:
        self._directory, self._desired, self._ours, self._theirs = directory, desired, ours, theirs
        self.clock = SetClock()
        self.granted: list[datetime] = []
        self._born = COUNT

    async def start(self) -> None:
        settings_ = Settings(clock=self.clock, several_budgets=True, collects=False)
        self._server = ApiServer(Store.open(self._directory), settings_)
        await self._server.start()
        self.wire = Wire(self._server)

    async def stop(self) -> None:
        await self._server.stop()

    async def settle(self) -> None:
        for number in range(COUNT):
            await pod(self.wire, f"web-{number}")
        for number, floor in enumerate(self._desired):
            await made_pdb(self.wire, f"b{number}", COUNT, floor)
        await made_pdb(
            self.wire, "theirs", COUNT, 0, annotations={RATE: f"{self._theirs.most}/{self._theirs.seconds}s"}
        )
        rate = {"disruptions": self._ours.most, "period": f"{self._ours.seconds}s"}
        spec = {"target": "Pods", "selector": SELECTOR, "rate": rate}
        assert (
            await self.wire("POST", OUR_BUDGETS, {**CUSTOM, "metadata": {"name": "ours"}, "spec": spec})
        ).status == 201
        await merge(self.wire, f"{OUR_BUDGETS}/ours/status", {"status": stood(COUNT, 0)})

    async def healthy(self) -> set[str]:
        items = (await self.wire("GET", PODS)).json()["items"]
        return {
            one["metadata"]["name"]
            for one in items
            if not one["metadata"].get("deletionTimestamp")
            and any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"]["conditions"])
        }

    async def evict(self, numbers: list[int], *, cut_short: bool = False) -> None:
        before = await self.healthy()
        asked = [
            asyncio.ensure_future(evict(self.wire, f"web-{number}", "evict" if number % 2 else "eviction"))
            for number in numbers
        ]
        if cut_short:
            await asyncio.sleep(0)
            await self.stop()
            await asyncio.gather(*asked, return_exceptions=True)
            await self.start()
        else:
            assert {answer.status for answer in await asyncio.gather(*asked)} <= {201, 404, 429}
        after = await self.healthy()
        assert before == after or len(after) >= max(self._desired)
        self.granted += [self.clock.now()] * len(before - after)

    async def count(self) -> None:
        """What a disruption controller would write, late or early."""
        now = len(await self.healthy())
        for number, floor in enumerate(self._desired):
            counted = stood(now, floor) | {"disruptionsAllowed": max(0, now - floor), "disruptedPods": None}
            await merge(self.wire, f"{PDBS}/b{number}/status", {"status": counted})
        await merge(self.wire, f"{PDBS}/theirs/status", {"status": {**stood(now, 0), "disruptedPods": None}})

    async def replace(self) -> None:
        """Those who were ending are gone, and as many new ones are well."""
        items = (await self.wire("GET", PODS)).json()["items"]
        for one in items:
            if one["metadata"].get("deletionTimestamp"):
                name = one["metadata"]["name"]
                await self.wire("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
                await pod(self.wire, name)

    async def play(self, script: list[Any]) -> None:
        for act, what in script:
            if act == "evict":
                await self.evict(what)
            elif act == "restart" and what:
                await self.evict(list(range(COUNT)), cut_short=True)
            elif act == "restart":
                await self.stop()
                await self.start()
            elif act == "ill":
                ill = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
                for number in what:
                    path = f"{PODS}/web-{number}/status"
                    await self.wire("PATCH", path, ill, content_type="application/merge-patch+json")
            elif act == "count":
                await self.count()
            elif act == "replaced":
                await self.replace()
            else:
                self.clock.at += timedelta(seconds=what)


@SOME
@given(acts, st.lists(st.integers(1, COUNT - 1), min_size=1, max_size=2), windows, windows)
def test_no_budget_is_overspent_not_by_one_by_concurrent_evictors_over_restarts(
    script: list[Any], desired: list[int], ours: Window, theirs: Window
) -> None:
    """Several budgets of both kinds, by strength and by rate, a controller that looks late, servers that end midway."""

    async def life(directory: Path) -> Cluster:
        cluster = Cluster(directory, desired, ours, theirs)
        await cluster.start()
        try:
            await cluster.settle()
            await cluster.play(script)
        finally:
            await cluster.stop()
        return cluster

    with tempfile.TemporaryDirectory() as directory:
        cluster = asyncio.run(life(Path(directory)))
    ours.hold(cluster.granted)
    theirs.hold(cluster.granted)


class App(NamedTuple):
    """A workload and its budgets."""

    replicas: int
    cpu: str
    level: int
    spare: int
    window: Window | None


app = st.builds(
    App,
    st.integers(2, 6),
    st.sampled_from(["300m", "700m", "1500m"]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.one_of(st.none(), windows),
)
blows = st.lists(
    st.one_of(
        st.tuples(st.just("drain"), st.integers(1, 4)),
        st.tuples(st.just("open"), st.integers(1, 4)),
        st.tuples(st.just("storm"), st.integers(0, 3)),
        st.tuples(st.just("fail"), st.integers(1, 4)),
        st.tuples(st.just("recover"), st.integers(1, 4)),
        st.tuples(st.just("newcomer"), st.sampled_from(["700m", "2", "2800m"])),
        st.tuples(st.just("scheduler"), st.none()),
        st.tuples(st.just("outage"), st.integers(1, 60)),
        st.tuples(st.just("wait"), st.integers(1, 600)),
    ),
    min_size=3,
    max_size=8,
)


class Auditor:
    """Reads every change of a pod in the order in which it was written, and holds it against the budgets."""

    def __init__(self, member: Member, apps: list[App]) -> None:
        self._member, self._apps = member, apps
        self._healthy: dict[str, set[str]] = {}
        self.granted: dict[str, list[datetime]] = {}
        self.faults: list[str] = []

    async def run(self) -> None:
        table = self._member.server.store
        async for events in table.watch("/registry/core/pods/default/", 0):
            for event in events:
                self._see(event.key.rpartition("/")[2], event.entry.value if event.entry is not None else None)

    def _see(self, name: str, value: bytes | None) -> None:
        pod = cast("Pod", POD.decode(value)) if value is not None else None
        app = next((one for one, names in self._healthy.items() if name in names), "")
        if pod is not None:
            app = app or pod.metadata.labels.get("app", "")
        well = self._healthy.setdefault(app, set())
        was = name in well
        well.discard(name)
        if pod is not None and pod.ready and pod.metadata.deletion_timestamp is None:
            well.add(name)
        if was and pod is not None and pod.metadata.deletion_timestamp is not None and _meant(pod):
            self._judge(app, len(well))

    def _judge(self, app: str, left: int) -> None:
        if not app.startswith("app"):
            return
        found = self._apps[int(app[3:])]
        self.granted.setdefault(app, []).append(LoopClock().now())
        if left < found.replicas - found.spare:
            self.faults.append(f"{app}: {left} of {found.replicas} are left, {found.spare} may be missing")


def _meant(pod: Pod) -> bool:
    return any(one.type == "DisruptionTarget" and one.status == "True" for one in pod.status.conditions)


@FEW
@given(st.lists(app, min_size=2, max_size=4), blows)
def test_no_budget_is_overspent_by_drains_preemption_and_evictors_together(apps: list[App], script: list[Any]) -> None:
    async def story(member: Member) -> None:
        auditor = Auditor(member, apps)
        tasks = [asyncio.ensure_future(auditor.run())]
        await settled(member, apps)
        play = Blows(member, tasks)
        for act, what in script:
            await play.strike(act, what)
            await asyncio.sleep(7)
        await asyncio.sleep(1800)
        for task in tasks:
            task.cancel()
        assert not auditor.faults
        for name, granted in auditor.granted.items():
            window = apps[int(name[3:])].window
            if window is not None:
                window.hold(granted)

    in_a_member(story, fleet(nodes=4, cpu="3"))


async def settled(member: Member, apps: list[App]) -> None:
    for level in range(4):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"p{level}"}}
        await member.client.create(CLASSES, {**body, "value": 100 * level})
    for number, one in enumerate(apps):
        selector = {"selector": {"matchLabels": {"app": f"app{number}"}}}
        strength = workload(
            "PodDisruptionBudget", f"app{number}", {"maxUnavailable": one.spare, **selector}, "policy/v1"
        )
        await member.client.create(BUDGETS, strength)
        if one.window is not None:
            rate = {"disruptions": one.window.most, "period": f"{one.window.seconds}s"}
            spec = {"target": "Pods", "rate": rate, **selector}
            await member.client.create(OURS, workload("DisruptionBudget", f"app{number}", spec, "trimtab.dev/v1alpha1"))
        made = deployment(f"app{number}", one.replicas, cpu=one.cpu, priorityClassName=f"p{one.level}")
        await member.client.create(DEPLOYMENTS, made)
    await asyncio.sleep(60)


class Blows:
    """What may happen to a cluster."""

    def __init__(self, member: Member, tasks: list[Any]) -> None:
        self._member, self._tasks = member, tasks
        self._newcomers = 0

    async def strike(self, act: str, what: Any) -> None:
        await getattr(self, act)(what)

    async def drain(self, node: int) -> None:
        options = Options(force=True, ignore_daemonsets=True, timeout=900.0)
        running = Drain(self._member.inside, f"one-node-{node}", clock=LoopClock(), options=options).run()
        self._tasks.append(asyncio.ensure_future(running))

    async def open(self, node: int) -> None:
        await self._member.cordon(f"one-node-{node}", closed=False)

    async def storm(self, app: int) -> None:
        async def one(pod: Raw) -> None:
            with contextlib.suppress(ApiFault, OSError):
                await ask_to_go(self._member.inside, pod, eviction(pod, by="storm"))

        pods = (await self._member.inside.list(PODS_OF, "default", labels=f"app=app{app}")).items
        await asyncio.gather(*map(one, pods))

    async def fail(self, node: int) -> None:
        self._member.fail_node(f"one-node-{node}")

    async def recover(self, node: int) -> None:
        await self._member.recover_node(f"one-node-{node}")

    async def newcomer(self, cpu: str) -> None:
        self._newcomers += 1
        name = f"newcomer{self._newcomers}"
        body = template(name, cpu=cpu, priorityClassName="p3")
        body["metadata"] |= {"name": name, "namespace": "default"}
        await self._member.inside.create(PODS_OF, {"apiVersion": "v1", "kind": "Pod", **body})

    async def scheduler(self, _: None) -> None:
        """The pod scheduler dies with all it had in mind, and a new one begins."""
        before = self._member.binder
        await before.stop()
        self._member.binder = Binder(self._member.cache, clock=LoopClock(), profile=self._member._ground.profile)
        await self._member.binder.start()

    async def outage(self, seconds: int) -> None:
        self._member.stop_api()
        await asyncio.sleep(seconds)
        self._member.start_api()

    async def wait(self, seconds: int) -> None:
        await asyncio.sleep(seconds)


guarded = st.builds(
    App,
    st.integers(1, 5),
    st.just("100m"),
    st.just(0),
    st.integers(0, 2),
    st.one_of(st.none(), st.builds(Window, st.integers(1, 3), st.integers(60, 600))),
)


@FEW
@given(st.lists(guarded, min_size=1, max_size=4), st.booleans(), st.booleans(), st.integers(1, 5))
def test_a_drained_node_ends_empty_or_names_what_blocks_it(
    apps: list[App], surge: bool, lone: bool, parallel: int
) -> None:
    async def story(member: Member) -> None:
        if lone:
            body = template("lone")
            body["metadata"] |= {"name": "lone", "namespace": "default"}
            await member.client.create(PODS_OF, {"apiVersion": "v1", "kind": "Pod", **body})
        await settled(member, apps)
        if surge:
            patch = {"metadata": {"annotations": {"trimtab.dev/surge": "Allowed"}}}
            await member.client.patch(DEPLOYMENTS, "default", "app0", patch)
        options = Options(timeout=3600.0, force=True, parallel=parallel)
        steps = await Drain(member.client, "one-node-1", clock=LoopClock(), options=options).run()
        left = {f"{one.namespace}/{one.name}" for one in member.pods if one.spec.node_name == "one-node-1"}
        named = {step.pod: step for step in steps if step.state == "Failed"}
        assert left == set(named)
        for name, step in named.items():
            assert "/app" in name, step
            number = int(name.split("/app")[1].split("-")[0])
            assert f"The disruption budget app{number} " in step.message
            assert apps[number].spare == 0
            assert not (surge and number == 0)
        for number, one in enumerate(apps):
            made = await member.client.get(DEPLOYMENTS, "default", f"app{number}")
            assert made["spec"]["replicas"] == one.replicas

    in_a_member(story)


@FEW
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["500m", "1", "2"]), st.integers(0, 3), st.integers(0, 2)),
        min_size=3,
        max_size=5,
    ),
    st.booleans(),
    st.booleans(),
)
def test_preemption_never_loops(sizes: list[tuple[int, str, int, int]], fair: bool, guarded: bool) -> None:
    """Priorities, budgets, and equals that may change places: in the end everybody stays where it is."""

    async def story(member: Member) -> None:
        if fair:
            policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
            await member.client.create(POLICIES, {**policy, "spec": {"equalPriorityPreemption": "Fair"}})
        await settled(member, [])
        for number, (replicas, cpu, level, spare) in enumerate(sizes):
            made = deployment(f"app{number}", replicas, cpu=cpu, priorityClassName=f"p{level}")
            await member.client.create(DEPLOYMENTS, made)
            if guarded:
                body = {"maxUnavailable": spare, "selector": {"matchLabels": {"app": f"app{number}"}}}
                await member.client.create(BUDGETS, workload("PodDisruptionBudget", f"app{number}", body, "policy/v1"))
            await asyncio.sleep(30)
        await asyncio.sleep(5400)
        before = {one.metadata.uid: one.spec.node_name for one in member.pods}
        await asyncio.sleep(5400)
        assert {one.metadata.uid: one.spec.node_name for one in member.pods} == before

    in_a_member(story, fleet(nodes=2, cpu="4"))
