"""Usage of quotas, and the warning about overcommitted priorities."""

from typing import Any

import msgspec
import pytest
from pod_builders import node, pod
from views import FakeView

from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.quota import ResourceQuota
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.controllers.contract import RecordEvent
from trimtab.controllers.pods.quota_status import overcommit_status, priority_orders, quota_status, quotas_in_namespace

ORDER = msgspec.convert({"metadata": {"name": "default"}, "spec": {"names": ["gold"]}}, PriorityOrder)
GOLD = msgspec.convert({"metadata": {"name": "gold"}, "value": 9}, PriorityClass)


def resource_quota(**spec: Any) -> ResourceQuota:
    return msgspec.convert({"metadata": {"name": "q", "namespace": "default"}, "spec": spec}, ResourceQuota)


def gold_quota(memory: str) -> ResourceQuota:
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}
    return resource_quota(hard={"requests.memory": memory}, scopeSelector={"matchExpressions": [scope]})


def test_usage_is_the_sum_over_the_pods_of_the_namespace() -> None:
    subject = resource_quota(hard={"pods": "5", "requests.cpu": "2"})
    pods = [pod("a", cpu="500m"), pod("b", cpu="1"), pod("c", cpu="1", namespace="other")]
    (after,) = quota_status(subject, FakeView([subject, *pods]))
    assert isinstance(after, ResourceQuota)
    assert after.status.used == {"pods": "2", "requests.cpu": "1500m"}
    assert list(quota_status(after, FakeView([after, *pods]))) == []


def test_only_pods_that_appear_disappear_or_finish_wake_quotas() -> None:
    view = FakeView([resource_quota(hard={"pods": "5"})])
    running = pod("a")
    finished = running.but(status=running.status.but(phase="Succeeded"))
    assert [key.name for key in quotas_in_namespace(None, running, view)] == ["q"]
    assert [key.name for key in quotas_in_namespace(running, finished, view)] == ["q"]
    assert list(quotas_in_namespace(running, running, view)) == []


@pytest.mark.parametrize(("memory", "status"), [("8Gi", "False"), ("9Gi", "True")])
def test_quotas_of_the_top_priority_beyond_the_nodes_are_reported(memory: str, status: str) -> None:
    effects = list(overcommit_status(ORDER, FakeView([ORDER, GOLD, gold_quota(memory), node("n1", memory="8Gi")])))
    (after,) = [effect for effect in effects if isinstance(effect, PriorityOrder)]
    (condition,) = [c for c in after.status.conditions if c.type == "TopPriorityOvercommitted"]
    assert condition.status == status
    warnings = [effect.message for effect in effects if isinstance(effect, RecordEvent)]
    assert warnings == (["9Gi memory are reserved by quotas, the nodes have 8Gi"] if status == "True" else [])


def test_the_warning_is_not_repeated() -> None:
    things = [GOLD, gold_quota("9Gi"), node("n1", memory="8Gi")]
    (after,) = [e for e in overcommit_status(ORDER, FakeView([ORDER, *things])) if isinstance(e, PriorityOrder)]
    assert list(overcommit_status(after, FakeView([after, *things]))) == []


def test_a_node_wakes_the_order_only_when_its_size_changes() -> None:
    view = FakeView([ORDER])
    assert list(priority_orders(node("n1"), node("n1", cordoned=True), view)) == []
    assert [key.name for key in priority_orders(node("n1"), node("n1", memory="9Gi"), view)] == ["default"]
