"""Clusters that must be left: NoExecute taints nobody tolerates turn a placement into an eviction task."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from trimtab.api.jsonpath import find_if_any
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster, Taint, Toleration
from trimtab.api.kinds.disruption import DisruptionPolicy, Storm
from trimtab.api.kinds.policy import Placement, StatePreservation
from trimtab.api.kinds.work import (
    Binding,
    ClusterResourceBinding,
    GracefulEvictionTask,
    PreviousPlacement,
    ResourceBinding,
)
from trimtab.api.value import IntOrString, Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.health import AUTOMATIC
from trimtab.controllers.contract import Again, Note, Remember, Steps, View, Wake, Wish, controller, never
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.placement_preview import Prospect, flow_out, prospect
from trimtab.controllers.propagation.execute import is_ready
from trimtab.decide.pods.budgets.budget import scaled

MODERN = {"Immediately": "Directly", "Graciously": "Gracefully"}
EVICTION_BLOCKED = "EvictionBlocked"
LOOK_AGAIN_SECONDS = 30.0
STORM_SECONDS = 10.0
CALM = timedelta(seconds=60)
"""How long it must have been quiet after a storm before anything is evacuated."""
SLOWLY = 0.1
"""By what factor evictions slow down in a storm."""


def tainted_bindings(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    if new is None or (old is not None and old.spec.taints == new.spec.taints):
        return
    if repelling(new) or (old is not None and repelling(old)):
        for binding in well_known.bindings_in(view, new.name):
            yield key_of(binding)


def repelling(cluster: Cluster) -> list[Taint]:
    return [taint for taint in cluster.spec.taints if taint.effect == "NoExecute"]


def may_have_to_leave(old: Binding | None, new: Binding | None, view: View) -> Iterable[Key]:
    """It was kept from leaving, or it is placed otherwise or tolerates otherwise, and a cluster of it repels.

    All else the taints themselves tell, also those of a cluster that is not known yet.
    """
    if new is None:
        return
    otherwise = (
        old is None
        or old.spec.clusters != new.spec.clusters
        or old.metadata.annotations.get(well_known.APPLIED_PLACEMENT)
        != new.metadata.annotations.get(well_known.APPLIED_PLACEMENT)
    )
    if binding_moves.stalled_because(new) is not None or (
        otherwise and any(repelling(cluster) for cluster in clusters_of(new, view))
    ):
        yield key_of(new)


@controller(
    *well_known.BINDINGS,
    writes=[
        "spec.clusters",
        "spec.gracefulEvictionTasks",
        "status.previousPlacement",
        "status.conditions",
        "Move",
    ],
    changed=never,
    wakes=[
        Wake(ResourceBinding, may_have_to_leave),
        Wake(ClusterResourceBinding, may_have_to_leave),
        Wake(Cluster, tainted_bindings),
    ],
)
def leave(binding: Binding, view: View) -> Iterator[Wish]:
    if binding.metadata.deletion_timestamp is not None or not well_known.setting(view, "failover", default=True):
        return
    waits: list[float] = []
    repelled = [found for found in clusters_of(binding, view) if repelling(found)]
    if not repelled:
        yield from binding_moves.getting_on(binding, (EVICTION_BLOCKED,), view.now)
    for cluster in repelled:
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
        pace = pace_of(cluster, view)
        if pace < 1:
            yield from told_of_storm(cluster, pace, view)
        if pace == 0:
            waits.append(STORM_SECONDS)
            continue
        task = task_for(binding, view, cluster.name)
        ahead = prospect(left(binding, cluster.name, task), view) if view.profile.evict_only_with_target else None
        obstacle = unknown_state(binding, cluster.name, preservation_of(binding)) or (ahead and ahead.failure)
        if obstacle:
            if ahead is not None:
                yield from stays(binding, cluster.name, obstacle, view)
            waits.append(LOOK_AGAIN_SECONDS)
            continue
        slot = slot_of(binding, cluster, view)
        yield Remember("eviction slot", "last", max(slot, view.recall("eviction slot", "last") or slot))
        if slot > view.now:
            yield Remember("eviction slot", well_known.ref_of(binding), slot)
            waits.append((slot - view.now).total_seconds())
            continue
        yield Remember("eviction slot", well_known.ref_of(binding), None)
        if ahead is None:
            yield left(binding, cluster.name, task)
        else:
            yield from departure(binding, binding, cluster.name, task, "ClusterFailover", ahead, view)
        return
    if waits:
        yield Again(min(waits))


def clusters_of(binding: Binding, view: View) -> Iterator[Cluster]:
    for target in binding.spec.clusters:
        if (cluster := view.get(Cluster, "", target.name)) is not None:
            yield cluster


def applied_tolerations(binding: Binding) -> tuple[Toleration, ...] | None:
    text = binding.metadata.annotations.get(well_known.APPLIED_PLACEMENT)
    if not text:
        return None
    return msgspec.json.decode(text, type=Placement, strict=False).cluster_tolerations


def eviction_time(taints: list[Taint], tolerations: tuple[Toleration, ...], now: datetime) -> datetime | None:
    """When these taints drive a workload out: None is never, a past moment is at once.

    A toleration that one taint needs counts its seconds for every taint that it tolerates.
    """
    used = [next((toleration for toleration in tolerations if toleration.tolerates(taint)), None) for taint in taints]
    if None in used:
        return datetime.min.replace(tzinfo=now.tzinfo)
    deadlines = [
        (taint.time_added or now) + timedelta(seconds=max(0, toleration.toleration_seconds))
        for toleration in used
        if toleration is not None and toleration.toleration_seconds is not None
        for taint in taints
        if toleration.tolerates(taint)
    ]
    return min(deadlines, default=None)


def slot_of(binding: Binding, cluster: Cluster, view: View) -> datetime:
    """When this binding's turn is: evictions follow each other at the eviction rate."""
    booked: datetime | None = view.recall("eviction slot", well_known.ref_of(binding))
    if booked is not None:
        return booked
    rate = eviction_rate(view) * pace_of(cluster, view)
    last: datetime | None = view.recall("eviction slot", "last")
    if last is None or rate <= 0:
        return view.now
    return max(view.now, last + timedelta(seconds=1 / rate))


def eviction_rate(view: View) -> float:
    """Evictions a second in quiet times."""
    policy = view.get(DisruptionPolicy, "", "default")
    if policy is not None and policy.spec.eviction_rate is not None:
        return float(policy.spec.eviction_rate.per_second)
    return float(well_known.setting(view, "eviction-rate", default=1.5))


def pace_of(cluster: Cluster, view: View) -> float:
    """The storm brake: 1 in quiet times, less when many clusters look dead, 0 when it is probably us who are cut off.

    What people taint by hand is left at full speed: they know what they see.
    """
    by_hand = any(taint.key not in AUTOMATIC for taint in repelling(cluster))
    if by_hand or not view.profile.evict_only_with_target:
        return 1.0
    blew: datetime | None = view.recall("storm", "last")
    if is_above(storm_of(view).stop_above, view) or (blew is not None and view.now - blew < CALM):
        return 0.0
    return SLOWLY if is_above(storm_of(view).slow_above, view) else 1.0


def storm_of(view: View) -> Storm:
    policy = view.get(DisruptionPolicy, "", "default")
    return (policy.spec.storm if policy is not None else None) or Storm()


def is_above(limit: IntOrString, view: View) -> bool:
    """Whether more clusters than this are not ready, and enough of them for a storm."""
    clusters = view.all(Cluster)
    return exceeds(limit, sum(not is_ready(cluster) for cluster in clusters), len(clusters), storm_of(view))


def exceeds(limit: IntOrString, dark: int, total: int, storm: Storm) -> bool:
    return dark >= storm.at_least and dark > scaled(limit, total)


def told_of_storm(cluster: Cluster, pace: float, view: View) -> Iterator[Wish]:
    """Say once for each time a cluster goes dark that it is evacuated slowly, or not at all.

    Clusters return one by one; the last of them are not to be evacuated meanwhile, so the storm is remembered.
    """
    if is_above(storm_of(view).stop_above, view):
        yield Remember("storm", "last", view.now)
    reason = "EvictionSlowed" if pace else "EvictionStopped"
    told = next((taint.time_added for taint in repelling(cluster)), None), reason
    if view.recall("storm", cluster.name) == told:
        return
    dark = sum(not is_ready(other) for other in view.all(Cluster))
    what = "evictions slow down" if pace else "nothing is evicted until some return"
    text = f"{dark} of {len(view.all(Cluster))} clusters are not ready at once; {what}."
    yield Note(well_known.ref_of(cluster), reason, text, well_known.TAINT_MANAGER, "Warning")
    yield Remember("storm", cluster.name, told)


def stays(
    binding: Binding, cluster: str, why: str, view: View, *, reason: str = EVICTION_BLOCKED, seen: Binding | None = None
) -> Iterator[Wish]:
    """Nowhere to go: the workload stays, and says why."""
    message = f"stays in {cluster}: {why}"
    before = binding_moves.stalled_because(binding)
    stuck = binding_moves.stalled(binding, reason, message, view.now)
    if stuck != (seen or binding):
        yield stuck
    if before is None or before.reason != reason:
        for about in (well_known.ref_of(binding), well_known.template_ref(binding)):
            yield Note(about, "EvictionSkipped", message.capitalize(), well_known.TAINT_MANAGER, "Warning")


def departure(
    seen: Binding, binding: Binding, cluster: str, task: GracefulEvictionTask, cause: str, ahead: Prospect, view: View
) -> Iterator[Wish]:
    """The log first, then, in the status, what was there, then the eviction itself in one write.

    `seen` is the binding as it stands, `binding` the same with what else changes with the eviction.
    """
    why = binding_moves.Cause(cause, task.producer, message=task.message or task.reason)
    entry = binding_moves.log_entry(binding, flow_out(binding, cluster, ahead), why, view.now)
    if view.get(type(entry), entry.namespace, entry.name) is None:
        yield entry
    known = binding.status.previous_placement or PreviousPlacement(
        clusters=binding.spec.clusters,
        affinity_name=binding.status.scheduler_observing_affinity_name,
        since=view.now,
    )
    told = binding_moves.stalled(binding, "", "", view.now)
    noted = told.but(status=told.status.but(previous_placement=known.but(healthy_since=None)))
    yield Steps((seen.but(status=noted.status), left(noted, cluster, task)))


def task_for(binding: Binding, view: View, cluster: str = "") -> GracefulEvictionTask:
    asked = binding.spec.failover.cluster if binding.spec.failover is not None else None
    mode = (
        asked.purge_mode if asked is not None else well_known.setting(view, "eviction-purge-mode", default="Gracefully")
    )
    return GracefulEvictionTask(
        purge_mode=MODERN.get(mode, mode) or "Gracefully",
        reason="TaintUntolerated",
        producer=well_known.TAINT_MANAGER,
        preserved_label_state=preserved(binding, cluster, preservation_of(binding)),
    )


def preservation_of(binding: Binding) -> StatePreservation | None:
    asked = binding.spec.failover.cluster if binding.spec.failover is not None else None
    return asked.state_preservation if asked is not None else None


def preserved(binding: Binding, cluster: str, rules: StatePreservation | None) -> dict[str, str]:
    """What the status of the old copy says that the new one is to be told."""
    item = binding_moves.items_of(binding).get(cluster)
    if rules is None or item is None:
        return {}
    found = {rule.alias_label_name: find_if_any(item.status, rule.json_path) for rule in rules.rules}
    return {label: " ".join(map(printed, values)) for label, values in found.items() if values}


def unknown_state(binding: Binding, cluster: str, rules: StatePreservation | None) -> str:
    """Why the new copy could not be told all that it is to be told; empty when it can."""
    known = preserved(binding, cluster, rules)
    missing = [rule.alias_label_name for rule in (rules.rules if rules else ()) if rule.alias_label_name not in known]
    return f"its status does not say what is to be preserved as {', '.join(missing)}" if missing else ""


def printed(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


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
