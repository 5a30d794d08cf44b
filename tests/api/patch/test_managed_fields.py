from typing import Any

from trimtab.api.kinds.native import codec
from trimtab.api.patch.managed_fields import MAX_UPDATE_MANAGERS, FieldManager, track_update
from trimtab.api.patch.merge_schema import merge_schema_of, native_merge_schema

CONFIG_MAP = native_merge_schema("v1", "ConfigMap")
DEPLOYMENT = native_merge_schema("apps/v1", "Deployment")
GIZMO = merge_schema_of(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                },
            },
        },
    }
)
RAW = FieldManager("raw", "Update", "v1")
EDITOR = FieldManager("editor", "Update", "v1")


def config_map(**data: str) -> dict[str, Any]:
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
    return codec.read("core.v1.ConfigMap", raw).body


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def test_creator_owns_the_fields_it_set() -> None:
    created = track_update(None, config_map(k="v"), CONFIG_MAP, RAW, "2026-01-01T00:00:00Z")
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "raw",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
        }
    ]


def test_change_of_one_object_leaves_the_owners_of_its_equals_alone() -> None:
    first, second = (track_update(None, config_map(k="v", m="v"), CONFIG_MAP, RAW, "t") for _ in range(2))
    before = owners(second)
    changed = {**first, "data": {"k": "x", "n": "v"}}
    assert owners(track_update(first, changed, CONFIG_MAP, EDITOR, "t")) == {
        "raw": {"f:data": {}},
        "editor": {"f:data": {"f:k": {}, "f:n": {}}},
    }
    assert owners(second) == before == {"raw": {"f:data": {".": {}, "f:k": {}, "f:m": {}}}}


def test_empty_object_has_no_owner() -> None:
    assert "managedFields" not in track_update(None, config_map(), CONFIG_MAP, RAW, "t")["metadata"]


def test_fields_that_a_native_kind_always_has_are_not_owned() -> None:
    raw = {
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "n", "ports": [{"containerPort": 80}]}]},
            },
        },
        "status": {"replicas": 3},
    }
    obj = codec.read("apps.v1.Deployment", raw).body
    created = track_update(None, obj, DEPLOYMENT, RAW, "t", without=["status"])
    container = {
        ".": {},
        "f:image": {},
        "f:name": {},
        "f:ports": {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
        "f:resources": {},
    }
    assert owners(created)["raw"] == {
        "f:spec": {
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {"f:containers": {'k:{"name":"c"}': container}},
            },
        }
    }


def test_structs_and_set_items_of_custom_resources_are_owned() -> None:
    gizmo = {"apiVersion": "x/v1", "kind": "Gizmo", "metadata": {"name": "g"}, "spec": {"size": 1, "set": ["a"]}}
    created = track_update(None, gizmo, GIZMO, RAW, "t")
    assert owners(created)["raw"] == {"f:spec": {".": {}, "f:size": {}, "f:set": {".": {}, 'v:"a"': {}}}}


def test_change_moves_ownership_to_its_manager() -> None:
    first = track_update(None, config_map(k="v", n="1"), CONFIG_MAP, RAW, "t1")
    changed = {**first, "data": {"k": "edited", "n": "1", "new": "x"}}
    second = track_update(first, changed, CONFIG_MAP, EDITOR, "t2")
    assert owners(second) == {
        "raw": {"f:data": {".": {}, "f:n": {}}},
        "editor": {"f:data": {"f:k": {}, "f:new": {}}},
    }


def test_removed_field_has_no_owner() -> None:
    first = track_update(None, config_map(k="v", n="1"), CONFIG_MAP, RAW, "t1")
    second = track_update(first, {**first, "data": {"n": "1"}}, CONFIG_MAP, EDITOR, "t2")
    assert owners(second) == {"raw": {"f:data": {".": {}, "f:n": {}}}}


def test_write_without_changes_keeps_all_times() -> None:
    first = track_update(None, config_map(k="v"), CONFIG_MAP, RAW, "t1")
    assert track_update(first, first, CONFIG_MAP, RAW, "t2") == first


def test_write_updates_the_time_of_its_own_entry_only() -> None:
    first = track_update(None, config_map(k="v", n="1"), CONFIG_MAP, RAW, "t1")
    second = track_update(first, {**first, "data": {"k": "v", "n": "2"}}, CONFIG_MAP, EDITOR, "t2")
    third = track_update(second, {**second, "data": {"k": "v", "n": "3"}}, CONFIG_MAP, EDITOR, "t3")
    times = [[(one["manager"], one["time"]) for one in obj["metadata"]["managedFields"]] for obj in (second, third)]
    assert times == [[("raw", "t1"), ("editor", "t2")], [("raw", "t1"), ("editor", "t3")]]


def test_update_without_managed_fields_keeps_them() -> None:
    first = track_update(None, config_map(k="v"), CONFIG_MAP, RAW, "t1")
    assert owners(track_update(first, config_map(k="v"), CONFIG_MAP, EDITOR, "t2")) == owners(first)


def test_one_empty_entry_resets_all_ownership() -> None:
    first = track_update(None, config_map(k="v"), CONFIG_MAP, RAW, "t1")
    reset = {**first, "metadata": {**first["metadata"], "managedFields": [{}]}}
    assert "managedFields" not in track_update(first, reset, CONFIG_MAP, RAW, "t2")["metadata"]


def test_status_write_owns_status_only() -> None:
    obj = codec.read("apps.v1.Deployment", {"metadata": {"name": "web"}, "spec": {"replicas": 1}}).body
    first = track_update(None, obj, DEPLOYMENT, RAW, "t1", without=["status"])
    status = FieldManager("raw", "Update", "v1", "status")
    changed = {**first, "spec": {**first["spec"], "replicas": 9}, "status": {"observedGeneration": 1}}
    second = track_update(first, changed, DEPLOYMENT, status, "t2", only=["status"])
    assert second["metadata"]["managedFields"][1]["fieldsV1"] == {"f:status": {"f:observedGeneration": {}}}
    assert second["metadata"]["managedFields"][1]["subresource"] == "status"


def test_oldest_update_managers_are_merged_into_one_entry() -> None:
    obj = track_update(None, config_map(k0="v"), CONFIG_MAP, RAW, "t00")
    for number in range(1, 15):
        changed = {**obj, "data": {**obj["data"], f"k{number}": "v"}}
        obj = track_update(obj, changed, CONFIG_MAP, FieldManager(f"m{number}", "Update", "v1"), f"t{number:02}")
    assert len(obj["metadata"]["managedFields"]) == MAX_UPDATE_MANAGERS
    assert "ancient-changes" in owners(obj)


def test_fields_of_an_update_are_listed_in_order() -> None:
    created = track_update(None, config_map(z="1", a="1"), CONFIG_MAP, RAW, "2026-01-01T00:00:00Z")
    changed = {**created, "data": {"z": "1", "a": "1", "m": "1"}}
    updated = track_update(created, changed, CONFIG_MAP, RAW, "2026-01-01T00:00:01Z")
    assert list(updated["metadata"]["managedFields"][0]["fieldsV1"]["f:data"]) == [".", "f:a", "f:m", "f:z"]
