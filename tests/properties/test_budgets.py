"""Budgets hold with concurrent evictors, restarts, unhealthy pods, drains, preemption and failing nodes."""

import asyncio
import contextlib
from datetime import datetime
from typing import Any, NamedTuple, cast

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from properties.budget_oracle import RateWindow
from properties.hypothesis_settings import example_settings
from simulate.fixtures import BUDGETS, CLASSES, DEPLOYMENTS, deployment, fleet, run_in_member, template, workload
from simulate.fixtures import PODS as PODS_OF
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.clock import LoopClock
from trimtab.decide.pods.budgets.pod_budgets import RATE_ANNOTATION
from trimtab.errors import ApiError
from trimtab.rescheduling.configuration import NAMESPACE
from trimtab.rescheduling.drain import DrainOptions, NodeDrain
from trimtab.rescheduling.eviction_client import evict as ask_to_go
from trimtab.rescheduling.eviction_client import eviction_body
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.scheduling.pod_scheduler import PodScheduler

CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
OURS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
POLICIES = Resource("trimtab.dev", "v1alpha1", "disruptionpolicies", "DisruptionPolicy", namespaced=False)
POD = kind_of(Pod)


windows = st.builds(RateWindow, st.integers(1, 3), st.integers(30, 900))


class BudgetedApp(NamedTuple):
    """A workload and its budgets."""

    replicas: int
    cpu: str
    priority_level: int
    max_unavailable: int
    rate: RateWindow | None
    """The rate of a DisruptionBudget."""
    pdb_rate: RateWindow | None = None
    """The rate annotation of the PodDisruptionBudget."""
    min_available: int = 0
    """The minAvailable of the DisruptionBudget."""

    @property
    def min_healthy(self) -> int:
        return max(self.min_available, self.replicas - self.max_unavailable)


app = st.builds(
    BudgetedApp,
    st.integers(3, 6),
    st.sampled_from(["300m", "500m", "800m"]),
    st.integers(0, 2),
    st.integers(0, 4),
    st.none() | windows,
    st.none() | windows,
    st.integers(0, 4),
)
disturbance_scripts = st.lists(
    st.one_of(
        st.tuples(st.just("drain"), st.integers(1, 4)),
        st.tuples(st.just("uncordon"), st.integers(1, 4)),
        st.tuples(st.just("evict_pods"), st.integers(0, 3)),
        st.tuples(st.just("evict_pods"), st.just(-1)),
        st.tuples(st.just("fail"), st.integers(1, 4)),
        st.tuples(st.just("recover"), st.integers(1, 4)),
        st.tuples(st.just("create_pod"), st.sampled_from(["700m", "2", "2800m"])),
        st.tuples(st.just("create_pod"), st.sampled_from(["2", "2800m"])),
        st.tuples(st.just("restart_scheduler"), st.none()),
        st.tuples(st.just("enable_rescheduler"), st.none()),
        st.tuples(st.just("api_outage"), st.integers(1, 60)),
        st.tuples(st.just("wait"), st.integers(1, 600)),
    ),
    min_size=8,
    max_size=16,
)


class PodEventAuditor:
    """Reads every change of a pod in write order and checks it against the budgets."""

    def __init__(self, member: SimulatedMember, apps: list[BudgetedApp]) -> None:
        self._member, self._apps = member, apps
        self._healthy: dict[str, set[str]] = {}
        self.evicted_at: dict[str, list[datetime]] = {}
        self.violations: list[str] = []

    async def run(self) -> None:
        table = self._member.server.store
        async for events in table.watch("/registry/core/pods/default/"):
            for event in events:
                self._on_pod_change(
                    event.key.rpartition("/")[2], event.entry.value if event.entry is not None else None
                )

    def _on_pod_change(self, name: str, value: bytes | None) -> None:
        pod = cast("Pod", POD.decode(value)) if value is not None else None
        app = next((one for one, names in self._healthy.items() if name in names), "")
        if pod is not None:
            app = app or pod.metadata.labels.get("app", "")
        healthy_names = self._healthy.setdefault(app, set())
        was = name in healthy_names
        healthy_names.discard(name)
        if pod is not None and pod.is_ready and pod.metadata.deletion_timestamp is None:
            healthy_names.add(name)
        if was and pod is not None and pod.metadata.deletion_timestamp is not None and not _is_node_loss(pod):
            self._check_eviction(app, len(healthy_names))

    def _check_eviction(self, app: str, healthy: int) -> None:
        if not app.startswith("app"):
            return
        found = self._apps[int(app[3:])]
        self.evicted_at.setdefault(app, []).append(LoopClock().now())
        if healthy < found.min_healthy:
            self.violations.append(
                f"{app}: {healthy} of {found.replicas} pods are healthy, {found.min_healthy} required"
            )


def _is_node_loss(pod: Pod) -> bool:
    """Whether the pod was deleted because its node failed: involuntary, not charged to a budget."""
    return any(
        one.type == "DisruptionTarget" and one.reason == "DeletionByTaintManager" for one in pod.status.conditions
    )


@example_settings(5, thorough=14)
@given(st.lists(app, min_size=3, max_size=5), disturbance_scripts)
def test_concurrent_drains_preemption_rescheduler_and_evictors_never_overspend_budgets(
    apps: list[BudgetedApp], script: list[Any]
) -> None:
    async def story(member: SimulatedMember) -> None:
        auditor = PodEventAuditor(member, apps)
        watching = asyncio.ensure_future(auditor.run())
        await deploy_apps(member, apps)
        tasks: list[asyncio.Future[Any]] = []
        play = Disturbances(member, tasks)
        for act, what in script:
            await play.apply(act, what)
            await asyncio.sleep(7)
        await asyncio.sleep(900)
        for task in tasks:
            task.cancel()
        assert not watching.done(), "the auditor stopped"
        watching.cancel()
        assert not auditor.violations
        for name, granted in auditor.evicted_at.items():
            for window in (apps[int(name[3:])].rate, apps[int(name[3:])].pdb_rate):
                if window is not None:
                    window.assert_not_exceeded(granted)

    run_in_member(story, fleet(nodes=4, cpu="3"))


async def deploy_apps(member: SimulatedMember, apps: list[BudgetedApp]) -> None:
    for level in range(4):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"p{level}"}}
        await member.client.create(CLASSES, {**body, "value": 100 * level})
    for number, one in enumerate(apps):
        selector = {"selector": {"matchLabels": {"app": f"app{number}"}}}
        strength = workload(
            "PodDisruptionBudget", f"app{number}", {"maxUnavailable": one.max_unavailable, **selector}, "policy/v1"
        )
        if one.pdb_rate is not None:
            strength["metadata"]["annotations"] = {
                RATE_ANNOTATION: f"{one.pdb_rate.max_disruptions}/{one.pdb_rate.seconds}s"
            }
        await member.client.create(BUDGETS, strength)
        if one.rate is not None or one.min_available:
            spec: Raw = {"target": "Pods", **selector}
            if one.min_available:
                spec["minAvailable"] = one.min_available
            if one.rate is not None:
                spec["rate"] = {"disruptions": one.rate.max_disruptions, "period": f"{one.rate.seconds}s"}
            await member.client.create(OURS, workload("DisruptionBudget", f"app{number}", spec, "trimtab.dev/v1alpha1"))
        made = deployment(f"app{number}", one.replicas, cpu=one.cpu, priorityClassName=f"p{one.priority_level}")
        await member.client.create(DEPLOYMENTS, made)
    await asyncio.sleep(60)


class Disturbances:
    """Disturbances of a cluster; each method is called by its name."""

    def __init__(self, member: SimulatedMember, tasks: list[asyncio.Future[Any]]) -> None:
        self._member, self._tasks = member, tasks
        self._pods_created = 0

    async def apply(self, act: str, what: Any) -> None:
        await getattr(self, act)(what)

    async def drain(self, node: int) -> None:
        options = DrainOptions(force=True, ignore_daemonsets=True, timeout=900.0)
        running = NodeDrain(self._member.internal_client, f"one-node-{node}", clock=LoopClock(), options=options).run()
        self._tasks.append(asyncio.ensure_future(running))

    async def uncordon(self, node: int) -> None:
        await self._member.cordon(f"one-node-{node}", unschedulable=False)

    async def evict_pods(self, app: int) -> None:
        async def one(pod: Raw) -> None:
            with contextlib.suppress(ApiError, OSError):
                await ask_to_go(self._member.internal_client, pod, eviction_body(pod, by="evictor"))

        whose = f"app=app{app}" if app >= 0 else ""
        pods = (await self._member.internal_client.list(PODS_OF, "default", labels=whose)).items
        await asyncio.gather(*map(one, pods))

    async def fail(self, node: int) -> None:
        self._member.kubelets.fail(f"one-node-{node}")

    async def recover(self, node: int) -> None:
        await self._member.kubelets.recover(f"one-node-{node}")

    async def create_pod(self, cpu: str) -> None:
        self._pods_created += 1
        name = f"pod{self._pods_created}"
        body = template(name, cpu=cpu, priorityClassName="p3")
        body["metadata"] |= {"name": name, "namespace": "default"}
        await self._member.internal_client.create(PODS_OF, {"apiVersion": "v1", "kind": "Pod", **body})

    async def restart_scheduler(self, _: None) -> None:
        """Replace the pod scheduler by a new one without its in-memory state."""
        before = self._member.pod_scheduler
        await before.stop()
        self._member.pod_scheduler = PodScheduler(
            self._member.cache, clock=LoopClock(), profile=self._member._environment.profile
        )
        await self._member.pod_scheduler.start()

    async def enable_rescheduler(self, _: None) -> None:
        """Enable the rescheduler with the aggressive preset."""
        wanted = ("UnderutilisedNodes", "HardViolation", "Consolidate", "Defragment")
        text = yaml.safe_dump({"preset": "aggressive", "objectives": [{"name": name} for name in wanted]})
        metadata = {"name": "trimtab-rescheduler", "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"rescheduler.yaml": text}}
        with contextlib.suppress(ApiError):
            await self._member.client.create(CONFIGS, body)

    async def api_outage(self, seconds: int) -> None:
        self._member.stop_api()
        await asyncio.sleep(seconds)
        self._member.start_api()

    async def wait(self, seconds: int) -> None:
        await asyncio.sleep(seconds)


short_windows = st.builds(RateWindow, st.integers(1, 3), st.integers(30, 300))
guarded_apps = st.builds(
    BudgetedApp,
    st.integers(1, 5),
    st.just("100m"),
    st.just(0),
    st.integers(0, 2),
    st.none() | short_windows,
    st.none() | short_windows,
    st.integers(0, 3),
)


@example_settings(5, thorough=10)
@given(st.lists(guarded_apps, min_size=1, max_size=4), st.booleans(), st.booleans(), st.integers(1, 5))
@example(apps=[BudgetedApp(3, "100m", 0, 0, None)], surge=True, lone=False, parallel=2)
def test_drained_node_is_empty_or_names_the_blocking_budgets(
    apps: list[BudgetedApp], surge: bool, lone: bool, parallel: int
) -> None:
    async def story(member: SimulatedMember) -> None:
        if lone:
            body = template("lone")
            body["metadata"] |= {"name": "lone", "namespace": "default"}
            await member.client.create(PODS_OF, {"apiVersion": "v1", "kind": "Pod", **body})
        await deploy_apps(member, apps)
        if surge:
            patch = {"metadata": {"annotations": {"trimtab.dev/drain-surge": "Allowed"}}}
            await member.client.patch(DEPLOYMENTS, "default", "app0", patch)
        options = DrainOptions(timeout=3600.0, force=True, parallel=parallel)
        steps = await NodeDrain(member.client, "one-node-1", clock=LoopClock(), options=options).run()
        left = {f"{one.namespace}/{one.name}" for one in member.pods if one.spec.node_name == "one-node-1"}
        named = {step.pod: step for step in steps if step.state == "Failed"}
        assert left == set(named)
        for name, step in named.items():
            assert "/app" in name, step
            number = int(name.split("/app")[1].split("-")[0])
            assert f"The disruption budget app{number} " in step.message
            assert apps[number].min_healthy >= apps[number].replicas
            assert not (surge and number == 0 and apps[number].min_available <= apps[number].replicas)
        for number, one in enumerate(apps):
            made = await member.client.get(DEPLOYMENTS, "default", f"app{number}")
            assert made["spec"]["replicas"] == one.replicas

    run_in_member(story)


@example_settings(2, thorough=4)
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["500m", "1", "2"]), st.integers(0, 3), st.integers(0, 2)),
        min_size=3,
        max_size=5,
    ),
    st.booleans(),
    st.booleans(),
)
def test_preemption_reaches_a_stable_state(sizes: list[tuple[int, str, int, int]], fair: bool, guarded: bool) -> None:
    """Priorities, budgets and fair share: preemption reaches a stable state."""

    async def story(member: SimulatedMember) -> None:
        if fair:
            policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
            await member.client.create(POLICIES, {**policy, "spec": {"equalPriorityPreemption": "Fair"}})
        await deploy_apps(member, [])
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

    run_in_member(story, fleet(nodes=2, cpu="4"))
