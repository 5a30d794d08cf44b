"""ResourceQuotas in clusters limit how many further replicas a workload gets there."""

from typing import Any

import pytest
from builders import binding, cluster
from views import FakeView

from trimtab.api.kinds.work import ReplicaRequirements
from trimtab.api.value import Raw
from trimtab.controllers.contract import FollowKind
from trimtab.controllers.placement_requests import request_for
from trimtab.controllers.quota.member_quotas import became_ready, further_replicas, member_quotas, most_replicas

ON = {"quota-estimate": True}


def quota(hard: dict[str, str], used: dict[str, str] | None = None, namespace: str = "demo", **spec: Any) -> Raw:
    status = {"hard": hard, "used": used or {}}
    return {"metadata": {"namespace": namespace, "name": "q"}, "spec": {"hard": hard, **spec}, "status": status}


def view(*quotas: Raw, settings: Any = ON) -> FakeView:
    return FakeView([cluster("m1"), cluster("m2")], settings=settings, followed={("m1", "v1", "ResourceQuota"): quotas})


def workload(**fields: str) -> Any:
    needs = ReplicaRequirements(resource_request={"cpu": "10m"}, namespace="demo", **fields)
    return binding(replica_requirements=needs)


def test_scarcest_quota_of_the_namespace_counts() -> None:
    found = view(
        quota({"requests.cpu": "30m"}),
        quota({"cpu": "90m", "pods": "9"}, {"pods": "2"}),
        quota({"cpu": "0"}, namespace="x"),
    )
    assert further_replicas(workload(), found) == (("m1", 3),)
    assert request_for(workload(), found).most_further_replicas == (("m1", 3),)


def test_quotas_count_only_with_the_setting_and_for_requirements_with_a_namespace() -> None:
    assert further_replicas(workload(), view(quota({"cpu": "30m"}), settings={})) == ()
    assert further_replicas(binding(), view(quota({"cpu": "30m"}))) == ()


@pytest.mark.parametrize(
    ("hard", "used", "most"),
    [
        ({"limits.cpu": "1"}, {}, None),
        ({"requests.memory": "1Gi"}, {}, None),
        ({"services": "0"}, {}, None),
        ({"requests.cpu": "100m"}, {"requests.cpu": "95m"}, 0),
        ({"pods": "4"}, {"pods": "7"}, 0),
    ],
)
def test_resources_that_the_replica_does_not_need_do_not_limit_it(hard: Any, used: Any, most: int | None) -> None:
    assert most_replicas([quota(hard, used)], {"cpu": "10m"}, "") == most


def test_quota_for_a_priority_class_limits_only_its_pods() -> None:
    high = [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
    selected = quota({"cpu": "20m"}, scopeSelector={"matchExpressions": high})
    assert most_replicas([selected], {"cpu": "10m"}, "high") == 2
    assert most_replicas([selected], {"cpu": "10m"}, "low") is None
    assert most_replicas([quota({"cpu": "20m"}, scopes=["BestEffort"])], {"cpu": "10m"}, "") is None


def test_quotas_of_ready_clusters_are_followed_with_the_setting() -> None:
    ready, unready = cluster("m2"), cluster("m2", ready="False")
    assert list(member_quotas(ready, view())) == [FollowKind("m2", "v1", "ResourceQuota")]
    assert list(member_quotas(cluster("m1"), view())) == []
    assert list(member_quotas(ready, view(settings={}))) == []
    assert became_ready(unready, ready)
    assert not became_ready(ready, ready)
