from datetime import UTC, datetime, timedelta

import pytest

from trimtab.api.kinds.native.pod import Pod, PodCondition, PodStatus
from trimtab.api.value import Meta
from trimtab.simulate.workloads.owned_pods import (
    AlwaysWritten,
    active_pods,
    count_pods,
    safe_hash,
    scaled_value,
    terminating_pods,
    update_status,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def pod(name: str, *, ready_for: float | None = None, phase: str = "Running", deleted: bool = False) -> Pod:
    conditions: tuple[PodCondition, ...] = ()
    if ready_for is not None:
        since = NOW - timedelta(seconds=ready_for)
        conditions = (PodCondition(type="Ready", status="True", last_transition_time=since),)
    metadata = Meta(name=name, namespace="default", deletion_timestamp=NOW if deleted else None)
    return Pod(metadata=metadata, status=PodStatus(phase=phase, conditions=conditions))


def test_pods_are_active_terminating_or_finished() -> None:
    pods = [pod("active"), pod("terminating", deleted=True), pod("finished", phase="Succeeded")]
    assert [one.name for one in active_pods(pods)] == ["active"]
    assert [one.name for one in terminating_pods(pods)] == ["terminating"]


def test_ready_pods_are_available_after_min_ready_seconds() -> None:
    counts = count_pods([pod("a", ready_for=40), pod("b", ready_for=10), pod("c", ready_for=25), pod("d")], 30, NOW)
    assert counts == (3, 1, 5.0)


@pytest.mark.parametrize(
    ("value", "up", "result"), [(None, True, 3), (2, True, 2), ("25%", True, 3), ("25%", False, 2), ("0%", True, 0)]
)
def test_percentages_are_rounded_as_asked_and_counts_are_taken_as_they_are(
    value: int | str | None, result: int, *, up: bool
) -> None:
    assert scaled_value(value, 10, round_up=up, default=3) == result


def test_status_is_written_only_when_it_changes_and_zeros_only_when_wrapped() -> None:
    raw = {"metadata": {"name": "web"}, "status": {"replicas": 0, "readyReplicas": 2}}
    assert list(update_status(raw, {"replicas": AlwaysWritten(0), "readyReplicas": 2, "conditions": []})) == []
    (effect,) = update_status(raw, {"replicas": AlwaysWritten(0), "readyReplicas": 0})
    assert effect.wanted["status"] == {"replicas": 0}


def test_annotations_are_written_with_an_unchanged_status() -> None:
    raw = {"metadata": {"name": "web"}, "status": {"replicas": 2}}
    (effect,) = update_status(raw, {"replicas": 2}, {"revision": "2"})
    assert effect.wanted["metadata"]["annotations"] == {"revision": "2"}


def test_hash_depends_on_content_but_not_on_key_order() -> None:
    assert safe_hash({"a": 1, "b": 2}) == safe_hash({"b": 2, "a": 1})
    assert safe_hash({"a": 1}) != safe_hash({"a": 2})
    assert len(safe_hash({}, 5)) == 5
