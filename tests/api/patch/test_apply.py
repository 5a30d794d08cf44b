from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.kinds.native.native_objects import objects
from trimtab.api.kinds.native import codec
from trimtab.api.kinds.native.fields import message_name
from trimtab.api.patch.apply import apply
from trimtab.api.patch.last_applied import ANNOTATION as LAST_APPLIED
from trimtab.api.patch.managed_fields import FieldManager, track_update
from trimtab.api.patch.merge_schema import merge_schema_of, native_merge_schema
from trimtab.errors import BadRequest, Conflict, Unclassified

CONFIG_MAP = native_merge_schema("v1", "ConfigMap")
DEPLOYMENT = native_merge_schema("apps/v1", "Deployment")


def config_map(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa1"}, "data": data}


def apply_config(live: dict[str, Any] | None, config: dict[str, Any], manager: str, **more: Any) -> dict[str, Any]:
    shape = native_merge_schema(config["apiVersion"], "ConfigMap")
    return apply(live, config, shape, manager, "2026-01-01T00:00:00Z", api_version="v1", kind="ConfigMap", **more)


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]}


def test_first_manager_owns_the_applied_leaves() -> None:
    created = apply_config(None, config_map(k="v"), "m1")
    assert created["data"] == {"k": "v"}
    assert owners(created) == {"m1": {"f:data": {"f:k": {}}}}


def test_changed_configuration_updates_the_time_of_its_entry() -> None:
    live = apply_config(None, config_map(k="v"), "m1")
    later = apply(live, config_map(k="w"), CONFIG_MAP, "m1", "2026-01-02T00:00:00Z", api_version="v1", kind="ConfigMap")
    assert [entry["time"] for entry in later["metadata"]["managedFields"]] == ["2026-01-02T00:00:00Z"]


def test_different_value_for_an_owned_field_is_a_conflict() -> None:
    live = apply_config(None, config_map(k="v"), "m1")
    with pytest.raises(Conflict) as raised:
        apply_config(live, config_map(k="other"), "m2")
    assert raised.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "m1": .data.k',
        "reason": "Conflict",
        "details": {
            "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.k"}]
        },
        "code": 409,
    }


def test_several_conflicts_are_listed_by_manager() -> None:
    live = apply_config(None, config_map(a="1", b="2"), "m1")
    with pytest.raises(Conflict) as raised:
        apply_config(live, config_map(a="x", b="y"), "m2")
    assert raised.value.message == 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.a\n- .data.b'


def test_conflict_with_an_update_manager_names_its_version() -> None:
    created = codec.read("core.v1.ConfigMap", config_map(k="v")).body
    live = track_update(None, created, CONFIG_MAP, FieldManager("editor", "Update", "v1"), "t")
    with pytest.raises(Conflict, match=r'conflict with "editor" using v1: \.data\.k'):
        apply_config(live, config_map(k="other"), "m1")


def test_same_value_is_owned_by_both_managers() -> None:
    live = apply_config(None, config_map(k="v"), "m1")
    both = apply_config(live, config_map(k="v"), "m2")
    assert owners(both) == {"m1": {"f:data": {"f:k": {}}}, "m2": {"f:data": {"f:k": {}}}}


def test_force_transfers_ownership() -> None:
    live = apply_config(None, config_map(k="v"), "m1")
    forced = apply_config(live, config_map(k="other", z="1"), "m2", force=True)
    assert forced["data"] == {"k": "other", "z": "1"}
    assert owners(forced) == {"m2": {"f:data": {"f:k": {}, "f:z": {}}}}


def test_field_no_longer_applied_is_removed_unless_another_manager_owns_it() -> None:
    live = apply_config(None, config_map(a="1", b="2"), "m1")
    live = apply_config(live, config_map(b="2"), "m2")
    after = apply_config(live, config_map(), "m1")
    assert after["data"] == {"b": "2"}
    assert owners(after) == {"m1": {"f:data": {}}, "m2": {"f:data": {"f:b": {}}}}


def test_items_of_a_keyed_list_are_merged_by_key() -> None:
    def deployment(*names: str) -> dict[str, Any]:
        containers = [{"name": name, "image": name} for name in names]
        spec = {"template": {"spec": {"containers": containers}}}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

    def apply_deployment(live: dict[str, Any] | None, config: dict[str, Any], manager: str) -> dict[str, Any]:
        return apply(live, config, DEPLOYMENT, manager, "t", api_version="apps/v1", kind="Deployment")

    live = apply_deployment(None, deployment("a", "b"), "m1")
    live = apply_deployment(live, deployment("side"), "m2")
    names = [c["name"] for c in live["spec"]["template"]["spec"]["containers"]]
    assert names == ["a", "b", "side"]
    live = apply_deployment(live, deployment("b"), "m1")
    assert [c["name"] for c in live["spec"]["template"]["spec"]["containers"]] == ["b", "side"]


def test_unknown_field_has_the_message_of_kube_apiserver() -> None:
    with pytest.raises(Unclassified) as raised:
        apply_config(None, {**config_map(k="v"), "frob": 1}, "m1")
    assert raised.value.message == (
        "failed to create typed patch object (/ssa1; /v1, Kind=ConfigMap): .frob: field not declared in schema"
    )
    assert "reason" not in raised.value.status()


def test_wrong_type_has_the_message_of_kube_apiserver() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    config = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"}, "spec": {"n": "x"}}
    with pytest.raises(Unclassified, match=r"\.spec\.n: expected numeric \(int or float\), got string"):
        apply(None, config, merge_schema_of(schema), "m", "t", api_version="x/v1", kind="X")


def test_managed_fields_cannot_be_applied() -> None:
    config = config_map(k="v")
    config["metadata"]["managedFields"] = [{"manager": "x"}]
    with pytest.raises(BadRequest, match=r"metadata\.managedFields must be nil"):
        apply_config(None, config, "m1")


def test_object_of_another_kind_is_rejected() -> None:
    with pytest.raises(BadRequest) as raised:
        apply_config(None, {**config_map(), "kind": "Secret"}, "m1")
    assert raised.value.message == "invalid object type: /v1, Kind=Secret"


KINDS = [("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "ConfigMap"), ("batch/v1", "CronJob")]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.data())
def test_applying_twice_changes_nothing(kind: tuple[str, str], data: st.DataObject) -> None:
    shape = native_merge_schema(*kind)
    config = {"apiVersion": kind[0], "kind": kind[1], **data.draw(objects(message_name(*kind)))}
    config["metadata"].pop("managedFields", None)
    try:
        first = apply(None, config, shape, "m", "t1", api_version=kind[0], kind=kind[1])
    except Unclassified:
        return  # list items with a duplicate key are invalid
    assert apply(first, config, shape, "m", "t2", api_version=kind[0], kind=kind[1]) == first


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy")),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy")),
)
def test_last_forced_configuration_determines_the_result(one: dict[str, str], other: dict[str, str]) -> None:
    live = apply_config(None, config_map(**one), "m1")
    live = apply_config(live, config_map(**other), "m1", force=True)
    assert live.get("data", {}) == other


def test_name_is_kept_when_no_metadata_is_applied() -> None:
    labelled = config_map(k="v")
    labelled["metadata"]["labels"] = {"a": "b"}
    live = apply_config(None, labelled, "m1")
    after = apply_config(live, config_map(k="v"), "m1")
    assert after["metadata"]["name"] == "ssa1"
    assert "labels" not in after["metadata"]


def test_object_without_owners_is_not_tracked_until_something_is_applied() -> None:
    bare = codec.read("core.v1.ConfigMap", config_map(k="v")).body
    written = track_update(bare, {**bare, "data": {"k": "w"}}, CONFIG_MAP, FieldManager("raw", "Update", "v1"), "t")
    assert "managedFields" not in written["metadata"]
    created = apply_config(written, config_map(k="w"), "m1")
    assert owners(created) == {"m1": {"f:data": {"f:k": {}}}, "before-first-apply": {"f:data": {".": {}, "f:k": {}}}}


def client_side_applied(**data: Any) -> dict[str, Any]:
    config = config_map(**data)
    annotations = {LAST_APPLIED: orjson.dumps(config).decode()}
    live = {**config, "metadata": {**config["metadata"], "annotations": annotations}}
    now = "2026-01-01T00:00:00Z"
    return track_update(None, live, CONFIG_MAP, FieldManager("kubectl-client-side-apply", "Update", "v1"), now)


def test_kubectl_takes_over_what_client_side_apply_wrote() -> None:
    applied = apply_config(client_side_applied(k="v", other="x"), config_map(k="changed", other="x"), "kubectl")
    assert applied["data"] == {"k": "changed", "other": "x"}
    assert owners(applied)["kubectl"] == {"f:data": {"f:k": {}, "f:other": {}}}


def test_last_applied_annotation_follows_the_configuration_of_kubectl() -> None:
    applied = apply_config(client_side_applied(k="v"), config_map(k="changed"), "kubectl")
    last = orjson.loads(applied["metadata"]["annotations"][LAST_APPLIED])
    assert last == config_map(k="changed")
    other = apply_config(client_side_applied(k="v"), config_map(k="changed"), "other", force=True)
    assert orjson.loads(other["metadata"]["annotations"][LAST_APPLIED]) == config_map(k="v")


def test_field_that_changed_since_client_side_apply_is_still_a_conflict() -> None:
    live = client_side_applied(k="v")
    live["data"]["k"] = "edited"
    with pytest.raises(Conflict):
        apply_config(live, config_map(k="changed"), "kubectl")
    with pytest.raises(Conflict):
        apply_config(client_side_applied(k="v"), config_map(k="changed"), "other")


def test_fields_of_a_configuration_are_listed_in_order() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod["spec"] = {"containers": [{"name": "c", "image": "i", "args": ["x"]}]}
    shape = native_merge_schema("v1", "Pod")
    created = apply(None, pod, shape, "m", "2026-01-01T00:00:00Z", api_version="v1", kind="Pod")
    (container,) = owners(created)["m"]["f:spec"]["f:containers"].values()
    assert list(container) == [".", "f:args", "f:image", "f:name"]
