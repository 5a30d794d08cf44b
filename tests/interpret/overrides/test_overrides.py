from typing import Any

import pytest

from trimtab.interpret.overrides.overrides import Applied, OverrideFault, applied_annotation, override

CLUSTER = {"metadata": {"name": "m1", "labels": {"env": "prod"}}, "spec": {"region": "eu"}}


def deployment(**container: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns", "labels": {"app": "web"}},
        "spec": {
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "main", "image": "nginx:1"} | container]}},
        },
    }


def policy(name: str = "op", namespace: str = "ns", target: Any = None, **overriders: Any) -> dict[str, Any]:
    rule = {"overriders": overriders} | ({"targetCluster": target} if target else {})
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, "spec": {"overrideRules": [rule]}}


def overridden(obj: dict[str, Any], **overriders: Any) -> dict[str, Any]:
    return override(obj, CLUSTER, [policy(**overriders)]).obj


def container(obj: dict[str, Any]) -> dict[str, Any]:
    (found,) = obj["spec"]["template"]["spec"]["containers"]
    return dict(found)


def plaintext(path: str, operator: str, value: Any = None) -> list[dict[str, Any]]:
    return [{"path": path, "operator": operator, "value": value}]


def label(value: str, operator: str = "add") -> list[dict[str, Any]]:
    return [{"operator": operator, "value": {"site": value}}]


def test_a_plaintext_patch_replaces_a_field() -> None:
    assert overridden(deployment(), plaintext=plaintext("/spec/replicas", "replace", 3))["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    ("path", "operator", "cause"),
    [
        (
            "/spec/nope",
            "remove",
            "error in remove for path: '/spec/nope': unable to remove nonexistent key: nope: missing value",
        ),
        ("/spec/nope", "replace", "replace operation does not apply: doc is missing key: /spec/nope: missing value"),
        ("/spec/no/x", "replace", "replace operation does not apply: doc is missing path: /spec/no/x: missing value"),
        (
            "/metadata/annotations/x",
            "add",
            'add operation does not apply: doc is missing path: "/metadata/annotations/x": missing value',
        ),
        (
            "/spec/template/spec/containers/7",
            "add",
            (
                "error in add for path: '/spec/template/spec/containers/7': "
                "Unable to access invalid index: 7: invalid index referenced"
            ),
        ),
        (
            "/spec/template/spec/containers/x",
            "add",
            (
                "error in add for path: '/spec/template/spec/containers/x': "
                "value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax"
            ),
        ),
        ("spec", "add", 'add operation does not apply: doc is missing path: "spec": missing value'),
        ("/spec", "move", "the operator 'move' is none of add, remove, replace"),
    ],
)
def test_a_patch_that_does_not_apply_names_policy_and_path(path: str, operator: str, cause: str) -> None:
    with pytest.raises(OverrideFault) as raised:
        overridden(deployment(), plaintext=plaintext(path, operator, "v"))
    assert raised.value.rule.policy == "ns/op"
    assert raised.value.cause == cause


def test_images_of_all_containers_change() -> None:
    overrider = {"component": "Registry", "operator": "add", "value": "reg.one"}
    assert container(overridden(deployment(), imageOverrider=[overrider]))["image"] == "reg.one/nginx:1"


def test_an_image_elsewhere_is_found_by_its_path() -> None:
    obj = {
        "apiVersion": "ex.io/v1",
        "kind": "Foo",
        "metadata": {"name": "x", "namespace": "ns"},
        "spec": {"list": [{"img": "a/b:1"}]},
    }
    overrider = {"predicate": {"path": "/spec/list/0/img"}, "component": "Tag", "operator": "replace", "value": "2"}
    assert overridden(obj, imageOverrider=[overrider])["spec"]["list"] == [{"img": "a/b:2"}]


def test_an_image_path_that_leads_nowhere_is_a_fault() -> None:
    overrider = {"predicate": {"path": "/spec/x"}, "component": "Tag", "operator": "replace", "value": "2"}
    with pytest.raises(OverrideFault, match="there is no 'x'"):
        overridden(deployment(), imageOverrider=[overrider])


def test_images_of_other_kinds_stay() -> None:
    obj = deployment() | {"kind": "CronJob"}
    assert overridden(obj, imageOverrider=[{"component": "Tag", "operator": "replace", "value": "2"}]) == obj


@pytest.mark.parametrize("field", ["command", "args"])
def test_words_are_added_to_the_named_container(field: str) -> None:
    overrider = {"containerName": "main", "operator": "add", "value": ["--x"]}
    obj = deployment(**{field: ["run"]})
    assert container(overridden(obj, **{f"{field}Overrider": [overrider]}))[field] == ["run", "--x"]


def test_a_missing_list_of_words_is_created() -> None:
    overrider = {"containerName": "main", "operator": "add", "value": ["--x"]}
    assert container(overridden(deployment(), argsOverrider=[overrider]))["args"] == ["--x"]


def test_words_are_removed_where_they_occur() -> None:
    overrider = {"containerName": "main", "operator": "remove", "value": ["a"]}
    assert container(overridden(deployment(args=["a", "b", "a"]), argsOverrider=[overrider]))["args"] == ["b"]


def test_words_of_other_containers_stay() -> None:
    overrider = {"containerName": "side", "operator": "add", "value": ["--x"]}
    assert overridden(deployment(), argsOverrider=[overrider]) == deployment()


def test_annotations_are_made_where_there_were_none() -> None:
    change = [{"operator": "add", "value": {"a.io/b": "1"}}]
    assert overridden(deployment(), annotationsOverrider=change)["metadata"]["annotations"] == {"a.io/b": "1"}


def test_a_label_that_is_not_there_is_not_replaced() -> None:
    assert overridden(deployment(), labelsOverrider=label("one", "replace")) == deployment()


def test_a_label_is_removed() -> None:
    change = [{"operator": "remove", "value": {"app": ""}}]
    assert overridden(deployment(), labelsOverrider=change)["metadata"]["labels"] == {}


def config_map(text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}, "data": {"db": text}}


def test_a_yaml_document_inside_a_field_is_patched() -> None:
    steps = [
        {"subPath": "/host", "operator": "replace", "value": "eu"},
        {"subPath": "/list/-", "operator": "add", "value": 2},
    ]
    changed = overridden(
        config_map("host: us\nlist:\n- 1\n"), fieldOverrider=[{"fieldPath": "/data/db", "yaml": steps}]
    )
    assert changed["data"]["db"] == "host: eu\nlist:\n- 1\n- 2\n"


def test_a_json_document_inside_a_field_is_patched() -> None:
    steps = [{"subPath": "/host", "operator": "remove"}]
    changed = overridden(
        config_map('{"host": "us", "b": [1, 2]}'), fieldOverrider=[{"fieldPath": "/data/db", "json": steps}]
    )
    assert changed["data"]["db"] == '{"b":[1,2]}'


@pytest.mark.parametrize(("path", "text"), [("/data", "{}"), ("/data/no", "{}"), ("/data/db", "{")])
def test_a_field_that_holds_no_document_is_a_fault(path: str, text: str) -> None:
    steps = [{"subPath": "/host", "operator": "add", "value": "x"}]
    with pytest.raises(OverrideFault):
        overridden(config_map(text), fieldOverrider=[{"fieldPath": path, "json": steps}])


def test_within_one_rule_plaintext_has_the_last_word() -> None:
    changed = overridden(
        deployment(), plaintext=plaintext("/metadata/labels/site", "replace", "two"), labelsOverrider=label("one")
    )
    assert changed["metadata"]["labels"]["site"] == "two"


def test_namespaced_policies_come_after_cluster_wide_ones() -> None:
    wide, narrow = policy("z", "", labelsOverrider=label("wide")), policy("a", labelsOverrider=label("narrow"))
    done = override(deployment(), CLUSTER, [narrow, wide])
    assert done.obj["metadata"]["labels"]["site"] == "narrow"
    assert [rule.policy for rule in done.cluster_wide] == ["z"]
    assert [rule.policy for rule in done.namespaced] == ["ns/a"]


def selecting(name: str, value: str, /, **selector: Any) -> dict[str, Any]:
    found = policy(name, labelsOverrider=label(value))
    found["spec"]["resourceSelectors"] = [{"apiVersion": "apps/v1", "kind": "Deployment", **selector}]
    return found


def test_the_policy_that_names_the_object_wins() -> None:
    by_name, by_label = (
        selecting("a", "name", name="web"),
        selecting("b", "label", labelSelector={"matchLabels": {"app": "web"}}),
    )
    done = override(deployment(), CLUSTER, [by_name, selecting("c", "any"), by_label])
    assert [rule.name for rule in done.namespaced] == ["c", "b", "a"]
    assert done.obj["metadata"]["labels"]["site"] == "name"


def test_equally_close_policies_apply_in_the_order_of_their_names() -> None:
    done = override(deployment(), CLUSTER, [selecting("b", "b"), selecting("a", "a")])
    assert done.obj["metadata"]["labels"]["site"] == "b"


def test_a_policy_of_another_namespace_has_no_say() -> None:
    assert override(deployment(), CLUSTER, [policy(namespace="other", labelsOverrider=label("x"))]).obj == deployment()


@pytest.mark.parametrize(
    ("target", "applies"),
    [
        ({"clusterNames": ["m1"]}, True),
        ({"clusterNames": ["m2"]}, False),
        ({"labelSelector": {"matchLabels": {"env": "prod"}}}, True),
    ],
)
def test_a_rule_speaks_for_its_clusters_only(target: Any, applies: bool) -> None:
    done = override(deployment(), CLUSTER, [policy(target=target, labelsOverrider=label("x"))])
    assert bool(done.namespaced) is applies


def test_the_old_single_rule_counts_where_there_are_no_others() -> None:
    old = {"metadata": {"name": "op", "namespace": "ns"}, "spec": {"overriders": {"labelsOverrider": label("old")}}}
    assert override(deployment(), CLUSTER, [old]).obj["metadata"]["labels"]["site"] == "old"


def test_the_record_of_what_was_applied_is_written_as_upstream_does() -> None:
    overriders = {
        "labelsOverrider": [{"value": {"b": "<2>", "a": "1"}, "operator": "add"}],
        "plaintext": [{"path": "/x", "operator": "remove"}],
        "imageOverrider": [{"value": "reg.one", "operator": "add", "component": "Registry"}],
    }
    assert applied_annotation([Applied("ns", "op", overriders)]) == (
        '[{"policyName":"op","overriders":{"plaintext":[{"path":"/x","operator":"remove","value":null}],'
        '"imageOverrider":[{"component":"Registry","operator":"add","value":"reg.one"}],'
        '"labelsOverrider":[{"operator":"add","value":{"a":"1","b":"\\u003c2\\u003e"}}]}}]'
    )


def test_what_was_handed_in_stays_as_it_was() -> None:
    obj = deployment()
    overridden(obj, plaintext=plaintext("/spec/template/spec/containers/0/image", "replace", "x"))
    assert obj == deployment()
