"""What is still in a cluster that leaves, why it stays, and when the cluster is drained."""

from typing import Any

import pytest
from builders import NOON, binding, cluster
from views import FakeView

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_work import ManifestWork
from trimtab.api.kinds.work import Binding, BindingSuspension, Work
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Meta, OwnerReference
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import DRAINED
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.contract import RecordEvent, RequeueAfter
from trimtab.controllers.movement.binding_moves import with_stalled_condition
from trimtab.controllers.movement.cluster_departure import (
    cluster_departure,
    is_unbound,
    obstacle_of_binding,
    obstacle_of_manifestwork,
    obstacle_of_work,
    remaining_users,
)


def leaving(**changes: Any) -> Cluster:
    subject = cluster("m1", **changes)
    return subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON))


def work(name: str = "w", **metadata: Any) -> Work:
    return Work(metadata=Meta(name=name, namespace="karmada-es-m1", **metadata))


OF_BINDING = {
    "annotations": {well_known.RB_NAMESPACE: "demo", well_known.RB_NAME: "web-deployment"},
    "labels": {well_known.RB_ID: "id"},
}
OF_NAMESPACE = {"owner_references": (OwnerReference(api_version="v1", kind="Namespace", name="demo", uid="u"),)}


def users(*things: Any, subject: Cluster | None = None) -> list[str]:
    return [user.name for user in remaining_users(subject or leaving(), FakeView(things))]


def drained(subject: Cluster, *things: Any) -> tuple[Any, list[Any]]:
    """The condition that is written, and all effects."""
    effects = list(cluster_departure(subject, FakeView([subject, *things])))
    written = [effect for effect in effects if isinstance(effect, Cluster)]
    return find_condition(written[-1].status.conditions, DRAINED) if written else None, effects


def test_works_of_namespaces_do_not_keep_a_cluster() -> None:
    assert users(work(**OF_NAMESPACE), work("other", **OF_BINDING)) == ["work/other"]


def test_a_deleted_work_keeps_a_cluster_that_answers_only() -> None:
    deleted = work(**OF_BINDING, deletion_timestamp=NOON)
    assert users(deleted) == ["work/w"]
    assert users(deleted, subject=leaving(ready="False")) == []
    assert users(work(**OF_BINDING), subject=leaving(ready="False")) == ["work/w"]


def test_only_a_work_that_a_user_created_is_an_obstacle() -> None:
    assert is_unbound(work())
    assert obstacle_of_work(work())
    of_manifestwork = work(annotations={well_known.MANIFEST_WORK: "mw"})
    for one in (work(**OF_BINDING), work(**OF_NAMESPACE), of_manifestwork, work(deletion_timestamp=NOON)):
        assert obstacle_of_work(one) == ""
    assert not is_unbound(of_manifestwork)


@pytest.mark.parametrize(
    ("change", "obstacle"),
    [
        ({}, ""),
        ({"suspension": BindingSuspension(scheduling=True)}, "its scheduling is suspended"),
        ({"suspension": BindingSuspension(dispatching=True)}, ""),
        ({"scheduler_name": "mine"}, "the scheduler mine places it"),
    ],
)
def test_a_binding_that_nobody_schedules_cannot_leave(change: dict[str, Any], obstacle: str) -> None:
    subject = binding(clusters={"m1": 2}, **change)
    assert obstacle_of_binding(subject, "m1") == obstacle
    assert obstacle_of_binding(subject, "m2") == ""


def test_a_binding_without_a_policy_or_that_is_stalled_says_so() -> None:
    subject: Binding = binding(clusters={"m1": 2})
    orphan = subject.but(metadata=subject.metadata.but(labels={well_known.RB_ID: "id"}))
    assert obstacle_of_binding(orphan, "m1").startswith("no policy selects it")
    stalled = with_stalled_condition(subject, "MoveBlocked", "the window is closed", NOON)
    assert obstacle_of_binding(stalled, "m1") == "the window is closed"


def test_a_manifestwork_without_a_set_is_an_obstacle_until_it_is_deleted() -> None:
    alone = ManifestWork(metadata=Meta(name="mw", namespace="m1"))
    deleted = alone.but(metadata=alone.metadata.but(deletion_timestamp=NOON))
    assert obstacle_of_manifestwork(alone, FakeView()).startswith("it was created for this cluster")
    assert obstacle_of_manifestwork(deleted, FakeView()) == ""


def test_a_cluster_is_drained_when_nothing_is_left() -> None:
    condition, effects = drained(leaving(), work(**OF_NAMESPACE))
    assert (condition.status, condition.reason) == ("True", "Empty")
    assert [effect.reason for effect in effects if isinstance(effect, RecordEvent)] == ["Drained"]
    assert not [effect for effect in effects if isinstance(effect, RequeueAfter)]


def test_a_cluster_is_blocked_when_nothing_in_it_can_leave() -> None:
    condition, effects = drained(leaving(), work("mine"), work("follower", **OF_BINDING))
    assert (condition.status, condition.reason) == ("False", "Blocked")
    assert "work/mine" in condition.message
    assert "follower" not in condition.message
    assert [effect.reason for effect in effects if isinstance(effect, RecordEvent)] == ["DrainBlocked"]
    assert [effect for effect in effects if isinstance(effect, RequeueAfter)]
    moving, _ = drained(leaving(), work("mine"), binding(clusters={"m1": 2}))
    assert moving.reason == "Draining"


def test_the_condition_is_written_once_and_goes_when_the_cluster_stays() -> None:
    subject = leaving()
    condition, _ = drained(subject, work("mine"))
    known = subject.but(status=subject.status.but(conditions=(*subject.status.conditions, condition)))
    assert drained(known, work("mine"))[0] is None
    staying = known.but(metadata=known.metadata.but(deletion_timestamp=None))
    (written,) = cluster_departure(staying, FakeView([staying, work("mine")]))
    assert isinstance(written, Cluster)
    assert find_condition(written.status.conditions, DRAINED) is None
    assert list(cluster_departure(subject.but(metadata=staying.metadata), FakeView([work("mine")]))) == []


def test_upstream_drains_nothing() -> None:
    subject = leaving()
    assert list(cluster_departure(subject, FakeView([subject, work("mine")], profile=UPSTREAM))) == []
