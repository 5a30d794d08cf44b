from typing import Any

import msgspec
import pytest
from views import FakeView

from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.native.apps import Deployment, ReplicationController
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.controllers.pods.defaults import Workload, default_budget

DEFAULTS = [
    {"priorityClassName": "critical", "maxUnavailable": 1, "rate": {"disruptions": 1, "period": "1h"}},
    {"maxUnavailable": "50%"},
]
POLICY = msgspec.convert({"metadata": {"name": "default"}, "spec": {"defaultBudgets": DEFAULTS}}, DisruptionPolicy)


def template(priority: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"priorityClassName": priority, "containers": []}}


def deployment(replicas: int = 4, priority: str = "") -> Deployment:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(priority)}
    return msgspec.convert({"metadata": {"name": "web", "namespace": "default", "uid": "d"}, "spec": spec}, Deployment)


def old_controller(replicas: int = 4) -> ReplicationController:
    spec = {"replicas": replicas, "selector": {"app": "web"}, "template": template("")}
    metadata = {"name": "web", "namespace": "default", "uid": "rc"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, ReplicationController)


def made(workload: Workload, *others: Any) -> DisruptionBudget:
    (budget,) = default_budget(workload, FakeView([POLICY, *others]))
    assert isinstance(budget, DisruptionBudget)
    return budget


@pytest.mark.parametrize("workload", [deployment(), old_controller()])
def test_a_workload_without_a_budget_gets_one_that_goes_with_it(workload: Workload) -> None:
    budget = made(workload)
    assert budget.spec.selector is not None
    assert budget.spec.selector.match_labels == {"app": "web"}
    assert (budget.spec.max_unavailable, budget.spec.unhealthy_pod_eviction_policy) == ("50%", "AlwaysAllow")
    (owner,) = budget.metadata.owner_references
    assert owner.uid == workload.metadata.uid


def test_it_is_as_strict_as_the_priority_deserves_and_never_undrainable() -> None:
    strict = made(deployment(priority="critical")).spec
    assert (strict.max_unavailable, strict.rate and strict.rate.disruptions) == (1, 1)
    assert made(deployment(replicas=1)).spec.max_unavailable == 1
    usual = msgspec.convert({"metadata": {"name": "critical"}, "value": 9, "globalDefault": True}, PriorityClass)
    assert made(deployment(), usual).spec.max_unavailable == 1


def test_a_user_s_own_budget_makes_it_needless() -> None:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    own = msgspec.convert({"metadata": {"name": "own", "namespace": "default"}, "spec": spec}, PodDisruptionBudget)
    assert list(default_budget(deployment(), FakeView([POLICY, own]))) == []
