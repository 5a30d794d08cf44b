"""The CronJob controller: creates Jobs on schedule."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from trimtab.api.cron import times_after
from trimtab.api.kinds.native.batch import CronJob, Job
from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.controllers.contract import Delete, Effect, Ensure, RecordEvent, RequeueAfter, View
from trimtab.simulate.workloads.owned_pods import (
    children_by_owner,
    owner_reference,
    owner_trigger,
    raw_of,
    ref_to,
    sort_oldest_first,
    update_status,
)
from trimtab.simulate.workloads.registry import workload

JOBS_BY_OWNER = children_by_owner(Job)
CLOCK_SET_BACK_WINDOW = timedelta(minutes=1)
"""The resolution of a schedule: a time that has just passed is found, an earlier one is not repeated."""
MISSED_TIMES_WINDOW = timedelta(hours=24)
EVENT_SOURCE = "cronjob-controller"
ALREADY_ACTIVE = "Not starting job because prior execution is running and concurrency policy is Forbid"
SCHEDULED_ANNOTATION = "batch.kubernetes.io/cronjob-scheduled-timestamp"


@workload(CronJob, writes=["Job", "status"], triggers=[owner_trigger(CronJob, Job)])
def cronjob(wanted: CronJob, view: View) -> Iterator[Effect]:
    if wanted.metadata.deletion_timestamp is not None:
        return
    raw = raw_of(wanted, view)
    jobs = sort_oldest_first(view.by_index(JOBS_BY_OWNER, wanted.metadata.uid))
    active = [one for one in jobs if not one.has_condition("Complete") and not one.has_condition("Failed")]
    status = dict(raw.get("status") or {})
    if not wanted.spec.suspend and next(_times_due(wanted, view.now), None) is None:
        message = f"invalid schedule: {wanted.spec.schedule} : it has no time in the future"
        yield RecordEvent(ref_to(wanted), "InvalidSchedule", message, EVENT_SOURCE, "Warning")
    due = None if wanted.spec.suspend else _last_missed_time(wanted, raw, view.now)
    if due is not None and active and wanted.spec.concurrency_policy == "Forbid":
        yield RecordEvent(ref_to(wanted), "JobAlreadyActive", ALREADY_ACTIVE, EVENT_SOURCE)
    elif due is not None:
        for one in active if wanted.spec.concurrency_policy == "Replace" else ():
            yield Delete(one)
        yield Ensure(_new_job(wanted, raw, due))
        status["lastScheduleTime"] = timestamp(due)
    yield from _delete_old_jobs(raw, jobs)
    done = [one.status.completion_time for one in jobs if one.has_condition("Complete") and one.status.completion_time]
    if done:
        status["lastSuccessfulTime"] = timestamp(max(done))
    known = {one.metadata.uid for one in jobs}
    for missing in (one for one in status.get("active") or () if one.get("uid") not in known):
        message = f"Active job went missing: {missing.get('name')}"
        yield RecordEvent(ref_to(wanted), "MissingJob", message, EVENT_SOURCE)
    status["active"] = [_reference(one) for one in active]
    yield from update_status(raw, status)
    if (wait := _seconds_until_next(wanted, view.now)) is not None:
        yield RequeueAfter(wait)


def _times_due(wanted: CronJob, after: datetime) -> Iterator[datetime]:
    """The times at which it is due, after a moment; none when the schedule cannot be parsed."""
    return times_after(wanted.spec.schedule, wanted.spec.time_zone or "", after)


def _last_missed_time(wanted: CronJob, raw: Raw, now: datetime) -> datetime | None:
    """The latest time at which it should have run and did not; none once `startingDeadlineSeconds` are over."""
    last = (raw.get("status") or {}).get("lastScheduleTime")
    since = datetime.fromisoformat(last) if last else wanted.metadata.creation_timestamp or now
    if since > now:
        since = now - CLOCK_SET_BACK_WINDOW  # the clock was set back: the schedule goes on from here
    deadline = wanted.spec.starting_deadline_seconds
    window = MISSED_TIMES_WINDOW if deadline is None else min(MISSED_TIMES_WINDOW, timedelta(seconds=deadline))
    found = None
    for moment in _times_due(wanted, max(since, now - window)):
        if moment > now:
            break
        found = moment
    return found


def _seconds_until_next(wanted: CronJob, now: datetime) -> float | None:
    if wanted.spec.suspend:
        return None
    moment = next(_times_due(wanted, now), None)
    return None if moment is None else (moment - now).total_seconds()


def _new_job(wanted: CronJob, raw: Raw, due: datetime) -> Raw:
    template = raw["spec"]["jobTemplate"]
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{wanted.name}-{int(due.timestamp()) // 60}",
            "namespace": wanted.namespace,
            "labels": metadata.get("labels") or {},
            "annotations": {**(metadata.get("annotations") or {}), SCHEDULED_ANNOTATION: timestamp(due)},
            "ownerReferences": [owner_reference(wanted)],
        },
        "spec": template["spec"],
    }


def _delete_old_jobs(raw: Raw, jobs: list[Job]) -> Iterator[Effect]:
    """Delete finished Jobs beyond the history limits."""
    for how, field, default in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        kept = raw["spec"].get(field, default)
        finished = [one for one in jobs if one.has_condition(how)]
        for one in finished[: max(0, len(finished) - kept)]:
            yield Delete(one)


def _reference(one: Job) -> Raw:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": one.namespace,
        "name": one.name,
        "uid": one.metadata.uid,
        "resourceVersion": one.metadata.resource_version,
    }
