from api.schema.gizmo_schema import GIZMO
from trimtab.api.schema.prune_and_default import compile_defaulter, compile_pruner
from trimtab.api.schema.structural import StructuralSchema

gizmo = StructuralSchema(GIZMO)


def test_unknown_fields_are_pruned_and_reported() -> None:
    obj = {
        "apiVersion": "a/v1",
        "kind": "Gizmo",
        "metadata": {"name": "x", "odd": 1},
        "spec": {
            "size": 3,
            "junk": 1,
            "any": {"keep": 1},
            "items": [{"name": "a", "b": 1}],
            "template": {"metadata": {}, "x": 1},
        },
        "extra": 1,
    }
    pruned, unknown = gizmo.prune(obj)
    assert unknown == ["extra", "spec.items[0].b", "spec.junk"]
    assert pruned["spec"] == {
        "size": 3,
        "any": {"keep": 1},
        "items": [{"name": "a"}],
        "template": {"metadata": {}, "x": 1},
    }
    assert pruned["metadata"] == {"name": "x", "odd": 1}
    assert obj["extra"] == 1, "the input is not modified"


def test_objects_in_place_of_scalars_lose_their_members() -> None:
    pruned, unknown = gizmo.prune({"spec": {"size": 3, "name": [{"a": 1}, "b"], "color": {"x": 1}}})
    assert pruned["spec"] == {"size": 3, "name": [{}, "b"], "color": {}}
    assert unknown == ["spec.color.x", "spec.name[0].a"]


def test_object_without_changes_is_returned_unchanged() -> None:
    obj = {"spec": {"size": 3, "color": "red"}}
    assert gizmo.prune(obj)[0] is obj
    assert gizmo.apply_defaults(obj) is obj


def test_defaults_replace_absent_and_null_values() -> None:
    obj = {"spec": {"size": 3, "color": None, "items": [{"name": "a"}, {"name": "b", "v": 0}]}}
    assert gizmo.apply_defaults(obj)["spec"] == {
        "size": 3,
        "color": "red",
        "items": [{"name": "a", "v": 7}, {"name": "b", "v": 0}],
    }


def test_null_is_dropped_unless_nullable_or_defaulted() -> None:
    pruned, unknown = gizmo.prune({"spec": {"size": 3, "name": None, "maybe": None, "color": None}})
    assert pruned["spec"] == {"size": 3, "maybe": None, "color": None}
    assert unknown == []


def test_schema_without_defaults_has_no_defaulter() -> None:
    assert compile_defaulter({"type": "object", "properties": {"a": {"type": "string"}}}) is None
    assert compile_defaulter(GIZMO) is not None


def test_schema_that_preserves_unknown_fields_has_no_pruner() -> None:
    assert compile_pruner({"type": "object", "x-kubernetes-preserve-unknown-fields": True}) is None
    assert compile_pruner({"type": "object", "properties": {"a": {"type": "string"}}}) is not None


def test_defaults_are_copied_for_every_object() -> None:
    fill = compile_defaulter({"type": "object", "properties": {"tags": {"type": "array", "default": ["a"]}}})
    assert fill is not None
    first, second = fill({}), fill({})
    first["tags"].append("b")
    assert second == {"tags": ["a"]}


def test_unknown_metadata_of_an_embedded_object_is_pruned() -> None:
    prune = compile_pruner({"properties": {"template": {"type": "object", "x-kubernetes-embedded-resource": True}}})
    unknown: list[str] = []
    value = {"template": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "nickname": "b"}}}
    assert prune is not None
    assert prune(value, "", unknown)["template"]["metadata"] == {"name": "a"}
    assert unknown == ["template.metadata.nickname"]
