from typing import Any

import msgspec
import pytest

from trimtab.api.kinds.ocm import ManifestCondition, ManifestConfigOption
from trimtab.api.value import Condition
from trimtab.controllers.ocm.feedback import feedback, is_complete, judged, summed_up
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
    return list(judged(config(conditionRules=list(rules)), document, compiler()))


def test_values_have_the_type_they_have_in_the_object() -> None:
    found = feedback(paths(n=".status.succeeded", t=".metadata.name", b=".spec.on", j=".spec.deep"), JOB)
    values = {value.name: value.field_value for value in found.values}
    assert (values["n"].integer, values["t"].string, values["b"].boolean) == (1, "once", True)
    assert (values["j"].type, values["j"].json_raw) == ("JsonRaw", '{"a":[1,2]}')
    assert (found.condition.status, found.condition.reason) == ("True", "StatusFeedbackSynced")


def test_several_values_are_a_list_and_none_is_nothing() -> None:
    found = feedback(paths(all=".spec.deep.a[*]", none=".status.nothing", null=".spec.null"), JOB)
    assert [(value.name, value.field_value.json_raw) for value in found.values] == [("all", "[1,2]")]


def test_a_job_and_a_pod_have_values_that_are_well_known() -> None:
    rule = config(feedbackRules=[{"type": "WellKnownStatus"}])
    found = {value.name: value.field_value for value in feedback(rule, JOB).values}
    assert (found["JobComplete"].string, found["JobSucceeded"].integer) == ("True", 1)
    pod = {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"}}
    assert [(value.name, value.field_value.string) for value in feedback(rule, pod).values] == [("PodPhase", "Running")]


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"type": "WellKnownStatus"}, "is well known"),
        ({"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".spec["}]}, "not closed"),
        ({"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": "..*"}]}, "longer than 1024"),
        ({"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".spec", "version": "v9"}]}, "not matched"),
    ],
)
def test_what_cannot_be_told_is_said(rule: dict[str, Any], complaint: str) -> None:
    odd = {**JOB, "kind": "Odd"}
    said = feedback(config(feedbackRules=[rule]), odd).condition
    assert (said.status, said.reason) == ("False", "StatusFeedbackSyncFailed")
    assert complaint in said.message


def test_a_job_that_is_finished_is_complete() -> None:
    (done,) = conditions(JOB, {"type": "WellKnownConditions"})
    assert (done.type, done.status, done.message) == ("Complete", "True", "Job is finished")
    (going_on,) = conditions({**JOB, "status": {}}, {"type": "WellKnownConditions"})
    assert (going_on.status, going_on.reason, going_on.message) == (
        "False",
        "ConditionRuleEvaluated",
        "Job is not finished",
    )


def test_the_author_may_choose_name_and_words_of_a_well_known_condition() -> None:
    (said,) = conditions(JOB, {"type": "WellKnownConditions", "condition": "Over", "message": "at last"})
    assert (said.type, said.message) == ("Over", "at last")


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
        ({"celExpressions": []}, "Unknown", "Invalid", "well known"),
    ],
)
def test_expressions_make_conditions(rule: dict[str, Any], status: str, reason: str, message: str) -> None:
    (said,) = conditions(JOB, {"type": "CEL", "condition": "X", **rule})
    assert (said.status, said.reason) == (status, f"ConditionRule{reason}")
    assert message in said.message


def test_without_the_evaluator_rules_are_said_to_need_it() -> None:
    rules = config(conditionRules=[{"type": "CEL", "condition": "X", "celExpressions": ["true"]}])
    (said,) = judged(rules, JOB, None)
    assert (said.status, "extra `cel`" in said.message) == ("Unknown", True)


def test_a_work_is_complete_when_all_of_its_objects_are_that_may_be() -> None:
    def item(status: str, reason: str = "ConditionRuleEvaluated") -> ManifestCondition:
        return ManifestCondition(conditions=(Condition(type="Complete", status=status, reason=reason, message="m"),))

    plain = ManifestCondition(conditions=(Condition(type="Applied", status="True", reason="x"),))
    assert [(c.status, c.message) for c in summed_up([item("True"), plain])] == [("True", "m")]
    assert [c.status for c in summed_up([item("True"), item("False"), item("Unknown")])] == ["False"]
    assert [c.status for c in summed_up([item("True"), item("Unknown")])] == ["Unknown"]
    assert list(summed_up([plain, item("True", "SomebodySaysSo")])) == []
    assert is_complete(item("True"))
    assert not is_complete(item("False"))
