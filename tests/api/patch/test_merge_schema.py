import pytest

from trimtab.api.patch.merge_schema import ANYTHING, Form, native_shape, shape_of
from trimtab.api.value import Raw


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, Form.SCALAR),
        ({"x-kubernetes-int-or-string": True}, Form.SCALAR),
        ({"type": "array", "items": {"type": "string"}}, Form.ATOMIC),
        ({"type": "array", "x-kubernetes-list-type": "set"}, Form.SET),
        ({"type": "array", "x-kubernetes-list-type": "map"}, Form.KEYED),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, Form.MAP),
        ({"type": "object", "properties": {"a": {}}, "x-kubernetes-map-type": "atomic"}, Form.ATOMIC),
        ({"type": "object"}, Form.ANY),
        ({}, Form.ANY),
    ],
)
def test_merge_type_follows_from_the_schema(schema: Raw, expected: Form) -> None:
    field = shape_of({"type": "object", "properties": {"field": schema}}).member("field")
    assert field is not None
    assert field.form is expected


def test_undeclared_member_is_allowed_only_where_the_schema_preserves_it() -> None:
    closed: Raw = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert shape_of(closed).member("b") is None
    assert shape_of({**closed, "x-kubernetes-preserve-unknown-fields": True}).member("b") is ANYTHING


def test_keywords_beside_a_reference_take_precedence() -> None:
    components: dict[str, Raw] = {"List": {"type": "array", "x-kubernetes-list-type": "set"}}
    reference = {"allOf": [{"$ref": "#/components/schemas/List"}], "x-kubernetes-list-type": "atomic"}
    field = shape_of({"type": "object", "properties": {"field": reference}}, components).member("field")
    assert field is not None
    assert field.form is Form.ATOMIC


def test_schema_may_contain_itself() -> None:
    components: dict[str, Raw] = {"Node": {"type": "object", "properties": {"next": {"$ref": "#/x/Node"}}}}
    node = shape_of({"$ref": "#/x/Node"}, components)
    for _ in range(5):
        found = node.member("next")
        assert found is not None
        node = found
    assert node.form is Form.MAP


def test_native_kind_has_merge_keys_and_their_defaults() -> None:
    shape = native_shape("v1", "Service")
    ports = shape.fields["spec"].fields["ports"]
    assert ports.keys == ("port", "protocol")
    assert ports.key_defaults == {"protocol": "TCP"}
    assert native_shape("v1", "Service") is shape
