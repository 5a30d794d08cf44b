from typing import Any

import pytest

from trimtab.api.patch.go_values import format_go_value, go_type_name


@pytest.mark.parametrize(
    ("value", "type_name", "text"),
    [
        (True, "bool", "true"),
        (1, "int64", "1"),
        (1.5, "float64", "1.5"),
        ("a", "string", "a"),
        (None, "<nil>", "<nil>"),
        ([1, "a"], "[]interface {}", "[1 a]"),
        ({"b": [None], "a": False}, "map[string]interface {}", "map[a:false b:[<nil>]]"),
    ],
)
def test_values_are_printed_as_in_go(value: Any, type_name: str, text: str) -> None:
    assert go_type_name(value) == type_name
    assert format_go_value(value) == text
