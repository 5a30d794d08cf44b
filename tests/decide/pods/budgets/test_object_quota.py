"""What objects other than pods use of a quota."""

from typing import Any

import pytest

from trimtab.decide.pods.budgets.object_quota import QuotaTarget, object_limits, target_of, use_of

NODE_PORT = {"spec": {"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]}}
BALANCED = {"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30000}, {"port": 81}]}}
CLAIM = {"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}}


@pytest.mark.parametrize(
    ("limit", "target"),
    [
        ("services", QuotaTarget("", "services")),
        ("services.nodeports", QuotaTarget("", "services")),
        ("count/deployments.apps", QuotaTarget("apps", "deployments")),
        ("count/widgets.example.com", QuotaTarget("example.com", "widgets")),
        ("count/secrets", QuotaTarget("", "secrets")),
        ("requests.storage", QuotaTarget("", "persistentvolumeclaims")),
        ("gold.storageclass.storage.k8s.io/requests.storage", QuotaTarget("", "persistentvolumeclaims")),
        ("pods", None),
        ("count/pods", None),
        ("requests.cpu", None),
        ("requests.example.com/dongle", None),
    ],
)
def test_limit_counts_the_objects_of_a_resource(limit: str, target: QuotaTarget | None) -> None:
    assert target_of(limit) == target


@pytest.mark.parametrize(
    ("limit", "obj", "use"),
    [
        ("services", NODE_PORT, 1),
        ("services.nodeports", NODE_PORT, 2),
        ("services.nodeports", BALANCED, 2),
        ("services.nodeports", {"spec": {**BALANCED["spec"], "allocateLoadBalancerNodePorts": False}}, 1),
        ("services.nodeports", {"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}, 0),
        ("services.loadbalancers", BALANCED, 1),
        ("services.loadbalancers", NODE_PORT, 0),
        ("requests.storage", CLAIM, 1 << 30),
        ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", CLAIM, 1),
        ("silver.storageclass.storage.k8s.io/persistentvolumeclaims", CLAIM, 0),
        ("gold.storageclass.storage.k8s.io/requests.storage", CLAIM, 1 << 30),
    ],
)
def test_object_uses_what_its_spec_asks_for(limit: str, obj: dict[str, Any], use: int) -> None:
    assert use_of(limit, obj) == use


def test_quota_with_scopes_limits_no_other_objects() -> None:
    quota = {"spec": {"hard": {"services": "2", "pods": "3"}}}
    assert object_limits(quota) == {"services": 2}
    assert object_limits({"spec": {**quota["spec"], "scopes": ["BestEffort"]}}) == {}
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}
    assert object_limits({"spec": {**quota["spec"], "scopeSelector": selector}}) == {}
