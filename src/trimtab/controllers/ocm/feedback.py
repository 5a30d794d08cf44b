"""Status feedback of a ManifestWork: values read by path, and conditions evaluated by rules."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from trimtab.api.jsonpath import InvalidJSONPath, find_values
from trimtab.api.kinds.ocm_work import (
    FeedbackRule,
    FeedbackValue,
    FieldValue,
    JsonPath,
    ManifestCondition,
    ManifestConditionRule,
    ManifestConfigOption,
)
from trimtab.api.value import Condition, Raw
from trimtab.interpret.cel.expressions import Evaluator, ExpressionError

COMPLETE = "Complete"
RULE_REASON_PREFIX = "ConditionRule"
"""The prefix of the reason of every condition that a rule produced."""
CEL_MISSING_MESSAGE = "rules need the extra `cel` of Trimtab: pip install 'trimtab[cel]'"
_MAX_JSON_LENGTH = 1024
_WELL_KNOWN_VALUES: dict[tuple[str, str], dict[str, str]] = {
    ("apps/v1", "Deployment"): {
        "ReadyReplicas": ".status.readyReplicas",
        "Replicas": ".status.replicas",
        "AvailableReplicas": ".status.availableReplicas",
    },
    ("batch/v1", "Job"): {
        "JobComplete": '.status.conditions[?(@.type=="Complete")].status',
        "JobSucceeded": ".status.succeeded",
    },
    ("v1", "Pod"): {
        "PodReady": '.status.conditions[?(@.type=="Ready")].status',
        "PodPhase": ".status.phase",
    },
}
_WELL_KNOWN_COMPLETION: dict[tuple[str, str], ManifestConditionRule] = {
    ("batch/v1", "Job"): ManifestConditionRule(
        cel_expressions=(
            "hasConditions(object.status)",
            "object.status.conditions.exists(c, c.type in ['Complete', 'Failed'] && c.status == 'True')",
        ),
        message_expression="result ? 'Job is finished' : 'Job is not finished'",
    ),
    ("v1", "Pod"): ManifestConditionRule(
        cel_expressions=("object.status.phase in ['Succeeded', 'Failed']",),
        message_expression="'Pod is in phase ' + object.status.phase",
    ),
}


class Feedback(NamedTuple):
    """The values that were found, and the condition that says whether all could be read."""

    values: tuple[FeedbackValue, ...]
    condition: Condition


def read_feedback(configs: Iterable[ManifestConfigOption], document: Raw) -> Feedback:
    rules = [rule for config in configs for rule in config.feedback_rules]
    values: dict[str, FeedbackValue] = {}
    problems: list[str] = []
    for rule in rules:
        for path in paths_of(rule, document, problems):
            try:
                value = value_at(path, document)
            except InvalidJSONPath as fault:
                problems.append(str(fault))
            else:
                values.update({path.name: value} if value is not None else {})
    reason = "StatusFeedbackSynced" if rules else "NoStatusFeedbackSynced"
    condition = Condition(type="StatusFeedbackSynced", status="True", reason=reason)
    if problems:
        message = f"Sync status feedback failed with error {'; '.join(problems)}"
        condition = condition.but(status="False", reason="StatusFeedbackSyncFailed", message=message)
    return Feedback(tuple(values.values()), condition)


def paths_of(rule: FeedbackRule, document: Raw, problems: list[str]) -> Iterator[JsonPath]:
    version = document["apiVersion"].rpartition("/")[2]
    if rule.type != "WellKnownStatus":
        for path in rule.json_paths:
            if path.version and path.version != version:
                problems.append(f"version set in the path {path.name} is not matched for the related resource")
            else:
                yield path
        return
    known = _WELL_KNOWN_VALUES.get((document["apiVersion"], document["kind"]))
    if known is None:
        problems.append(f"{document['apiVersion']} {document['kind']} has no well-known status")
    for name, expression in (known or {}).items():
        yield JsonPath(name=name, path=expression)


def value_at(path: JsonPath, document: Raw) -> FeedbackValue | None:
    """One value as it is, several as a list; `None` if there is none. Raises BadPath."""
    found = find_values(document, path.path)
    value = found[0] if len(found) == 1 else found
    if value is None or not found:
        return None
    return FeedbackValue(name=path.name, field_value=field_value(value, path.name))


def field_value(value: Any, name: str) -> FieldValue:
    if isinstance(value, bool):
        return FieldValue(type="Boolean", boolean=value)
    if isinstance(value, int):
        return FieldValue(type="Integer", integer=value)
    if isinstance(value, str):
        return FieldValue(type="String", string=value)
    text = orjson.dumps(value).decode()
    if len(text) > _MAX_JSON_LENGTH:
        raise InvalidJSONPath(f"the value of {name} is longer than {_MAX_JSON_LENGTH} characters")
    return FieldValue(type="JsonRaw", json_raw=text)


def evaluate_condition_rules(
    configs: Iterable[ManifestConfigOption], document: Raw, cel: Evaluator | None
) -> Iterator[Condition]:
    """The conditions that the condition rules produce for an object."""
    for config in configs:
        for rule in config.condition_rules:
            yield _evaluate_rule(_with_well_known_expressions(rule, document), document, cel)


def _with_well_known_expressions(rule: ManifestConditionRule, document: Raw) -> ManifestConditionRule:
    """A well-known rule with the CEL expressions it stands for; what the rule sets itself takes precedence."""
    if rule.type == "CEL":
        return rule
    known = _WELL_KNOWN_COMPLETION.get((document["apiVersion"], document["kind"]))
    expressions = known.cel_expressions if known is not None else ()
    message = rule.message_expression or ("" if rule.message or known is None else known.message_expression)
    return rule.but(condition=rule.condition or COMPLETE, cel_expressions=expressions, message_expression=message)


def _evaluate_rule(rule: ManifestConditionRule, document: Raw, cel: Evaluator | None) -> Condition:
    condition = Condition(type=rule.condition, status="Unknown", reason="ConditionRuleInvalid")
    if cel is None:
        return condition.but(message=CEL_MISSING_MESSAGE)
    if not rule.cel_expressions:
        return condition.but(message=f"{document['apiVersion']} {document['kind']} has no well-known condition")
    try:
        holds = all(_is_true(text, document, cel) for text in rule.cel_expressions)
    except ExpressionError as fault:
        return condition.but(status="False", reason="ConditionRuleExpressionError", message=str(fault))
    status = "True" if holds else "False"
    return condition.but(
        status=status, reason="ConditionRuleEvaluated", message=_message(rule, document, cel, holds=holds)
    )


def _is_true(text: str, document: Raw, cel: Evaluator) -> bool:
    result = cel.value(text, {"object": document})
    if not isinstance(result, bool):
        raise ExpressionError(f"expected bool result, got {result!r}")
    return result


def _message(rule: ManifestConditionRule, document: Raw, cel: Evaluator, *, holds: bool) -> str:
    if rule.message_expression:
        try:
            message = cel.value(rule.message_expression, {"object": document, "result": holds})
        except ExpressionError as fault:
            return str(fault).partition("\n | ")[0]
        if not isinstance(message, str):
            return "expected message expression to have a string result"
        if message:
            return message
    return rule.message or f"Manifest is {'' if holds else 'not '}{rule.condition}"


def is_from_rule(condition: Condition) -> bool:
    return condition.reason.startswith(RULE_REASON_PREFIX)


def is_complete(item: ManifestCondition) -> bool:
    return any(one.type == COMPLETE and one.status == "True" and is_from_rule(one) for one in item.conditions)


def aggregate_rule_conditions(items: Sequence[ManifestCondition]) -> Iterator[Condition]:
    """For each type of condition that rules produced: whether it is true for all objects that have it."""
    by_type: dict[str, list[Condition]] = {}
    for item in items:
        for one in item.conditions:
            if is_from_rule(one):
                by_type.setdefault(one.type, []).append(one)
    for type_, found in by_type.items():
        worst = next((s for s in ("False", "Unknown") if any(one.status == s for one in found)), "True")
        count = sum(one.status == worst for one in found)
        message = found[0].message if len(found) == 1 else f"{count} of {len(found)} manifests have {type_} {worst}"
        yield Condition(type=type_, status=worst, reason="ConditionRulesAggregated", message=message)
