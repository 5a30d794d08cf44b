"""Application failover: evicts a workload from a cluster where it stays unhealthy; the timers survive restarts."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.policy import ApplicationFailoverBehavior
from trimtab.api.kinds.work import (
    ActiveEviction,
    AggregatedStatusItem,
    Binding,
    GracefulEvictionTask,
    TemplateRollout,
    UnhealthyCluster,
)
from trimtab.api.value import Condition
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition, is_condition_true, with_condition
from trimtab.controllers.contract import Effect, RequeueAfter, Trigger, View, controller
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.freeze import current_freeze, moving_bindings
from trimtab.controllers.movement.move_reasons import reason_of_failover
from trimtab.controllers.movement.placement_preview import preview_placement
from trimtab.controllers.movement.taint_eviction import (
    PURGE_MODE_ALIASES,
    RETRY_SECONDS,
    Eviction,
    eviction_effects,
    missing_state_message,
    preserved_state,
    skip_eviction,
)
from trimtab.interpret.operations import Operation

FAILOVER_BLOCKED = "FailoverBlocked"
INACTIVE = "FailoverInactive"
"""Condition of a binding whose policy asks for a failover that cannot work."""
BAD_ROLLOUT = "the template changed recently and is unhealthy in every cluster, so another cluster would not help"
GRACE_SECONDS = 600
BLOCK_SECONDS = 600
ROLLOUT_SECONDS = 600
"""Deadline of a roll-out whose template does not set one."""


def concerns_failover(old: Binding | None, new: Binding) -> bool:
    """It has failover rules, or state of failover that must be cleared after the rules are removed."""
    status = new.status
    return (
        new.spec.failover is not None
        or bool(new.spec.active_eviction_history or status.unhealthy_clusters)
        or status.rollout is not None
        or is_condition_true(status.conditions, INACTIVE)
    )


@controller(
    *well_known.BINDINGS,
    writes=[
        "spec.clusters",
        "spec.gracefulEvictionTasks",
        "spec.activeEvictionHistory",
        "status.unhealthyClusters",
        "status.rollout",
        "status.previousPlacement",
        "status.conditions[Stalled]",
        "status.conditions[FailoverInactive]",
        "Move",
    ],
    predicate=concerns_failover,
    triggers=[Trigger(DisruptionPolicy, moving_bindings)],
    resumes=True,
)
def failover(binding: Binding, view: View) -> Iterator[Effect]:
    rules = binding.spec.failover.application if binding.spec.failover is not None else None
    if binding.metadata.deletion_timestamp is not None:
        return
    inactive = inactive_message(binding, view)
    if inactive or is_condition_true(binding.status.conditions, INACTIVE):
        updated = with_inactive_condition(binding, inactive if rules is not None else "", view)
        if updated != binding:
            yield updated
            return
    if inactive:
        return
    history, wake = prune_eviction_history(binding, rules, view)
    after = state.with_history(binding, history)
    waits = [wake] if wake is not None else []
    if rules is not None:
        if view.profile.evict_only_with_target:
            after = after.but(status=after.status.but(rollout=rollout_of(binding, view)))
        timers = evaluate_timers(after, rules, view)
        waits += timers.waits
        after = after.but(status=after.status.but(unhealthy_clusters=timers.unhealthy_clusters))
        if view.profile.evict_only_with_target:
            yield from evict_with_target(binding, after, timers._replace(waits=waits), rules, view)
            return
        due = clusters_to_evict(binding, timers, view)
        if due and current_freeze(view) is not None:
            due, waits = [], [*waits, RETRY_SECONDS]
        for cluster in due:
            if missing_state_message(binding, cluster, rules.state_preservation):
                waits.append(RETRY_SECONDS)
                continue
            after = with_failover_eviction(after, cluster, rules, view)
            if view.profile.failover_one_cluster_at_a_time:
                break
    else:
        after = after.but(status=after.status.but(unhealthy_clusters=(), rollout=None))
    if after != binding:
        yield after
    if waits:
        yield RequeueAfter(max(0.0, min(waits)) + 0.001)


def inactive_message(binding: Binding, view: View) -> str:
    """Why failover cannot work: health cannot be interpreted, or dependencies would stay behind; empty when it can."""
    interpreter = view.interpreter
    resource = binding.spec.resource
    if not interpreter.interprets((resource.api_version, resource.kind), Operation.HEALTH):
        return f"the health of {resource.kind} of {resource.api_version} cannot be interpreted"
    if not binding.spec.propagate_deps and not well_known.is_cluster_scoped(binding):
        return "propagateDeps is false, so the dependencies of the workload would not move with it"
    return ""


def with_inactive_condition(binding: Binding, message: str, view: View) -> Binding:
    """The binding with the FailoverInactive condition, where the profile writes conditions of our own."""
    known = find_condition(binding.status.conditions, INACTIVE)
    if not view.profile.always_write_own_fields or (known is None and not message):
        return binding
    condition = Condition(
        type=INACTIVE,
        status="True" if message else "False",
        reason="HealthNotReported" if message else "HealthReported",
        message=message,
        last_transition_time=view.now.replace(microsecond=0),
    )
    return binding.but(status=binding.status.but(conditions=with_condition(binding.status.conditions, condition)))


class FailoverTimers(NamedTuple):
    """Running timers, clusters whose toleration is over, and seconds until the next timers end."""

    unhealthy_clusters: tuple[UnhealthyCluster, ...]
    due: list[str]
    waits: list[float]


def evaluate_timers(binding: Binding, rules: ApplicationFailoverBehavior, view: View) -> FailoverTimers:
    """The timers after this reconcile.

    A new template is tolerated anew: the health that is reported at first is that of the template before it, and clusters
    recover one after the other.
    """
    changed = binding.status.rollout.since if binding.status.rollout is not None else None
    since = {timer.cluster_name: timer.since for timer in binding.status.unhealthy_clusters}
    leaving = {task.from_cluster for task in binding.spec.graceful_eviction_tasks}
    placed = {target.name for target in binding.spec.clusters}
    timers: list[UnhealthyCluster] = []
    due: list[str] = []
    waits: list[float] = []
    for item in binding.status.aggregated_status:
        if item.cluster_name not in placed or item.cluster_name in leaving:
            continue
        started, wait = update_timer(item, since.get(item.cluster_name), rules, view)
        if wait is not None:
            waits.append(wait)
        if started is None:
            continue
        timers.append(UnhealthyCluster(cluster_name=item.cluster_name, since=started))
        if not is_unhealthy(item, rules):
            continue
        tolerated_from = started if changed is None else max(started, changed)
        end = tolerated_from + timedelta(seconds=toleration_seconds(rules, view))
        if view.now >= end:
            due.append(item.cluster_name)
        else:
            waits.append((end - view.now).total_seconds())
    return FailoverTimers(tuple(timers), due, waits)


def is_unhealthy(item: AggregatedStatusItem, rules: ApplicationFailoverBehavior) -> bool:
    states = rules.decision_conditions.healthy_state if rules.decision_conditions is not None else ()
    return item.applied and item.health in (states or ("Unhealthy",))


def toleration_seconds(rules: ApplicationFailoverBehavior, view: View) -> int:
    seconds = rules.decision_conditions.toleration_seconds if rules.decision_conditions is not None else None
    return view.profile.failover_toleration_seconds if seconds is None else seconds


def update_timer(
    item: AggregatedStatusItem, started: datetime | None, rules: ApplicationFailoverBehavior, view: View
) -> tuple[datetime | None, float | None]:
    """Since when this cluster counts as unhealthy (None: it does not), and seconds until the next check."""
    if item.health == "Healthy" or not item.applied:
        return None, None
    if not is_unhealthy(item, rules):
        return (started if view.profile.unknown_health_keeps_timers else None), None
    wait = seconds_until_preconditions(item, rules, view)
    if wait is not None:
        return None, wait if wait > 0 else None
    return started or view.now, None


def seconds_until_preconditions(
    item: AggregatedStatusItem, rules: ApplicationFailoverBehavior, view: View
) -> float | None:
    """None: all preconditions are met. Otherwise the seconds until the delay is over (0: another one is missing)."""
    pre = rules.pre_conditions
    if pre is None:
        return None
    if pre.delay_seconds is not None:
        if item.creation_timestamp is None:
            return 0.0
        remaining = (item.creation_timestamp + timedelta(seconds=pre.delay_seconds) - view.now).total_seconds()
        if remaining > 0:
            return remaining
    if pre.healthy_state and not item.settled:
        return 0.0
    return None


def clusters_to_evict(binding: Binding, timers: FailoverTimers, view: View) -> list[str]:
    """The clusters whose toleration is over, without those that wait until another cluster is evicted.

    A cluster of the same placement waits for its turn; one that was added as a replacement may fail independently.
    """
    if not view.profile.failover_one_cluster_at_a_time:
        return timers.due
    waiting = {
        name
        for task in binding.spec.graceful_eviction_tasks
        if task.producer == producer_of(binding) and task.suppress_deletion is None
        for name in task.clusters_before_failover
    }
    return [name for name in timers.due if name not in waiting]


def evict_with_target(
    binding: Binding, after: Binding, timers: FailoverTimers, rules: ApplicationFailoverBehavior, view: View
) -> Iterator[Effect]:
    """Evict only if there is somewhere to go; otherwise the workload stays and its Stalled condition says why."""
    waits = list(timers.waits)
    due = clusters_to_evict(binding, timers, view)
    if due and (frozen := current_freeze(view)) is not None:
        refused = [(", ".join(due), frozen.message)]
    elif due and (suspected := seconds_until_rollout_deadline(after, rules, view)):
        refused = [(", ".join(due), BAD_ROLLOUT)]
        waits.append(suspected)
    else:
        evicting, evictions, refused = plan_evictions(binding, after, due, rules, view)
        if evictions:
            yield from failover_effects(binding, evicting, evictions, view)
            return
    if refused:
        cluster, obstacle = refused[0]
        yield from skip_eviction(after, cluster, obstacle, view, reason=FAILOVER_BLOCKED, current=binding)
        waits.append(RETRY_SECONDS)
    else:
        unstalled = next(binding_moves.clear_stalled(after, (FAILOVER_BLOCKED,), view.now), after)
        if unstalled != binding:
            yield unstalled
    if waits:
        yield RequeueAfter(max(0.0, min(waits)) + 0.001)


class EvictionPlan(NamedTuple):
    """The binding after the evictions, the evictions, and the clusters that are not evicted with the obstacle."""

    after: Binding
    evictions: list[Eviction]
    refused: list[tuple[str, str]]


def plan_evictions(
    binding: Binding, after: Binding, due: Sequence[str], rules: ApplicationFailoverBehavior, view: View
) -> EvictionPlan:
    """Evictions from the clusters that are due, each checked against the placement after the ones before it."""
    plan = EvictionPlan(after, [], [])
    for cluster in due:
        candidate = with_failover_eviction(plan.after, cluster, rules, view)
        preview = preview_placement(candidate, view)
        obstacle = preview.failure or missing_state_message(binding, cluster, rules.state_preservation)
        if obstacle:
            plan.refused.append((cluster, obstacle))
            continue
        task = next(t for t in candidate.spec.graceful_eviction_tasks if t.from_cluster == cluster)
        timer = next((t for t in binding.status.unhealthy_clusters if t.cluster_name == cluster), None)
        reason = reason_of_failover(
            binding_moves.status_by_cluster(binding).get(cluster),
            cluster,
            timer.since if timer is not None else None,
            toleration_seconds(rules, view),
        )
        plan.evictions.append(Eviction(cluster, task, preview, reason))
        plan = plan._replace(after=candidate)
        if view.profile.failover_one_cluster_at_a_time:
            break
    return plan


def rollout_of(binding: Binding, view: View) -> TemplateRollout | None:
    """Since when the template is as it is; a change of only its replicas is not a roll-out."""
    template = view.raw(well_known.template_ref(binding))
    if template is None:
        return binding.status.rollout
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key != "replicas"}
    fingerprint = well_known.permanent_id(msgspec.json.encode(spec, order="deterministic").decode())
    known = binding.status.rollout
    if known is not None and known.template_hash == fingerprint:
        return known
    return TemplateRollout(template_hash=fingerprint, since=view.now if known is not None else None)


def seconds_until_rollout_deadline(binding: Binding, rules: ApplicationFailoverBehavior, view: View) -> float:
    """Seconds during which the roll-out is to blame: the template is new, and unhealthy in every cluster."""
    changed = binding.status.rollout.since if binding.status.rollout is not None else None
    items = binding_moves.status_by_cluster(binding)
    everywhere = all(
        target.name in items and is_unhealthy(items[target.name], rules) for target in binding.spec.clusters
    )
    if changed is None or not everywhere:
        return 0.0
    template = view.raw(well_known.template_ref(binding)) or {}
    deadline = (template.get("spec") or {}).get("progressDeadlineSeconds") or ROLLOUT_SECONDS
    end = changed + timedelta(seconds=max(toleration_seconds(rules, view), int(deadline)))
    return max(0.0, (end - view.now).total_seconds())


def failover_effects(binding: Binding, after: Binding, evictions: Sequence[Eviction], view: View) -> Iterator[Effect]:
    """The effects of the evictions; the block list and the timers of `leaving` are written together with them."""
    marked = state.with_history(binding, after.spec.active_eviction_history).but(
        status=binding.status.but(unhealthy_clusters=after.status.unhealthy_clusters, rollout=after.status.rollout),
    )
    yield from eviction_effects(binding, marked, evictions, view)


def with_failover_eviction(binding: Binding, cluster: str, rules: ApplicationFailoverBehavior, view: View) -> Binding:
    """One write: remove the cluster from the placement, add an eviction task, and block the cluster."""
    after = state.evict_from(binding, cluster, task_for(binding, cluster, rules, view))
    if is_predecessor_blocked(rules, view):
        after = state.block(after, cluster, view.now)
    timers = tuple(t for t in after.status.unhealthy_clusters if t.cluster_name != cluster)
    return after.but(status=after.status.but(unhealthy_clusters=timers))


def task_for(binding: Binding, cluster: str, rules: ApplicationFailoverBehavior, view: View) -> GracefulEvictionTask:
    mode = PURGE_MODE_ALIASES.get(rules.purge_mode, rules.purge_mode) or "Gracefully"
    grace = rules.grace_period_seconds if rules.grace_period_seconds is not None else GRACE_SECONDS
    return GracefulEvictionTask(
        purge_mode=mode,
        reason="ApplicationFailure",
        producer=producer_of(binding),
        grace_period_seconds=grace if mode == "Gracefully" else None,
        suppress_deletion=True if mode == "Never" else None,
        creation_timestamp=view.now.replace(microsecond=0),
        preserved_label_state=preserved_state(binding, cluster, rules.state_preservation),
        clusters_before_failover=tuple(target.name for target in binding.spec.clusters)
        if view.profile.always_write_own_fields or rules.state_preservation is not None
        else (),
    )


def is_predecessor_blocked(rules: ApplicationFailoverBehavior, view: View) -> bool:
    """The block list is an extension of ours; Karmada has it only when the policy sets blockPredecessorSeconds."""
    return view.profile.always_write_own_fields or rules.block_predecessor_seconds is not None


def producer_of(binding: Binding) -> str:
    if well_known.is_cluster_scoped(binding):
        return "cluster-resource-binding-application-failover-controller"
    return "resource-binding-application-failover-controller"


def prune_eviction_history(
    binding: Binding, rules: ApplicationFailoverBehavior | None, view: View
) -> tuple[tuple[ActiveEviction, ...], float | None]:
    """The block list without expired entries, and the seconds until the next entry expires."""
    if rules is None:
        return (), None
    seconds = rules.block_predecessor_seconds if rules.block_predecessor_seconds is not None else BLOCK_SECONDS
    kept = []
    ends = []
    for entry in binding.spec.active_eviction_history:
        if view.get(Cluster, "", entry.cluster_name) is None:
            continue
        end = (entry.creation_timestamp or view.now) + timedelta(seconds=seconds)
        if seconds and end <= view.now:
            continue
        kept.append(entry)
        if seconds:
            ends.append((end - view.now).total_seconds())
    return tuple(kept), min(ends, default=None)
