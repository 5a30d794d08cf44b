"""The objects that run Trimtab in a cluster, with another image and namespace."""

from trimtab.cli.support.installation import MANAGED_BY, MANAGER, installation_objects, replace_words, without_helm


def test_every_object_is_in_the_namespace_and_the_deployment_has_the_image() -> None:
    objects = installation_objects("registry.example/trimtab:1", "placement")
    assert objects[0]["kind"] == "Namespace"
    assert {one["metadata"]["namespace"] for one in objects if "namespace" in one["metadata"]} == {"placement"}
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/trimtab:1"
    bindings = [one for one in objects if one["kind"].endswith("RoleBinding")]
    assert {subject["namespace"] for one in bindings for subject in one["subjects"]} == {"placement"}
    assert "trimtab-system" not in str(objects)


def test_words_are_replaced_only_as_a_whole_and_after_an_equals_sign() -> None:
    words = {"NS": "mine"}
    assert replace_words({"a": ["NS", "--namespace=NS", "NS-2"], "NS": 1}, words) == {
        "a": ["mine", "--namespace=mine", "NS-2"],
        "NS": 1,
    }


def test_what_only_helm_needs_is_left_out() -> None:
    hook = {"metadata": {"annotations": {"helm.sh/hook": "test"}}}
    kept = {"metadata": {"labels": {"helm.sh/chart": "x", MANAGED_BY: "Helm", "app": "trimtab"}}}
    assert without_helm([hook, kept]) == [{"metadata": {"labels": {MANAGED_BY: MANAGER, "app": "trimtab"}}}]
