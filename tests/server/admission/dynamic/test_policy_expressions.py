"""Expressions of admission policies are compiled when the policy is written."""

from typing import Any

import pytest

from trimtab.server.admission.dynamic.policy_expressions import PolicyExpressions, policy_validator

pytest.importorskip("cel_expr_python")
validate = policy_validator(PolicyExpressions())


def faults(**spec: Any) -> list[tuple[str, str]]:
    return [(cause.field, cause.message) for cause in validate({"spec": spec}, None)]


def test_expressions_over_earlier_variables_and_parameters_are_accepted() -> None:
    assert (
        faults(
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            matchConditions=[{"name": "a", "expression": "request.operation == 'CREATE'"}],
            variables=[
                {"name": "limit", "expression": "int(params.data.limit)"},
                {"name": "twice", "expression": "variables.limit * 2"},
            ],
            validations=[
                {"expression": "object.spec.replicas < variables.twice", "messageExpression": "'most ' + string(2)"}
            ],
            auditAnnotations=[{"key": "a", "valueExpression": "'text'"}, {"key": "b", "valueExpression": "null"}],
        )
        == []
    )


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (
            {"validations": [{"expression": "object.x =="}]},
            "spec.validations[0].expression",
            "compilation failed: ERROR: <input>:1:12: Syntax error",
        ),
        (
            {"validations": [{"expression": "'a'"}]},
            "spec.validations[0].expression",
            "must evaluate to bool but got string",
        ),
        (
            {"validations": [{"expression": "foo == 1"}]},
            "spec.validations[0].expression",
            "undeclared reference to 'foo'",
        ),
        (
            {"validations": [{"expression": "params.x == 1"}]},
            "spec.validations[0].expression",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            "spec.validations[0].messageExpression",
            "must evaluate to string but got int",
        ),
        (
            {"variables": [{"name": "b", "expression": "variables.a + 1"}, {"name": "a", "expression": "1"}]},
            "spec.variables[0].expression",
            "compilation failed: ERROR: <input>:1:10: undefined field 'a'",
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "1"}]},
            "spec.matchConditions[0].expression",
            "must evaluate to bool but got int",
        ),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "1"}]},
            "spec.auditAnnotations[0].valueExpression",
            "must evaluate to one of [string null_type] but got int",
        ),
    ],
)
def test_expression_that_does_not_compile_is_refused(spec: dict[str, Any], field: str, message: str) -> None:
    ((found, text),) = faults(**spec)
    assert found == field
    assert message in text


def test_policy_that_was_stored_before_its_expressions_were_checked_still_gets_its_status() -> None:
    policy = {"spec": {"validations": [{"expression": "object.x =="}]}}
    assert validate({**policy, "status": {}}, policy) == []
