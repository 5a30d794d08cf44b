"""PodDisruptionBudgets below DisruptionBudgets, for API servers that know only the former."""

from typing import Any

import msgspec
from pod_builders import pod
from views import FakeView

from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.controllers.contract import Delete, Effect
from trimtab.controllers.pods.budget import FLOOR_LABEL, user_budgets_beside
from trimtab.controllers.pods.budget_floor import pod_budget_floor

WEB = pod("web-1", labels={"app": "web"})


def budget(name: str = "web", **spec: Any) -> DisruptionBudget:
    spec = {"target": "Pods", "selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1, **spec}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "default", "uid": "u"}, "spec": spec}, DisruptionBudget
    )


def foreign(name: str = "theirs", **labels: str) -> PodDisruptionBudget:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return msgspec.convert({"metadata": metadata, "spec": spec}, PodDisruptionBudget)


def effects_of(one: DisruptionBudget, *others: Any, floors: bool = True) -> list[Effect]:
    return list(pod_budget_floor(one, FakeView([one, WEB, *others], settings={"pod-budget-floors": floors})))


def floor_of(one: DisruptionBudget, *others: Any) -> PodDisruptionBudget:
    (floor,) = effects_of(one, *others)
    assert isinstance(floor, PodDisruptionBudget)
    return floor


def test_budget_with_a_limit_gets_a_floor_that_it_owns() -> None:
    floor = floor_of(budget(maxUnavailable="20%"))
    assert (floor.name, floor.spec.max_unavailable, floor.spec.min_available) == ("web", "20%", None)
    assert floor.spec.selector == budget().spec.selector
    assert [owner.uid for owner in floor.metadata.owner_references] == ["u"]


def test_there_is_no_floor_without_the_setting_a_limit_or_pods() -> None:
    assert effects_of(budget(), floors=False) == []
    assert effects_of(budget(maxUnavailable=None, rate={"disruptions": 1, "period": "1h"})) == []
    assert effects_of(budget(target="Workloads")) == []


def test_there_is_no_second_budget_for_a_pod() -> None:
    assert effects_of(budget(), foreign()) == []
    assert effects_of(budget("web"), budget("a-first")) == []


def test_floor_is_removed_when_a_user_creates_a_budget() -> None:
    own = floor_of(budget())
    assert effects_of(budget(), own, foreign()) == [Delete(own)]


def test_floor_follows_the_limit_and_budgets_of_others_are_not_changed() -> None:
    own = floor_of(budget())
    (changed,) = effects_of(budget(maxUnavailable=2), own)
    assert isinstance(changed, PodDisruptionBudget)
    assert changed.spec.max_unavailable == 2
    assert effects_of(budget(), own) == []
    assert effects_of(budget(), foreign("web")) == []


def test_floor_does_not_supersede_a_default_budget() -> None:
    view = FakeView([budget(), foreign("web", **{FLOOR_LABEL: "web"}), foreign()])
    assert [one.name for one in user_budgets_beside(budget(), view)] == ["theirs", "web"]
