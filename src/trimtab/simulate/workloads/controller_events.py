"""Events that the workload controllers of a cluster record about their pods, claims and Jobs.

They follow from the effects of a reconcile. Members of stories leave them out, so the controllers do not yield them.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from trimtab.api.kinds.native.apps import DaemonSet, ReplicaSet, ReplicationController, StatefulSet
from trimtab.api.kinds.native.batch import CronJob, Job
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Object, Raw
from trimtab.controllers.contract import Controller, Delete, Effect, Ensure, Reconcile, RecordEvent, View
from trimtab.simulate.workloads.owned_pods import ref_to

SOURCES: dict[type[Object], str] = {
    ReplicaSet: "replicaset-controller",
    ReplicationController: "replication-controller",
    DaemonSet: "daemonset-controller",
    StatefulSet: "statefulset-controller",
    Job: "job-controller",
    CronJob: "cronjob-controller",
}
REFUSALS = (403, 422)
"""Codes of a refused pod; other faults, such as conflicts, are not about pods."""


def with_events(controller: Controller) -> Controller:
    """The same controller, which records events; one whose kind has none is returned as it is."""
    if len(controller.subjects) != 1 or controller.subjects[0] not in SOURCES:
        return controller
    return controller._replace(reconcile=partial(_reconcile, controller.reconcile))


def _reconcile(reconcile: Reconcile, subject: Any, view: View) -> Iterator[Effect]:
    refused = view.fault is not None and view.fault.code in REFUSALS
    for effect in reconcile(subject, view):
        if refused and _is_new(effect, "Pod"):
            # before the effect: if it fails again, nothing after it is carried out
            yield _event(subject, "FailedCreate", _refusal(subject, effect.wanted, view), "Warning")
            refused = False
        yield effect
        yield from _events_after(subject, effect, view)


def _events_after(subject: Any, effect: Effect, view: View) -> Iterator[RecordEvent]:
    match effect:
        case Ensure(wanted, None):
            if message := _creation(subject, wanted):
                yield _event(subject, "SuccessfulCreate", message)
        case Ensure(wanted, dict() as seen, "status") if isinstance(subject, Job):
            yield from _job_events(subject, seen.get("status") or {}, wanted["status"])
        case Ensure(wanted, dict() as seen, "status") if isinstance(subject, CronJob):
            yield from _completed_jobs(subject, seen.get("status") or {}, wanted["status"], view)
        case Delete(Pod() | Job() as child) if child.metadata.deletion_timestamp is None:
            yield _event(subject, "SuccessfulDelete", _deletion(subject, child))


def _event(subject: Object, reason: str, message: str, type_: str = "Normal") -> RecordEvent:
    return RecordEvent(ref_to(subject), reason, message, SOURCES[type(subject)], type_)


def _is_new(effect: Effect, kind: str) -> bool:
    return isinstance(effect, Ensure) and effect.seen is None and effect.wanted["kind"] == kind


def _creation(subject: Object, child: Raw) -> str:
    """What is said about a new object; nothing about revisions."""
    name, kind, owner = child["metadata"]["name"], child["kind"], subject.metadata.name
    if kind == "Job":
        return f"Created job {name}"
    if kind == "PersistentVolumeClaim":
        pod = f"{owner}-{name.rpartition('-')[2]}"
        return f"create Claim {name} Pod {pod} in StatefulSet {owner} success"
    if kind != "Pod":
        return ""
    if isinstance(subject, StatefulSet):
        return f"create Pod {name} in StatefulSet {owner} successful"
    return f"Created pod: {name}"


def _refusal(subject: Object, pod: Raw, view: View) -> str:
    fault = view.fault.message if view.fault is not None else ""
    if isinstance(subject, StatefulSet):
        return f"create Pod {pod['metadata']['name']} in StatefulSet {subject.metadata.name} failed error: {fault}"
    return f"Error creating: {fault}"


def _deletion(subject: Object, child: Pod | Job) -> str:
    if isinstance(child, Job):
        return f"Deleted job {child.name}"
    if isinstance(subject, StatefulSet):
        return f"delete Pod {child.name} in StatefulSet {subject.metadata.name} successful"
    return f"Deleted pod: {child.name}"


def _job_events(subject: Job, before: Raw, after: Raw) -> Iterator[RecordEvent]:
    known = {(one["type"], one["status"]) for one in before.get("conditions") or ()}
    for one in after.get("conditions") or ():
        match (one["type"], one["status"]) if (one["type"], one["status"]) not in known else None:
            case ("Complete", "True"):
                yield _event(subject, "Completed", "Job completed")
            case ("Failed", "True"):
                yield _event(subject, one["reason"], one["message"], "Warning")
            case ("Suspended", status):
                reason = "Suspended" if status == "True" else "Resumed"
                yield _event(subject, reason, f"Job {reason.lower()}")


def _completed_jobs(subject: CronJob, before: Raw, after: Raw, view: View) -> Iterator[RecordEvent]:
    """Jobs that were active and have ended."""
    active = {one["uid"] for one in after.get("active") or ()}
    for reference in before.get("active") or ():
        one = view.get(Job, subject.namespace, reference["name"])
        if reference["uid"] not in active and one is not None and one.metadata.uid == reference["uid"]:
            condition = "Complete" if one.has_condition("Complete") else "Failed"
            yield _event(subject, "SawCompletedJob", f"Saw completed job: {one.name}, condition: {condition}")
