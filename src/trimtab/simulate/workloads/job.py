"""The Job controller: runs pods until enough of them have succeeded."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from trimtab.api.kinds.native.batch import Job
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.controllers.contract import Delete, Effect, Ensure, RequeueAfter, View
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
    """A Job, its pods, and the counts so far."""

    wanted: Job
    raw: Raw
    pods: Sequence[Pod]
    succeeded: int
    """Counted already; their pods may be deleted."""
    failed: int
    noted: Raw
    """Uids of ended pods that count once their finalizer is removed: after a crash in between, none counts twice."""
    fresh: tuple[Pod, ...]
    """Ended, and not yet among the uncounted."""

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
def job(wanted: Job, view: View) -> Iterator[Effect]:
    state = _survey(wanted, view)
    if (
        wanted.metadata.deletion_timestamp is not None
        or wanted.has_condition("Complete")
        or wanted.has_condition("Failed")
    ):
        yield from _released(state, {pod.metadata.uid for pod in state.pods})
        yield from _expired(wanted, view.now)
        return
    outcome = _verdict(state, view.now)
    if not state.fresh:
        yield from _released(state, {*state.noted.get("succeeded", ()), *state.noted.get("failed", ())})
    if outcome is not None:
        for pod in state.active:
            yield Delete(pod)
    else:
        yield from _staffed(state, view)
    yield from _report(state, outcome, view)


def _survey(wanted: Job, view: View) -> Shift:
    raw = raw_of(wanted, view)
    pods = oldest_first(view.by_index(PODS_OF, wanted.metadata.uid))
    uncounted = (raw.get("status") or {}).get("uncountedTerminatedPods") or {}
    known = {*uncounted.get("succeeded", ()), *uncounted.get("failed", ())}
    newly_ended = tuple(
        pod for pod in pods if TRACKING in pod.metadata.finalizers and _ended(pod) and pod.metadata.uid not in known
    )
    return Shift(wanted, raw, pods, wanted.status.succeeded, wanted.status.failed, uncounted, newly_ended)


def _ended(pod: Pod) -> bool:
    """Whether the pod finished, or was deleted before it was bound to a node."""
    return pod.is_terminal or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def _released(state: Shift, uids: set[str]) -> Iterator[Effect]:
    for pod in state.pods:
        if pod.metadata.uid in uids and TRACKING in pod.metadata.finalizers:
            kept = tuple(name for name in pod.metadata.finalizers if name != TRACKING)
            yield pod.but(metadata=pod.metadata.but(finalizers=kept))


class Verdict(NamedTuple):
    """The final conditions of the Job."""

    how: str
    criterion: str
    reason: str
    message: str


def _verdict(state: Shift, now: datetime) -> Verdict | None:
    limit = state.wanted.spec.active_deadline_seconds
    started = state.wanted.status.start_time
    if limit is not None and started is not None and now >= started + timedelta(seconds=limit):
        message = "Job was active longer than specified deadline"
        return Verdict("Failed", "FailureTarget", "DeadlineExceeded", message)
    restarts = sum(status.restart_count for pod in state.active for status in pod.status.container_statuses)
    failures = state.all_failed
    if state.wanted.spec.template.spec.restart_policy == "OnFailure" and state.limit and restarts >= state.limit:
        failures = state.limit + 1
    if failures > state.limit:
        message = "Job has reached the specified backoff limit"
        return Verdict("Failed", "FailureTarget", "BackoffLimitExceeded", message)
    done = state.all_succeeded
    if state.completions is None:
        if done and not state.active:
            return Verdict("Complete", "SuccessCriteriaMet", *REACHED)
    elif done >= state.completions:
        return Verdict("Complete", "SuccessCriteriaMet", *REACHED)
    return None


def _staffed(state: Shift, view: View) -> Iterator[Effect]:
    """Create or delete pods to match parallelism and the remaining completions."""
    if state.wanted.spec.suspend:
        for pod in state.active:
            yield Delete(pod)
        return
    if state.wanted.spec.active_deadline_seconds is not None:
        started = state.wanted.status.start_time or view.now
        until = started + timedelta(seconds=state.wanted.spec.active_deadline_seconds)
        yield RequeueAfter(max(0.0, (until - view.now).total_seconds()))
    missing = _places(state) - len(state.active) - len(leaving(state.pods))
    for pod in sorted(state.active, key=lambda one: one.is_ready)[: max(0, -(_places(state) - len(state.active)))]:
        yield Delete(pod)
    if missing <= 0:
        return
    wait = _backoff(state, view.now)
    if wait > 0:
        yield RequeueAfter(wait)
        return
    for name, index in zip(fresh_names(state.wanted, view, missing), _open_indexes(state, missing), strict=False):
        yield Ensure(_pod(state, name, index))


def _places(state: Shift) -> int:
    if state.completions is None:
        return state.parallelism if not state.all_succeeded else min(state.parallelism, len(state.active))
    return min(state.parallelism, max(0, state.completions - state.all_succeeded))


def _open_indexes(state: Shift, count: int) -> Sequence[int | None]:
    if not state.indexed:
        return [None] * count
    taken = _indexes(state.raw) | {
        int(index)
        for pod in state.pods
        if not pod.is_terminal or _succeeded(pod)
        if (index := pod.metadata.annotations.get(INDEX, "")).isdigit()
    }
    return [index for index in range(state.completions or 0) if index not in taken][:count]


def _indexes(raw: Raw) -> set[int]:
    """The indexes of a text such as `0,2-4`."""
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


def _backoff(state: Shift, now: datetime) -> float:
    """Seconds until the next pods may be created, with exponential back-off after failures."""
    if not state.all_failed:
        return 0.0
    ends = [
        status.state.terminated.finished_at
        for pod in state.pods
        if pod.status.phase == "Failed"
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at is not None
    ]
    if not ends:
        return 0.0
    pause = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (state.all_failed - 1))
    return (max(ends) + timedelta(seconds=pause) - now).total_seconds()


def _pod(state: Shift, name: str, index: int | None) -> Raw:
    labels = {} if index is None else {INDEX: str(index)}
    identity = Kid(name, labels, labels, finalizers=[TRACKING])
    if index is not None:
        stem = f"{state.wanted.name[:50]}-{index}"
        identity = identity._replace(name=f"{stem}-{name.rpartition('-')[2]}", hostname=stem)
    return pod_from(state.raw["spec"]["template"], state.wanted, identity)


def _report(state: Shift, outcome: Verdict | None, view: View) -> Iterator[Effect]:
    """Update the status: ended pods are first listed as uncounted; the next reconcile removes finalizers and counts."""
    status: dict[str, Any] = dict(state.raw.get("status") or {})
    active = [] if outcome is not None else state.active
    final = outcome is not None and not state.fresh
    status |= {
        "conditions": _conditions(state, outcome, view.now, final=final),
        "startTime": "" if state.wanted.spec.suspend else status.get("startTime") or timestamp(view.now),
        "active": len(active),
        "terminating": Always(len(leaving(state.pods))),
        "ready": Always(sum(pod.is_ready for pod in active)),
        "uncountedTerminatedPods": Always(_noted(state)),
    }
    if not state.fresh:
        lost = len(state.active) if outcome is not None and outcome.how == "Failed" else 0
        status |= {"succeeded": state.all_succeeded, "failed": state.all_failed + lost}
        if final and outcome is not None and outcome.how == "Complete":
            status["completionTime"] = timestamp(view.now)
    elif state.indexed:
        done = {int(pod.metadata.annotations[INDEX]) for pod in state.fresh if _succeeded(pod)}
        status["completedIndexes"] = _ranges(_indexes(state.raw) | done)
    yield from with_status(state.raw, status)


def _noted(state: Shift) -> Raw:
    if not state.fresh:
        return {}
    uncounted = {
        "succeeded": [*state.noted.get("succeeded", ()), *(p.metadata.uid for p in state.fresh if _succeeded(p))],
        "failed": [*state.noted.get("failed", ()), *(p.metadata.uid for p in state.fresh if not _succeeded(p))],
    }
    return {how: uids for how, uids in uncounted.items() if uids}


def _conditions(state: Shift, outcome: Verdict | None, now: datetime, *, final: bool) -> list[Raw]:
    conditions = list((state.raw.get("status") or {}).get("conditions") or [])
    if outcome is not None:
        for type_ in (outcome.criterion, outcome.how) if final else (outcome.criterion,):
            conditions = _set(conditions, type_, "True", outcome.reason, outcome.message, now)
    elif state.wanted.spec.suspend:
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


def _expired(wanted: Job, now: datetime) -> Iterator[Effect]:
    """Delete a finished Job after its TTL."""
    keep = wanted.spec.ttl_seconds_after_finished
    if keep is None or wanted.metadata.deletion_timestamp is not None:
        return
    ends = [one.last_transition_time for one in wanted.status.conditions if one.type in ("Complete", "Failed")]
    if ends and ends[0] is not None:
        remaining = (ends[0] + timedelta(seconds=keep) - now).total_seconds()
        if remaining > 0:
            yield RequeueAfter(remaining)
        else:
            yield Delete(wanted)
