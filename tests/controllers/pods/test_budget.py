"""Status of DisruptionBudgets over pods."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from builders import NOON
from pod_builders import pod
from views import FakeView

from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.native.apps import ReplicaSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.controllers.contract import RequeueAfter
from trimtab.controllers.pods.budget import DEFAULT_BUDGET_LABEL, default_budgets_beside, pod_budget, selects_same_pods

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}


def budget(name: str = "b", labels: dict[str, str] | None = None, **spec: Any) -> DisruptionBudget:
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": name, "namespace": "default", "labels": labels or {}, "generation": 1}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"target": "Pods", "selector": selector, **spec}}, DisruptionBudget
    )


def ready_pod(name: str, ready: str = "True") -> Any:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    found = pod(name, on="n1", metadata={"ownerReferences": [OWNER]})
    return found.but(status=msgspec.convert(status, type(found.status)))


def replica_set(replicas: int) -> ReplicaSet:
    return msgspec.convert(
        {"metadata": {"name": "web", "namespace": "default", "uid": "rs"}, "spec": {"replicas": replicas}}, ReplicaSet
    )


def status_of(subject: DisruptionBudget, *things: Any) -> Any:
    (after,) = [e for e in pod_budget(subject, FakeView([subject, *things])) if isinstance(e, DisruptionBudget)]
    return after.status


@pytest.mark.parametrize(("ready", "allowed"), [(3, 1), (2, 0)])
def test_allowed_disruptions_are_ready_pods_beyond_the_limit(ready: int, allowed: int) -> None:
    pods = [ready_pod(f"web-{n}", "True" if n < ready else "False") for n in range(3)]
    status = status_of(budget(maxUnavailable=1), *pods, replica_set(3))
    assert (status.desired, status.available, status.allowed_now) == (3, ready, allowed)


def test_budgets_over_workloads_are_ignored() -> None:
    assert list(pod_budget(budget(target="Workloads", maxUnavailable=1), FakeView())) == []


def test_a_floor_of_the_policy_raises_the_effective_limit() -> None:
    policy = msgspec.convert(
        {"metadata": {"name": "default"}, "spec": {"floors": [{"minMaxUnavailable": 2}]}}, DisruptionPolicy
    )
    pods = [ready_pod(f"web-{n}") for n in range(3)]
    status = status_of(budget(maxUnavailable=0), *pods, replica_set(3), policy)
    assert (status.effective.max_unavailable, status.allowed_now) == (2, 2)


def test_a_used_up_rate_requeues_the_budget_when_its_period_ends() -> None:
    spent = {"rate": {"recent": [{"object": "Pod/x", "at": (NOON - timedelta(seconds=10)).isoformat()}]}}
    subject = budget(rate={"disruptions": 1, "period": "1m"})
    subject = subject.but(status=msgspec.convert(spent, type(subject.status)))
    effects = list(pod_budget(subject, FakeView([subject, ready_pod("web-0"), replica_set(1)])))
    (requeue,) = [effect for effect in effects if isinstance(effect, RequeueAfter)]
    assert 50 < requeue.seconds < 51


def test_a_user_budget_over_the_same_pods_supersedes_the_default() -> None:
    default = budget(labels={DEFAULT_BUDGET_LABEL: "true"})
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"tier": "front"}}}
    own = msgspec.convert({"metadata": {"name": "own", "namespace": "default"}, "spec": spec}, PodDisruptionBudget)
    front = pod("web-1", metadata={"labels": {"app": "web", "tier": "front"}})
    assert selects_same_pods(default, own, [front])
    assert not selects_same_pods(default, own, [front, pod("web-2")])  # a pod that is not selected keeps the default
    assert not selects_same_pods(default, own, [])
    conditions = {c.type: (c.status, c.reason) for c in status_of(default, own, front).conditions}
    assert conditions["Superseded"] == ("True", "HasOtherBudget")
    conditions = {c.type: (c.status, c.reason) for c in status_of(default, own, front, pod("web-2")).conditions}
    assert conditions["Superseded"] == ("False", "NoOtherBudget")


def test_a_new_user_budget_wakes_only_default_budgets() -> None:
    default, own = budget("default", labels={DEFAULT_BUDGET_LABEL: "true"}), budget("own")
    view = FakeView([default, own])
    assert [key.name for key in default_budgets_beside(None, own, view)] == ["default"]
    assert list(default_budgets_beside(None, default, view)) == []
