"""The best policy of a template, and the templates that a changed policy concerns."""

from typing import Any

import pytest
from builders import cluster_policy, deployment, policy
from views import FakeView

from trimtab.api.kinds import native
from trimtab.api.kinds.policy import ResourceSelector
from trimtab.api.selectors import LabelSelector
from trimtab.controllers.propagation import policy_matching
from trimtab.controllers.propagation.detect import templates_of_policy
from trimtab.controllers.propagation.policy_matching import best_policy, specificity_of
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.match import MATCH_ANY, MATCH_BY_NAME, NO_MATCH
from trimtab.registry import discover


def view(*things, raws=(), **more) -> FakeView:
    return FakeView(things, raws=raws, interpreter=Interpreter.of(), **more)


def test_namespaced_policy_wins_over_cluster_wide_policy() -> None:
    wide = cluster_policy(priority=100)
    assert best_policy(deployment(), view(policy(), wide)).name == "pp"
    assert best_policy(deployment(), view(wide)).name == "cpp"


def test_policies_are_ranked_by_priority_then_specificity_then_name() -> None:
    high = policy("z", priority=2)
    named = policy("b", selects="web")
    other = policy("a")
    assert best_policy(deployment(), view(other, named, high)).name == "z"
    assert best_policy(deployment(), view(other, named)).name == "b"
    assert best_policy(deployment(), view(other, policy("c"))).name == "a"


def test_policy_with_many_selectors_and_templates_is_not_compared_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    discover(native)
    compared: list[int] = []
    monkeypatch.setattr(policy_matching, "selector_priority", lambda *_: compared.append(1))
    templates = [deployment(name=f"web-{number}") for number in range(300)]
    by_label = [
        ResourceSelector(
            api_version="apps/v1", kind="Deployment", label_selector=LabelSelector(match_labels={"app": str(number)})
        )
        for number in range(300)
    ]
    many = policy().but(spec=policy().spec.but(resource_selectors=tuple(by_label)))
    keys = list(templates_of_policy(None, many, view(many, raws=templates)))
    assert {key.name for key in keys} == {f"web-{number}" for number in range(300)}
    assert len(keys) == 300
    assert len(compared) <= policy_matching.MAX_COMPARISONS


def test_selectors_for_other_objects_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    priority = policy_matching.policy_priority

    def counting(selectors: Any, obj: Any) -> int:
        compared.append(len(selectors))
        return priority(selectors, obj)

    monkeypatch.setattr(policy_matching, "policy_priority", counting)
    others = [ResourceSelector(api_version="apps/v1", kind="Deployment", name=f"n{number}") for number in range(50)]
    kinds = [ResourceSelector(api_version="v1", kind=f"K{number}") for number in range(50)]
    own = ResourceSelector(api_version="apps/v1", kind="Deployment", name=deployment()["metadata"]["name"])
    many = policy().but(spec=policy().spec.but(resource_selectors=(*others, *kinds)))
    assert specificity_of(many, deployment()) == NO_MATCH
    found = many.but(spec=many.spec.but(resource_selectors=(*others, own, *kinds)))
    assert specificity_of(found, deployment()) == MATCH_BY_NAME
    everything = policy().but(spec=policy().spec.but(resource_selectors=()))
    assert specificity_of(everything, deployment()) == MATCH_ANY
    assert sum(compared) == 1
    named: list[int] = []
    monkeypatch.setattr(policy_matching, "selector_priority", lambda *_: named.append(1))
    list(templates_of_policy(None, found, view(found, raws=[deployment()])))
    assert sum(named) == 1
