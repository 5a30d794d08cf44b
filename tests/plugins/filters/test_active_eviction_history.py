from datetime import timedelta

import pytest

from plugins.clusters import check_filter, cluster, placement_request
from trimtab.clock import EPOCH
from trimtab.plugins import load

load()
LEFT = [{"clusterName": "m1", "creationTimestamp": "2030-01-01T00:00:00Z"}]


def is_blocked(seconds: int | None, after: int) -> bool:
    application = {} if seconds is None else {"blockPredecessorSeconds": seconds}
    left = placement_request(activeEvictionHistory=LEFT, failover={"application": application})
    return check_filter("ActiveEvictionHistory", left, cluster("m1"), EPOCH + timedelta(seconds=after)) is not None


@pytest.mark.parametrize(("after", "expected"), [(0, True), (59, True), (60, False)])
def test_the_previous_cluster_is_blocked_for_the_time_of_the_policy(after: int, expected: bool) -> None:
    assert is_blocked(60, after) is expected


def test_the_default_block_is_ten_minutes() -> None:
    assert (is_blocked(None, 599), is_blocked(None, 600)) == (True, False)


def test_zero_seconds_block_for_ever() -> None:
    assert is_blocked(0, 10**9)


def test_the_reason_contains_the_end_of_the_block() -> None:
    left = placement_request(activeEvictionHistory=LEFT, failover={"application": {"blockPredecessorSeconds": 60}})
    reason = check_filter("ActiveEvictionHistory", left, cluster("m1"))
    assert reason is not None
    assert "blocked until 2030-01-01T00:01:00Z" in reason.message


def test_other_clusters_are_not_blocked() -> None:
    assert check_filter("ActiveEvictionHistory", placement_request(activeEvictionHistory=LEFT), cluster("m2")) is None
