"""An exhaustive model of the movement of one workload: every reachable state of a small fleet, not a sample of them.

Two clusters, one workload with three replicas, one budget. The controllers that touch a binding are the real functions, on
a view that is built from values. Their effects become the patches that the real committer computes, each refused if the
object changed since it was read. The rest is the environment: pods become ready in a member, a member reports to its Work, a
cluster fails or recovers, time passes, the process crashes.

A state is: the objects, the ready pods of each member, the environment events that are still to come, and the reconciles
in progress, each with the writes that it has not sent yet. `movement_exploration` visits every state that a step reaches:
- a controller reads the objects and computes its writes (if it has none, nothing happens);
- a reconcile in progress sends its next write;
- the process crashes: the writes that were not sent are lost, and so is everything in memory. As a crash is always possible,
  nothing is ever remembered in memory;
- something happens in the environment.

`movement_normal_form` says which states are the same.

What is not explored: which change wakes which controller. Any controller may run at any time, so a missed wake-up is not
found here (stories and flows find it). Readiness is reported for a whole workload, not pod by pod.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

import msgspec
from builders import NOON, cluster, deployment
from views import FakeView

from trimtab.api.kind import key_of as api_key_of
from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster, Taint
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionBudgetSpec, Move
from trimtab.api.kinds.policy import (
    ClusterAffinity,
    ClusterPreferences,
    Placement,
    ReplicaSchedulingStrategy,
    StaticClusterWeight,
)
from trimtab.api.kinds.rebalancer import MoveOptions, RebalancerSpec, WorkloadRebalancer
from trimtab.api.kinds.work import (
    BindingSpec,
    BindingStatus,
    ObjectReference,
    ResourceBinding,
    TargetCluster,
    Work,
    WorkStatus,
)
from trimtab.api.patch.merge_patch import apply_merge_patch
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta, Object, Raw
from trimtab.controllers import well_known
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.contract import Controller, Delete, Index, Ref, WriteSequence, controllers
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.propagation.aggregate import PENDING_REPORT, PendingReport
from trimtab.controllers.propagation.works.work_status import reflect_status, resource_identifier
from trimtab.decide.fleet import Fleet
from trimtab.interpret.interpreter import Interpreter
from trimtab.runtime.declarations import load_declarations
from trimtab.runtime.effects.commit import is_same_in_patched_fields, writes_for

CLUSTERS = ("m1", "m2")
REPLICAS = 3
MIN_AVAILABLE = 2
CONTROLLERS = (
    "schedule",
    "dispatch",
    "aggregate",
    "replacement_hold",
    "taint_eviction",
    "graceful_eviction",
    "budget",
    "move_log",
    "cluster_departure",
)
TICK = timedelta(seconds=4000)
"""A step of time: longer than every deadline of a move."""
ObjectKey = tuple[str, str, str]


class PendingWrite(NamedTuple):
    """A write that a reconcile has computed and not sent."""

    key: ObjectKey
    patch: bytes
    """A merge patch or a new object as JSON; empty for a deletion."""
    creates: bool = False
    follows: bool = False
    """Whether the reconcile has patched this object already: a write that has begun is finished if nobody changed its fields."""


class Reconcile(NamedTuple):
    """A reconcile in progress, with the writes that can still succeed."""

    controller: str
    writes: tuple[PendingWrite, ...]


class ModelState(NamedTuple):
    """A state of the fleet."""

    objects: Mapping[ObjectKey, Object]
    pods: Mapping[str, int]
    """Ready pods in each member."""
    events: tuple[str, ...]
    """Environment events that may still happen, once each."""
    now: datetime = NOON
    running: tuple[Reconcile, ...] = ()
    mode: str = ""
    """The move mode that the template asks for."""
    has_failed: bool = False
    """Whether a cluster was ever down: an eviction is not voluntary, and no budget bounds it."""

    def all(self, type_: type[Any]) -> list[Any]:
        return [thing for thing in self.objects.values() if isinstance(thing, type_)]

    @property
    def binding(self) -> ResourceBinding:
        (found,) = self.all(ResourceBinding)
        assert isinstance(found, ResourceBinding)
        return found

    @property
    def budget(self) -> DisruptionBudget:
        (found,) = self.all(DisruptionBudget)
        assert isinstance(found, DisruptionBudget)
        return found

    def is_reachable(self, name: str) -> bool:
        found = self.objects.get(("Cluster", "", name))
        return isinstance(found, Cluster) and is_ready(found)

    @property
    def serving(self) -> int:
        return sum(n for name, n in self.pods.items() if self.is_reachable(name))

    def work_in(self, name: str) -> Work | None:
        return next((work for work in self.all(Work) if well_known.cluster_of(work.namespace) == name), None)


class Step(NamedTuple):
    """A transition, with what caused it: the name of a controller, `crash`, or an environment event."""

    cause: str
    to: ModelState


class ModelView(FakeView):
    """A view of one state that notes which kinds are read; everything that a process keeps in memory is forgotten."""

    def __init__(self, model: ModelState) -> None:
        super().__init__((), now=model.now, interpreter=INTERPRETER, fleet=FixedFleet(model))
        self.objects = sorted(model.objects.values(), key=lambda thing: (thing.namespace, thing.name))
        self.mode = model.mode
        self.read: set[type[Any]] = set()
        key = api_key_of(model.binding)
        # The wait for the reports of other clusters is over: a report may be complete or not.
        self.memory[PENDING_REPORT, key] = PendingReport(model.now + timedelta(hours=1), 0.0)

    def all(self, type_: type[Any], namespace: str | None = None) -> list[Any]:
        self.read.add(type_)
        return [
            thing
            for thing in self.objects
            if type(thing) is type_ and (namespace is None or thing.namespace == namespace)
        ]

    def by_index(self, index: Index[Any], value: str) -> list[Any]:
        return [thing for thing in self.all(index.type) if value in index.values(thing)]

    def raw(self, ref: Ref) -> Raw | None:
        if ref.kind == "Deployment":
            return template(self.mode)
        self.read.update(map(type, self.objects))
        return super().raw(ref)

    @property
    def fleet(self) -> Fleet[Cluster]:
        self.read.add(Cluster)
        return super().fleet


@cache
def template(mode: str) -> Raw:
    return deployment("web", replicas=REPLICAS, labels={"app": "web"}, annotations={well_known.MOVE_MODE: mode})


class FixedFleet:
    def __init__(self, model: ModelState) -> None:
        self._clusters = tuple(model.all(Cluster))

    def at(self, now: datetime, deciding: object = None) -> Fleet[Cluster]:
        return fleet_of(*map(id, self._clusters), clusters=self._clusters).at(now)


_FLEETS: dict[tuple[int, ...], tuple[tuple[Cluster, ...], Fleet[Cluster]]] = {}


def fleet_of(*ids: int, clusters: tuple[Cluster, ...]) -> Fleet[Cluster]:
    if ids not in _FLEETS:
        _FLEETS[ids] = clusters, Fleet.of(list(clusters))
    return _FLEETS[ids][1]


INTERPRETER = Interpreter.of()


def key_of(thing: Object) -> ObjectKey:
    return kind_of(thing).name, thing.namespace, thing.name


def initial_state(*events: str, mode: str = "", min_available: int | None = MIN_AVAILABLE) -> ModelState:
    """Three ready replicas in m1; the policy divides them between both clusters by weight, one to two."""
    load_declarations()
    clusters = [make_cluster(name) for name in CLUSTERS]
    budget = DisruptionBudget(
        metadata=Meta(name="careful", namespace="demo", resource_version="1", generation=1),
        spec=DisruptionBudgetSpec(
            target="Workloads", selector=LabelSelector(), min_available=min_available, max_concurrent=1
        ),
    )
    options = WorkloadRebalancer(metadata=Meta(name="job"), spec=RebalancerSpec(move=MoveOptions()))
    things = [*clusters, make_binding(), budget, options]
    model = ModelState(
        {key_of(thing): thing for thing in things},
        {"m1": 0, "m2": 0},
        events,
        mode=mode,
    )
    model = run_alone(model, "dispatch")
    model = report(model._replace(pods={"m1": REPLICAS, "m2": 0}), "m1")
    return run_alone(run_alone(run_alone(model, "aggregate"), "schedule"), "budget")


def make_cluster(name: str) -> Cluster:
    enabled = (APIEnablement(group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),)),)
    found = cluster(name)
    return found.but(status=found.status.but(api_enablements=enabled))


def make_binding() -> ResourceBinding:
    weights = tuple(
        StaticClusterWeight(target_cluster=ClusterAffinity(cluster_names=(name,)), weight=weight)
        for name, weight in zip(CLUSTERS, (1, 2), strict=True)
    )
    strategy = ReplicaSchedulingStrategy(
        replica_scheduling_type="Divided",
        replica_division_preference="Weighted",
        weight_preference=ClusterPreferences(static_weight_list=weights),
    )
    placement = Placement(cluster_affinity=ClusterAffinity(cluster_names=CLUSTERS), replica_scheduling=strategy)
    applied = msgspec.json.encode(placement).decode()
    return ResourceBinding(
        metadata=Meta(
            name="web-deployment",
            namespace="demo",
            uid="rb",
            resource_version="1",
            generation=1,
            labels={well_known.PP_ID: "pp", well_known.RB_ID: "rb"},
            annotations={well_known.APPLIED_PLACEMENT: applied},
            finalizers=(well_known.BINDING_FINALIZER,),
        ),
        spec=BindingSpec(
            resource=ObjectReference(api_version="apps/v1", kind="Deployment", namespace="demo", name="web", uid="u"),
            replicas=REPLICAS,
            clusters=(TargetCluster(name="m1", replicas=REPLICAS),),
            placement=placement,
        ),
        status=BindingStatus(
            scheduler_observed_generation=1,
            last_scheduled_time=NOON - timedelta(hours=2),
            conditions=(Condition(type="Scheduled", status="True", reason="Success"),),
        ),
    )


# --- controllers ---


def compute_reconcile(model: ModelState, name: str) -> tuple[Reconcile | None, set[type[Any]]]:
    """The writes that a controller computes in this state, None if there are none; and the kinds that it has read."""
    controller, view = controllers.get(name), ModelView(model)
    effects = list(effects_of(controller, model, view))
    writes = tuple(write for effect in effects for write in writes_of(effect, model, controller))
    written = {type(thing) for thing in effects if isinstance(thing, Object)}
    written |= {type(step) for effect in effects if isinstance(effect, WriteSequence) for step in effect.steps}
    written |= {type(effect.target) for effect in effects if isinstance(effect, Delete)}
    return (Reconcile(name, writes) if writes else None), view.read | written | set(controller.subjects)


def effects_of(controller: Controller, model: ModelState, view: ModelView) -> Iterator[Any]:
    for subject in model.all(controller.subjects[0]):
        if controller.batch > 1:
            yield from (effect for _, effect in controller.reconcile([subject], view))
        else:
            yield from controller.reconcile(subject, view)


def writes_of(effect: Any, model: ModelState, controller: Controller) -> Iterator[PendingWrite]:
    """The requests for one effect, as on an API server that takes spec and status in two requests."""
    if isinstance(effect, Delete):
        assert isinstance(effect.target, Object)
        yield PendingWrite(key_of(effect.target), b"")
        return
    steps = effect.steps if isinstance(effect, WriteSequence) else (effect,) if isinstance(effect, Object) else ()
    for before, after in zip((None, *steps), steps, strict=False):
        key = key_of(after)
        known = before or model.objects.get(key)
        if known is None:
            yield PendingWrite(key, msgspec.json.encode(to_wire(after)), creates=True)
            continue
        for write in writes_for(known, after, to_wire(known), controller.writes, controller.subjects, RemoteServer()):
            yield PendingWrite(key, msgspec.json.encode(write.patch))


class RemoteServer:
    """An API server that takes spec and status in two requests."""

    takes_status = False


def send_next(model: ModelState, reconcile: Reconcile) -> tuple[ModelState, Reconcile | None]:
    """Send the next write of a reconcile that is not in `model.running`, and end those that it makes impossible."""
    write, rest = reconcile.writes[0], reconcile.writes[1:]
    after = write_object(model, write)
    left = tuple(later._replace(follows=True) if later.key == write.key else later for later in rest)
    return after, Reconcile(reconcile.controller, left) if left else None


def write_object(model: ModelState, write: PendingWrite) -> ModelState:
    if not write.patch:
        return delete(model, write.key)
    if write.creates:
        return store(model, made(None, (write.key, write.patch), lambda _: create_object(write)))
    patched = made(model.objects[write.key], write.patch, lambda current: patch_object(current, write.patch))
    if patched.metadata.deletion_timestamp is not None and not patched.metadata.finalizers:
        return delete(model, write.key)
    return store(model, patched)


_MADE: dict[tuple[int, object], tuple[Object | None, Object]] = {}


def made(source: Any, change: object, make: Callable[[Any], Object]) -> Object:
    """The object that a change makes of another one, as the same value each time; steps repeat in many states."""
    key = id(source), change
    if key not in _MADE:
        _MADE[key] = source, make(source)
    return _MADE[key][1]


def create_object(write: PendingWrite) -> Object:
    created = kind_of_key(write.key).decode(msgspec.json.decode(write.patch))
    assert isinstance(created, Object)
    return created.but(metadata=created.metadata.but(generation=1, uid=created.name))


def without_conflicts(before: ModelState, after: ModelState) -> ModelState:
    """The state in which reconciles in progress keep only the writes that can still succeed.

    A write to an object that another writer changed is refused, and ends its reconcile, whenever it is sent. So it and the
    writes that follow it never happen.
    """
    if not after.running or before.objects is after.objects:
        return after
    kept = (until_conflict(reconcile, before, after) for reconcile in after.running)
    return after._replace(running=tuple(reconcile for reconcile in kept if reconcile.writes))


def until_conflict(reconcile: Reconcile, before: ModelState, after: ModelState) -> Reconcile:
    for position, write in enumerate(reconcile.writes):
        if write.patch and is_refused(write, before.objects.get(write.key), after.objects.get(write.key)):
            return reconcile._replace(writes=reconcile.writes[:position])
    return reconcile


def is_refused(write: PendingWrite, old: Object | None, new: Object | None) -> bool:
    if old is new:
        return False
    if write.creates or old is None or new is None or not write.follows:
        return True
    return not is_same_in_patched_fields(msgspec.json.decode(write.patch), to_wire(old), to_wire(new))


def kind_of_key(key: ObjectKey) -> Any:
    return kind_of({"Move": Move, "Work": Work}[key[0]])


def patch_object(current: Object, encoded: bytes) -> Object:
    patch = msgspec.json.decode(encoded)
    patched = kind_of(current).decode(apply_merge_patch(to_wire(current), patch))
    bumped = "spec" in patch
    return patched.but(metadata=patched.metadata.but(generation=current.metadata.generation + bumped))


def store(model: ModelState, thing: Object) -> ModelState:
    key = key_of(thing)
    model = model._replace(objects={**model.objects, key: thing})
    return follow_work(model, well_known.cluster_of(thing.namespace)) if isinstance(thing, Work) else model


def delete(model: ModelState, key: ObjectKey) -> ModelState:
    """An object is gone at once, a Work when its cluster answers: then its pods are gone as well."""
    found = model.objects.get(key)
    if found is None:
        return model
    if isinstance(found, Work) and not model.is_reachable(well_known.cluster_of(found.namespace)):
        deleted = made(found, "delete", lambda it: it.but(metadata=it.metadata.but(deletion_timestamp=model.now)))
        return store(model, deleted)
    model = model._replace(objects={known: thing for known, thing in model.objects.items() if known != key})
    return follow_work(model, well_known.cluster_of(found.namespace)) if isinstance(found, Work) else model


def follow_work(model: ModelState, name: str) -> ModelState:
    """A member that answers deletes surplus pods at once, in the worst case the ready ones."""
    if not model.is_reachable(name):
        return model
    work = model.work_in(name)
    return model._replace(pods={**model.pods, name: min(model.pods[name], wanted_pods(work))})


def wanted_pods(work: Work | None) -> int:
    if work is None or work.metadata.deletion_timestamp is not None:
        return 0
    return int(work.spec.workload.manifests[0]["spec"].get("replicas", 1))


def run_alone(model: ModelState, name: str) -> ModelState:
    """One whole reconcile of a controller."""
    reconcile, _ = compute_reconcile(model, name)
    while reconcile is not None:
        model, reconcile = send_next(model, reconcile)
    return model


# --- environment ---


def report(model: ModelState, name: str) -> ModelState:
    """The member reports the status of its object to the Work."""
    work, ready = model.work_in(name), model.pods[name]
    reported = made(work, ("report", ready), lambda work: with_report(work, ready, ModelView(model)))
    return model if reported is work else store(model, reported)


def with_report(work: Work, ready: int, view: ModelView) -> Work:
    manifest, wanted = work.spec.workload.manifests[0], wanted_pods(work)
    counts = {"replicas": wanted, "updatedReplicas": wanted, "readyReplicas": ready, "availableReplicas": ready}
    seen = {
        **manifest,
        "metadata": {**manifest["metadata"], "generation": 1},
        "status": {"observedGeneration": 1, **counts},
    }
    status, _ = reflect_status(well_known.ref_of(work), resource_identifier(0, manifest), seen, view)
    applied = Condition(type="Applied", status="True", reason="AppliedSuccessful")
    reported = work.but(status=WorkStatus(conditions=(applied,), manifest_statuses=(status,)))
    return work if reported == work else reported


def environment_steps(model: ModelState) -> Iterator[Step]:
    for name in CLUSTERS:
        work = model.work_in(name)
        if work is None or not model.is_reachable(name) or work.metadata.deletion_timestamp is not None:
            continue
        if model.pods[name] < wanted_pods(work):
            yield Step(f"ready {name}", model._replace(pods={**model.pods, name: wanted_pods(work)}))
        reported = report(model, name)
        if reported is not model:
            yield Step(f"report {name}", reported)
    for event in model.events:
        happened = EVENTS[event](model)
        if happened is not None:
            yield Step(event, happened._replace(events=tuple(e for e in model.events if e != event)))
    if not model.running and binding_moves.stalled_condition_of(model.binding) is not None:
        yield Step("time", model._replace(now=model.now + TICK))


def request_rebalance(model: ModelState) -> ModelState:
    def request(binding: ResourceBinding) -> ResourceBinding:
        last = binding.status.last_scheduled_time or model.now
        at = max(model.now.replace(microsecond=0), last + timedelta(seconds=1))
        return edited(state.request(binding, at, "Rebalance", "job"))

    return store(model, made(model.binding, "rebalance", request))


def edited(thing: Any) -> Any:
    """The object after a user changed its spec."""
    return thing.but(metadata=thing.metadata.but(generation=thing.metadata.generation + 1))


def fail(name: str) -> Callable[[ModelState], ModelState | None]:
    def happen(model: ModelState) -> ModelState | None:
        if not model.is_reachable(name):
            return None
        taint = Taint(key="cluster.karmada.io/unreachable", effect="NoExecute", time_added=model.now)
        found = model.objects["Cluster", "", name]
        down = made(found, "fail", lambda it: with_readiness(it, (taint,), "False", model.now))
        return store(model._replace(has_failed=True), down)

    return happen


def recover(name: str) -> Callable[[ModelState], ModelState | None]:
    def happen(model: ModelState) -> ModelState | None:
        found = model.objects.get(("Cluster", "", name))
        if found is None or model.is_reachable(name):
            return None
        model = store(model, made(found, "recover", lambda it: with_readiness(it, (), "True", model.now)))
        work = model.work_in(name)
        if work is not None and work.metadata.deletion_timestamp is not None:
            return delete(model, key_of(work))
        return follow_work(model, name)

    return happen


def with_readiness(found: Cluster, taints: tuple[Taint, ...], status: str, now: datetime) -> Cluster:
    others = (one for one in found.status.conditions if one.type != "Ready")
    conditions = (Condition(type="Ready", status=status, last_transition_time=now), *others)
    return edited(found.but(spec=found.spec.but(taints=taints), status=found.status.but(conditions=conditions)))


def drain(name: str) -> Callable[[ModelState], ModelState | None]:
    def happen(model: ModelState) -> ModelState | None:
        def drained(found: Cluster) -> Cluster:
            annotations = {**found.metadata.annotations, well_known.DRAIN: "now"}
            return found.but(metadata=found.metadata.but(annotations=annotations))

        return store(model, made(model.objects["Cluster", "", name], "drain", drained))

    return happen


def unjoin(name: str) -> Callable[[ModelState], ModelState | None]:
    def happen(model: ModelState) -> ModelState | None:
        def deleted(found: Cluster) -> Cluster:
            finalizers = (well_known.CLUSTER_FINALIZER,)
            return found.but(metadata=found.metadata.but(deletion_timestamp=model.now, finalizers=finalizers))

        return store(model, made(model.objects["Cluster", "", name], "unjoin", deleted))

    return happen


EVENTS: Mapping[str, Callable[[ModelState], ModelState | None]] = {
    "rebalance": request_rebalance,
    **{f"fail {name}": fail(name) for name in CLUSTERS},
    **{f"recover {name}": recover(name) for name in CLUSTERS},
    **{f"drain {name}": drain(name) for name in CLUSTERS},
    **{f"unjoin {name}": unjoin(name) for name in CLUSTERS},
}
