"""What kube-apiserver rejects in ValidatingAdmissionPolicies and their bindings."""

from typing import Any

import pytest

from trimtab.api.kinds.native.rules.admission_policies import check_binding, check_policy

RULE = {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
POLICY = {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [RULE]}}
BINDING = {"policyName": "limits", "validationActions": ["Deny"]}


def policy_fields(**changes: Any) -> list[str]:
    return [cause.field for cause in check_policy({"metadata": {"name": "p"}, "spec": {**POLICY, **changes}}, None)]


def binding_fields(**changes: Any) -> list[str]:
    return [cause.field for cause in check_binding({"spec": {**BINDING, **changes}}, None)]


def test_valid_ones_have_no_fault() -> None:
    assert policy_fields(failurePolicy="Ignore", variables=[{"name": "limit", "expression": "1"}]) == []
    assert policy_fields(validations=[], auditAnnotations=[{"key": "a", "valueExpression": "'x'"}]) == []
    assert binding_fields(paramRef={"name": "limits", "parameterNotFoundAction": "Deny"}) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"validations": []}, ["spec.validations", "spec.auditAnnotations"]),
        ({"matchConstraints": None}, ["spec.matchConstraints.resourceRules"]),
        ({"failurePolicy": "Maybe"}, ["spec.failurePolicy"]),
        ({"paramKind": {"kind": "Limits"}}, ["spec.paramKind.apiVersion"]),
        ({"validations": [{"expression": " "}]}, ["spec.validations[0].expression"]),
        ({"validations": [{"expression": "true", "reason": "Because"}]}, ["spec.validations[0].reason"]),
        ({"variables": [{"name": "1st", "expression": "1"}]}, ["spec.variables[0].name"]),
        ({"variables": [{"name": "first", "expression": ""}]}, ["spec.variables[0].expression"]),
        ({"validations": [{"expression": "true", "message": " "}]}, ["spec.validations[0].message"]),
        ({"validations": [{"expression": "true", "message": "a\nb"}]}, ["spec.validations[0].message"]),
        ({"paramKind": {"apiVersion": "x/y/z", "kind": "Limits"}}, ["spec.paramKind.apiVersion"]),
        (
            {"matchConstraints": {"resourceRules": [RULE], "matchPolicy": "Foo"}},
            ["spec.matchConstraints.matchPolicy"],
        ),
        (
            {"matchConstraints": {"resourceRules": [{**RULE, "resources": []}]}},
            ["spec.matchConstraints.resourceRules[0].resources"],
        ),
        ({"matchConditions": [{"name": "a", "expression": ""}]}, ["spec.matchConditions[0].expression"]),
        ({"auditAnnotations": [{"key": "a/b", "valueExpression": "'x'"}]}, ["spec.auditAnnotations[0].key"]),
        ({"auditAnnotations": [{"key": "a"}]}, ["spec.auditAnnotations[0].valueExpression"]),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "'x'"}] * 2},
            ["spec.auditAnnotations[1].key"],
        ),
    ],
)
def test_faults_of_policies(changes: dict[str, Any], expected: list[str]) -> None:
    assert policy_fields(**changes) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"policyName": ""}, ["spec.policyName"]),
        ({"validationActions": []}, ["spec.validationActions"]),
        ({"validationActions": ["Refuse"]}, ["spec.validationActions[0]"]),
        ({"validationActions": ["Deny", "Warn"]}, ["spec.validationActions"]),
        ({"paramRef": {"parameterNotFoundAction": "Deny"}}, ["spec.paramRef"]),
        (
            {"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}},
            ["spec.paramRef.name", "spec.paramRef.selector"],
        ),
        (
            {"paramRef": {"name": "a", "parameterNotFoundAction": "Maybe"}},
            ["spec.paramRef.parameterNotFoundAction"],
        ),
        ({"validationActions": ["Deny", "Deny"]}, ["spec.validationActions[1]"]),
        ({"matchResources": {"matchPolicy": "Foo"}}, ["spec.matchResources.matchPolicy"]),
        ({"paramRef": {"name": "a"}}, ["spec.paramRef.parameterNotFoundAction"]),
    ],
)
def test_faults_of_bindings(changes: dict[str, Any], expected: list[str]) -> None:
    assert binding_fields(**changes) == expected
