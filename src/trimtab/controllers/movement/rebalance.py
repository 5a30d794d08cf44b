"""WorkloadRebalancer: requests a fresh placement of each selected workload exactly once and follows it to the end."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from trimtab.api.cron import times_after
from trimtab.api.kind import key_of
from trimtab.api.kinds.rebalancer import ObservedWorkload, RebalancerStatus, WorkloadRebalancer, WorkloadReference
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Condition, Key
from trimtab.api.wording import plural, verb
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition, with_condition
from trimtab.controllers.contract import (
    Delete,
    Effect,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Topic,
    Trigger,
    View,
    controller,
    spec_changed,
)
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.gate import MOVE_BLOCKED
from trimtab.controllers.movement.move_log import is_placement_healthy
from trimtab.interpret.names import binding_name

SOURCE = "workload-rebalancer-controller"
NOT_FOUND = "ReferencedBindingNotFound"
TERMINAL_PHASES = ("Done", "NoChange", "Failed", "Cancelled")
"""Terminal phases."""
ACTIVE_PHASES = ("Moving", "Blocked")
SMALL_JOB = 100
"""Up to this many workloads, every change of a followed binding starts a pass over all of them."""
PASS_SECONDS_PER_WORKLOAD, MAX_PASS_SECONDS = 0.001, 1.0
LAST_PASS: Topic[str, datetime] = Topic("last pass over the workloads of a rebalancer")
LOOK_BACK = timedelta(days=1)
"""How far back missed schedule times are searched: a schedule may have a time every minute."""
CLOCK_SET_BACK_WINDOW = timedelta(minutes=1)
"""The resolution of a schedule: a time that has just passed is found, an earlier one is not repeated."""


def rebalancers_of_binding(old: Binding | None, new: Binding | None, view: View) -> Iterable[Key]:
    """The rebalancers that follow this binding."""
    for binding in (old, new):
        name = binding_moves.last_rebalancer_of(binding) if binding is not None else ""
        job = view.get(WorkloadRebalancer, "", name) if name else None
        if job is not None:
            yield key_of(job)


def withdraw_requests(key: Key, view: View) -> Iterator[Effect]:
    """A deleted rebalancer withdraws the requests that have not been acted on."""
    if not view.profile.rebalancer_waits_for_moves:
        return
    for binding in well_known.all_bindings(view):
        stamp, last = binding.spec.reschedule_triggered_at, binding.status.last_scheduled_time
        pending = stamp is not None and last is not None and stamp > last
        if pending and binding_moves.reschedule_request_of(binding).rebalancer == key.name:
            yield state.withdraw(binding)


@controller(
    WorkloadRebalancer,
    writes=[
        "status",
        "ResourceBinding.spec.rescheduleTriggeredAt",
        f"ResourceBinding.metadata.annotations[{well_known.REQUESTED_BY}]",
        "ClusterResourceBinding.spec.rescheduleTriggeredAt",
        f"ClusterResourceBinding.metadata.annotations[{well_known.REQUESTED_BY}]",
    ],
    predicate=spec_changed,
    triggers=[
        Trigger(ResourceBinding, rebalancers_of_binding),
        Trigger(ClusterResourceBinding, rebalancers_of_binding),
    ],
    on_deleted=withdraw_requests,
)
def rebalance(job: WorkloadRebalancer, view: View) -> Iterator[Effect]:
    if job.metadata.deletion_timestamp is not None:
        return
    if job.spec.schedule and view.profile.rebalancer_waits_for_moves:
        job = start_scheduled_run(job, view)
        if job.status.last_schedule_time is None:
            yield from wait_for_first_run(job, view)
            return
    follow = follow_workload if view.profile.rebalancer_waits_for_moves else trigger_workload
    if (wait := seconds_until_next_pass(job, view)) > 0:
        yield RequeueAfter(wait)
        return
    items = workloads_to_observe(job, view)
    results: list[ObservedWorkload] = []
    active = sum(item.phase in ACTIVE_PHASES for item in items)
    for item in items:
        active -= item.phase in ACTIVE_PHASES
        result, effects = follow(job, item, job.spec.max_parallel - active, view)
        active += result.phase in ACTIVE_PHASES
        yield from effects
        results.append(result)
    yield from report_status(job, tuple(results), view)
    if view.profile.rebalancer_waits_for_moves and len(results) > SMALL_JOB:
        yield RememberInProcess(LAST_PASS, job.name, view.steady_now)


def seconds_until_next_pass(job: WorkloadRebalancer, view: View) -> float:
    """How long the changes of followed bindings are collected: a pass over many workloads writes all of them again.

    A changed spec is acted on at once.
    """
    observed = len(job.status.observed_workloads)
    last = view.recall(LAST_PASS, job.name) if observed > SMALL_JOB else None
    if last is None or job.status.observed_generation != job.metadata.generation:
        return 0.0
    pause = min(MAX_PASS_SECONDS, observed * PASS_SECONDS_PER_WORKLOAD)
    return pause - (view.steady_now - last).total_seconds()


def start_scheduled_run(job: WorkloadRebalancer, view: View) -> WorkloadRebalancer:
    """The job as it is now: with an empty status when a schedule time is due and the last run is finished.

    A time that comes while a run is in progress is skipped, and of several missed times only the last one counts.
    """
    idle = all(item.phase in TERMINAL_PHASES for item in job.status.observed_workloads)
    due = last_due_time(job, view)
    if due is None or not idle or job.spec.suspend or job.spec.cancel:
        return job
    return job.but(status=RebalancerStatus(conditions=job.status.conditions, last_schedule_time=due))


def last_due_time(job: WorkloadRebalancer, view: View) -> datetime | None:
    """The last schedule time since the last run finished; None while the next one is in the future."""
    ends = (job.metadata.creation_timestamp, job.status.last_schedule_time, job.status.finish_time)
    since = max((end for end in ends if end is not None), default=view.now)
    if since > view.now:
        since = view.now - CLOCK_SET_BACK_WINDOW  # the clock was set back: the schedule goes on from here
    first = next(run_times(job, since), None)
    if first is None or first > view.now:
        return None
    recent = takewhile(lambda time: time <= view.now, run_times(job, max(since, view.now - LOOK_BACK)))
    return max(recent, default=first)


def run_times(job: WorkloadRebalancer, since: datetime) -> Iterator[datetime]:
    return times_after(job.spec.schedule, job.spec.time_zone, since)


def next_run_time(job: WorkloadRebalancer, view: View) -> datetime | None:
    return None if job.spec.suspend or job.spec.cancel else next(run_times(job, view.now), None)


def wait_for_first_run(job: WorkloadRebalancer, view: View) -> Iterator[Effect]:
    """Before the first schedule time, only that time is reported."""
    due = next_run_time(job, view)
    status = job.status.but(observed_generation=job.metadata.generation, next_schedule_time=due)
    if status != job.status:
        yield job.but(status=status)
    if due is not None:
        yield RequeueAfter((due - view.now).total_seconds())


def workloads_to_observe(job: WorkloadRebalancer, view: View) -> list[ObservedWorkload]:
    """The status list for the current spec: successful items are kept, the others follow the spec."""
    observed = {item.workload: item for item in job.status.observed_workloads}
    wanted = {ref: observed.get(ref, ObservedWorkload(workload=ref)) for ref in selected_workloads(job, view)}
    kept = {ref: item for ref, item in observed.items() if item.result == "Successful"}
    return [item for _, item in sorted((kept | wanted).items(), key=lambda entry: sort_key(entry[0]))]


def selected_workloads(job: WorkloadRebalancer, view: View) -> list[WorkloadReference]:
    """The workloads of the spec; selectors are evaluated once per generation."""
    listed = list(job.spec.workloads)
    if not job.spec.selectors:
        return listed
    if job.status.observed_generation == job.metadata.generation:
        return listed + [item.workload for item in job.status.observed_workloads]
    for selector in job.spec.selectors:
        for raw in view.raws(selector.api_version, selector.kind, selector.namespace or None):
            fits = selector.label_selector is None or selector.label_selector.matches(well_known.labels_of(raw))
            ref = reference_of(well_known.ref_of_raw(raw))
            if fits and binding_of(ref, view) is not None:
                listed.append(ref)
    return listed


def reference_of(ref: Ref) -> WorkloadReference:
    return WorkloadReference(api_version=ref.api_version, kind=ref.kind, namespace=ref.namespace, name=ref.name)


def sort_key(ref: WorkloadReference) -> tuple[str, str, str, str]:
    return ref.api_version, ref.kind, ref.namespace, ref.name


def binding_of(ref: WorkloadReference, view: View) -> Binding | None:
    found = well_known.binding_at(view, ref.namespace, binding_name(ref.kind, ref.name))
    if found is None:
        return None
    resource = found.spec.resource
    same = (group_of(resource.api_version), resource.kind, resource.name) == (
        group_of(ref.api_version),
        ref.kind,
        ref.name,
    )
    return found if same else None


def group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def requested_at(job: WorkloadRebalancer, view: View) -> datetime:
    """When this workload was requested: with the rebalancer, or later, when it was added to the rebalancer."""
    if job.spec.schedule and job.status.last_schedule_time is not None:
        return job.status.last_schedule_time
    created = job.metadata.creation_timestamp or view.now
    edited = job.metadata.generation > 1 and view.profile.rebalancer_waits_for_moves
    return view.now.replace(microsecond=0) if edited else created


WorkloadResult = tuple[ObservedWorkload, list[Effect]]


def trigger_workload(job: WorkloadRebalancer, item: ObservedWorkload, slots: int, view: View) -> WorkloadResult:
    """Upstream: the item is done when the new decision is requested."""
    if item.result:
        return item, []
    binding = binding_of(item.workload, view)
    if binding is None:
        return item.but(result="Failed", reason=NOT_FOUND), []
    at, already = requested_at(job, view), binding.spec.reschedule_triggered_at
    if already is not None and already >= at:
        return item.but(result="Successful"), []
    return item.but(result="Successful"), [state.request(binding, at)]


def follow_workload(job: WorkloadRebalancer, item: ObservedWorkload, slots: int, view: View) -> WorkloadResult:
    """The item is done when the workload is where the new decision wants it, or the reason why not is known."""
    if item.phase in TERMINAL_PHASES:
        return item, []
    binding = binding_of(item.workload, view)
    if binding is None:
        message = "no binding of this workload was found"
        return item.but(result="Failed", reason=NOT_FOUND, phase="Failed", message=message), []
    if not item.result:
        return begin_move(job, item, slots, binding, view)
    if job.spec.cancel and is_pending(item, binding):
        withdrawn = state.withdraw(binding)
        return item.but(phase="Cancelled", message="cancelled before it started"), [withdrawn]
    return with_progress(item, binding), []


def begin_move(
    job: WorkloadRebalancer, item: ObservedWorkload, slots: int, binding: Binding, view: View
) -> WorkloadResult:
    if job.spec.cancel:
        return item.but(phase="Cancelled", message="cancelled before it started"), []
    if job.spec.suspend or slots <= 0:
        why = "the rebalancer is suspended" if job.spec.suspend else "waits for a free slot (maxParallel)"
        return item.but(phase="Pending", message=why), []
    at, last = requested_at(job, view), binding.status.last_scheduled_time
    if last is not None:
        at = max(at, last + timedelta(seconds=1))
    already = binding.spec.reschedule_triggered_at
    request = binding_moves.reschedule_request_of(binding)
    if already is not None and already >= at and request.rebalancer == job.name:
        at = already  # the timestamp was written, but the status was not
    moving = item.but(
        result="Successful",
        phase="Moving",
        before=binding.spec.clusters,
        triggered_at=at,
        message="rescheduling requested",
    )
    text = f"WorkloadRebalancer {job.name} requests rescheduling."
    events = [
        RecordEvent(about, "RescheduleTriggered", text, SOURCE)
        for about in (well_known.ref_of(binding), well_known.template_ref(binding))
    ]
    user = job.metadata.annotations.get(well_known.REQUESTER, "")
    return moving, [state.request(binding, at, "Rebalance", job.name, user), *events]


def is_pending(item: ObservedWorkload, binding: Binding) -> bool:
    """The new decision is requested and not yet made, or only in part."""
    last = binding.status.last_scheduled_time
    requested = item.triggered_at is not None and binding.spec.reschedule_triggered_at == item.triggered_at
    return requested and last is not None and item.triggered_at is not None and last < item.triggered_at


def with_progress(item: ObservedWorkload, binding: Binding) -> ObservedWorkload:
    """The progress of a workload whose new decision was requested."""
    item = item.but(after=binding.spec.clusters, reason="")
    stalled = binding_moves.stalled_condition_of(binding)
    if binding.spec.placement is None:
        return item.but(phase="NoChange", message="it has no placement of its own")
    if is_pending(item, binding):
        if binding.spec.suspension is not None and binding.spec.suspension.scheduling:
            message = "scheduling of this workload is suspended"
            return item.but(phase="Blocked", reason="Suspended", message=message)
        unplaced = find_condition(binding.status.conditions, "Scheduled")
        if unplaced is not None and unplaced.status == "False":
            return item.but(phase="Blocked", reason=unplaced.reason, message=unplaced.message)
        if stalled is not None:
            return item.but(phase="Blocked", reason=stalled.reason, message=stalled.message)
        return item.but(phase="Moving", message="the move continues in steps" if binding.status.holds else item.message)
    last = binding.status.last_scheduled_time
    if last is None or item.triggered_at is None or last < item.triggered_at:
        return item.but(phase="Moving")
    if binding.status.holds:
        held = sum(hold.replicas for hold in binding.status.holds)
        waits = verb(held, "waits until its", "wait until their")
        return item.but(phase="Moving", message=f"{plural(held, 'replica')} {waits} replacement is ready")
    if stalled is not None and stalled.reason == "MoveReverted":
        return item.but(phase="Failed", reason="MoveReverted", message=stalled.message)
    if binding.spec.clusters == item.before:
        return item.but(phase="NoChange", message="rescheduling did not change the placement")
    if is_placement_healthy(binding):
        return item.but(phase="Done", message="")
    return item.but(phase="Moving", message="not every cluster is healthy yet")


def report_status(job: WorkloadRebalancer, results: tuple[ObservedWorkload, ...], view: View) -> Iterator[Effect]:
    """The status of the job, and its deletion when the TTL has expired."""
    if view.profile.rebalancer_waits_for_moves:
        status = status_after_moves(job, results, view)
    else:
        status = status_after_triggers(job, results, view)
    if status != job.status:
        yield job.but(status=status)
        yield from events_for(job, status, view)
    if status.next_schedule_time is not None:
        yield RequeueAfter((status.next_schedule_time - view.now).total_seconds())
    ttl, finish = job.spec.ttl_seconds_after_finished, status.finish_time
    if ttl is None or finish is None:
        return
    remaining = (finish + timedelta(seconds=ttl) - view.now).total_seconds()
    if remaining > 0:
        yield RequeueAfter(remaining)
    elif status == job.status:
        if view.profile.name != "upstream":
            yield RecordEvent(well_known.ref_of(job), "TTLExpired", f"Finished more than {ttl} seconds ago.", SOURCE)
        yield Delete(job, revision=job.metadata.resource_version)
    else:
        yield RequeueAfter(0.001)  # delete only if the next reconcile still finds it finished


def status_after_triggers(
    job: WorkloadRebalancer, results: tuple[ObservedWorkload, ...], view: View
) -> RebalancerStatus:
    changed = results != job.status.observed_workloads or job.status.observed_generation != job.metadata.generation
    finished = None if changed else job.status.finish_time
    return RebalancerStatus(
        observed_workloads=results,
        observed_generation=job.metadata.generation,
        finish_time=finished or view.now.replace(microsecond=0),
    )


def status_after_moves(job: WorkloadRebalancer, results: tuple[ObservedWorkload, ...], view: View) -> RebalancerStatus:
    """Finished when all items are terminal; a changed outcome, not a changed spec, resets the finish time."""
    over = all(item.phase in TERMINAL_PHASES for item in results)
    same = phases(results) == phases(job.status.observed_workloads)
    finish = (job.status.finish_time if same else None) or view.now.replace(microsecond=0)
    return RebalancerStatus(
        observed_workloads=results,
        observed_generation=job.metadata.generation,
        finish_time=finish if over else None,
        last_schedule_time=job.status.last_schedule_time if job.spec.schedule else None,
        next_schedule_time=next_run_time(job, view) if job.spec.schedule else None,
        conditions=conditions_of(job, results, view, over=over),
    )


def phases(items: Sequence[ObservedWorkload]) -> dict[WorkloadReference, tuple[str, str]]:
    return {item.workload: (item.result, item.phase) for item in items}


def conditions_of(
    job: WorkloadRebalancer, results: tuple[ObservedWorkload, ...], view: View, *, over: bool
) -> tuple[Condition, ...]:
    """The conditions that kstatus-like tools wait for: Ready, Reconciling and Stalled."""
    count = {
        phase: sum(item.phase == phase for item in results) for phase in (*TERMINAL_PHASES, *ACTIVE_PHASES, "Pending")
    }
    summary = ", ".join(f"{n} {phase}" for phase, n in count.items() if n)
    # What only waits for a budget makes progress by itself, and is not a failure for roll-out tools.
    bad = [
        item for item in results if item.phase == "Failed" or (item.phase == "Blocked" and item.reason != MOVE_BLOCKED)
    ]
    ready = over and bool(results) and not count["Failed"]
    why = "Suspended" if job.spec.suspend and not over else "Finished" if over else "Moving"
    if not over and count["Blocked"] and not count["Moving"]:
        why = "Blocked"
    stalled, message = stalled_reason(bad, results)
    states = (
        (
            "Ready",
            ready,
            "Succeeded" if ready else ((stalled or "SomeFailed") if over else "InProgress"),
            summary or message,
        ),
        ("Reconciling", not over, why, summary),
        ("Stalled", bool(stalled), stalled or "Progressing", message),
    )
    conditions = job.status.conditions
    now = view.now.replace(microsecond=0)
    for type_, is_true, reason, text in states:
        new = Condition(
            type=type_,
            status="True" if is_true else "False",
            reason=reason,
            message=text,
            observed_generation=job.metadata.generation,
            last_transition_time=now,
        )
        conditions = with_condition(conditions, new)
    return conditions


def stalled_reason(bad: Sequence[ObservedWorkload], results: Sequence[ObservedWorkload]) -> tuple[str, str]:
    """The reason and message of what does not make progress by itself; both empty if there is none."""
    if not results:
        return "NoWorkloadSelected", "no propagated workload matches the selectors"
    if not bad:
        return "", ""
    first = bad[0]
    return first.reason or first.phase, f"{first.workload.kind} {first.workload.name}: {first.message}"


def events_for(job: WorkloadRebalancer, status: RebalancerStatus, view: View) -> Iterator[RecordEvent]:
    if view.profile.name == "upstream":
        return
    before = phases(job.status.observed_workloads)
    about = well_known.ref_of(job)
    for item in status.observed_workloads:
        if before.get(item.workload) == (item.result, item.phase):
            continue
        name = f"{item.workload.kind} {item.workload.namespace}/{item.workload.name}".replace(" /", " ")
        if item.phase == "Failed":
            yield RecordEvent(about, "RescheduleFailed", f"{name}: {item.reason}: {item.message}", SOURCE, "Warning")
        elif item.phase in ("Done", "NoChange"):
            yield RecordEvent(about, "RescheduleCompleted", f"{name}: {item.phase}. {item.message}".strip(), SOURCE)
        elif item.result and not before.get(item.workload, ("", ""))[0]:
            yield RecordEvent(about, "RescheduleTriggered", f"rescheduling of {name} requested", SOURCE)
    if status.finish_time is not None and job.status.finish_time is None:
        count = len(status.observed_workloads)
        text = "The workload is done." if count == 1 else f"All {count} workloads are done."
        yield RecordEvent(about, "RebalancerFinished", text, SOURCE)
