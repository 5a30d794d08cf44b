"""Clusters that must be left: NoExecute taints nobody tolerates turn a placement into an eviction task."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster, Taint, Toleration
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.work import Binding, GracefulEvictionTask
from trimtab.api.value import Key
from trimtab.controllers import marks
from trimtab.controllers.contract import Again, Remember, View, Wake, Wish, controller

PRODUCER = "TaintManager"
MODERN = {"Immediately": "Directly", "Graciously": "Gracefully"}


def tainted_bindings(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    if new is None or (old is not None and old.spec.taints == new.spec.taints):
        return
    if repelling(new) or (old is not None and repelling(old)):
        for binding in marks.bindings_in(view, new.name):
            yield key_of(binding)


def repelling(cluster: Cluster) -> list[Taint]:
    return [taint for taint in cluster.spec.taints if taint.effect == "NoExecute"]


@controller(
    *marks.BINDINGS,
    writes=["spec.clusters", "spec.gracefulEvictionTasks"],
    wakes=[Wake(Cluster, tainted_bindings)],
)
def leave(binding: Binding, view: View) -> Iterator[Wish]:
    if binding.metadata.deletion_timestamp is not None or not marks.setting(view, "failover", default=True):
        return
    waits: list[float] = []
    for target in binding.spec.clusters:
        cluster = view.get(Cluster, "", target.name)
        if cluster is None or not repelling(cluster):
            continue
        tolerations = applied_tolerations(binding)
        if tolerations is None:
            waits.append(1.0)  # not scheduled yet: who tolerates what is known when it is
            continue
        due = eviction_time(repelling(cluster), tolerations, view.now)
        if due is None:
            continue
        if due > view.now:
            waits.append((due - view.now).total_seconds())
            continue
        if (pause := queueing(binding, view)) > 0:
            yield Remember("eviction slot", marks.ref_of(binding), slot_of(binding, view))
            yield Remember("eviction slot", "last", slot_of(binding, view))
            waits.append(pause)
            continue
        yield Remember("eviction slot", "last", slot_of(binding, view))
        yield left(binding, cluster.name, task_for(binding, view))
        return
    if waits:
        yield Again(min(waits))


def applied_tolerations(binding: Binding) -> tuple[Toleration, ...] | None:
    text = binding.metadata.annotations.get(marks.APPLIED_PLACEMENT)
    if not text:
        return None
    return msgspec.json.decode(text, type=Placement, strict=False).cluster_tolerations


def eviction_time(taints: list[Taint], tolerations: tuple[Toleration, ...], now: datetime) -> datetime | None:
    """When these taints drive a workload out: None is never, a past moment is at once."""
    deadlines: list[datetime] = []
    for taint in taints:
        used = next((toleration for toleration in tolerations if toleration.tolerates(taint)), None)
        if used is None:
            return datetime.min.replace(tzinfo=now.tzinfo)
        if used.toleration_seconds is not None:
            since = taint.time_added or now
            deadlines.append(since + timedelta(seconds=max(0, used.toleration_seconds)))
    return min(deadlines, default=None)


def slot_of(binding: Binding, view: View) -> datetime:
    """When this binding's turn is: evictions follow each other at the eviction rate."""
    booked: datetime | None = view.recall("eviction slot", marks.ref_of(binding))
    if booked is not None:
        return booked
    rate = float(marks.setting(view, "eviction-rate", default=1.5))
    last: datetime | None = view.recall("eviction slot", "last")
    if last is None or rate <= 0:
        return view.now
    return max(view.now, last + timedelta(seconds=1 / rate))


def queueing(binding: Binding, view: View) -> float:
    return (slot_of(binding, view) - view.now).total_seconds()


def task_for(binding: Binding, view: View) -> GracefulEvictionTask:
    asked = binding.spec.failover.cluster if binding.spec.failover is not None else None
    mode = asked.purge_mode if asked is not None else marks.setting(view, "eviction-purge-mode", default="Gracefully")
    return GracefulEvictionTask(
        purge_mode=MODERN.get(mode, mode) or "Gracefully", reason="TaintUntolerated", producer=PRODUCER
    )


def left(binding: Binding, cluster: str, task: GracefulEvictionTask) -> Binding:
    """The binding with the cluster taken out of the placement and a task that takes the old copy away."""
    target = next((t for t in binding.spec.clusters if t.name == cluster), None)
    if target is None:
        return binding
    tasks = binding.spec.graceful_eviction_tasks
    if not any(t.from_cluster == cluster for t in tasks):
        tasks = (*tasks, task.but(from_cluster=cluster, replicas=target.replicas or None))
    remaining = tuple(t for t in binding.spec.clusters if t.name != cluster)
    return binding.but(spec=binding.spec.but(clusters=remaining, graceful_eviction_tasks=tasks))
