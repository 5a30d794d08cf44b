"""What kube-apiserver rejects in ValidatingAdmissionPolicies and their bindings."""

from typing import Any

import pytest

from trimtab.api.kinds.native.rules.admission_policies import check_binding, check_policy

POLICY = {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [{}]}}
BINDING = {"policyName": "limits", "validationActions": ["Deny"]}


def policy_fields(**changes: Any) -> list[str]:
    return [cause.field for cause in check_policy({"spec": {**POLICY, **changes}}, None)]


def binding_fields(**changes: Any) -> list[str]:
    return [cause.field for cause in check_binding({"spec": {**BINDING, **changes}}, None)]


def test_valid_ones_have_no_fault() -> None:
    assert policy_fields(failurePolicy="Ignore", variables=[{"name": "limit"}]) == []
    assert policy_fields(validations=[], auditAnnotations=[{"key": "a"}]) == []
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
        ({"variables": [{"name": "1st"}]}, ["spec.variables[0].name"]),
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
        ({"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}}, ["spec.paramRef"]),
        ({"paramRef": {"name": "a"}}, ["spec.paramRef.parameterNotFoundAction"]),
    ],
)
def test_faults_of_bindings(changes: dict[str, Any], expected: list[str]) -> None:
    assert binding_fields(**changes) == expected
