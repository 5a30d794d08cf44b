"""Completion indexes of an Indexed Job: their text form, and failures per index."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw

INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
FAILURES_ANNOTATION = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES_ANNOTATION = "batch.kubernetes.io/job-index-ignored-failure-count"


def parse_indexes(text: str) -> set[int]:
    """The indexes of a text such as `0,2-4`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def stored_indexes(raw: Raw, field: str) -> set[int]:
    """The indexes in `completedIndexes` or `failedIndexes` of the status."""
    return parse_indexes((raw.get("status") or {}).get(field) or "")


def index_of(pod: Pod) -> int | None:
    """The completion index of the pod."""
    text = pod.metadata.annotations.get(INDEX_ANNOTATION, "")
    return int(text) if text.isdigit() else None


def failure_count(pod: Pod, annotation: str = FAILURES_ANNOTATION) -> int:
    """How many pods of this index had failed before this one was created."""
    text = pod.metadata.annotations.get(annotation, "")
    return int(text) if text.isdigit() else 0


def last_failed_pods(pods: Sequence[Pod]) -> Mapping[int, Pod]:
    """The last failed pod of each index."""
    found: dict[int, Pod] = {}
    for pod in pods:
        index = index_of(pod)
        if index is None or pod.status.phase != "Failed":
            continue
        known = found.get(index)
        if known is None or failure_rank(pod) > failure_rank(known):
            found[index] = pod
    return found


def failure_rank(pod: Pod) -> tuple[Any, ...]:
    counts = failure_count(pod) + failure_count(pod, IGNORED_FAILURES_ANNOTATION)
    return (counts, pod.metadata.creation_timestamp.isoformat() if pod.metadata.creation_timestamp else "")


def finish_time(pod: Pod) -> datetime | None:
    """When the last container of the pod ended."""
    ends = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at is not None
    ]
    return max(ends, default=None)
