from datetime import timedelta

import pytest

from plugins.clusters import ask, cluster, verdict
from trimtab.clock import EPOCH
from trimtab.plugins import load

load()
LEFT = [{"clusterName": "m1", "creationTimestamp": "2030-01-01T00:00:00Z"}]


def blocked(seconds: int | None, after: int) -> bool:
    application = {} if seconds is None else {"blockPredecessorSeconds": seconds}
    left = ask(activeEvictionHistory=LEFT, failover={"application": application})
    return verdict("ActiveEvictionHistory", left, cluster("m1"), EPOCH + timedelta(seconds=after)) is not None


@pytest.mark.parametrize(("after", "expected"), [(0, True), (59, True), (60, False)])
def test_the_cluster_that_was_left_is_blocked_for_as_long_as_the_policy_says(after: int, expected: bool) -> None:
    assert blocked(60, after) is expected


def test_it_is_ten_minutes_when_the_policy_does_not_say() -> None:
    assert (blocked(None, 599), blocked(None, 600)) == (True, False)


def test_zero_is_for_ever() -> None:
    assert blocked(0, 10**9)


def test_the_reason_says_until_when() -> None:
    left = ask(activeEvictionHistory=LEFT, failover={"application": {"blockPredecessorSeconds": 60}})
    reason = verdict("ActiveEvictionHistory", left, cluster("m1"))
    assert reason is not None
    assert "blocked until 2030-01-01T00:01:00Z" in reason.message


def test_other_clusters_are_free() -> None:
    assert verdict("ActiveEvictionHistory", ask(activeEvictionHistory=LEFT), cluster("m2")) is None
