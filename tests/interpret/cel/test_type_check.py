"""Type checks of CEL expressions against a schema."""

from typing import Any

import pytest

from trimtab.interpret.cel.type_check import COST_LIMIT, check_types, estimate_cost, type_of_schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "name": {"type": "string"},
        "on": {"type": "boolean"},
        "ratio": {"type": "number"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"key": {"type": "string"}}}},
        "numbers": {"type": "array", "maxItems": 725, "items": {"type": "integer"}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "a-b": {"type": "integer"},
        "namespace": {"type": "string"},
    },
}
VARIABLES = {"self": type_of_schema(SCHEMA)}


@pytest.mark.parametrize(
    "expression",
    [
        "self.x > 1 && self.name.startsWith('a')",
        "self.x > 1.5 || self.ratio < 2",
        "has(self.x) ? self.x == 3 : true",
        "self.list.all(one, one.key != '' && self.list.exists_one(other, other.key == one.key))",
        "self.map.all(name, self.map[name] > 0)",
        "self.any.whatever.field > 'x'",
        "self.?name.orValue('') == 'x'",
        "self.a__dash__b == 1 && self.__namespace__ == 'x'",
        "size(self.list) + 1 < 5",
        "self.name + 'x' in ['a', 'b']",
        "{'a': 1}['a'] == self.x",
        "!self.on && -self.x < 0 && self.numbers[0] % 2 == 0",
        "self.numbers.map(n, n * 2).all(n, n > 0)",
        "self.name.matches(r'^\\d+$') // a comment",
    ],
)
def test_expression_that_fits_the_schema_is_accepted(expression: str) -> None:
    assert check_types(expression, VARIABLES) == ""


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("self.z == 100", "ERROR: <input>:1:5: undefined field 'z'\n | self.z == 100\n | ....^"),
        ("self.list.all(one, one.wrong == '')", "undefined field 'wrong'"),
        ("self.x > '1'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("'got ' + self.x", "found no matching overload for '_+_' applied to '(string, int)'"),
        ("self.map['a'] == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.name.size == 1", "ERROR: <input>:1:10: type 'string' does not support field selection"),
        ("self.numbers.length == 1", "type 'list(int)' does not support field selection"),
        ("self.x.y == 1", "type 'int' does not support field selection"),
        ("self.name.matches('[')", "ERROR: <input>:1:19: invalid matches argument"),
        ("self.name && true", "found no matching overload for '_&&_' applied to '(string, bool)'"),
        ("true &&\n  self.z", "ERROR: <input>:2:7: undefined field 'z'\n |   self.z\n | ......^"),
    ],
)
def test_expression_that_does_not_fit_is_reported_with_its_position(expression: str, fault: str) -> None:
    assert fault in check_types(expression, VARIABLES)


def test_cost_follows_the_largest_lists_that_the_schema_allows() -> None:
    nested = "self.numbers.all(a, self.numbers.all(b, a == b))"
    assert 725**2 < estimate_cost(nested, VARIABLES) < COST_LIMIT
    assert estimate_cost("self.list.all(a, self.list.all(b, a == b))", VARIABLES) > COST_LIMIT
    assert estimate_cost("self.list.all(a, a.key != '')", VARIABLES) < COST_LIMIT
    assert estimate_cost("self.x > 1", VARIABLES) < 10
