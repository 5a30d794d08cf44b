"""The Job controller: runs pods until enough of them have succeeded."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from trimtab.api.kinds.native.batch import Job
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Raw
from trimtab.clock import timestamp
from trimtab.controllers.contract import Delete, Effect, Ensure, Index, RequeueAfter, View
from trimtab.controllers.finalizers import without_finalizers
from trimtab.simulate.workloads.adoption import ORPHAN_PODS, claim_children, orphan_trigger
from trimtab.simulate.workloads.job_indexes import (
    FAILURES_ANNOTATION,
    IGNORED_FAILURES_ANNOTATION,
    INDEX_ANNOTATION,
    failure_count,
    finish_time,
    format_indexes,
    index_of,
    last_failed_pods,
    stored_indexes,
)
from trimtab.simulate.workloads.job_policies import match_failure_policy, match_success_policy
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
CONTROLLER_NAME = "kubernetes.io/job-controller"
FIRST_BACKOFF_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 600.0
COMPLETIONS_REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def _job_of_tracked_pod(pod: Pod) -> tuple[str, ...]:
    owner = pod.controller
    is_tracked = owner is not None and owner.kind == "Job" and TRACKING_FINALIZER in pod.metadata.finalizers
    return (f"{pod.metadata.namespace}/{owner.name}",) if owner is not None and is_tracked else ()


TRACKED_PODS = Index("tracked-pods-of", Pod, _job_of_tracked_pod)
"""Pods with the tracking finalizer, by namespace and name of their Job."""


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
    ignored: tuple[Pod, ...]
    """Failed, and not counted because of the pod failure policy."""

    @property
    def active(self) -> list[Pod]:
        return active_pods(self.pods)

    @property
    def spec(self) -> Raw:
        return self.raw["spec"]  # type: ignore[no-any-return]

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
    def limit_per_index(self) -> int | None:
        return self.spec.get("backoffLimitPerIndex")

    @property
    def is_indexed(self) -> bool:
        return self.wanted.spec.completion_mode == "Indexed"

    @property
    def total_succeeded(self) -> int:
        if self.is_indexed:
            return len(self.succeeded_indexes)
        return self.succeeded + len(self.uncounted.get("succeeded", ())) + sum(map(_has_succeeded, self.newly_ended))

    @property
    def total_failed(self) -> int:
        return (
            self.failed
            + len(self.uncounted.get("failed", ()))
            + sum(not _has_succeeded(pod) for pod in self.newly_ended)
        )

    @property
    def succeeded_indexes(self) -> set[int]:
        ended = {index_of(pod) for pod in self.pods if _has_succeeded(pod)}
        return stored_indexes(self.raw, "completedIndexes") | {
            index for index in ended if index is not None and index < (self.completions or 0)
        }

    @property
    def failed_indexes(self) -> set[int]:
        """The indexes that have failed for good; none without a back-off limit per index."""
        limit = self.limit_per_index
        if limit is None:
            return set()
        failed = {
            index
            for index, pod in last_failed_pods(self.pods).items()
            if (match := match_failure_policy(self.spec, pod)).action == "FailIndex"
            or (match.action == "Count" and failure_count(pod) >= limit)
        }
        return stored_indexes(self.raw, "failedIndexes") | failed


def _has_succeeded(pod: Pod) -> bool:
    return pod.status.phase == "Succeeded"


def _remove_orphaned_finalizers(key: Key, view: View) -> Iterator[Effect]:
    """Remove the finalizer from the pods of a Job that is gone: nobody counts them any more."""
    for pod in view.by_index(TRACKED_PODS, f"{key.namespace}/{key.name}"):
        yield _without_finalizer(pod)


def _without_finalizer(pod: Pod) -> Pod:
    return without_finalizers(pod, TRACKING_FINALIZER)


def is_managed_elsewhere(wanted: Job, raw: Raw) -> bool:
    """Whether `managedBy` names another controller."""
    return (raw["spec"].get("managedBy") or CONTROLLER_NAME) != CONTROLLER_NAME


@workload(
    Job,
    writes=["Pod", "status"],
    triggers=[owner_trigger(Job, Pod), orphan_trigger(Job, Pod)],
    on_deleted=_remove_orphaned_finalizers,
)
def job(wanted: Job, view: View) -> Iterator[Effect]:
    raw = raw_of(wanted, view)
    if is_managed_elsewhere(wanted, raw):
        return
    state, effects = _observe(wanted, raw, view)
    if (
        wanted.metadata.deletion_timestamp is not None
        or wanted.has_condition("Complete")
        or wanted.has_condition("Failed")
    ):
        yield from _remove_finalizers(state, {pod.metadata.uid for pod in state.pods})
        yield from _delete_expired(wanted, view.now)
        return
    yield from effects
    outcome = _job_outcome(state, view.now)
    if not state.newly_ended:
        ignored = {pod.metadata.uid for pod in state.ignored}
        counted = {*state.uncounted.get("succeeded", ()), *state.uncounted.get("failed", ())}
        yield from _remove_finalizers(state, ignored | counted)
    if outcome is not None:
        for pod in state.active:
            yield Delete(pod)
    else:
        yield from _sync_pods(state, view)
    yield from _update_status(state, outcome, view)


def _observe(wanted: Job, raw: Raw, view: View) -> tuple[JobState, list[Effect]]:
    owned = view.by_index(PODS_BY_OWNER, wanted.metadata.uid)
    claim = claim_children(wanted, owned, view.by_index(ORPHAN_PODS, wanted.metadata.namespace), TRACKING_FINALIZER)
    pods = sort_oldest_first(claim.children)
    uncounted = (raw.get("status") or {}).get("uncountedTerminatedPods") or {}
    known = {*uncounted.get("succeeded", ()), *uncounted.get("failed", ())}
    ended = [
        pod
        for pod in pods
        if TRACKING_FINALIZER in pod.metadata.finalizers
        and pod.metadata.uid not in known
        and _has_ended(pod, raw["spec"])
    ]
    ignored = tuple(
        pod for pod in ended if not _has_succeeded(pod) and match_failure_policy(raw["spec"], pod).action == "Ignore"
    )
    counted = tuple(pod for pod in ended if pod not in ignored)
    status = wanted.status
    return JobState(wanted, raw, pods, status.succeeded, status.failed, uncounted, counted, ignored), claim.effects


def _has_ended(pod: Pod, spec: Raw) -> bool:
    """Whether the pod finished, or is being deleted and is replaced before it has finished."""
    if pod.is_terminal:
        return True
    return pod.metadata.deletion_timestamp is not None and (
        not pod.spec.node_name or not _replaces_only_failed_pods(spec)
    )


def _replaces_only_failed_pods(spec: Raw) -> bool:
    return spec.get("podReplacementPolicy") == "Failed" or bool(spec.get("podFailurePolicy"))


def _remove_finalizers(state: JobState, uids: set[str]) -> Iterator[Effect]:
    for pod in state.pods:
        if pod.metadata.uid in uids and TRACKING_FINALIZER in pod.metadata.finalizers:
            yield _without_finalizer(pod)


class JobOutcome(NamedTuple):
    """The final conditions of the Job."""

    condition_type: str
    target_condition_type: str
    reason: str
    message: str


def _failure_outcome(reason: str, message: str) -> JobOutcome:
    return JobOutcome("Failed", "FailureTarget", reason, message)


def _complete(reason: str, message: str) -> JobOutcome:
    return JobOutcome("Complete", "SuccessCriteriaMet", reason, message)


def _job_outcome(state: JobState, now: datetime) -> JobOutcome | None:
    """Whether and how the Job ends; what an earlier reconcile decided stays decided."""
    for one in (state.raw.get("status") or {}).get("conditions") or ():
        if one["status"] == "True" and one["type"] in ("FailureTarget", "SuccessCriteriaMet"):
            make = _failure_outcome if one["type"] == "FailureTarget" else _complete
            return make(one.get("reason", ""), one.get("message", ""))
    return _failure(state, now) or _success(state)


def _failure(state: JobState, now: datetime) -> JobOutcome | None:
    for pod in state.pods:
        if pod.status.phase == "Failed" and (match := match_failure_policy(state.spec, pod)).action == "FailJob":
            return _failure_outcome("PodFailurePolicy", match.message)
    if _exceeds_backoff_limit(state):
        return _failure_outcome("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    limit, started = state.wanted.spec.active_deadline_seconds, state.wanted.status.start_time
    if limit is not None and started is not None and now >= started + timedelta(seconds=limit):
        return _failure_outcome("DeadlineExceeded", "Job was active longer than specified deadline")
    failed = len(state.failed_indexes)
    most = state.spec.get("maxFailedIndexes")
    if most is not None and failed > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return _failure_outcome("MaxFailedIndexesExceeded", message)
    if failed and failed + len(state.succeeded_indexes) >= (state.completions or 0):
        return _failure_outcome("FailedIndexes", "Job has failed indexes")
    return None


def _exceeds_backoff_limit(state: JobState) -> bool:
    if state.total_failed > state.backoff_limit:
        return True
    if state.wanted.spec.template.spec.restart_policy != "OnFailure":
        return False
    restarts = sum(status.restart_count for pod in state.active for status in pod.status.container_statuses)
    return restarts >= state.backoff_limit if state.backoff_limit else restarts > 0


def _success(state: JobState) -> JobOutcome | None:
    if state.is_indexed and (message := match_success_policy(state.spec, state.succeeded_indexes)):
        return _complete("SuccessPolicy", message)
    done = state.total_succeeded
    if state.completions is None:
        return _complete(*COMPLETIONS_REACHED) if done and not state.active else None
    return _complete(*COMPLETIONS_REACHED) if done >= state.completions else None


def _sync_pods(state: JobState, view: View) -> Iterator[Effect]:
    """Create or delete pods to match parallelism and the remaining completions."""
    if state.wanted.spec.suspend:
        yield from _delete_uncounted(state.active)
        return
    if state.wanted.spec.active_deadline_seconds is not None:
        started = state.wanted.status.start_time or view.now
        until = started + timedelta(seconds=state.wanted.spec.active_deadline_seconds)
        yield RequeueAfter(max(0.0, (until - view.now).total_seconds()))
    surplus = len(state.active) - _wanted_active(state)
    if surplus > 0:
        yield from _delete_uncounted(sorted(state.active, key=lambda one: one.is_ready)[:surplus])
    missing = -surplus
    if _replaces_only_failed_pods(state.spec):
        missing -= len(terminating_pods(state.pods))
    if missing <= 0:
        return
    if state.limit_per_index is not None:
        yield from _create_indexed_pods(state, view, missing)
        return
    wait = _backoff_seconds(state, view.now)
    if wait > 0:
        yield RequeueAfter(wait)
        return
    for name, index in zip(new_child_names(state.wanted, view, missing), _free_indexes(state, missing), strict=False):
        yield Ensure(_new_pod(state, name, index))


def _delete_uncounted(pods: Sequence[Pod]) -> Iterator[Effect]:
    """Delete pods that are no longer wanted; without the finalizer they do not count as failed."""
    for pod in pods:
        if TRACKING_FINALIZER in pod.metadata.finalizers:
            yield _without_finalizer(pod)
        yield Delete(pod)


def _create_indexed_pods(state: JobState, view: View, missing: int) -> Iterator[Effect]:
    """Create pods of free indexes, each after the back-off of its own failures."""
    failed = last_failed_pods(state.pods)
    waits: list[float] = []
    indexes = []
    for index in _free_indexes(state, (state.completions or 0)):
        wait = _seconds_after_failure(failed.get(index or 0), view.now) if index in failed else 0.0
        if wait > 0:
            waits.append(wait)
        else:
            indexes.append(index)
    for name, index in zip(new_child_names(state.wanted, view, missing), indexes[:missing], strict=False):
        yield Ensure(_new_pod(state, name, index, _failure_annotations(state, failed.get(index or 0))))
    if waits:
        yield RequeueAfter(min(waits))


def _seconds_after_failure(pod: Pod | None, now: datetime) -> float:
    ended = finish_time(pod) if pod is not None else None
    if pod is None or ended is None:
        return 0.0
    pause = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** failure_count(pod))
    return (ended + timedelta(seconds=pause) - now).total_seconds()


def _failure_annotations(state: JobState, failed: Pod | None) -> Mapping[str, str]:
    """The failures of its index so far, which a new pod carries."""
    if failed is None:
        return {FAILURES_ANNOTATION: "0"}
    counts, ignored = failure_count(failed), failure_count(failed, IGNORED_FAILURES_ANNOTATION)
    if match_failure_policy(state.spec, failed).action == "Ignore":
        ignored += 1
    else:
        counts += 1
    found = {FAILURES_ANNOTATION: str(counts)}
    return found | {IGNORED_FAILURES_ANNOTATION: str(ignored)} if ignored else found


def _wanted_active(state: JobState) -> int:
    if state.completions is None:
        return state.parallelism if not state.total_succeeded else min(state.parallelism, len(state.active))
    remaining = state.completions - state.total_succeeded - len(state.failed_indexes)
    return min(state.parallelism, max(0, remaining))


def _free_indexes(state: JobState, count: int) -> Sequence[int | None]:
    if not state.is_indexed:
        return [None] * count
    unfinished = terminating_pods(state.pods) if _replaces_only_failed_pods(state.spec) else []
    running = {index_of(pod) for pod in (*state.active, *unfinished)}
    taken = state.succeeded_indexes | state.failed_indexes | running
    return [index for index in range(state.completions or 0) if index not in taken][:count]


def _backoff_seconds(state: JobState, now: datetime) -> float:
    """Seconds until the next pods may be created, with exponential back-off after failures."""
    if not state.total_failed:
        return 0.0
    ends = [ended for pod in state.pods if pod.status.phase == "Failed" and (ended := finish_time(pod)) is not None]
    if not ends:
        return 0.0
    pause = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (state.total_failed - 1))
    return (max(ends) + timedelta(seconds=pause) - now).total_seconds()


def _new_pod(state: JobState, name: str, index: int | None, annotations: Mapping[str, str] | None = None) -> Raw:
    labels = {} if index is None else {INDEX_ANNOTATION: str(index)}
    identity = PodIdentity(name, labels, {**labels, **(annotations or {})}, finalizers=[TRACKING_FINALIZER])
    if index is None:
        return pod_from(state.raw["spec"]["template"], state.wanted, identity)
    stem = f"{state.wanted.name[:50]}-{index}"
    identity = identity._replace(name=f"{stem}-{name.rpartition('-')[2]}", hostname=stem)
    pod = pod_from(state.raw["spec"]["template"], state.wanted, identity)
    spec = {
        **pod["spec"],
        **{
            field: [_with_index_variable(one) for one in pod["spec"][field]]
            for field in ("containers", "initContainers")
            if pod["spec"].get(field)
        },
    }
    return {**pod, "spec": spec}


def _with_index_variable(container: Raw) -> Raw:
    """A container that finds its completion index in its environment."""
    present = container.get("env") or []
    if any(one["name"] == INDEX_VARIABLE for one in present):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX_ANNOTATION}']"}}
    return {**container, "env": [*present, {"name": INDEX_VARIABLE, "valueFrom": source}]}


def _update_status(state: JobState, outcome: JobOutcome | None, view: View) -> Iterator[Effect]:
    """Update the status: ended pods are first listed as uncounted; the next reconcile removes finalizers and counts."""
    status: dict[str, Any] = dict(state.raw.get("status") or {})
    active = [] if outcome is not None else state.active
    running = [pod for pod in state.pods if not pod.is_terminal]
    final = outcome is not None and not state.newly_ended and not running
    status |= {
        "conditions": _conditions(state, outcome, view.now, final=final),
        "startTime": "" if state.wanted.spec.suspend else status.get("startTime") or timestamp(view.now),
        "active": len(active),
        "terminating": AlwaysWritten(len(terminating_pods(state.pods))),
        "ready": AlwaysWritten(sum(pod.is_ready for pod in active)),
        "uncountedTerminatedPods": AlwaysWritten(_uncounted_pods(state)),
    }
    if state.is_indexed:
        status["completedIndexes"] = format_indexes(state.succeeded_indexes)
        status |= _failed_indexes_field(state)
    if not state.newly_ended:
        status |= {"succeeded": state.total_succeeded, "failed": state.total_failed}
        if final and outcome is not None and outcome.condition_type == "Complete":
            status["completionTime"] = timestamp(view.now)
    yield from update_status(state.raw, status)


def _failed_indexes_field(state: JobState) -> Raw:
    if state.limit_per_index is None:
        return {}
    return {"failedIndexes": AlwaysWritten(format_indexes(state.failed_indexes))}


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
