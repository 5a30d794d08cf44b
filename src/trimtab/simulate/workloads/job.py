"""Jobs: pods that run until enough of them have succeeded."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from trimtab.api.kinds.native.batch import Job
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.controllers.contract import Again, Gone, Make, View, Wish
from trimtab.simulate.workloads.owned_pods import (
    PODS_OF,
    Always,
    Kid,
    fresh_names,
    leaving,
    living,
    oldest_first,
    pod_from,
    raw_of,
    when_child_changes,
    with_status,
)
from trimtab.simulate.workloads.registry import workload

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FIRST_BACKOFF_SECONDS = 10.0
LONGEST_BACKOFF_SECONDS = 600.0
REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")


class Shift(NamedTuple):
    """A Job with its pods, and what has been counted of them."""

    wanted: Job
    raw: Raw
    pods: Sequence[Pod]
    succeeded: int
    """Counted already, their pods may be gone."""
    failed: int
    noted: Raw
    """Uids of pods that ended and are counted once they are let go: a crash in between counts none twice."""
    fresh: tuple[Pod, ...]
    """Ended, and not yet noted."""

    @property
    def active(self) -> list[Pod]:
        return living(self.pods)

    @property
    def parallelism(self) -> int:
        return 1 if self.wanted.spec.parallelism is None else self.wanted.spec.parallelism

    @property
    def completions(self) -> int | None:
        return self.wanted.spec.completions

    @property
    def limit(self) -> int:
        return 6 if self.wanted.spec.backoff_limit is None else self.wanted.spec.backoff_limit

    @property
    def indexed(self) -> bool:
        return self.wanted.spec.completion_mode == "Indexed"

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.noted.get("succeeded", ())) + sum(map(_succeeded, self.fresh))

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.noted.get("failed", ())) + sum(not _succeeded(pod) for pod in self.fresh)


def _succeeded(pod: Pod) -> bool:
    return pod.status.phase == "Succeeded"


@workload(Job, writes=["Pod", "status"], wakes=[when_child_changes(Job, Pod)])
def job(wanted: Job, view: View) -> Iterator[Wish]:
    shift = _survey(wanted, view)
    if wanted.metadata.deletion_timestamp is not None or wanted.finished("Complete") or wanted.finished("Failed"):
        yield from _released(shift, {pod.metadata.uid for pod in shift.pods})
        yield from _expired(wanted, view.now)
        return
    verdict = _verdict(shift, view.now)
    if not shift.fresh:
        yield from _released(shift, {*shift.noted.get("succeeded", ()), *shift.noted.get("failed", ())})
    if verdict is not None:
        for pod in shift.active:
            yield Gone(pod)
    else:
        yield from _staffed(shift, view)
    yield from _report(shift, verdict, view)


def _survey(wanted: Job, view: View) -> Shift:
    raw = raw_of(wanted, view)
    pods = oldest_first(view.having(PODS_OF, wanted.metadata.uid))
    noted = (raw.get("status") or {}).get("uncountedTerminatedPods") or {}
    known = {*noted.get("succeeded", ()), *noted.get("failed", ())}
    fresh = tuple(
        pod for pod in pods if TRACKING in pod.metadata.finalizers and _ended(pod) and pod.metadata.uid not in known
    )
    return Shift(wanted, raw, pods, wanted.status.succeeded, wanted.status.failed, noted, fresh)


def _ended(pod: Pod) -> bool:
    """Finished, or told to leave before it ever ran on a node."""
    return pod.terminal or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def _released(shift: Shift, uids: set[str]) -> Iterator[Wish]:
    for pod in shift.pods:
        if pod.metadata.uid in uids and TRACKING in pod.metadata.finalizers:
            kept = tuple(name for name in pod.metadata.finalizers if name != TRACKING)
            yield pod.but(metadata=pod.metadata.but(finalizers=kept))


class Verdict(NamedTuple):
    """How the Job ends."""

    how: str
    criterion: str
    reason: str
    message: str


def _verdict(shift: Shift, now: datetime) -> Verdict | None:
    limit = shift.wanted.spec.active_deadline_seconds
    started = shift.wanted.status.start_time
    if limit is not None and started is not None and now >= started + timedelta(seconds=limit):
        said = "Job was active longer than specified deadline"
        return Verdict("Failed", "FailureTarget", "DeadlineExceeded", said)
    restarts = sum(status.restart_count for pod in shift.active for status in pod.status.container_statuses)
    failures = shift.all_failed
    if shift.wanted.spec.template.spec.restart_policy == "OnFailure" and shift.limit and restarts >= shift.limit:
        failures = shift.limit + 1
    if failures > shift.limit:
        said = "Job has reached the specified backoff limit"
        return Verdict("Failed", "FailureTarget", "BackoffLimitExceeded", said)
    done = shift.all_succeeded
    if shift.completions is None:
        if done and not shift.active:
            return Verdict("Complete", "SuccessCriteriaMet", *REACHED)
    elif done >= shift.completions:
        return Verdict("Complete", "SuccessCriteriaMet", *REACHED)
    return None


def _staffed(shift: Shift, view: View) -> Iterator[Wish]:
    """As many pods as may work side by side, and no more than there is work for."""
    if shift.wanted.spec.suspend:
        for pod in shift.active:
            yield Gone(pod)
        return
    if shift.wanted.spec.active_deadline_seconds is not None:
        started = shift.wanted.status.start_time or view.now
        until = started + timedelta(seconds=shift.wanted.spec.active_deadline_seconds)
        yield Again(max(0.0, (until - view.now).total_seconds()))
    missing = _places(shift) - len(shift.active) - len(leaving(shift.pods))
    for pod in sorted(shift.active, key=lambda one: one.ready)[: max(0, -(_places(shift) - len(shift.active)))]:
        yield Gone(pod)
    if missing <= 0:
        return
    wait = _backoff(shift, view.now)
    if wait > 0:
        yield Again(wait)
        return
    for name, index in zip(fresh_names(shift.wanted, view, missing), _open_indexes(shift, missing), strict=False):
        yield Make(_pod(shift, name, index))


def _places(shift: Shift) -> int:
    if shift.completions is None:
        return shift.parallelism if not shift.all_succeeded else min(shift.parallelism, len(shift.active))
    return min(shift.parallelism, max(0, shift.completions - shift.all_succeeded))


def _open_indexes(shift: Shift, count: int) -> Sequence[int | None]:
    if not shift.indexed:
        return [None] * count
    taken = _indexes(shift.raw) | {
        int(index)
        for pod in shift.pods
        if not pod.terminal or _succeeded(pod)
        if (index := pod.metadata.annotations.get(INDEX, "")).isdigit()
    }
    return [index for index in range(shift.completions or 0) if index not in taken][:count]


def _indexes(raw: Raw) -> set[int]:
    """`0,2-4` as numbers."""
    found: set[int] = set()
    for part in filter(None, ((raw.get("status") or {}).get("completedIndexes") or "").split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _ranges(indexes: set[int]) -> str:
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _backoff(shift: Shift, now: datetime) -> float:
    """After failures the next pods come later and later."""
    if not shift.all_failed:
        return 0.0
    ends = [
        status.state.terminated.finished_at
        for pod in shift.pods
        if pod.status.phase == "Failed"
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at is not None
    ]
    if not ends:
        return 0.0
    pause = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (shift.all_failed - 1))
    return (max(ends) + timedelta(seconds=pause) - now).total_seconds()


def _pod(shift: Shift, name: str, index: int | None) -> Raw:
    labels = {} if index is None else {INDEX: str(index)}
    kid = Kid(name, labels, labels, finalizers=[TRACKING])
    if index is not None:
        stem = f"{shift.wanted.name[:50]}-{index}"
        kid = kid._replace(name=f"{stem}-{name.rpartition('-')[2]}", hostname=stem)
    return pod_from(shift.raw["spec"]["template"], shift.wanted, kid)


def _report(shift: Shift, verdict: Verdict | None, view: View) -> Iterator[Wish]:
    """First the uids of pods that ended are noted, and in the next beat, when they are let go, they are counted."""
    status: dict[str, Any] = dict(shift.raw.get("status") or {})
    active = [] if verdict is not None else shift.active
    final = verdict is not None and not shift.fresh
    status |= {
        "conditions": _conditions(shift, verdict, view.now, final=final),
        "startTime": "" if shift.wanted.spec.suspend else status.get("startTime") or timestamp(view.now),
        "active": len(active),
        "terminating": Always(len(leaving(shift.pods))),
        "ready": Always(sum(pod.ready for pod in active)),
        "uncountedTerminatedPods": Always(_noted(shift)),
    }
    if not shift.fresh:
        lost = len(shift.active) if verdict is not None and verdict.how == "Failed" else 0
        status |= {"succeeded": shift.all_succeeded, "failed": shift.all_failed + lost}
        if final and verdict is not None and verdict.how == "Complete":
            status["completionTime"] = timestamp(view.now)
    elif shift.indexed:
        done = {int(pod.metadata.annotations[INDEX]) for pod in shift.fresh if _succeeded(pod)}
        status["completedIndexes"] = _ranges(_indexes(shift.raw) | done)
    yield from with_status(shift.raw, status)


def _noted(shift: Shift) -> Raw:
    if not shift.fresh:
        return {}
    noted = {
        "succeeded": [*shift.noted.get("succeeded", ()), *(p.metadata.uid for p in shift.fresh if _succeeded(p))],
        "failed": [*shift.noted.get("failed", ()), *(p.metadata.uid for p in shift.fresh if not _succeeded(p))],
    }
    return {how: uids for how, uids in noted.items() if uids}


def _conditions(shift: Shift, verdict: Verdict | None, now: datetime, *, final: bool) -> list[Raw]:
    conditions = list((shift.raw.get("status") or {}).get("conditions") or [])
    if verdict is not None:
        for type_ in (verdict.criterion, verdict.how) if final else (verdict.criterion,):
            conditions = _set(conditions, type_, "True", verdict.reason, verdict.message, now)
    elif shift.wanted.spec.suspend:
        conditions = _set(conditions, "Suspended", "True", "JobSuspended", "Job suspended", now)
    elif any(one["type"] == "Suspended" for one in conditions):
        conditions = _set(conditions, "Suspended", "False", "JobResumed", "Job resumed", now)
    return conditions


def _set(conditions: list[Raw], type_: str, status: str, reason: str, message: str, now: datetime) -> list[Raw]:
    for one in conditions:
        if one["type"] == type_ and one["status"] == status:
            return conditions
    new = {
        "type": type_,
        "status": status,
        "lastProbeTime": timestamp(now),
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }
    return [*(one for one in conditions if one["type"] != type_), new]


def _expired(wanted: Job, now: datetime) -> Iterator[Wish]:
    """A finished Job that says how long it wants to be remembered goes after that."""
    keep = wanted.spec.ttl_seconds_after_finished
    if keep is None or wanted.metadata.deletion_timestamp is not None:
        return
    ends = [one.last_transition_time for one in wanted.status.conditions if one.type in ("Complete", "Failed")]
    if ends and ends[0] is not None:
        left = (ends[0] + timedelta(seconds=keep) - now).total_seconds()
        if left > 0:
            yield Again(left)
        else:
            yield Gone(wanted)
