"""The state machine of moves: the only functions that build the fields of a binding that carry its placement.

The problem. Nine controllers take part in the life of a move: the scheduler decides and begins it, evictions and failovers
begin others, holds and eviction tasks end them, and users can take part through commands. They all change the same few
fields of a binding:

    spec.clusters                 where replicas should run
    spec.gracefulEvictionTasks    clusters that are left after a failure, with the copy that is still to be deleted
    spec.activeEvictionHistory    clusters in which the workload failed, which are blocked for a while
    spec.rescheduleTriggeredAt    a fresh decision is requested
    status.holds                  replicas that keep running in a cluster although its share has shrunk
    status.replacement            placement and ready replicas when the move of the held replicas began
    status.previousPlacement      placement before a failover, to which a failback returns

A mistake in one of them loses replicas. So each change is one function of this module: binding in, binding out, without
I/O and without other conditions. A controller decides *whether* a change happens and *when it is written*; this module
decides *what* is written. A test fails when any other module builds these fields.

A move is about one binding and one cluster that is left. A binding may have several at once. Its state is derived from the
fields above and from the status of the workload (`move_states.movement_states`); it is stored nowhere else:

                  request                 begin                    finish
    (settled) ------------> Requested ------------> Surging ---> HandingOver ---> Purging ---> Done
                               |  ^                   |  ^                           ^
                       refused |  | budget, capacity  |  +-- evict_from (a failure)  |
                               v  |                   v                              |
                              Blocked              Reverting --- revert -------------+

    function      what it does                                                   called by
    request       asks for a fresh decision; `withdraw` takes it back            rebalance, failback, score_moves
    place         writes a placement                                             schedule
    begin         holds the replicas that leave, before `place` shrinks shares   schedule (profile trimtab)
    evict_from    moves a share into an eviction task; `block` keeps it away     taint_eviction, failover
    finish        releases the holds; `finish_tasks` ends eviction tasks         replacement_hold, graceful_eviction
    cancel        gives a recovered cluster its share back                       graceful_eviction (profile trimtab)
    revert        restores the placement before the move, but for clusters
                  that were evicted meanwhile                                    replacement_hold (profile trimtab)
    give_back     gives replicas that cannot run back to the scheduler           unschedulable_replicas
    drop_cluster  forgets a cluster that is forced out of the fleet              forced_departure (profile trimtab)

Invariants, which the model check explores (`tests/properties/test_movement_model.py`):
- `begin` is written before `place` shrinks a share, so a crash in between leaves a hold too many, never a replica too few.
- `evict_from` removes a share only together with the task that keeps its copy.
- `cancel` and `revert` restore shares; they never add up to more than the workload has replicas, apart from a Duplicated one.
- Every state has an exit: a hold and a task have a deadline, a request is answered or withdrawn, a blocked move is retried.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from urllib.parse import quote

from trimtab.api.kinds.work import (
    ActiveEviction,
    Binding,
    GracefulEvictionTask,
    HeldReplicas,
    PreviousPlacement,
    StateBeforeMove,
    TargetCluster,
)
from trimtab.controllers import well_known
from trimtab.controllers.movement.binding_moves import current_placement, status_by_cluster, targets_of


def request(binding: Binding, at: datetime, reason: str = "", rebalancer: str = "", user: str = "") -> Binding:
    """The binding with a fresh decision requested; with a reason, an annotation says why and by whom."""
    stamped = binding.but(spec=binding.spec.but(reschedule_triggered_at=at))
    if not reason:
        return stamped
    signature = " ".join(part for part in (reason, at.isoformat(), rebalancer, quote(user)) if part)
    annotations = binding.metadata.annotations | {well_known.REQUESTED_BY: signature}
    return stamped.but(metadata=binding.metadata.but(annotations=annotations))


def withdraw(binding: Binding) -> Binding:
    """The binding without a request for a fresh decision."""
    return binding.but(spec=binding.spec.but(reschedule_triggered_at=None))


def place(binding: Binding, clusters: tuple[TargetCluster, ...]) -> Binding:
    """The binding with this placement."""
    return binding.but(spec=binding.spec.but(clusters=clusters))


def give_back(binding: Binding, clusters: tuple[TargetCluster, ...]) -> Binding:
    """The binding with smaller shares; the scheduler places the replicas that are missing then."""
    before = current_placement(binding)
    assert all(target.replicas <= before[target.name] for target in clusters)
    return place(binding, clusters)


def begin(binding: Binding, holds: tuple[HeldReplicas, ...], replacement: StateBeforeMove | None) -> Binding:
    """The binding with holds for the replicas that leave; written before `place` shrinks their shares."""
    return binding.but(status=binding.status.but(holds=holds, replacement=replacement))


def hold(binding: Binding, cluster: str, replicas: int, reason: str, now: datetime, timeout: timedelta) -> HeldReplicas:
    """Replicas that stay until their replacement is ready; a hold in force keeps its reason and its deadline."""
    known = next((held for held in binding.status.holds if held.cluster == cluster), None)
    if known is not None:
        return known.but(replicas=replicas)
    return HeldReplicas(cluster=cluster, replicas=replicas, since=now, until=now + timeout, reason=reason)


def state_before_move(binding: Binding, ready: Mapping[str, int]) -> StateBeforeMove:
    """Placement and ready replicas before the first of the moves that are in progress."""
    if binding.status.holds and binding.status.replacement is not None:
        return binding.status.replacement
    return StateBeforeMove(
        before=binding.spec.clusters,
        ready=tuple(TargetCluster(name=name, replicas=n) for name, n in sorted(ready.items())),
        affinity_name=binding.status.scheduler_observing_affinity_name,
    )


def finish(binding: Binding) -> Binding:
    """The binding without holds: the old replicas may be deleted. A return that is complete has no way back."""
    done = abandon(binding)
    if any(hold.reason == "Failback" for hold in binding.status.holds):
        return forget_placement(done)
    return done


def abandon(binding: Binding) -> Binding:
    """The binding without the holds of a move that did not begin."""
    return binding.but(status=binding.status.but(holds=(), replacement=None))


def revert(binding: Binding, replacement: StateBeforeMove, now: datetime) -> Binding:
    """The binding with the placement from before the move; the request that led to the move is answered."""
    stamp, previous = binding.spec.reschedule_triggered_at, binding.status.previous_placement
    now = now.replace(microsecond=0)
    times = (previous.reverted_failbacks if previous is not None else 0) + any(
        hold.reason == "Failback" for hold in binding.status.holds
    )
    placed = place(binding, _placement_after_revert(binding, replacement.before))
    names = tuple(sorted(target.name for target in placed.spec.clusters))
    status = abandon(binding).status.but(
        last_scheduled_time=max(now, stamp) if stamp is not None else now,
        scheduler_observing_affinity_name=replacement.affinity_name,
        previous_placement=previous.but(healthy_since=None, reverted_failbacks=times) if previous is not None else None,
        # New clusters that could not be used count as new again after the back-off that follows a reverted move.
        placement_ref_clusters=names if binding.status.placement_ref_clusters else (),
    )
    return placed.but(status=status)


def _placement_after_revert(binding: Binding, before: Sequence[TargetCluster]) -> tuple[TargetCluster, ...]:
    """The placement from before the move, without clusters that were evicted meanwhile: what replaces them stays."""
    current, held = current_placement(binding), {hold.cluster for hold in binding.status.holds}
    evicted = {task.from_cluster for task in binding.spec.graceful_eviction_tasks}
    evicted |= {target.name for target in before if target.name not in current and target.name not in held}
    shares = {target.name: target.replicas for target in before if target.name not in evicted}
    missing = sum(target.replicas for target in before if target.name in evicted)
    for name, replicas in current.items():
        kept = min(missing, replicas - shares.get(name, 0))
        if kept > 0:
            shares[name] = shares.get(name, 0) + kept
            missing -= kept
    return targets_of(shares, before, binding.spec.clusters)


def evict_from(binding: Binding, cluster: str, task: GracefulEvictionTask) -> Binding:
    """The binding without the cluster in its placement, and with a task that deletes the old copy."""
    target = next((t for t in binding.spec.clusters if t.name == cluster), None)
    if target is None:
        return binding
    tasks = binding.spec.graceful_eviction_tasks
    if not any(t.from_cluster == cluster for t in tasks):
        tasks = (*tasks, task.but(from_cluster=cluster, replicas=target.replicas or None))
    remaining = tuple(t for t in binding.spec.clusters if t.name != cluster)
    return binding.but(spec=binding.spec.but(clusters=remaining, graceful_eviction_tasks=tasks))


def finish_tasks(binding: Binding, remaining: Iterable[GracefulEvictionTask]) -> Binding:
    """The binding with these eviction tasks: the copies of the others may be deleted."""
    return binding.but(spec=binding.spec.but(graceful_eviction_tasks=tuple(remaining)))


def cancel(binding: Binding, task: GracefulEvictionTask, ready: Mapping[str, int]) -> Binding:
    """The binding without the task; the cluster gets its share back from clusters whose replacements are not ready."""
    others = tuple(other for other in binding.spec.graceful_eviction_tasks if other != task)
    previous = binding.status.previous_placement
    if previous is not None and _can_restore_previous(previous, task, others, binding):
        restored = finish_tasks(place(binding, previous.clusters), others)
        status = binding.status.but(scheduler_observing_affinity_name=previous.affinity_name)
        return forget_placement(restored.but(status=status))
    shares = _shares_after_cancel(binding, task, ready)
    return finish_tasks(place(binding, targets_of(shares, binding.spec.clusters)), others)


def _shares_after_cancel(binding: Binding, task: GracefulEvictionTask, ready: Mapping[str, int]) -> dict[str, int]:
    """Replicas per cluster after the recovered cluster took over replacements that are not ready."""
    shares = current_placement(binding)
    wanted = task.replicas or 0
    scheduling = binding.spec.placement.replica_scheduling if binding.spec.placement is not None else None
    if scheduling is not None and scheduling.replica_scheduling_type == "Divided":
        wanted = min(wanted, max(0, binding.spec.replicas - sum(shares.values())))
        missing = (task.replicas or 0) - wanted
        for name in sorted(shares, key=lambda name: (ready.get(name, 0) - shares[name], name)):
            taken = min(missing, max(0, shares[name] - ready.get(name, 0)))
            shares[name] -= taken
            missing -= taken
            wanted += taken
        shares = {name: n for name, n in shares.items() if n > 0}
    if wanted or not task.replicas:
        shares[task.from_cluster] = shares.get(task.from_cluster, 0) + wanted
    return shares


def _can_restore_previous(
    previous: PreviousPlacement, task: GracefulEvictionTask, others: Sequence[GracefulEvictionTask], binding: Binding
) -> bool:
    """Whether the old placement can be restored: no other eviction, no cluster grew, no new cluster is healthy yet."""
    was = {target.name: target.replicas for target in previous.clusters}
    health = {name: item.health for name, item in status_by_cluster(binding).items()}
    grown = any(t.name in was and t.replicas > was[t.name] for t in binding.spec.clusters)
    arrived = any(t.name not in was and health.get(t.name) == "Healthy" for t in binding.spec.clusters)
    leaving = any(other.from_cluster in was for other in others)
    return was.get(task.from_cluster) == (task.replicas or 0) and not grown and not arrived and not leaving


def block(binding: Binding, cluster: str, now: datetime) -> Binding:
    """The binding with the cluster in the list of clusters in which the workload failed."""
    others = tuple(e for e in binding.spec.active_eviction_history if e.cluster_name != cluster)
    entry = ActiveEviction(cluster_name=cluster, creation_timestamp=now.replace(microsecond=0))
    return with_history(binding, (*others, entry))


def with_history(binding: Binding, history: Iterable[ActiveEviction]) -> Binding:
    """The binding with only these blocked clusters; the others may be selected again."""
    return binding.but(spec=binding.spec.but(active_eviction_history=tuple(history)))


def remember_placement(binding: Binding, left: Binding, now: datetime) -> Binding:
    """The binding with the placement of `left` as the one to return to; an earlier one that is not undone stays."""
    previous = left.status.previous_placement or PreviousPlacement(
        clusters=left.spec.clusters, affinity_name=left.status.scheduler_observing_affinity_name, since=now
    )
    return _with_previous_placement(binding, previous)


def forget_placement(binding: Binding) -> Binding:
    """The binding without a placement to return to."""
    return _with_previous_placement(binding, None)


def time_return(binding: Binding, healthy_since: datetime | None, reverted: int | None = None) -> Binding:
    """The binding with the time since when it could return (None: it cannot), and how often a return was reverted."""
    previous = (binding.status.previous_placement or PreviousPlacement()).but(healthy_since=healthy_since)
    return _with_previous_placement(
        binding, previous if reverted is None else previous.but(reverted_failbacks=reverted)
    )


def _with_previous_placement(binding: Binding, previous: PreviousPlacement | None) -> Binding:
    return binding.but(status=binding.status.but(previous_placement=previous))


def drop_cluster(binding: Binding, name: str) -> Binding:
    """The binding without the cluster in its placement, its eviction tasks and its moves in progress."""
    holds = tuple(hold for hold in binding.status.holds if hold.cluster != name)
    replacement = binding.status.replacement
    if replacement is not None:
        before = tuple(target for target in replacement.before if target.name != name)
        replacement = replacement.but(before=before) if holds else None
    placed = place(binding, tuple(target for target in binding.spec.clusters if target.name != name))
    left = finish_tasks(placed, (t for t in binding.spec.graceful_eviction_tasks if t.from_cluster != name))
    return begin(left, holds, replacement)
