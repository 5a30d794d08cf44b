"""The condition Owned of clusters that several processes share."""

from datetime import timedelta
from typing import Any

import pytest
from builders import NOON, cluster
from views import FakeView

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.lease import Lease, LeaseSpec
from trimtab.api.value import Meta
from trimtab.controllers.clusters.ownership import (
    LEASE_NAMESPACE,
    OWNED,
    RENEWED,
    cluster_of_lease,
    member_lease,
    member_ownership,
)
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.contract import Effect, RecordEvent, RequeueAfter

SHARED = {LEASE_NAMESPACE: "trimtab-system"}


def lease(holder: str | None = "p1", name: str = "m1") -> Lease:
    metadata = Meta(namespace="trimtab-system", name=member_lease(name))
    return Lease(metadata=metadata, spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=15))


def effects(*objects: Any, age: float = 1.0, subject: Cluster | None = None, **more: Any) -> list[Effect]:
    view = FakeView([*objects], settings=more.get("settings", SHARED))
    view.memory[RENEWED, "m1"] = NOON - timedelta(seconds=age)
    return list(member_ownership(subject or cluster("m1"), view))


def owned_status(found: list[Effect]) -> str:
    changed = next(one for one in found if isinstance(one, Cluster))
    condition = find_condition(changed.status.conditions, OWNED)
    assert condition is not None
    return condition.status


def test_held_lease_means_owned() -> None:
    found = effects(lease())
    assert owned_status(found) == "True"
    assert not any(isinstance(one, RecordEvent) for one in found)


@pytest.mark.parametrize(
    ("objects", "age"), [([], 1.0), ([lease("")], 1.0), ([lease()], 16.0)], ids=["no lease", "released", "expired"]
)
def test_member_without_an_owner_is_reported(objects: list[Lease], age: float) -> None:
    found = effects(*objects, age=age)
    assert owned_status(found) == "False"
    assert [one.reason for one in found if isinstance(one, RecordEvent)] == ["MemberUnowned"]


def test_it_is_checked_again_when_the_lease_would_end() -> None:
    waits = [one.seconds for one in effects(lease(), age=5.0) if isinstance(one, RequeueAfter)]
    assert waits == [pytest.approx(10.1)]


def test_event_is_recorded_once() -> None:
    unowned = next(one for one in effects() if isinstance(one, Cluster))
    assert not any(isinstance(one, RecordEvent) for one in effects(subject=unowned))


def test_nothing_is_reported_where_one_process_serves_all_members_or_an_agent_serves_its_own() -> None:
    assert effects(lease(), settings={}) == []
    assert effects(subject=cluster("m1", sync_mode="Pull")) == []


def test_condition_is_removed_when_one_process_serves_all_members_again() -> None:
    unowned = next(one for one in effects() if isinstance(one, Cluster))
    (cleared,) = effects(subject=unowned, settings={})
    assert isinstance(cleared, Cluster)
    assert find_condition(cleared.status.conditions, OWNED) is None
    assert len(cleared.status.conditions) == len(unowned.status.conditions) - 1


def test_change_of_the_holder_wakes_the_cluster() -> None:
    view = FakeView([], settings=SHARED)
    assert [key.name for key in cluster_of_lease(lease("p1"), lease("p2"), view)] == ["m1"]
    assert list(cluster_of_lease(lease("p1"), lease("p1"), view)) == []
    assert list(cluster_of_lease(lease("p1"), lease("p2"), FakeView([]))) == []
