from typing import Any

import pytest

from interpret.overrides.override_helpers import apply_policy, deployment, label, plaintext
from trimtab.interpret.overrides.overrides import OverrideError


def container(obj: dict[str, Any]) -> dict[str, Any]:
    (found,) = obj["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_plaintext_overrider_replaces_a_field() -> None:
    assert apply_policy(deployment(), plaintext=plaintext("/spec/replicas", "replace", 3))["spec"]["replicas"] == 3


def test_image_overrider_changes_all_containers() -> None:
    overrider = {"component": "Registry", "operator": "add", "value": "reg.one"}
    assert container(apply_policy(deployment(), imageOverrider=[overrider]))["image"] == "reg.one/nginx:1"


def test_image_is_found_by_the_predicate_path() -> None:
    obj = {
        "apiVersion": "ex.io/v1",
        "kind": "Foo",
        "metadata": {"name": "x", "namespace": "ns"},
        "spec": {"list": [{"img": "a/b:1"}]},
    }
    overrider = {"predicate": {"path": "/spec/list/0/img"}, "component": "Tag", "operator": "replace", "value": "2"}
    assert apply_policy(obj, imageOverrider=[overrider])["spec"]["list"] == [{"img": "a/b:2"}]


def test_missing_predicate_path_is_an_error() -> None:
    overrider = {"predicate": {"path": "/spec/x"}, "component": "Tag", "operator": "replace", "value": "2"}
    with pytest.raises(OverrideError, match="there is no 'x'"):
        apply_policy(deployment(), imageOverrider=[overrider])


def test_images_of_other_kinds_are_kept() -> None:
    obj = deployment() | {"kind": "CronJob"}
    assert apply_policy(obj, imageOverrider=[{"component": "Tag", "operator": "replace", "value": "2"}]) == obj


@pytest.mark.parametrize("field", ["command", "args"])
def test_strings_are_added_to_the_named_container(field: str) -> None:
    overrider = {"containerName": "main", "operator": "add", "value": ["--x"]}
    obj = deployment(**{field: ["run"]})
    assert container(apply_policy(obj, **{f"{field}Overrider": [overrider]}))[field] == ["run", "--x"]


def test_missing_list_is_created() -> None:
    overrider = {"containerName": "main", "operator": "add", "value": ["--x"]}
    assert container(apply_policy(deployment(), argsOverrider=[overrider]))["args"] == ["--x"]


def test_strings_are_removed_wherever_they_occur() -> None:
    overrider = {"containerName": "main", "operator": "remove", "value": ["a"]}
    assert container(apply_policy(deployment(args=["a", "b", "a"]), argsOverrider=[overrider]))["args"] == ["b"]


def test_other_containers_are_kept() -> None:
    overrider = {"containerName": "side", "operator": "add", "value": ["--x"]}
    assert apply_policy(deployment(), argsOverrider=[overrider]) == deployment()


def test_missing_annotations_are_created() -> None:
    change = [{"operator": "add", "value": {"a.io/b": "1"}}]
    assert apply_policy(deployment(), annotationsOverrider=change)["metadata"]["annotations"] == {"a.io/b": "1"}


def test_missing_label_is_not_replaced() -> None:
    assert apply_policy(deployment(), labelsOverrider=label("one", "replace")) == deployment()


def test_label_is_removed() -> None:
    change = [{"operator": "remove", "value": {"app": ""}}]
    assert apply_policy(deployment(), labelsOverrider=change)["metadata"]["labels"] == {}


def config_map(text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}, "data": {"db": text}}


def test_yaml_document_inside_a_field_is_patched() -> None:
    steps = [
        {"subPath": "/host", "operator": "replace", "value": "eu"},
        {"subPath": "/list/-", "operator": "add", "value": 2},
    ]
    changed = apply_policy(
        config_map("host: us\nlist:\n- 1\n"), fieldOverrider=[{"fieldPath": "/data/db", "yaml": steps}]
    )
    assert changed["data"]["db"] == "host: eu\nlist:\n- 1\n- 2\n"


def test_json_document_inside_a_field_is_patched() -> None:
    steps = [{"subPath": "/host", "operator": "remove"}]
    changed = apply_policy(
        config_map('{"host": "us", "b": [1, 2]}'), fieldOverrider=[{"fieldPath": "/data/db", "json": steps}]
    )
    assert changed["data"]["db"] == '{"b":[1,2]}'


@pytest.mark.parametrize(("path", "text"), [("/data", "{}"), ("/data/no", "{}"), ("/data/db", "{")])
def test_field_without_a_document_is_an_error(path: str, text: str) -> None:
    steps = [{"subPath": "/host", "operator": "add", "value": "x"}]
    with pytest.raises(OverrideError):
        apply_policy(config_map(text), fieldOverrider=[{"fieldPath": path, "json": steps}])


def test_plaintext_is_applied_last_within_a_rule() -> None:
    changed = apply_policy(
        deployment(), plaintext=plaintext("/metadata/labels/site", "replace", "two"), labelsOverrider=label("one")
    )
    assert changed["metadata"]["labels"]["site"] == "two"
