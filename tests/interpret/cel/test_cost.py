"""What an evaluation costs at most, so that no object makes an expression block the server."""

from typing import Any

import pytest

from trimtab.api.schema.structural import CelError
from trimtab.interpret.cel.cost import estimate_cost, loop_depth
from trimtab.interpret.cel.expressions import COST_LIMIT
from trimtab.server.admission.dynamic.policy_expressions import PolicyError, PolicyExpressions
from trimtab.server.registry.cel_rules import CelRuleEvaluator

LONG = list(range(8000))
TEXT = "a" * 200_000


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("self.l.map(x, x).size() > 0", {"l": LONG}),
        ("self.l.filter(x, x > 0).size() > 0", {"l": LONG}),
        ("self.m.map(key, key).size() > 0", {"m": {str(number): 1 for number in LONG}}),
        ("self.l.map(x, x).map(x, x).map(x, x).size() > 0", {"l": LONG[:1000]}),
        ("self.l.all(x, x in self.l)", {"l": LONG[:2000]}),
        ("self.l.all(x, self.s.lowerAscii() != '')", {"l": LONG[:100], "s": TEXT}),
        ("self.l.all(x, self.s.size() > 0)", {"l": LONG[:4000], "s": TEXT}),
        ("self.l.all(x, self.l.all(y, self.l.all(z, true)))", {"l": LONG[:200]}),
        ("self.s.split('').size() > 0", {"s": TEXT * 10}),
        ("self.s.split(',').map(x, x).size() > 0", {"s": "a," * 4000}),
    ],
)
def test_expression_that_would_take_seconds_is_not_evaluated(expression: str, values: dict[str, Any]) -> None:
    assert estimate_cost(expression, {"self": values}) > COST_LIMIT
    with pytest.raises(CelError, match="cost exceeds limit"):
        CelRuleEvaluator()(expression, {"x-kubernetes-preserve-unknown-fields": True}, values, None)
    with pytest.raises(PolicyError, match="cost limit exceeded"):
        PolicyExpressions().evaluate(expression.replace("self.", "request."), {"request": values})


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("self.l.all(x, x >= 0)", {"l": LONG}),
        ("self.l.map(x, x).size() == 1000", {"l": LONG[:1000]}),
        ("self.l.all(x, x in self.l)", {"l": LONG[:900]}),
        ("self.l.all(x, self.s.size() > 0)", {"l": LONG[:50], "s": TEXT}),
        ("self.s.size() > 0 && self.s.contains('a')", {"l": LONG, "s": TEXT}),
    ],
)
def test_ordinary_expression_is_evaluated(expression: str, values: dict[str, Any]) -> None:
    assert estimate_cost(expression, {"self": values}) <= COST_LIMIT
    assert CelRuleEvaluator()(expression, {"x-kubernetes-preserve-unknown-fields": True}, values, None) is True


def test_only_what_the_expression_names_counts() -> None:
    obj = {"metadata": {"annotations": {"a": TEXT}, "labels": {}}, "spec": {"l": [1, 2]}, "status": {"l": LONG}}
    values = {"object": obj, "oldObject": {"spec": {"l": LONG}}, "request": {"object": obj}}
    assert estimate_cost("object.spec.l.map(x, x).size() > 0", values) < 100
    assert estimate_cost("oldObject.spec.l.map(x, x).size() > 0", values) > COST_LIMIT
    assert estimate_cost("object.metadata.annotations.all(k, k.trim() != '')", values) > 10_000
    assert estimate_cost("object.metadata.labels.all(k, k.trim() != '')", values) < 100


def test_keys_that_users_choose_hide_nothing() -> None:
    values = {"self": {"all": "x", "data": {"map": 1, "big": LONG}}}
    assert estimate_cost("self.data.big.map(x, x).size() > 0", values) > COST_LIMIT


def test_loops_in_each_other_are_counted() -> None:
    assert loop_depth("a.all(x, b.map(y, y).size() > 0) && c.exists(z, true)") == 2
