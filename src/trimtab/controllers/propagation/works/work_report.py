"""Reports in a Work what happened to its manifests: conditions, statuses and events.

Routine events are not even made where they are not recorded: with those of `work_status.py`, each Work has four.
"""

from collections.abc import Iterator
from datetime import datetime

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ManifestStatus, Work, WorkStatus
from trimtab.api.value import Condition
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition, join_messages, with_condition
from trimtab.controllers.contract import Effect, ReconcileFault, RecordEvent, Ref, RememberInProcess, Topic, View
from trimtab.controllers.propagation.works.work_delivery import ManifestDelivery
from trimtab.controllers.propagation.works.work_status import reflect_status, resource_identifier

SOURCE = "execution-controller"
SYNCED: Topic[Ref, int] = Topic("synced")
"""The generation of a Work for which events were recorded."""
REFLECTED: Topic[Ref, tuple[str | None, ...]] = Topic("reflected")
"""The versions of the objects of a Work for which events were recorded, where there were any."""
LOST_RACE_REASONS = ("AlreadyExists", "Conflict")
"""Another writer was first: not a failure to report, the next reconcile sees the new object."""


def report_problems(work: Work, deliveries: list[ManifestDelivery], cluster: Cluster, view: View) -> Iterator[Effect]:
    """Set Applied=False for manifests that cannot be applied or failed last time; record an event for a new failure."""
    problems = [item.problem for item in deliveries if item.problem]
    if view.fault is not None and view.fault.cluster and not is_lost_race(view.fault, deliveries):
        problems.append(view.fault.message)
    if not problems:
        return
    error = join_messages(problems)
    message = f"Failed to apply all manifests ({len(deliveries) - len(problems)}/{len(deliveries)}): {error}"
    now = view.now.replace(microsecond=0)
    failed = new_condition("Applied", "False", "AppliedFailed", message, now)
    conditions = with_condition(with_dispatching(work, now, suspended=False), failed)
    yield from update_status(work, work.status.but(conditions=conditions), view)
    if view.profile.record_routine_events or is_new_failure(work, failed):
        yield from failure_events(work, deliveries, cluster, error)


def is_lost_race(fault: ReconcileFault, deliveries: list[ManifestDelivery]) -> bool:
    """Whether another writer was first. Field-manager conflicts do not resolve on retry, so they are reported."""
    applying = any(item.write is not None and item.write.apply_as for item in deliveries)
    return fault.reason in LOST_RACE_REASONS and not (applying and fault.reason == "Conflict")


def report_status(
    work: Work, deliveries: list[ManifestDelivery], conditions: tuple[Condition, ...], view: View
) -> Iterator[Effect]:
    """Set Applied=True and the statuses of all manifests in the Work."""
    now = view.now.replace(microsecond=0)
    applied = new_condition("Applied", "True", "AppliedSuccessful", "Manifest has been successfully applied", now)
    own = well_known.ref_of(work)
    statuses: list[ManifestStatus] = []
    events: list[RecordEvent] = []
    for ordinal, item in enumerate(deliveries):
        if item.seen is None:
            continue
        status, reflected = reflect_status(own, resource_identifier(ordinal, item.manifest), item.seen, view)
        statuses.append(status)
        events += reflected
    wanted = WorkStatus(conditions=with_condition(conditions, applied), manifest_statuses=tuple(statuses))
    yield from update_status(work, wanted, view)
    if not events:
        return
    versions = tuple(item.seen["metadata"].get("resourceVersion") for item in deliveries if item.seen is not None)
    if view.recall(REFLECTED, own) != versions:
        yield from events
        yield RememberInProcess(REFLECTED, own, versions)


def update_status(work: Work, status: WorkStatus, view: View) -> Iterator[Effect]:
    if status != work.status:
        yield work.but(status=status)
        if not view.profile.record_routine_events:
            return
        before = find_condition(work.status.conditions, "Dispatching")
        after = find_condition(status.conditions, "Dispatching")
        if after is not None and (before is None or before.status != after.status):
            yield RecordEvent(well_known.ref_of(work), "WorkDispatching", after.message, SOURCE, routine=True)


def with_dispatching(work: Work, now: datetime, *, suspended: bool) -> tuple[Condition, ...]:
    if suspended:
        new = new_condition(
            "Dispatching", "False", "SuspendDispatching", "Work dispatching is in a suspended state.", now
        )
    else:
        new = new_condition("Dispatching", "True", "Dispatching", "Work is being dispatched to member clusters.", now)
    return with_condition(work.status.conditions, new)


def new_condition(type_: str, status: str, reason: str, message: str, now: datetime) -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=now)


def template_of(item: ManifestDelivery) -> Ref:
    """The template on the host: events about the member's object are recorded on it."""
    uid = well_known.annotations_of(item.manifest).get(well_known.TEMPLATE_UID, "")
    return Ref(item.ref.api_version, item.ref.kind, item.ref.namespace, item.ref.name, uid)


def success_events(work: Work, item: ManifestDelivery, cluster: Cluster, view: View) -> Iterator[RecordEvent]:
    if view.profile.record_routine_events:
        text = f"Sync work({work.namespace}/{work.name}) to cluster({cluster.name}) successful."
        yield RecordEvent(well_known.ref_of(work), "SyncSucceed", text, SOURCE, routine=True)
    name = f"{item.ref.namespace}/{item.ref.name}"
    text = f"Successfully applied resource({name}) to cluster {cluster.name}"
    yield RecordEvent(template_of(item), "SyncSucceed", text, SOURCE)


def is_unreported_generation(work: Work, view: View) -> bool:
    """Whether upstream would record the sync of this generation, which it does even when nothing was written."""
    return (
        view.profile.record_routine_events and view.recall(SYNCED, well_known.ref_of(work)) != work.metadata.generation
    )


def is_new_failure(work: Work, failed: Condition) -> bool:
    before = find_condition(work.status.conditions, "Applied")
    return before is None or before.message != failed.message


def failure_events(
    work: Work, deliveries: list[ManifestDelivery], cluster: Cluster, error: str
) -> Iterator[RecordEvent]:
    text = f"Failed to sync work({work.namespace}/{work.name}) to cluster({cluster.name}), err: {error}"
    yield RecordEvent(well_known.ref_of(work), "SyncFailed", text, SOURCE, "Warning")
    for item in deliveries:
        name = well_known.qualified_name(item.ref)
        text = f"Failed to create or update resource({name}) in member cluster({cluster.name}): "
        yield RecordEvent(template_of(item), "SyncFailed", text + (item.problem or error), SOURCE, "Warning")
