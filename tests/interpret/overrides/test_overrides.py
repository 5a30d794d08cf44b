from typing import Any

import pytest

from interpret.overrides.override_helpers import CLUSTER, apply_policy, deployment, label, plaintext, policy
from trimtab.interpret.overrides.overrides import (
    AppliedRule,
    OverrideError,
    applied_overrides_annotation,
    apply_overrides,
)


def test_namespaced_policies_are_applied_after_cluster_wide_ones() -> None:
    cluster_wide, namespaced = (
        policy("z", "", labelsOverrider=label("cluster_wide")),
        policy("a", labelsOverrider=label("namespaced")),
    )
    result = apply_overrides(deployment(), CLUSTER, [namespaced, cluster_wide])
    assert result.obj["metadata"]["labels"]["site"] == "namespaced"
    assert [rule.policy for rule in result.cluster_wide] == ["z"]
    assert [rule.policy for rule in result.namespaced] == ["ns/a"]


def selecting_policy(name: str, value: str, /, **selector: Any) -> dict[str, Any]:
    found = policy(name, labelsOverrider=label(value))
    found["spec"]["resourceSelectors"] = [{"apiVersion": "apps/v1", "kind": "Deployment", **selector}]
    return found


def test_policy_that_names_the_object_takes_precedence() -> None:
    by_name, by_label = (
        selecting_policy("a", "name", name="web"),
        selecting_policy("b", "label", labelSelector={"matchLabels": {"app": "web"}}),
    )
    result = apply_overrides(deployment(), CLUSTER, [by_name, selecting_policy("c", "any"), by_label])
    assert [rule.name for rule in result.namespaced] == ["c", "b", "a"]
    assert result.obj["metadata"]["labels"]["site"] == "name"


def test_equally_specific_policies_are_applied_by_name() -> None:
    result = apply_overrides(deployment(), CLUSTER, [selecting_policy("b", "b"), selecting_policy("a", "a")])
    assert result.obj["metadata"]["labels"]["site"] == "b"


def test_policy_of_another_namespace_is_not_applied() -> None:
    assert (
        apply_overrides(deployment(), CLUSTER, [policy(namespace="other", labelsOverrider=label("x"))]).obj
        == deployment()
    )


@pytest.mark.parametrize(
    ("target", "applies"),
    [
        ({"clusterNames": ["m1"]}, True),
        ({"clusterNames": ["m2"]}, False),
        ({"labelSelector": {"matchLabels": {"env": "prod"}}}, True),
    ],
)
def test_rule_is_applied_to_its_target_clusters_only(target: Any, applies: bool) -> None:
    result = apply_overrides(deployment(), CLUSTER, [policy(target=target, labelsOverrider=label("x"))])
    assert bool(result.namespaced) is applies


def test_deprecated_single_rule_is_used_without_override_rules() -> None:
    old = {"metadata": {"name": "op", "namespace": "ns"}, "spec": {"overriders": {"labelsOverrider": label("old")}}}
    assert apply_overrides(deployment(), CLUSTER, [old]).obj["metadata"]["labels"]["site"] == "old"


def test_annotation_has_upstreams_order_of_fields() -> None:
    overriders = {
        "labelsOverrider": [{"value": {"b": "<2>", "a": "1"}, "operator": "add"}],
        "plaintext": [{"path": "/x", "operator": "remove"}],
        "imageOverrider": [{"value": "reg.one", "operator": "add", "component": "Registry"}],
    }
    assert applied_overrides_annotation([AppliedRule("ns", "op", overriders)]) == (
        '[{"policyName":"op","overriders":{"plaintext":[{"path":"/x","operator":"remove","value":null}],'
        '"imageOverrider":[{"component":"Registry","operator":"add","value":"reg.one"}],'
        '"labelsOverrider":[{"operator":"add","value":{"a":"1","b":"\\u003c2\\u003e"}}]}}]'
    )


def test_object_is_not_modified() -> None:
    obj = deployment()
    apply_policy(obj, plaintext=plaintext("/spec/template/spec/containers/0/image", "replace", "x"))
    assert obj == deployment()


def test_error_carries_the_rules_that_were_applied_before() -> None:
    failing = policy("b", plaintext=plaintext("/spec/nope", "remove"))
    with pytest.raises(OverrideError) as raised:
        apply_overrides(deployment(), CLUSTER, [policy("a", "", labelsOverrider=label("x")), failing])
    assert [rule.name for rule in raised.value.applied_before] == ["a"]
    assert raised.value.rule.name == "b"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/metadata/namespace", "kube-system"),
        ("/metadata/name", "other"),
        ("/kind", "ClusterRoleBinding"),
        ("/apiVersion", "rbac.authorization.k8s.io/v1"),
    ],
)
def test_policy_of_a_namespace_does_not_make_another_object(path: str, value: str) -> None:
    rules = policy(plaintext=plaintext(path, "replace", value))
    with pytest.raises(OverrideError, match="may not change the apiVersion, kind, name or namespace"):
        apply_overrides(deployment(), CLUSTER, [rules], keep_identity=True)
    assert apply_overrides(deployment(), CLUSTER, [rules]).obj != deployment()
