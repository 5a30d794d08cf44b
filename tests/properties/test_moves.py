"""Moves are safe under any sequence of actions, with crashes in between."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from builders import NOON, cluster, deployment
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from views import FakeMemory, FakeView

from properties.hypothesis_settings import example_settings
from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster, ClusterStatus, ResourceSummary, Taint
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionBudgetSpec, DisruptionRate, Move
from trimtab.api.kinds.policy import ClusterAffinity, Placement, ReplicaSchedulingStrategy
from trimtab.api.kinds.rebalancer import MoveOptions, RebalancerSpec, WorkloadRebalancer
from trimtab.api.kinds.work import (
    AggregatedStatusItem,
    Binding,
    BindingSpec,
    ObjectReference,
    ResourceBinding,
)
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta, Object
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, RememberInProcess, WriteSequence
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.budget import budget as keep_budget
from trimtab.controllers.movement.graceful_eviction import graceful_eviction
from trimtab.controllers.movement.move_log import move_log
from trimtab.controllers.movement.replacement_hold import replacement_hold
from trimtab.controllers.movement.taint_eviction import taint_eviction
from trimtab.controllers.propagation.dispatch import targets_of
from trimtab.controllers.propagation.scheduling.schedule import schedule
from trimtab.decide.fleet import Fleet
from trimtab.plugins import filters, scores
from trimtab.registry import discover

NAMES = ("m1", "m2", "m3")
APPS = ("a", "b")
CONCENTRATED = ("b",)
"""Workloads that run in one cluster: a move takes all their copies, so that of them the last ones can be lost."""
TOGETHER = ReplicaSchedulingStrategy(replica_scheduling_type="Divided", replica_division_preference="Aggregated")
EVEN_WEIGHTS = ReplicaSchedulingStrategy(replica_scheduling_type="Divided", replica_division_preference="Weighted")


class StaticFleetCache:
    def __init__(self, clusters: list[Cluster]) -> None:
        self.fleet = Fleet.of(clusters)

    def at(self, now: datetime) -> Fleet[Cluster]:
        return self.fleet.at(now)


class ModelFleet:
    """A fleet of plain objects: controllers run one after the other, replicas get ready some time after they start."""

    def __init__(self, budget: DisruptionBudgetSpec, at_once: bool) -> None:
        discover(filters)
        discover(scores)
        self.now = NOON
        self.objects: dict[tuple[type, str, str], Object] = {}
        self.memory = FakeMemory()
        self.ready_at: dict[tuple[str, str], list[datetime]] = {}
        self.unreachable: set[str] = set()
        self.generation = 0
        self.crash_after = -1
        for name in NAMES:
            self.store(make_cluster(name))
        for name in APPS:
            self.store(make_binding(name))
        self.store(DisruptionBudget(metadata=Meta(name="b", namespace="demo", resource_version="1"), spec=budget))
        options = MoveOptions(mode="AtOnce" if at_once else "")
        self.store(WorkloadRebalancer(metadata=Meta(name="job"), spec=RebalancerSpec(move=options)))

    def store(self, thing: Object) -> None:
        self.objects[type(thing), thing.namespace, thing.name] = thing

    def objects_of(self, type_: type) -> list[Any]:
        return [thing for (kind, _, _), thing in sorted(self.objects.items(), key=lambda e: e[0][1:]) if kind is type_]

    def binding(self, app: str) -> ResourceBinding:
        found = self.objects[ResourceBinding, "demo", f"{app}-deployment"]
        assert isinstance(found, ResourceBinding)
        return found

    def view(self) -> FakeView:
        raws = [deployment(name, labels={"app": name}) for name in APPS]
        view = FakeView(
            self.objects.values(), now=self.now, raws=raws, fleet=StaticFleetCache(self.objects_of(Cluster))
        )
        view.memory = self.memory
        return view

    def ready(self, app: str) -> dict[str, int]:
        return {
            name: sum(at <= self.now for at in self.ready_at.get((app, name), []))
            for name in NAMES
            if name not in self.unreachable
        }

    def sync_members(self) -> None:
        """Members follow the bindings, and the bindings get the statuses of the members."""
        for app in APPS:
            binding = self.binding(app)
            wanted = {target.name: target.replicas for target in targets_of(binding)}
            wanted |= {
                task.from_cluster: task.replicas or 0
                for task in binding.spec.graceful_eviction_tasks
                if task.from_cluster not in wanted
            }
            for name in NAMES:
                if name in self.unreachable:
                    continue
                has = self.ready_at.setdefault((app, name), [])
                del has[wanted.get(name, 0) :]
                has += [self.now + 20 * timedelta(seconds=1)] * (wanted.get(name, 0) - len(has))
            items = tuple(self.status_item(app, name, n) for name, n in sorted(wanted.items()))
            self.store(binding.but(status=binding.status.but(aggregated_status=items)))

    def status_item(self, app: str, name: str, wanted: int) -> AggregatedStatusItem:
        if name in self.unreachable:
            return AggregatedStatusItem(cluster_name=name, applied=True, health="Unknown", status={"readyReplicas": 0})
        ready = self.ready(app).get(name, 0)
        health = "Healthy" if ready >= wanted else "Unhealthy"
        return AggregatedStatusItem(cluster_name=name, applied=True, health=health, status={"readyReplicas": ready})

    def reconcile(self) -> None:
        for _ in range(4):
            self.apply_effects(effect for _, effect in schedule(self.objects_of(ResourceBinding), self.view()))
            for one in (taint_eviction, graceful_eviction, replacement_hold):
                for app in APPS:
                    self.apply_effects(one(self.binding(app), self.view()))
            for subject in self.objects_of(DisruptionBudget):
                self.apply_effects(keep_budget(subject, self.view()))
            for entry in self.objects_of(Move):
                self.apply_effects(move_log(entry, self.view()))
            self.sync_members()

    def apply_effects(self, effects: Iterator[Any]) -> None:
        touched: set[tuple[type, str, str]] = set()
        for effect in list(effects):
            if isinstance(effect, RememberInProcess):
                self.memory.keep([effect])
            elif isinstance(effect, Delete):
                self.objects.pop((type(effect.target), effect.target.namespace, effect.target.name), None)
            elif isinstance(effect, WriteSequence):
                for step in effect.steps:
                    self.write(step, touched)
            elif isinstance(effect, Object):
                self.write(effect, touched)

    def write(self, desired: Object, touched: set[tuple[type, str, str]]) -> None:
        if self.crash_after == 0:
            return  # no write after the crash reaches the server
        self.crash_after -= 1
        before = self.objects.get((type(desired), desired.namespace, desired.name))
        if isinstance(desired, Binding) and isinstance(before, Binding):
            self.assert_decreases_are_logged(before, desired)
            bumped = before.spec != desired.spec
            generation = before.metadata.generation + (1 if bumped else 0)
            desired = desired.but(metadata=desired.metadata.but(generation=generation))
        self.store(desired)

    def assert_decreases_are_logged(self, before: Binding, after: Binding) -> None:
        """Every decrease of a share has a Move that was written before."""
        had, has = binding_moves.current_placement(before), binding_moves.current_placement(after)
        for name, n in had.items():
            if has.get(name, 0) < n and before.spec.replicas == after.spec.replicas:
                undone = not after.status.holds and bool(before.status.holds)
                called_off = len(after.spec.graceful_eviction_tasks) < len(before.spec.graceful_eviction_tasks)
                entry = self.objects.get((Move, "demo", binding_moves.move_name(before, name)))
                assert entry is not None or undone or called_off, f"no Move explains why {n} replicas leave {name}"

    def check(self, voluntary_only: bool) -> None:
        for subject in self.objects_of(DisruptionBudget):
            spec = subject.spec
            if spec.rate is not None:
                starts = sorted(m.status.started for m in self.objects_of(Move) if m.spec.budgets)
                for at in starts:
                    assert sum(at <= other < at + timedelta(hours=1) for other in starts) <= spec.rate.disruptions
            if spec.max_concurrent is not None:
                flying = {(h.cluster, app) for app in APPS for h in self.binding(app).status.holds}
                assert len(flying) <= spec.max_concurrent
            if voluntary_only and spec.min_available is not None:
                assert sum(sum(self.ready(app).values()) for app in APPS) >= spec.min_available
        if voluntary_only:
            assert all(sum(self.ready(app).values()) > 0 for app in APPS)

    def run(self, minutes: float, watch: Callable[[], None] = lambda: None) -> None:
        for _ in range(max(1, int(minutes * 6))):
            self.now += timedelta(seconds=10)
            self.sync_members()
            self.reconcile()
            watch()


def make_cluster(name: str) -> Cluster:
    found = cluster(name)
    enabled = (APIEnablement(group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),)),)
    capacity = ResourceSummary(allocatable={"pods": "100"})
    status = ClusterStatus(conditions=found.status.conditions, api_enablements=enabled, resource_summary=capacity)
    return found.but(status=status)


def make_binding(app: str) -> ResourceBinding:
    return ResourceBinding(
        metadata=Meta(
            name=f"{app}-deployment",
            namespace="demo",
            uid=f"rb-{app}",
            resource_version="1",
            generation=1,
            labels={well_known.PP_ID: "pp", well_known.RB_ID: f"rb-{app}"},
        ),
        spec=BindingSpec(
            resource=ObjectReference(
                api_version="apps/v1", kind="Deployment", namespace="demo", name=app, uid=f"uid-{app}"
            ),
            replicas=4,
            placement=Placement(
                cluster_affinity=ClusterAffinity(cluster_names=NAMES),
                replica_scheduling=TOGETHER if app in CONCENTRATED else EVEN_WEIGHTS,
            ),
        ),
    )


def apply_action(model: ModelFleet, action: tuple[str, str]) -> bool:
    """Perform the action; returns whether it is voluntary."""
    what, name = action
    target = model.objects[Cluster, "", name] if name in NAMES else None
    if isinstance(target, Cluster):
        taints = [t for t in target.spec.taints if t.key != what.removeprefix("un")]
        if what in ("cordon", "evacuate"):
            effect = "NoSchedule" if what == "cordon" else "NoExecute"
            taints.append(Taint(key=what, effect=effect, time_added=model.now))
        marked = {**target.metadata.annotations}
        if what == "drain":
            marked[well_known.DRAIN] = "now"
        if what == "undrain":
            marked.pop(well_known.DRAIN, None)
        deleted = model.now if what == "leave" else target.metadata.deletion_timestamp
        ready = target.status.conditions
        if what in ("kill", "revive"):
            status = "False" if what == "kill" else "True"
            (model.unreachable.add if what == "kill" else model.unreachable.discard)(name)
            ready = (Condition(type="Ready", status=status, last_transition_time=model.now),)
        model.store(
            target.but(
                metadata=target.metadata.but(annotations=marked, deletion_timestamp=deleted),
                spec=target.spec.but(taints=tuple(taints)),
                status=target.status.but(conditions=ready),
            )
        )
        return what in ("cordon", "uncordon", "drain", "undrain", "leave")
    if what == "rebalance":
        binding = model.binding(name)
        last = binding.status.last_scheduled_time or model.now
        at = max(model.now.replace(microsecond=0), last + timedelta(seconds=1))
        stamped = state.request(binding, at, "Rebalance", "job")
        model.store(stamped.but(metadata=stamped.metadata.but(generation=binding.metadata.generation + 1)))
    if what == "forget":
        model.memory.clear()
    if what == "crash":
        model.crash_after = int(name)
        model.reconcile()
        model.crash_after = -1
    return True


VOLUNTARY = st.one_of(
    st.tuples(st.sampled_from(["cordon", "uncordon", "drain", "undrain"]), st.sampled_from(NAMES)),
    st.tuples(st.just("rebalance"), st.sampled_from(APPS)),
    st.tuples(st.just("crash"), st.sampled_from(["0", "1", "2", "3"])),
    st.just(("forget", "")),
)
VOLUNTARY_OR_LEAVING = st.one_of(VOLUNTARY, st.tuples(st.just("leave"), st.sampled_from(NAMES)))
DISRUPTIVE = st.one_of(
    VOLUNTARY, st.tuples(st.sampled_from(["kill", "revive", "evacuate", "unevacuate"]), st.sampled_from(NAMES))
)
BUDGETS = st.builds(
    lambda limit, rate, most: DisruptionBudgetSpec(
        target="Workloads",
        selector=LabelSelector(),
        min_available=limit,
        rate=DisruptionRate(disruptions=rate, period="1h") if rate else None,
        max_concurrent=most,
    ),
    st.sampled_from([None, 1, 6]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([None, 1]),
)
FEW = example_settings(10, thorough=30, suppress_health_check=list(HealthCheck))


def assert_safe(model: ModelFleet, *, at_once: bool) -> None:
    model.check(voluntary_only=True)
    assert at_once or all(sum(model.ready(app).values()) >= 4 for app in APPS), (
        "a replica was removed before its replacement was ready"
    )


def budget_spec(**spec: Any) -> DisruptionBudgetSpec:
    return DisruptionBudgetSpec(target="Workloads", selector=LabelSelector()).but(**spec)


@FEW
@example(
    budget_spec(rate=DisruptionRate(disruptions=1, period="1h")), False, [(("drain", "m1"), 15), (("drain", "m2"), 15)]
)
@example(budget_spec(min_available=6), True, [(("drain", "m1"), 2), (("cordon", "m2"), 0.4), (("rebalance", "a"), 2)])
@example(budget_spec(), True, [(("cordon", "m1"), 2), (("rebalance", "b"), 2)])
@example(budget_spec(max_concurrent=1), False, [(("drain", "m1"), 2), (("crash", "1"), 2), (("drain", "m2"), 15)])
@example(budget_spec(max_concurrent=1), False, [(("leave", "m1"), 2), (("crash", "1"), 2), (("leave", "m2"), 15)])
@example(budget_spec(min_available=6), True, [(("leave", "m1"), 2), (("rebalance", "a"), 2), (("leave", "m3"), 15)])
@given(
    BUDGETS,
    st.booleans(),
    st.lists(st.tuples(VOLUNTARY_OR_LEAVING, st.sampled_from([0.4, 2, 15])), min_size=1, max_size=5),
)
def test_voluntary_moves_never_overspend_a_budget_or_remove_the_last_copy(
    budget: Any, at_once: bool, acts: Any
) -> None:
    model = ModelFleet(budget, at_once)
    model.run(1)
    assert all(sum(model.ready(app).values()) == 4 for app in APPS)
    for action, minutes in acts:
        apply_action(model, action)
        model.run(minutes, lambda: assert_safe(model, at_once=at_once))
    assert all(sum(binding_moves.current_placement(model.binding(app)).values()) == 4 for app in APPS)


@FEW
@given(BUDGETS, st.lists(st.tuples(DISRUPTIVE, st.sampled_from([0.4, 2, 12])), min_size=1, max_size=6))
def test_evictions_end_and_the_fleet_recovers_from_failures(budget: Any, acts: Any) -> None:
    model = ModelFleet(budget, at_once=False)
    model.run(1)
    for action, minutes in acts:
        apply_action(model, action)
        model.run(minutes, lambda: model.check(voluntary_only=False))
    for name in NAMES:
        for what in ("revive", "uncordon", "unevacuate", "undrain"):
            apply_action(model, (what, name))
    model.run(25)
    for app in APPS:
        binding = model.binding(app)
        assert binding.spec.graceful_eviction_tasks == ()
        assert binding.status.holds == ()
        assert sum(model.ready(app).values()) == 4
