"""Whatever a client sends as a patch, the result is an object or an API error."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.patch.apply import apply
from trimtab.api.patch.json_patch import apply_json_patch
from trimtab.api.patch.managed_fields import FieldManager, track_update
from trimtab.api.patch.merge_patch import apply_merge_patch
from trimtab.api.patch.merge_schema import merge_schema_of, native_merge_schema
from trimtab.api.patch.strategic_merge import apply_strategic_patch
from trimtab.errors import ApiError

GIZMO = merge_schema_of(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "map": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                    "any": {"x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
)
POD = native_merge_schema("v1", "Pod")
names = st.sampled_from(
    [
        "spec",
        "metadata",
        "a",
        "set",
        "map",
        "any",
        "name",
        "containers",
        "env",
        "finalizers",
        "labels",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "managedFields",
        "k",
    ]
)
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["x", "delete", "replace"])
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=15
)
documents = st.dictionaries(names, values, max_size=4)
objects = st.builds(
    lambda body, spec: {**body, "metadata": {"name": "n"}, "spec": spec, "apiVersion": "v1", "kind": "Pod"},
    documents,
    documents,
)


def expect_result_or_api_error(call: Any) -> None:
    try:
        call()
    except ApiError:
        return


@settings(max_examples=200, deadline=None)
@given(objects, values)
def test_arbitrary_patch_returns_a_result_or_an_api_error(live: dict[str, Any], patch: Any) -> None:
    expect_result_or_api_error(lambda: apply_merge_patch(live, patch))
    expect_result_or_api_error(lambda: apply_strategic_patch(live, patch, POD))
    expect_result_or_api_error(lambda: apply_json_patch(live, patch))
    expect_result_or_api_error(lambda: apply_json_patch(live, [{"op": "add", "path": "/spec/a", "value": patch}]))


@settings(max_examples=200, deadline=None)
@given(objects, objects, st.sampled_from([GIZMO, POD]))
def test_arbitrary_configuration_returns_a_result_or_an_api_error(
    live: dict[str, Any], config: dict[str, Any], shape: Any
) -> None:
    expect_result_or_api_error(lambda: apply(None, config, shape, "m", "t", api_version="v1", kind="Pod"))
    expect_result_or_api_error(lambda: apply(live, config, shape, "m", "t", api_version="v1", kind="Pod", force=True))


elements = st.sampled_from(["f:spec", "f:a", "f:map", 'k:{"name":"x"}', "k:[", 'v:"x"', "i:0", ".", "", "zz"])
sets = st.recursive(st.just({}) | leaves, lambda inner: st.dictionaries(elements, inner, max_size=3), max_leaves=8)


@settings(max_examples=200, deadline=None)
@given(objects, objects, sets, st.sampled_from([GIZMO, POD]))
def test_arbitrary_managed_fields_never_fail_a_write(
    old: dict[str, Any], new: dict[str, Any], fields: Any, shape: Any
) -> None:
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}
    sent = {**new, "metadata": {"name": "n", "managedFields": [entry]}}
    written = track_update(old, sent, shape, FieldManager("w", "Update", "v1"), "t")
    expect_result_or_api_error(lambda: apply(written, new, shape, "a", "t", api_version="v1", kind="Pod"))
