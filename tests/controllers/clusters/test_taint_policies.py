"""Taints that ClusterTaintPolicies add and remove by conditions."""

from typing import Any

import msgspec
import pytest
from builders import NOON, cluster
from views import FakeView

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.taint_policy import ClusterTaintPolicy
from trimtab.controllers.clusters.taint_policies import clusters_of_policy, condition_changed, taint_policies
from trimtab.controllers.contract import RecordEvent

NOT_READY = [{"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}]
READY = [{"conditionType": "Ready", "operator": "NotIn", "statusValues": ["False", "Unknown"]}]


def policy(**spec: Any) -> ClusterTaintPolicy:
    taints = [{"key": "broken", "effect": "NoExecute"}]
    body = {"addOnConditions": NOT_READY, "removeOnConditions": READY, "taints": taints, **spec}
    return msgspec.convert({"metadata": {"name": "p"}, "spec": body}, ClusterTaintPolicy)


def taints_after(subject: Cluster, *policies: ClusterTaintPolicy, **options: Any) -> list[tuple[str, str]]:
    effects = list(taint_policies(subject, FakeView([subject, *policies], **options)))
    after = next((effect for effect in effects if isinstance(effect, Cluster)), subject)
    events = [effect.reason for effect in effects if isinstance(effect, RecordEvent)]
    assert events == (["TaintClusterSucceed"] if after != subject else [])
    return [(taint.key, taint.effect) for taint in after.spec.taints]


@pytest.mark.parametrize(
    ("ready", "before", "after"),
    [
        ("False", (), [("broken", "NoExecute")]),
        ("True", ("broken:NoExecute",), []),
        ("False", ("broken:NoExecute",), [("broken", "NoExecute")]),
        ("True", ("mine:NoExecute",), [("mine", "NoExecute")]),
        ("", (), []),
    ],
)
def test_taints_follow_the_conditions(ready: str, before: tuple[str, ...], after: list[tuple[str, str]]) -> None:
    assert taints_after(cluster("m1", *before, ready=ready), policy()) == after


def test_an_added_taint_has_the_time_of_the_reconcile() -> None:
    subject = cluster("m1", ready="False")
    (after, _) = taint_policies(subject, FakeView([subject, policy()]))
    assert isinstance(after, Cluster)
    assert after.spec.taints[0].time_added == NOON


def test_a_policy_without_conditions_changes_nothing() -> None:
    empty = policy(addOnConditions=[], removeOnConditions=[])
    assert taints_after(cluster("m1", "broken:NoExecute", ready="False"), empty) == [("broken", "NoExecute")]
    assert taints_after(cluster("m1", ready="False"), empty) == []


def test_a_policy_applies_only_to_its_target_clusters() -> None:
    elsewhere = policy(targetClusters={"clusterNames": ["m2"]})
    assert taints_after(cluster("m1", ready="False"), elsewhere) == []


def test_nothing_is_tainted_when_failover_is_disabled() -> None:
    assert taints_after(cluster("m1", ready="False"), policy(), settings={"failover": False}) == []


def test_only_changed_conditions_and_changed_policies_wake_clusters() -> None:
    assert condition_changed(cluster("m1"), cluster("m1", ready="False"))
    assert not condition_changed(cluster("m1"), cluster("m1", "x:NoExecute"))
    view = FakeView([cluster("m1")])
    assert [key.name for key in clusters_of_policy(None, policy(), view)] == ["m1"]
    assert list(clusters_of_policy(policy(), policy(), view)) == []
