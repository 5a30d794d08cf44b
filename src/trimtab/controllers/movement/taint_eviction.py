"""Evicts workloads from clusters with NoExecute taints that they do not tolerate."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from trimtab.api.jsonpath import find_values_or_empty
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster, Taint, Toleration
from trimtab.api.kinds.disruption import DisruptionPolicy, OutageThresholds
from trimtab.api.kinds.policy import StatePreservation
from trimtab.api.kinds.work import (
    Binding,
    ClusterResourceBinding,
    GracefulEvictionTask,
    ResourceBinding,
)
from trimtab.api.value import IntOrString, Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.health import CONDITION_TAINTS
from trimtab.controllers.clusters.readiness import CLUSTERS_BY_READINESS, NOT_READY, READY
from trimtab.controllers.contract import (
    Effect,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Topic,
    Trigger,
    View,
    WriteSequence,
    controller,
    never,
)
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.freeze import current_freeze, moving_bindings
from trimtab.controllers.movement.move_reasons import MoveReason, mode_of_eviction, reason_of_taints
from trimtab.controllers.movement.placement_preview import PlacementPreview, preview_placement, transfer_out_of
from trimtab.controllers.settings import setting
from trimtab.decide.pods.budgets.budget import scaled_value
from trimtab.decide.reschedule_trigger import read_placement

PURGE_MODE_ALIASES = {"Immediately": "Directly", "Graciously": "Gracefully"}
EVICTION_BLOCKED = "EvictionBlocked"
RETRY_SECONDS = 30.0
UNSCHEDULED_RETRY_SECONDS = 1.0
"""Retry interval for a binding that is not scheduled: its tolerations are known only afterwards."""
STORM_RETRY_SECONDS = 10.0
STORM_COOLDOWN = timedelta(seconds=60)
"""How long no storm must have been seen before clusters are evacuated."""
SLOW_RATE_FACTOR = 0.1
EVICTION_SLOT: Topic[Ref, datetime | None] = Topic("eviction slot")
LAST_EVICTION_SLOT: Topic[None, datetime] = Topic("last eviction slot", shared=True)
LAST_STORM: Topic[None, datetime] = Topic("last storm", shared=True)
REPORTED_STORM: Topic[str, tuple[datetime | None, str]] = Topic("reported storm", shared=True)
"""Factor by which evictions slow down in a storm."""


def bindings_in_tainted_cluster(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    if new is None or (old is not None and old.spec.taints == new.spec.taints):
        return
    if no_execute_taints(new) or (old is not None and no_execute_taints(old)):
        for binding in well_known.bindings_in_cluster(view, new.name):
            yield key_of(binding)


def no_execute_taints(cluster: Cluster) -> list[Taint]:
    return [taint for taint in cluster.spec.taints if taint.effect == "NoExecute"]


def affected_binding(old: Binding | None, new: Binding | None, view: View) -> Iterable[Key]:
    """The binding, if it is stalled, or its placement or tolerations changed and one of its clusters has a taint.

    Changes of taints wake bindings through `bindings_in_tainted_cluster`, also for clusters that were unknown before.
    """
    if new is None:
        return
    changed = (
        old is None
        or old.spec.clusters != new.spec.clusters
        or old.metadata.annotations.get(well_known.APPLIED_PLACEMENT)
        != new.metadata.annotations.get(well_known.APPLIED_PLACEMENT)
    )
    if binding_moves.stalled_condition_of(new) is not None or (
        changed and any(no_execute_taints(cluster) for cluster in clusters_of(new, view))
    ):
        yield key_of(new)


@controller(
    *well_known.BINDINGS,
    writes=[
        "spec.clusters",
        "spec.gracefulEvictionTasks",
        "status.previousPlacement",
        "status.conditions[Stalled]",
        "Move",
    ],
    predicate=never,
    triggers=[
        Trigger(ResourceBinding, affected_binding),
        Trigger(ClusterResourceBinding, affected_binding),
        Trigger(Cluster, bindings_in_tainted_cluster),
        Trigger(DisruptionPolicy, moving_bindings),
    ],
    resumes=True,
)
def taint_eviction(binding: Binding, view: View) -> Iterator[Effect]:
    if binding.metadata.deletion_timestamp is not None or not setting(view, "failover"):
        return
    tainted = [cluster for cluster in clusters_of(binding, view) if no_execute_taints(cluster)]
    if not tainted:
        yield from binding_moves.clear_stalled(binding, (EVICTION_BLOCKED,), view.now)
    waits: list[float] = []
    for cluster in tainted:
        wait = seconds_until_due(binding, cluster, view)
        if wait == 0:
            attempt = try_eviction(binding, cluster, view)
            yield from attempt.effects
            if attempt.retry_after is None:
                return
            wait = attempt.retry_after
        if wait is not None:
            waits.append(wait)
    if waits:
        yield RequeueAfter(min(waits))


def seconds_until_due(binding: Binding, cluster: Cluster, view: View) -> float | None:
    """Seconds until the taints of a cluster evict a binding; 0 when due, None when it tolerates them for ever."""
    tolerations = applied_tolerations(binding)
    if tolerations is None:
        return UNSCHEDULED_RETRY_SECONDS
    due = eviction_time(no_execute_taints(cluster), tolerations, view.now)
    return None if due is None else max(0.0, (due - view.now).total_seconds())


class EvictionAttempt(NamedTuple):
    """The effects of one attempt, and when to try again; None when the workload is evicted."""

    effects: tuple[Effect, ...]
    retry_after: float | None = None


def try_eviction(binding: Binding, cluster: Cluster, view: View) -> EvictionAttempt:
    """Evict, unless a storm stops evictions, the workload has nowhere to go, or its slot is later."""
    if (frozen := current_freeze(view)) is not None:
        reports = view.profile.evict_only_with_target
        skipped = skip_eviction(binding, cluster.name, frozen.message, view) if reports else ()
        return EvictionAttempt(tuple(skipped), RETRY_SECONDS)
    rate_factor = eviction_rate_factor(cluster, view)
    before = tuple(storm_effects(cluster, rate_factor, view)) if rate_factor < 1 else ()
    if rate_factor == 0:
        return EvictionAttempt(before, STORM_RETRY_SECONDS)
    task = task_for(binding, view, cluster.name)
    preview = (
        preview_placement(state.evict_from(binding, cluster.name, task), view)
        if view.profile.evict_only_with_target
        else None
    )
    obstacle = missing_state_message(binding, cluster.name, preservation_of(binding)) or (preview and preview.failure)
    if obstacle:
        skipped = skip_eviction(binding, cluster.name, obstacle, view) if preview is not None else ()
        return EvictionAttempt((*before, *skipped), RETRY_SECONDS)
    slot = eviction_slot(binding, rate_factor, view)
    last = RememberInProcess(LAST_EVICTION_SLOT, None, max(slot, view.recall(LAST_EVICTION_SLOT, None) or slot))
    if slot > view.steady_now:
        booked = RememberInProcess(EVICTION_SLOT, well_known.ref_of(binding), slot)
        return EvictionAttempt((*before, last, booked), (slot - view.steady_now).total_seconds())
    released = RememberInProcess(EVICTION_SLOT, well_known.ref_of(binding), None)
    if preview is None:
        return EvictionAttempt((*before, last, released, state.evict_from(binding, cluster.name, task)))
    evictions = (Eviction(cluster.name, task, preview, reason_of_taints(cluster, no_execute_taints(cluster))),)
    return EvictionAttempt((*before, last, released, *eviction_effects(binding, binding, evictions, view)))


def clusters_of(binding: Binding, view: View) -> Iterator[Cluster]:
    for target in binding.spec.clusters:
        if (cluster := view.get(Cluster, "", target.name)) is not None:
            yield cluster


def applied_tolerations(binding: Binding) -> tuple[Toleration, ...] | None:
    text = binding.metadata.annotations.get(well_known.APPLIED_PLACEMENT)
    applied = read_placement(text) if text else None
    return applied.cluster_tolerations if applied is not None else None


def eviction_time(taints: list[Taint], tolerations: tuple[Toleration, ...], now: datetime) -> datetime | None:
    """When these taints evict a workload: None means never, a past time means now.

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


def eviction_slot(binding: Binding, rate_factor: float, view: View) -> datetime:
    """When this binding may be evicted: evictions are spaced by the eviction rate."""
    booked = view.recall(EVICTION_SLOT, well_known.ref_of(binding))
    if booked is not None:
        return booked
    rate = eviction_rate(view) * rate_factor
    last = view.recall(LAST_EVICTION_SLOT, None)
    if last is None or rate <= 0:
        return view.steady_now
    return max(view.steady_now, last + timedelta(seconds=1 / rate))


def eviction_rate(view: View) -> float:
    """Evictions per second outside of storms."""
    policy = view.get(DisruptionPolicy, "", "default")
    if policy is not None and policy.spec.eviction_rate is not None:
        return float(policy.spec.eviction_rate.per_second)
    return float(setting(view, "eviction-rate"))


def eviction_rate_factor(cluster: Cluster, view: View) -> float:
    """Rate factor: 1 normally, less when many clusters are not ready, 0 when the control plane is probably cut off.

    Taints that users set are not slowed down: they are deliberate.
    """
    by_hand = any(taint.key not in CONDITION_TAINTS for taint in no_execute_taints(cluster))
    if by_hand or not view.profile.evict_only_with_target:
        return 1.0
    last_storm = view.recall(LAST_STORM, None)
    storm, (not_ready, total) = storm_settings(view), cluster_counts(view)
    if is_storm(storm.stop_above, not_ready, total, storm) or (
        last_storm is not None and view.steady_now - last_storm < STORM_COOLDOWN
    ):
        return 0.0
    return SLOW_RATE_FACTOR if is_storm(storm.slow_above, not_ready, total, storm) else 1.0


def storm_settings(view: View) -> OutageThresholds:
    policy = view.get(DisruptionPolicy, "", "default")
    return (policy.spec.storm if policy is not None else None) or OutageThresholds()


def cluster_counts(view: View) -> tuple[int, int]:
    """How many clusters are not ready, and how many there are."""
    not_ready = view.count(CLUSTERS_BY_READINESS, NOT_READY)
    return not_ready, not_ready + view.count(CLUSTERS_BY_READINESS, READY)


def is_storm(limit: IntOrString, not_ready: int, total: int, storm: OutageThresholds) -> bool:
    return not_ready >= storm.min_unready_clusters and not_ready > scaled_value(limit, total)


def storm_effects(cluster: Cluster, rate_factor: float, view: View) -> Iterator[Effect]:
    """Record an event, once per outage of a cluster, that its evacuation is slowed or stopped.

    Clusters recover one by one. The storm is remembered so that the last ones are not evacuated meanwhile.
    """
    storm, (not_ready, total) = storm_settings(view), cluster_counts(view)
    if is_storm(storm.stop_above, not_ready, total, storm):
        yield RememberInProcess(LAST_STORM, None, view.steady_now)
    reason = "EvictionSlowed" if rate_factor else "EvictionStopped"
    outage = next((taint.time_added for taint in no_execute_taints(cluster)), None), reason
    if view.recall(REPORTED_STORM, cluster.name) == outage:
        return
    consequence = "evictions slow down" if rate_factor else "nothing is evicted until some are ready again"
    text = f"{not_ready} of {total} clusters are not ready at once; {consequence}."
    yield RecordEvent(well_known.ref_of(cluster), reason, text, well_known.TAINT_MANAGER, "Warning")
    yield RememberInProcess(REPORTED_STORM, cluster.name, outage)


def skip_eviction(
    binding: Binding,
    cluster: str,
    obstacle: str,
    view: View,
    *,
    reason: str = EVICTION_BLOCKED,
    current: Binding | None = None,
) -> Iterator[Effect]:
    """The workload cannot be placed elsewhere: it stays, with a Stalled condition and an event."""
    message = f"stays in {cluster}: {obstacle}"
    before = binding_moves.stalled_condition_of(binding)
    stalled = binding_moves.with_stalled_condition(binding, reason, message, view.now)
    if stalled != (current or binding):
        yield stalled
    if before is None or before.reason != reason:
        for about in (well_known.ref_of(binding), well_known.template_ref(binding)):
            yield RecordEvent(about, "EvictionSkipped", message.capitalize(), well_known.TAINT_MANAGER, "Warning")


class Eviction(NamedTuple):
    """The eviction of a workload from one cluster, and where the workload would be placed afterwards."""

    cluster: str
    task: GracefulEvictionTask
    preview: PlacementPreview
    reason: MoveReason


def eviction_effects(current: Binding, binding: Binding, evictions: Sequence[Eviction], view: View) -> Iterator[Effect]:
    """Write the Move objects, then the previous placement in the status, then all evictions in one write.

    `current` is the stored binding, `binding` the same with what else changes together with the evictions.
    """
    for cluster, task, preview, reason in evictions:
        move_cause = binding_moves.MoveCause(reason.cause, task.producer, mode_of_eviction(task), reason.message)
        move = binding_moves.move_of_binding(binding, transfer_out_of(binding, cluster, preview), move_cause, view.now)
        yield from binding_moves.log_start(move, view)
    unstalled = binding_moves.with_stalled_condition(binding, "", "", view.now)
    after = state.time_return(state.remember_placement(unstalled, binding, view.now), None)
    announced = current.but(status=after.status)
    for cluster, task, _, _ in evictions:
        after = state.evict_from(after, cluster, task)
    yield WriteSequence((announced, after))


def task_for(binding: Binding, view: View, cluster: str = "") -> GracefulEvictionTask:
    behaviour = binding.spec.failover.cluster if binding.spec.failover is not None else None
    mode = behaviour.purge_mode if behaviour is not None else setting(view, "eviction-purge-mode")
    return GracefulEvictionTask(
        purge_mode=PURGE_MODE_ALIASES.get(mode, mode) or "Gracefully",
        reason="TaintUntolerated",
        producer=well_known.TAINT_MANAGER,
        creation_timestamp=view.now.replace(microsecond=0) if view.profile.skip_empty_steps else None,
        preserved_label_state=preserved_state(binding, cluster, preservation_of(binding)),
    )


def preservation_of(binding: Binding) -> StatePreservation | None:
    behaviour = binding.spec.failover.cluster if binding.spec.failover is not None else None
    return behaviour.state_preservation if behaviour is not None else None


def preserved_state(binding: Binding, cluster: str, rules: StatePreservation | None) -> dict[str, str]:
    """Fields of the old copy's status that the new copy gets as labels."""
    item = binding_moves.status_by_cluster(binding).get(cluster)
    if rules is None or item is None:
        return {}
    found = {rule.alias_label_name: find_values_or_empty(item.status, rule.json_path) for rule in rules.rules}
    return {label: " ".join(map(format_state_value, values)) for label, values in found.items() if values}


def missing_state_message(binding: Binding, cluster: str, rules: StatePreservation | None) -> str:
    """Which state for the new copy is missing; empty when all of it is known."""
    known = preserved_state(binding, cluster, rules)
    missing = [rule.alias_label_name for rule in (rules.rules if rules else ()) if rule.alias_label_name not in known]
    return f"its status has no value to preserve as {', '.join(missing)}" if missing else ""


def format_state_value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
