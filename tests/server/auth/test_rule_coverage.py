"""Comparison of granted rules with held ones."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties.hypothesis_settings import example_settings
from server.rbac_objects import EVERYTHING, rule
from trimtab.server.auth import rule_coverage
from trimtab.server.auth.authorize import Action, rule_allows
from trimtab.server.auth.rule_coverage import TooManyCombinations, missing_actions

VERBS, GROUPS = ("get", "list", "x"), ("", "apps", "y")
RESOURCES = ("pods", "pods/log", "secrets", "secrets/log", "z")
NAMES = ("", "a", "b")
PATHS = ("/api", "/api/v1", "/healthz", "/")


def some(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)


resource_rules = st.fixed_dictionaries(
    {
        "verbs": some("get", "list", "*"),
        "apiGroups": some("", "apps", "*"),
        "resources": some("pods", "pods/log", "*/log", "secrets", "*"),
        "resourceNames": st.one_of(st.just([]), some("a", "b")),
    }
)
path_rules = st.fixed_dictionaries(
    {"verbs": some("get", "head", "*"), "nonResourceURLs": some("/api", "/api/*", "/healthz", "*", "/*")}
)
rules = st.lists(st.one_of(resource_rules, path_rules), max_size=3)


def all_actions() -> list[Action]:
    found = [Action(verb, path=path) for verb, path in product((*VERBS, "head"), PATHS)]
    for verb, group, resource, name in product(VERBS, GROUPS, RESOURCES, NAMES):
        parent, _, subresource = resource.partition("/")
        found.append(Action(verb, group, parent, subresource, "", name))
    return found


@example_settings(300)
@given(rules, rules)
def test_nothing_is_missing_only_if_every_action_is_held(held: list, granted: list) -> None:
    if missing_actions(held, granted):
        return
    for action in all_actions():
        if any(rule_allows(one, action) for one in granted):
            assert any(rule_allows(one, action) for one in held), action


@example_settings(100)
@given(rules)
def test_who_holds_the_rules_or_everything_misses_nothing(granted: list) -> None:
    assert missing_actions(granted, granted) == []
    assert missing_actions(EVERYTHING, granted) == []


def test_several_rules_together_cover_one() -> None:
    held = [rule("get", "pods"), rule("list", "pods"), rule("get list", "secrets")]
    assert missing_actions(held, [rule("get list", "pods secrets")]) == []
    assert missing_actions(held, [rule("get watch", "pods")]) == [Action("watch", "", "pods")]


def test_comparisons_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def count(one: dict, action: Action) -> bool:
        nonlocal compared
        compared += 1
        return rule_allows(one, action)

    monkeypatch.setattr(rule_coverage, "rule_allows", count)
    names = [f"n{i}" for i in range(300)]
    granted = [{"verbs": names, "apiGroups": names, "resources": names, "resourceNames": names}]
    with pytest.raises(TooManyCombinations):
        missing_actions([rule("get", "pods")], granted)
    assert compared <= 200_000
