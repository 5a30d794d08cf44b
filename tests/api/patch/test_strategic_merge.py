from typing import Any

import pytest

from trimtab.api.patch import strategic_merge
from trimtab.api.patch.merge_schema import native_merge_schema
from trimtab.api.patch.strategic_merge import apply_strategic_patch
from trimtab.errors import BadRequest

POD = native_merge_schema("v1", "Pod")
CONFIG_MAP = native_merge_schema("v1", "ConfigMap")
DEPLOYMENT = native_merge_schema("apps/v1", "Deployment")


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(containers)}}


def names(patched: dict[str, Any]) -> list[str]:
    return [container["name"] for container in patched["spec"]["containers"]]


def test_items_merge_by_key_and_new_ones_come_first() -> None:
    before = pod({"name": "c", "image": "nginx"})
    patched = apply_strategic_patch(before, pod({"name": "side", "image": "s"}, {"name": "c", "image": "b"}), POD)
    assert patched == pod({"name": "side", "image": "s"}, {"name": "c", "image": "b"})
    assert before == pod({"name": "c", "image": "nginx"})


def test_patched_items_follow_the_order_of_the_patch_and_others_keep_their_relative_order() -> None:
    before = pod({"name": "a"}, {"name": "b"}, {"name": "c"})
    assert names(apply_strategic_patch(before, pod({"name": "c", "image": "x"}, {"name": "a", "image": "y"}), POD)) == [
        "b",
        "c",
        "a",
    ]


def test_list_is_replaced_by_the_replace_directive() -> None:
    patched = apply_strategic_patch(pod({"name": "c"}), pod({"$patch": "replace"}, {"name": "only"}), POD)
    assert patched == pod({"name": "only"})


def test_item_is_deleted_by_key() -> None:
    patched = apply_strategic_patch(pod({"name": "a"}, {"name": "b"}), pod({"$patch": "delete", "name": "a"}), POD)
    assert patched == pod({"name": "b"})


def test_items_are_added_to_and_deleted_from_a_set() -> None:
    patch = {"metadata": {"finalizers": ["x/b"], "$deleteFromPrimitiveList/finalizers": ["x/a"]}}
    patched = apply_strategic_patch({"metadata": {"finalizers": ["x/a", "x/c"]}}, patch, CONFIG_MAP)
    assert patched == {"metadata": {"finalizers": ["x/b", "x/c"]}}


def test_items_follow_set_element_order() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
            "containers": [{"name": "new", "image": "n"}],
        }
    }
    assert names(apply_strategic_patch(pod({"name": "a"}, {"name": "b"}), patch, POD)) == ["b", "new", "a"]


def test_retain_keys_drops_other_members_of_the_union() -> None:
    before = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert apply_strategic_patch(before, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_lists_without_a_key_are_replaced() -> None:
    before = {"spec": {"tolerations": [{"key": "a"}]}}
    patched = apply_strategic_patch(before, {"spec": {"tolerations": [{"key": "b"}]}}, POD)
    assert patched == {"spec": {"tolerations": [{"key": "b"}]}}


def test_null_deletes_and_maps_merge() -> None:
    before = {"metadata": {"labels": {"a": "1", "b": "2"}}, "data": {"k": "v"}}
    patched = apply_strategic_patch(before, {"metadata": {"labels": {"a": None, "c": "3"}}, "data": None}, CONFIG_MAP)
    assert patched == {"metadata": {"labels": {"b": "2", "c": "3"}}}


def test_item_without_merge_key_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="does not contain declared merge key: name"):
        apply_strategic_patch(pod({"name": "a"}), pod({"image": "x"}), POD)


def test_unknown_directive_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="unknown patch type found"):
        apply_strategic_patch(pod({"name": "a"}), pod({"$patch": "frob", "name": "a"}), POD)


def test_long_lists_merge_with_one_lookup_per_item(monkeypatch) -> None:
    looked_up = 0
    original = strategic_merge._hashable

    def counting(value: Any) -> Any:
        nonlocal looked_up
        looked_up += 1
        return original(value)

    monkeypatch.setattr(strategic_merge, "_hashable", counting)
    count = 3000
    before = pod(*({"name": f"c{i}", "image": "a"} for i in range(count)))
    patch = pod(*({"name": f"c{i}", "image": "b"} for i in reversed(range(count))))
    patch["spec"]["$setElementOrder/containers"] = [{"name": f"c{i}"} for i in reversed(range(count))]
    patched = apply_strategic_patch(before, patch, POD)
    assert names(patched) == [f"c{i}" for i in reversed(range(count))]
    assert looked_up < 40 * count
    finalizers = [f"f{i}" for i in range(count)]
    merged = apply_strategic_patch(
        {"metadata": {"finalizers": finalizers}}, {"metadata": {"finalizers": finalizers}}, POD
    )
    assert merged["metadata"]["finalizers"] == finalizers
    dropped = {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers[1:]}}
    assert apply_strategic_patch(merged, dropped, POD)["metadata"]["finalizers"] == ["f0"]
