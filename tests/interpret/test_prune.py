from typing import Any

import pytest

from trimtab.interpret.prune import prune


def make_object(kind: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, **parts}


def test_server_fields_and_status_are_removed() -> None:
    metadata = {
        "name": "x",
        "labels": {"a": "b"},
        "uid": "u",
        "resourceVersion": "1",
        "managedFields": [{}],
        "finalizers": ["f"],
    }
    obj = make_object("ConfigMap", status={"a": 1}) | {"metadata": metadata}
    assert prune(obj) == make_object("ConfigMap") | {"metadata": {"name": "x", "labels": {"a": "b"}}}
    assert obj["metadata"]["uid"] == "u"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            make_object("Service", spec={"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "ClusterIP"}),
            make_object("Service", spec={"type": "ClusterIP"}),
        ),
        (make_object("Service", spec={"clusterIP": "None"}), make_object("Service", spec={"clusterIP": "None"})),
        (
            make_object("ServiceAccount", secrets=[{"name": "x-token-abc"}, {"name": "own"}]),
            make_object("ServiceAccount", secrets=[{"name": "own"}]),
        ),
        (
            make_object("Secret", type="kubernetes.io/service-account-token", data={"token": "t"}),
            make_object("Secret", type="kubernetes.io/service-account-token"),
        ),
        (make_object("Secret", type="Opaque", data={"a": "b"}), make_object("Secret", type="Opaque", data={"a": "b"})),
    ],
)
def test_fields_allocated_by_the_control_plane_are_removed(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert prune(before) == after


def test_generated_labels_of_a_job_are_removed_unless_its_selector_is_manual() -> None:
    labels = {"controller-uid": "u", "job-name": "x", "app": "web"}
    spec = {
        "ttlSecondsAfterFinished": 5,
        "selector": {"matchLabels": {"controller-uid": "u"}},
        "template": {"metadata": {"labels": labels}},
    }
    pruned = prune(make_object("Job", spec=spec))["spec"]
    assert pruned == {"selector": {"matchLabels": {}}, "template": {"metadata": {"labels": {"app": "web"}}}}
    kept = prune(make_object("Job", spec=spec | {"manualSelector": True}))["spec"]
    assert kept["template"]["metadata"]["labels"] == labels


def test_revision_annotations_of_a_deployment_are_removed() -> None:
    obj = make_object("Deployment")
    obj["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "3", "a": "b"}
    assert prune(obj)["metadata"]["annotations"] == {"a": "b"}
