"""Schema keywords and CEL rules that several kinds share."""

import re

import pytest

from trimtab.api.schema import rule_parts


@pytest.mark.parametrize(
    ("pattern", "valid", "invalid"),
    [
        (rule_parts.LABEL_PATTERN, ("a", "a-b", "0"), ("", "-a", "a-", "A", "a.b")),
        (rule_parts.QUALIFIED_NAME_PATTERN, ("app", "x.io/App_1", "a.b-c/d"), ("", "/a", "X.io/a", "a/b/c", "-a")),
        (rule_parts.LABEL_VALUE["pattern"], ("", "a", "A_b.c"), ("-", "a-", "a b")),
        (rule_parts.JSON_POINTER["pattern"], ("", "/a/b", "/a~1b~0"), ("a", "/a~", "/~2")),
    ],
)
def test_patterns_accept_what_kubernetes_accepts(
    pattern: str, valid: tuple[str, ...], invalid: tuple[str, ...]
) -> None:
    assert all(re.search(pattern, text) for text in valid)
    assert not any(re.search(pattern, text) for text in invalid)


def test_selector_is_checked_in_all_its_parts() -> None:
    found = rule_parts.selector_validation("spec.selector")
    assert sorted(found) == [
        "spec.selector.matchExpressions.*",
        "spec.selector.matchExpressions.*.key",
        "spec.selector.matchExpressions.*.values.*",
        "spec.selector.matchLabels.*",
    ]
    with_values, without = found["spec.selector.matchExpressions.*"]["anyOf"]
    assert with_values["required"] == ["values"]
    assert without["properties"]["values"] == {"maxItems": 0}


def test_rules_keep_their_order_and_messages() -> None:
    assert rule_parts.cel_rules(("a", "one"), ("b", "two")) == {
        "x-kubernetes-validations": [{"rule": "a", "message": "one"}, {"rule": "b", "message": "two"}]
    }
    assert rule_parts.cel_rule("a", "one") == rule_parts.cel_rules(("a", "one"))
