"""Rules and conditions of webhooks and policies that kube-apiserver 1.32 refuses, with its messages."""

from typing import Any

import pytest

from trimtab.api.kinds.native.rules.match_rules import check_conditions, check_match_policy, check_rule

RULE = {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}


def faults(**changes: Any) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in check_rule({**RULE, **changes}, "rule")]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "scope": "Namespaced"},
        {"resources": ["pods", "pods/status", "*/scale"]},
        {"resources": ["*", "pods/log"], "resourceNames": ["a", "b"]},
    ],
)
def test_valid_rules_are_accepted(changes: dict[str, Any]) -> None:
    assert faults(**changes) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"operations": []}, ["rule.operations: Required value"]),
        (
            {"operations": ["FOO"]},
            [
                (
                    'rule.operations[0]: Unsupported value: "FOO": supported values: '
                    '"*", "CONNECT", "CREATE", "DELETE", "UPDATE"'
                )
            ],
        ),
        (
            {"apiGroups": ["*", "a"]},
            ['rule.apiGroups: Invalid value: ["*","a"]: if \'*\' is present, must not specify other API groups'],
        ),
        (
            {"apiVersions": ["*", "v1"]},
            [('rule.apiVersions: Invalid value: ["*","v1"]: if \'*\' is present, must not specify other API versions')],
        ),
        ({"resources": []}, ["rule.resources: Required value"]),
        ({"resources": [""]}, ["rule.resources[0]: Required value"]),
        (
            {"resources": ["pods/*", "pods/log"]},
            ["rule.resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log"],
        ),
        (
            {"resources": ["*/log", "pods/log"]},
            ["rule.resources[1]: Invalid value: \"pods/log\": if '*/log' is present, must not specify pods/log"],
        ),
        (
            {"resources": ["*", "pods"]},
            [
                (
                    'rule.resources: Invalid value: ["*","pods"]: '
                    "if '*' is present, must not specify other resources without subresources"
                )
            ],
        ),
        (
            {"resources": ["*/*", "pods"]},
            [
                (
                    'rule.resources: Invalid value: ["*/*","pods"]: '
                    "if '*/*' is present, must not specify other resources"
                )
            ],
        ),
        ({"scope": "Foo"}, ['rule.scope: Unsupported value: "Foo": supported values: "*", "Cluster", "Namespaced"']),
        (
            {"resourceNames": ["a", "a", "/"]},
            [
                'rule.resourceNames[1]: Duplicate value: "a"',
                "rule.resourceNames[2]: Invalid value: \"/\": may not contain '/'",
            ],
        ),
    ],
)
def test_invalid_rules_are_refused(changes: dict[str, Any], expected: list[str]) -> None:
    assert faults(**changes) == expected


def test_conditions_have_names_and_expressions() -> None:
    conditions = [
        {"name": "a", "expression": "true"},
        {"name": "a", "expression": "true"},
        {"name": "", "expression": "true"},
        {"name": "b", "expression": " "},
        {"name": "a b", "expression": "true"},
    ]
    found = [cause.field for cause in check_conditions(conditions, "on")]
    assert found == ["on[1].name", "on[2].name", "on[3].expression", "on[4].name"]
    many = [{"name": f"a{number}", "expression": "true"} for number in range(65)]
    assert [c.message for c in check_conditions(many, "on")] == ["Too many: 65: must have at most 64 items"]


def test_match_policy_is_exact_or_equivalent() -> None:
    assert list(check_match_policy(None, "p")) == list(check_match_policy("Exact", "p")) == []
    assert [c.field for c in check_match_policy("Foo", "p")] == ["p"]
