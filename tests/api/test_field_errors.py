"""Validation errors are worded as in Kubernetes."""

import pytest

from trimtab.api.field_errors import (
    duplicate,
    forbidden,
    format_causes,
    format_value,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from trimtab.errors import Cause


@pytest.mark.parametrize(
    ("cause", "reason", "message"),
    [
        (required("a"), "FieldValueRequired", "Required value"),
        (required("a", "because"), "FieldValueRequired", "Required value: because"),
        (invalid("a", {"b": [1]}, "wrong"), "FieldValueInvalid", 'Invalid value: {"b":[1]}: wrong'),
        (type_invalid("a", True, "wrong"), "FieldValueTypeInvalid", "Invalid value: true: wrong"),
        (
            not_supported("a", "x", ("y", "z")),
            "FieldValueNotSupported",
            'Unsupported value: "x": supported values: "y", "z"',
        ),
        (duplicate("a", "x"), "FieldValueDuplicate", 'Duplicate value: "x"'),
        (forbidden("a", "no"), "FieldValueForbidden", "Forbidden: no"),
        (too_long("a", 3), "FieldValueTooLong", "Too long: may not be more than 3 bytes"),
        (too_many("a", 4, 3), "FieldValueTooMany", "Too many: 4: must have at most 3 items"),
    ],
)
def test_errors_have_the_reason_and_message_of_kubernetes(cause: Cause, reason: str, message: str) -> None:
    assert (cause.reason, cause.message, cause.field) == (reason, message, "a")


def test_texts_are_quoted_and_not_escaped_to_ascii() -> None:
    assert format_value("Grün") == '"Grün"'


def test_several_errors_are_joined_without_duplicates() -> None:
    assert format_causes([required("a")]) == "a: Required value"
    assert format_causes([required("a"), required("a"), required("b")]) == "[a: Required value, b: Required value]"
