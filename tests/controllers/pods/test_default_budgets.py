"""Default budgets for workloads without a budget."""

from typing import Any

import msgspec
import pytest
from pod_builders import pod
from views import FakeView

from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, ReplicationController
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.controllers.contract import RequeueAfter
from trimtab.controllers.pods.default_budgets import Workload, default_budget, default_budget_of_pods, has_custom_owner

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


def replication_controller(replicas: int = 4) -> ReplicationController:
    spec = {"replicas": replicas, "selector": {"app": "web"}, "template": template("")}
    metadata = {"name": "web", "namespace": "default", "uid": "rc"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, ReplicationController)


def default_budget_of(workload: Workload, *others: Any) -> DisruptionBudget:
    (budget,) = default_budget(workload, FakeView([POLICY, *others]))
    assert isinstance(budget, DisruptionBudget)
    return budget


@pytest.mark.parametrize("workload", [deployment(), replication_controller()])
def test_a_workload_without_a_budget_gets_one_that_it_owns(workload: Workload) -> None:
    budget = default_budget_of(workload)
    assert budget.spec.selector is not None
    assert budget.spec.selector.match_labels == {"app": "web"}
    assert (budget.spec.max_unavailable, budget.spec.unhealthy_pod_eviction_policy) == ("50%", "AlwaysAllow")
    (owner,) = budget.metadata.owner_references
    assert owner.uid == workload.metadata.uid


def test_the_limit_follows_the_priority_and_always_allows_a_drain() -> None:
    strict = default_budget_of(deployment(priority="critical")).spec
    assert (strict.max_unavailable, strict.rate and strict.rate.disruptions) == (1, 1)
    assert default_budget_of(deployment(replicas=1)).spec.max_unavailable == 1
    default_class = msgspec.convert(
        {"metadata": {"name": "critical"}, "value": 9, "globalDefault": True}, PriorityClass
    )
    assert default_budget_of(deployment(), default_class).spec.max_unavailable == 1


def test_a_budget_of_a_user_prevents_a_default_budget() -> None:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    own = msgspec.convert({"metadata": {"name": "own", "namespace": "default"}, "spec": spec}, PodDisruptionBudget)
    assert list(default_budget(deployment(), FakeView([POLICY, own]))) == []


GAMES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "games.play.example"},
    "spec": {
        "group": "play.example",
        "scope": "Namespaced",
        "names": {"kind": "Game", "plural": "games"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size",
                        "labelSelectorPath": ".status.selector",
                    }
                },
            }
        ],
    },
}
OWNER = {"apiVersion": "play.example/v1", "kind": "Game", "name": "chess", "uid": "g", "controller": True}


def game(size: int = 4, selector: str = "app=web") -> dict[str, Any]:
    metadata = {"name": "chess", "namespace": "default", "uid": "g"}
    status = {"selector": selector}
    return {
        "apiVersion": "play.example/v1",
        "kind": "Game",
        "metadata": metadata,
        "spec": {"size": size},
        "status": status,
    }


def game_pod(**spec: Any) -> Any:
    return pod("chess-1", on="a", metadata={"ownerReferences": [OWNER]}, **spec)


def budgets_for_pod(raws: list[dict[str, Any]], *others: Any, **spec: Any) -> list[Any]:
    return list(default_budget_of_pods(game_pod(**spec), FakeView([POLICY, *others], raws=raws)))


def test_pods_of_a_scalable_custom_resource_get_a_budget() -> None:
    (budget,) = budgets_for_pod([GAMES, game()])
    assert (budget.name, budget.spec.max_unavailable) == ("chess-game", "50%")
    assert budget.spec.selector.match_labels == {"app": "web"}
    (owner,) = budget.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.uid) == ("play.example/v1", "Game", "g")
    (strict,) = budgets_for_pod([GAMES, game()], priorityClassName="critical")
    assert strict.spec.rate.disruptions == 1
    (alone,) = budgets_for_pod([GAMES, game(size=1)])
    assert alone.spec.max_unavailable == 1
    assert budgets_for_pod([GAMES, game()], budget) == []


def test_a_replica_set_of_a_custom_resource_leads_to_the_same_budget() -> None:
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template("critical")}
    metadata = {"name": "chess-7", "namespace": "default", "uid": "rs", "ownerReferences": [OWNER]}
    replica_set = msgspec.convert({"metadata": metadata, "spec": spec}, ReplicaSet)
    (budget,) = default_budget(replica_set, FakeView([POLICY], raws=[GAMES, game()]))
    assert isinstance(budget, DisruptionBudget)
    assert (budget.name, budget.spec.max_unavailable) == ("chess-game", 1)


def test_the_budget_waits_until_the_custom_resource_reports_its_selector() -> None:
    assert budgets_for_pod([GAMES]) == [RequeueAfter(30.0)]
    assert budgets_for_pod([GAMES, game(selector="")]) == [RequeueAfter(30.0)]
    assert budgets_for_pod([GAMES, game(selector="app=other")]) == [RequeueAfter(30.0)]


def test_custom_resources_without_a_scale_subresource_get_no_budget() -> None:
    (version,) = GAMES["spec"]["versions"]
    plain = {**GAMES, "spec": {**GAMES["spec"], "versions": [{**version, "subresources": {}}]}}
    assert budgets_for_pod([plain, game()]) == []
    assert budgets_for_pod([game()]) == []


def test_only_new_pods_of_custom_resources_are_reconciled() -> None:
    assert has_custom_owner(None, game_pod())
    assert not has_custom_owner(game_pod(), game_pod())
    assert not has_custom_owner(None, pod("bare", owner=""))
    native = {**OWNER, "apiVersion": "apps/v1", "kind": "ReplicaSet"}
    assert not has_custom_owner(None, pod("web-1", metadata={"ownerReferences": [native]}))
