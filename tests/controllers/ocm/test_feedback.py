from typing import Any

import msgspec
import pytest

from trimtab.api.kinds.ocm_work import ManifestCondition, ManifestConfigOption
from trimtab.api.value import Condition
from trimtab.controllers.ocm.feedback import (
    aggregate_rule_conditions,
    evaluate_condition_rules,
    is_complete,
    read_feedback,
)
from trimtab.interpret.cel.expressions import compiler

JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "once"},
    "spec": {"big": "x" * 2000, "deep": {"a": [1, 2]}, "on": True},
    "status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]},
}


def config(**fields: Any) -> list[ManifestConfigOption]:
    return [msgspec.convert(fields, ManifestConfigOption, strict=False)]


def paths(**named: str) -> list[ManifestConfigOption]:
    listed = [{"name": name, "path": path} for name, path in named.items()]
    return config(feedbackRules=[{"type": "JSONPaths", "jsonPaths": listed}])


def conditions(document: dict[str, Any], *rules: dict[str, Any]) -> list[Condition]:
    return list(evaluate_condition_rules(config(conditionRules=list(rules)), document, compiler()))


def test_values_keep_their_type() -> None:
    found = read_feedback(paths(n=".status.succeeded", t=".metadata.name", b=".spec.on", j=".spec.deep"), JOB)
    values = {value.name: value.field_value for value in found.values}
    assert (values["n"].integer, values["t"].string, values["b"].boolean) == (1, "once", True)
    assert (values["j"].type, values["j"].json_raw) == ("JsonRaw", '{"a":[1,2]}')
    assert (found.condition.status, found.condition.reason) == ("True", "StatusFeedbackSynced")


def test_several_values_are_a_list_and_missing_values_are_omitted() -> None:
    found = read_feedback(paths(all=".spec.deep.a[*]", none=".status.nothing", null=".spec.null"), JOB)
    assert [(value.name, value.field_value.json_raw) for value in found.values] == [("all", "[1,2]")]


def test_well_known_values_of_jobs_and_pods() -> None:
    rule = config(feedbackRules=[{"type": "WellKnownStatus"}])
    found = {value.name: value.field_value for value in read_feedback(rule, JOB).values}
    assert (found["JobComplete"].string, found["JobSucceeded"].integer) == ("True", 1)
    pod = {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"}}
    assert [(value.name, value.field_value.string) for value in read_feedback(rule, pod).values] == [
        ("PodPhase", "Running")
    ]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"type": "WellKnownStatus"}, "has no well-known status"),
        ({"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".spec["}]}, "unclosed bracket"),
        ({"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": "..*"}]}, "longer than 1024"),
        ({"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".spec", "version": "v9"}]}, "not matched"),
    ],
)
def test_unreadable_feedback_is_reported(rule: dict[str, Any], problem: str) -> None:
    odd = {**JOB, "kind": "Odd"}
    condition = read_feedback(config(feedbackRules=[rule]), odd).condition
    assert (condition.status, condition.reason) == ("False", "StatusFeedbackSyncFailed")
    assert problem in condition.message


def test_finished_job_is_complete() -> None:
    (done,) = conditions(JOB, {"type": "WellKnownConditions"})
    assert (done.type, done.status, done.message) == ("Complete", "True", "Job is finished")
    (unfinished,) = conditions({**JOB, "status": {}}, {"type": "WellKnownConditions"})
    assert (unfinished.status, unfinished.reason, unfinished.message) == (
        "False",
        "ConditionRuleEvaluated",
        "Job is not finished",
    )


def test_rule_may_set_type_and_message_of_a_well_known_condition() -> None:
    (condition,) = conditions(JOB, {"type": "WellKnownConditions", "condition": "Over", "message": "at last"})
    assert (condition.type, condition.message) == ("Over", "at last")


@pytest.mark.parametrize(
    ("rule", "status", "reason", "message"),
    [
        ({"celExpressions": ["true", "object.spec.on"]}, "True", "Evaluated", "Manifest is X"),
        ({"celExpressions": ["true", "!object.spec.on"]}, "False", "Evaluated", "Manifest is not X"),
        ({"celExpressions": ["true"], "message": "m", "messageExpression": "''"}, "True", "Evaluated", "m"),
        ({"celExpressions": ["true"], "messageExpression": "string(result)"}, "True", "Evaluated", "true"),
        ({"celExpressions": ["object.nosuch"]}, "False", "ExpressionError", "nosuch"),
        ({"celExpressions": ["object.spec"]}, "False", "ExpressionError", "expected bool"),
        ({"celExpressions": ["object."]}, "False", "ExpressionError", "Syntax error"),
        ({"celExpressions": ["true"], "messageExpression": "nosuch"}, "True", "Evaluated", "undeclared reference"),
        ({"celExpressions": []}, "Unknown", "Invalid", "well-known"),
    ],
)
def test_cel_rules_produce_conditions(rule: dict[str, Any], status: str, reason: str, message: str) -> None:
    (condition,) = conditions(JOB, {"type": "CEL", "condition": "X", **rule})
    assert (condition.status, condition.reason) == (status, f"ConditionRule{reason}")
    assert message in condition.message


def test_missing_cel_evaluator_is_reported() -> None:
    rules = config(conditionRules=[{"type": "CEL", "condition": "X", "celExpressions": ["true"]}])
    (condition,) = evaluate_condition_rules(rules, JOB, None)
    assert (condition.status, "extra `cel`" in condition.message) == ("Unknown", True)


def test_aggregated_condition_is_the_worst_of_the_objects() -> None:
    def item(status: str, reason: str = "ConditionRuleEvaluated") -> ManifestCondition:
        return ManifestCondition(conditions=(Condition(type="Complete", status=status, reason=reason, message="m"),))

    plain = ManifestCondition(conditions=(Condition(type="Applied", status="True", reason="x"),))
    assert [(c.status, c.message) for c in aggregate_rule_conditions([item("True"), plain])] == [("True", "m")]
    assert [c.status for c in aggregate_rule_conditions([item("True"), item("False"), item("Unknown")])] == ["False"]
    assert [c.status for c in aggregate_rule_conditions([item("True"), item("Unknown")])] == ["Unknown"]
    assert list(aggregate_rule_conditions([plain, item("True", "SomebodySaysSo")])) == []
    assert is_complete(item("True"))
    assert not is_complete(item("False"))
