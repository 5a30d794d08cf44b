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
    PODS_BY_OWNER,
    AlwaysWritten,
    PodIdentity,
    active_pods,
    new_child_names,
    owner_trigger,
    pod_from,
    raw_of,
    sort_oldest_first,
    terminating_pods,
    update_status,
)
from trimtab.simulate.workloads.registry import workload

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
FIRST_BACKOFF_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 600.0
COMPLETIONS_REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")


class JobState(NamedTuple):
    """A Job, its pods, and the counts so far."""

    wanted: Job
    raw: Raw
    pods: Sequence[Pod]
    succeeded: int
    """Counted already; their pods may be deleted."""
    failed: int
    uncounted: Raw
    """Uids of ended pods that count once their finalizer is removed: after a crash in between, none counts twice."""
    newly_ended: tuple[Pod, ...]
    """Ended, and not yet among the uncounted."""

    @property
    def active(self) -> list[Pod]:
        return active_pods(self.pods)

    @property
    def parallelism(self) -> int:
        return 1 if self.wanted.spec.parallelism is None else self.wanted.spec.parallelism

    @property
    def completions(self) -> int | None:
        return self.wanted.spec.completions

    @property
    def backoff_limit(self) -> int:
        return 6 if self.wanted.spec.backoff_limit is None else self.wanted.spec.backoff_limit

    @property
    def is_indexed(self) -> bool:
        return self.wanted.spec.completion_mode == "Indexed"

    @property
    def total_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted.get("succeeded", ())) + sum(map(_has_succeeded, self.newly_ended))

    @property
    def total_failed(self) -> int:
        return (
            self.failed
            + len(self.uncounted.get("failed", ()))
            + sum(not _has_succeeded(pod) for pod in self.newly_ended)
        )


def _has_succeeded(pod: Pod) -> bool:
    return pod.status.phase == "Succeeded"


@workload(Job, writes=["Pod", "status"], triggers=[owner_trigger(Job, Pod)])
def job(wanted: Job, view: View) -> Iterator[Effect]:
    state = _observe(wanted, view)
    if (
        wanted.metadata.deletion_timestamp is not None
        or wanted.has_condition("Complete")
        or wanted.has_condition("Failed")
    ):
        yield from _remove_finalizers(state, {pod.metadata.uid for pod in state.pods})
        yield from _delete_expired(wanted, view.now)
        return
    outcome = _job_outcome(state, view.now)
    if not state.newly_ended:
        yield from _remove_finalizers(
            state, {*state.uncounted.get("succeeded", ()), *state.uncounted.get("failed", ())}
        )
    if outcome is not None:
        for pod in state.active:
            yield Delete(pod)
    else:
        yield from _sync_pods(state, view)
    yield from _update_status(state, outcome, view)


def _observe(wanted: Job, view: View) -> JobState:
    raw = raw_of(wanted, view)
    pods = sort_oldest_first(view.by_index(PODS_BY_OWNER, wanted.metadata.uid))
    uncounted = (raw.get("status") or {}).get("uncountedTerminatedPods") or {}
    known = {*uncounted.get("succeeded", ()), *uncounted.get("failed", ())}
    newly_ended = tuple(
        pod
        for pod in pods
        if TRACKING_FINALIZER in pod.metadata.finalizers and _has_ended(pod) and pod.metadata.uid not in known
    )
    return JobState(wanted, raw, pods, wanted.status.succeeded, wanted.status.failed, uncounted, newly_ended)


def _has_ended(pod: Pod) -> bool:
    """Whether the pod finished, or was deleted before it was bound to a node."""
    return pod.is_terminal or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def _remove_finalizers(state: JobState, uids: set[str]) -> Iterator[Effect]:
    for pod in state.pods:
        if pod.metadata.uid in uids and TRACKING_FINALIZER in pod.metadata.finalizers:
            kept = tuple(name for name in pod.metadata.finalizers if name != TRACKING_FINALIZER)
            yield pod.but(metadata=pod.metadata.but(finalizers=kept))


class JobOutcome(NamedTuple):
    """The final conditions of the Job."""

    condition_type: str
    target_condition_type: str
    reason: str
    message: str


def _job_outcome(state: JobState, now: datetime) -> JobOutcome | None:
    limit = state.wanted.spec.active_deadline_seconds
    started = state.wanted.status.start_time
    if limit is not None and started is not None and now >= started + timedelta(seconds=limit):
        message = "Job was active longer than specified deadline"
        return JobOutcome("Failed", "FailureTarget", "DeadlineExceeded", message)
    restarts = sum(status.restart_count for pod in state.active for status in pod.status.container_statuses)
    failures = state.total_failed
    if (
        state.wanted.spec.template.spec.restart_policy == "OnFailure"
        and state.backoff_limit
        and restarts >= state.backoff_limit
    ):
        failures = state.backoff_limit + 1
    if failures > state.backoff_limit:
        message = "Job has reached the specified backoff limit"
        return JobOutcome("Failed", "FailureTarget", "BackoffLimitExceeded", message)
    done = state.total_succeeded
    if state.completions is None:
        if done and not state.active:
            return JobOutcome("Complete", "SuccessCriteriaMet", *COMPLETIONS_REACHED)
    elif done >= state.completions:
        return JobOutcome("Complete", "SuccessCriteriaMet", *COMPLETIONS_REACHED)
    return None


def _sync_pods(state: JobState, view: View) -> Iterator[Effect]:
    """Create or delete pods to match parallelism and the remaining completions."""
    if state.wanted.spec.suspend:
        for pod in state.active:
            yield Delete(pod)
        return
    if state.wanted.spec.active_deadline_seconds is not None:
        started = state.wanted.status.start_time or view.now
        until = started + timedelta(seconds=state.wanted.spec.active_deadline_seconds)
        yield RequeueAfter(max(0.0, (until - view.now).total_seconds()))
    missing = _wanted_active(state) - len(state.active) - len(terminating_pods(state.pods))
    for pod in sorted(state.active, key=lambda one: one.is_ready)[
        : max(0, -(_wanted_active(state) - len(state.active)))
    ]:
        yield Delete(pod)
    if missing <= 0:
        return
    wait = _backoff_seconds(state, view.now)
    if wait > 0:
        yield RequeueAfter(wait)
        return
    for name, index in zip(new_child_names(state.wanted, view, missing), _free_indexes(state, missing), strict=False):
        yield Ensure(_new_pod(state, name, index))


def _wanted_active(state: JobState) -> int:
    if state.completions is None:
        return state.parallelism if not state.total_succeeded else min(state.parallelism, len(state.active))
    return min(state.parallelism, max(0, state.completions - state.total_succeeded))


def _free_indexes(state: JobState, count: int) -> Sequence[int | None]:
    if not state.is_indexed:
        return [None] * count
    taken = _completed_indexes(state.raw) | {
        int(index)
        for pod in state.pods
        if not pod.is_terminal or _has_succeeded(pod)
        if (index := pod.metadata.annotations.get(INDEX_ANNOTATION, "")).isdigit()
    }
    return [index for index in range(state.completions or 0) if index not in taken][:count]


def _completed_indexes(raw: Raw) -> set[int]:
    """The indexes of a text such as `0,2-4`."""
    found: set[int] = set()
    for part in filter(None, ((raw.get("status") or {}).get("completedIndexes") or "").split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _format_indexes(indexes: set[int]) -> str:
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _backoff_seconds(state: JobState, now: datetime) -> float:
    """Seconds until the next pods may be created, with exponential back-off after failures."""
    if not state.total_failed:
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
    pause = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (state.total_failed - 1))
    return (max(ends) + timedelta(seconds=pause) - now).total_seconds()


def _new_pod(state: JobState, name: str, index: int | None) -> Raw:
    labels = {} if index is None else {INDEX_ANNOTATION: str(index)}
    identity = PodIdentity(name, labels, labels, finalizers=[TRACKING_FINALIZER])
    if index is not None:
        stem = f"{state.wanted.name[:50]}-{index}"
        identity = identity._replace(name=f"{stem}-{name.rpartition('-')[2]}", hostname=stem)
    return pod_from(state.raw["spec"]["template"], state.wanted, identity)


def _update_status(state: JobState, outcome: JobOutcome | None, view: View) -> Iterator[Effect]:
    """Update the status: ended pods are first listed as uncounted; the next reconcile removes finalizers and counts."""
    status: dict[str, Any] = dict(state.raw.get("status") or {})
    active = [] if outcome is not None else state.active
    final = outcome is not None and not state.newly_ended
    status |= {
        "conditions": _conditions(state, outcome, view.now, final=final),
        "startTime": "" if state.wanted.spec.suspend else status.get("startTime") or timestamp(view.now),
        "active": len(active),
        "terminating": AlwaysWritten(len(terminating_pods(state.pods))),
        "ready": AlwaysWritten(sum(pod.is_ready for pod in active)),
        "uncountedTerminatedPods": AlwaysWritten(_uncounted_pods(state)),
    }
    if not state.newly_ended:
        lost = len(state.active) if outcome is not None and outcome.condition_type == "Failed" else 0
        status |= {"succeeded": state.total_succeeded, "failed": state.total_failed + lost}
        if final and outcome is not None and outcome.condition_type == "Complete":
            status["completionTime"] = timestamp(view.now)
    elif state.is_indexed:
        done = {int(pod.metadata.annotations[INDEX_ANNOTATION]) for pod in state.newly_ended if _has_succeeded(pod)}
        status["completedIndexes"] = _format_indexes(_completed_indexes(state.raw) | done)
    yield from update_status(state.raw, status)


def _uncounted_pods(state: JobState) -> Raw:
    if not state.newly_ended:
        return {}
    uncounted = {
        "succeeded": [
            *state.uncounted.get("succeeded", ()),
            *(p.metadata.uid for p in state.newly_ended if _has_succeeded(p)),
        ],
        "failed": [
            *state.uncounted.get("failed", ()),
            *(p.metadata.uid for p in state.newly_ended if not _has_succeeded(p)),
        ],
    }
    return {how: uids for how, uids in uncounted.items() if uids}


def _conditions(state: JobState, outcome: JobOutcome | None, now: datetime, *, final: bool) -> list[Raw]:
    conditions = list((state.raw.get("status") or {}).get("conditions") or [])
    if outcome is not None:
        for type_ in (
            (outcome.target_condition_type, outcome.condition_type) if final else (outcome.target_condition_type,)
        ):
            conditions = _set_condition(conditions, type_, "True", outcome.reason, outcome.message, now)
    elif state.wanted.spec.suspend:
        conditions = _set_condition(conditions, "Suspended", "True", "JobSuspended", "Job suspended", now)
    elif any(one["type"] == "Suspended" for one in conditions):
        conditions = _set_condition(conditions, "Suspended", "False", "JobResumed", "Job resumed", now)
    return conditions


def _set_condition(
    conditions: list[Raw], type_: str, status: str, reason: str, message: str, now: datetime
) -> list[Raw]:
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


def _delete_expired(wanted: Job, now: datetime) -> Iterator[Effect]:
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
