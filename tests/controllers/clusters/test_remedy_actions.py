"""The actions of Remedies in the status of clusters."""

from typing import Any

import msgspec
import pytest
from builders import cluster
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.remedy import Remedy
from trimtab.controllers.clusters.remedy_actions import clusters_of_remedy, condition_changed, remedy_actions


def remedy(*, operator: str = "", status: str = "", names: list[str] | None = None, **spec: Any) -> Remedy:
    match = {"conditionType": "Ready", "operator": operator, "conditionStatus": status}
    decisions = [{"clusterConditionMatch": match}] if operator else []
    affinity = {"clusterAffinity": {"clusterNames": names}} if names is not None else {}
    body = {"decisionMatches": decisions, "actions": ["TrafficControl"], **affinity, **spec}
    return msgspec.convert({"metadata": {"name": "r"}, "spec": body}, Remedy)


def actions(subject: Cluster, *remedies: Remedy) -> tuple[str, ...]:
    (after,) = [*remedy_actions(subject, FakeView([subject, *remedies]))] or [subject]
    assert isinstance(after, Cluster)
    return after.status.remedy_actions


@pytest.mark.parametrize(
    ("ready", "operator", "status", "acts"),
    [
        ("False", "Equal", "False", True),
        ("True", "Equal", "False", False),
        ("False", "NotEqual", "True", True),
        ("True", "NotEqual", "True", False),
        ("", "NotEqual", "True", False),
        ("True", "", "", True),
    ],
)
def test_actions_follow_the_conditions(ready: str, operator: str, status: str, acts: bool) -> None:
    found = actions(cluster("m1", ready=ready), remedy(operator=operator, status=status))
    assert found == (("TrafficControl",) if acts else ())


def test_actions_end_with_the_remedy() -> None:
    before = cluster("m1")
    treated = before.but(status=before.status.but(remedy_actions=("TrafficControl",)))
    assert actions(treated) == ()
    assert actions(treated, remedy(names=["m2"])) == ()


def test_a_remedy_of_a_cluster_reconciles_only_that_cluster() -> None:
    one, two = cluster("m1"), cluster("m2")
    view = FakeView([one, two])
    assert list(clusters_of_remedy(None, remedy(names=["m2"]), view)) == [key_of(two)]
    assert list(clusters_of_remedy(remedy(names=["m2"]), remedy(), view)) == [key_of(one), key_of(two)]
    assert list(clusters_of_remedy(remedy(), remedy(), view)) == []


def test_only_a_changed_condition_reconciles_the_cluster() -> None:
    assert condition_changed(cluster("m1"), cluster("m1", ready="False"))
    assert not condition_changed(cluster("m1"), cluster("m1"))
