import pytest

from trimtab.api.patch.merge_schema import UNKNOWN_SCHEMA, MergeType, merge_schema_of, native_merge_schema
from trimtab.api.value import Raw


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, MergeType.SCALAR),
        ({"x-kubernetes-int-or-string": True}, MergeType.SCALAR),
        ({"type": "array", "items": {"type": "string"}}, MergeType.ATOMIC),
        ({"type": "array", "x-kubernetes-list-type": "set"}, MergeType.SET),
        ({"type": "array", "x-kubernetes-list-type": "map"}, MergeType.KEYED),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, MergeType.MAP),
        ({"type": "object", "properties": {"a": {}}, "x-kubernetes-map-type": "atomic"}, MergeType.ATOMIC),
        ({"type": "object"}, MergeType.ANY),
        ({}, MergeType.ANY),
    ],
)
def test_merge_type_follows_from_the_schema(schema: Raw, expected: MergeType) -> None:
    field = merge_schema_of({"type": "object", "properties": {"field": schema}}).member("field")
    assert field is not None
    assert field.merge_type is expected


def test_undeclared_member_is_allowed_only_where_the_schema_preserves_it() -> None:
    closed: Raw = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert merge_schema_of(closed).member("b") is None
    assert merge_schema_of({**closed, "x-kubernetes-preserve-unknown-fields": True}).member("b") is UNKNOWN_SCHEMA


def test_keywords_beside_a_reference_take_precedence() -> None:
    components: dict[str, Raw] = {"List": {"type": "array", "x-kubernetes-list-type": "set"}}
    reference = {"allOf": [{"$ref": "#/components/schemas/List"}], "x-kubernetes-list-type": "atomic"}
    field = merge_schema_of({"type": "object", "properties": {"field": reference}}, components).member("field")
    assert field is not None
    assert field.merge_type is MergeType.ATOMIC


def test_schema_may_contain_itself() -> None:
    components: dict[str, Raw] = {"Node": {"type": "object", "properties": {"next": {"$ref": "#/x/Node"}}}}
    node = merge_schema_of({"$ref": "#/x/Node"}, components)
    for _ in range(5):
        found = node.member("next")
        assert found is not None
        node = found
    assert node.merge_type is MergeType.MAP


def test_native_kind_has_merge_keys_and_their_defaults() -> None:
    shape = native_merge_schema("v1", "Service")
    ports = shape.fields["spec"].fields["ports"]
    assert ports.keys == ("port", "protocol")
    assert ports.key_defaults == {"protocol": "TCP"}
    assert native_merge_schema("v1", "Service") is shape
