"""ResourceQuotas in clusters limit how many further replicas a workload gets there."""

from fractions import Fraction
from typing import Any

import pytest
from builders import binding, cluster
from views import FakeView

from trimtab.api.kinds.work import Component, ReplicaRequirements
from trimtab.api.value import Raw
from trimtab.controllers.contract import FollowKind
from trimtab.controllers.placement_requests import request_for
from trimtab.controllers.quota.member_quotas import became_ready, member_quotas, quota_room, room_of
from trimtab.decide.request import QuotaRoom

ON = {"quota-estimate": True}


def quota(hard: dict[str, str], used: dict[str, str] | None = None, namespace: str = "demo", **spec: Any) -> Raw:
    status = {"hard": hard, "used": used or {}}
    return {"metadata": {"namespace": namespace, "name": "q"}, "spec": {"hard": hard, **spec}, "status": status}


def view(*quotas: Raw, settings: Any = ON) -> FakeView:
    return FakeView([cluster("m1"), cluster("m2")], settings=settings, followed={("m1", "v1", "ResourceQuota"): quotas})


def workload(**fields: str) -> Any:
    needs = ReplicaRequirements(resource_request={"cpu": "10m"}, namespace="demo", **fields)
    return binding(replica_requirements=needs)


def test_quotas_of_the_namespace_leave_room() -> None:
    found = view(
        quota({"requests.cpu": "30m"}),
        quota({"cpu": "90m", "pods": "9"}, {"pods": "2"}),
        quota({"cpu": "0"}, namespace="x"),
    )
    room = (QuotaRoom("m1", (("cpu", Fraction(30)),)), QuotaRoom("m1", (("cpu", Fraction(90)), ("pods", Fraction(7)))))
    assert quota_room(workload(), found) == room
    assert request_for(workload(), found).quota_room == room


def test_quotas_count_only_with_the_setting_and_for_requirements_with_a_namespace() -> None:
    assert quota_room(workload(), view(quota({"cpu": "30m"}), settings={})) == ()
    assert quota_room(binding(), view(quota({"cpu": "30m"}))) == ()


def test_quotas_of_their_namespace_limit_workloads_of_components() -> None:
    parts = binding(components=(Component(name="manager", replicas=1),))
    namespace = parts.spec.resource.namespace
    assert quota_room(parts, view(quota({"cpu": "1"}, namespace=namespace))) == (
        QuotaRoom("m1", (("cpu", Fraction(1000)),)),
    )


@pytest.mark.parametrize(
    ("hard", "used", "free"),
    [
        ({"limits.cpu": "1"}, {}, None),
        ({"services": "0"}, {}, None),
        ({"requests.memory": "1Gi"}, {}, {"memory": 1 << 30}),
        ({"requests.cpu": "100m"}, {"requests.cpu": "95m"}, {"cpu": 5}),
        ({"pods": "4"}, {"pods": "7"}, {"pods": -3}),
    ],
)
def test_requests_and_pods_are_limited(hard: Any, used: Any, free: Any) -> None:
    room = room_of(quota(hard, used), "m1")
    assert (None if room is None else dict(room.free)) == free


@pytest.mark.parametrize(
    ("operator", "matching", "other"),
    [("In", "high", "low"), ("NotIn", "low", "high"), ("Exists", "low", ""), ("DoesNotExist", "", "low")],
)
def test_quota_for_a_priority_class_limits_only_its_pods(operator: str, matching: str, other: str) -> None:
    selected = [{"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}]
    room = room_of(quota({"cpu": "20m"}, scopeSelector={"matchExpressions": selected}), "m1")
    assert room is not None
    assert room.limits(matching)
    assert not room.limits(other)


def test_quotas_with_other_scopes_are_not_counted() -> None:
    assert room_of(quota({"cpu": "20m"}, scopes=["BestEffort"]), "m1") is None
    terminating = [{"scopeName": "Terminating", "operator": "Exists"}]
    assert room_of(quota({"cpu": "20m"}, scopeSelector={"matchExpressions": terminating}), "m1") is None


def test_quotas_of_ready_clusters_are_followed_with_the_setting() -> None:
    ready, unready = cluster("m2"), cluster("m2", ready="False")
    assert list(member_quotas(ready, view())) == [FollowKind("m2", "v1", "ResourceQuota")]
    assert list(member_quotas(cluster("m1"), view())) == []
    assert list(member_quotas(ready, view(settings={}))) == []
    assert became_ready(unready, ready)
    assert not became_ready(ready, ready)
