"""CEL rules of custom resources."""

import pytest

from trimtab.api.schema.structural import CelError
from trimtab.server.registry.cel_rules import rule_evaluator

pytest.importorskip("cel_expr_python")
SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}, "share": {"type": "number"}}}


@pytest.mark.parametrize(
    ("expression", "value", "result"),
    [
        ("self.size <= 3", {"size": 3}, True),
        ("self.size <= 3", {"size": 4}, False),
        ("self.share == 1.0", {"share": 1}, True),
        ("self.size >= oldSelf.size", {"size": 1}, False),
    ],
)
def test_rule_is_evaluated_with_the_types_of_the_schema(expression: str, value: dict, result: bool) -> None:
    evaluate = rule_evaluator()
    assert evaluate is not None
    assert evaluate(expression, SCHEMA, value, {"size": 2}) == result


@pytest.mark.parametrize(
    ("expression", "value", "message"),
    [
        ("self.size ==", {"size": 1}, "compilation failed"),
        ("self.size == 1", {}, "no such key: size"),
        ("self.size == 1", {"size": 1.5}, "expected int, got float64"),
    ],
)
def test_errors_have_the_words_of_kubernetes(expression: str, value: dict, message: str) -> None:
    evaluate = rule_evaluator()
    assert evaluate is not None
    with pytest.raises(CelError, match=message):
        evaluate(expression, SCHEMA, value, {})
