"""The base of API types: immutability, the wire form and omitted defaults."""

import msgspec
import pytest

from trimtab.api.value import Condition, Meta, Object, Value, never_omit


class Example(Value):
    always_there: dict[str, str] = never_omit({})
    optional_text: str = ""


def test_unchanged_defaults_are_omitted_except_the_required_ones() -> None:
    assert msgspec.json.decode(msgspec.json.encode(Example())) == {"alwaysThere": {}}


def test_mutable_defaults_are_not_shared() -> None:
    assert Example().always_there is not Example().always_there


def test_values_are_immutable_and_compared_by_content() -> None:
    value = Example(optional_text="a")
    with pytest.raises(AttributeError):
        value.optional_text = "b"  # type: ignore[misc]
    assert value.but(optional_text="b") == Example(optional_text="b")
    assert value.optional_text == "a"


def test_unknown_fields_are_ignored_on_decoding() -> None:
    assert msgspec.json.decode(b'{"optionalText": "a", "unknown": 1}', type=Example).optional_text == "a"


def test_new_condition_has_status_unknown() -> None:
    assert Condition(type="Ready").status == "Unknown"


def test_object_exposes_name_and_namespace() -> None:
    thing = Object(metadata=Meta(name="a", namespace="b"))
    assert (thing.name, thing.namespace) == ("a", "b")
