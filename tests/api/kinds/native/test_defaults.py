import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trimtab.api.kinds
from api.kinds.native.native_objects import objects
from trimtab.api.kind import find_kind, kinds
from trimtab.api.kinds.native import codec, defaults
from trimtab.api.kinds.native.fields import message_name
from trimtab.registry import discover

discover(trimtab.api.kinds)


def filled(api_version: str, name: str, raw: dict[str, Any]) -> dict[str, Any]:
    kind = find_kind(api_version, name)
    assert kind is not None
    obj = codec.read(message_name(api_version, name), raw).body
    for fill in kind.defaults:
        obj = fill(obj)
    return obj


def test_a_deployment_is_filled_in_as_recorded() -> None:
    raw = {
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "n"}]}},
        }
    }
    assert filled("apps/v1", "Deployment", raw) == {
        "metadata": {},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "n",
                            "resources": {},
                            "terminationMessagePath": "/dev/termination-log",
                            "terminationMessagePolicy": "File",
                            "imagePullPolicy": "Always",
                        }
                    ],
                    "restartPolicy": "Always",
                    "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst",
                    "securityContext": {},
                    "schedulerName": "default-scheduler",
                },
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
        "status": {},
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
def test_only_images_that_may_change_are_always_pulled(image: str, policy: str) -> None:
    pod = filled("v1", "Pod", {"spec": {"containers": [{"name": "c", "image": image}]}})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_a_pod_that_limits_a_resource_asks_for_it() -> None:
    pod = filled("v1", "Pod", {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}})
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert pod["spec"]["enableServiceLinks"] is True


def test_plain_text_of_a_secret_is_encoded() -> None:
    secret = filled("v1", "Secret", {"stringData": {"a": "b"}})
    assert (secret["type"], secret["data"]) == ("Opaque", {"a": "Yg=="})
    assert "stringData" not in secret


def test_a_service_port_leads_to_the_port_of_the_same_number() -> None:
    service = filled("v1", "Service", {"spec": {"ports": [{"port": 80}]}})
    assert service["spec"]["ports"] == [{"port": 80, "targetPort": 80, "protocol": "TCP"}]
    assert service["spec"]["type"] == "ClusterIP"


def test_a_job_selects_its_pods_by_its_uid() -> None:
    job = filled("batch/v1", "Job", {"metadata": {"name": "j"}, "spec": {"template": {"metadata": {}, "spec": {}}}})
    job["metadata"]["uid"] = "u-1"
    selected = defaults.job_selector(job)["spec"]
    assert selected["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
    assert selected["template"]["metadata"]["labels"]["job-name"] == "j"
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimit"]) == (1, 1, 6)


NATIVE = [kind for kind in kinds.values() if not kind.custom and kind.defaults]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(NATIVE), st.data())
def test_filling_in_twice_changes_nothing_and_never_touches_what_was_given(kind: Any, data: st.DataObject) -> None:
    name = message_name(kind.api_version, kind.name)
    obj = data.draw(objects(name))
    before = copy.deepcopy(obj)
    once = obj
    for fill in kind.defaults:
        once = fill(once)
    assert obj == before
    again = once
    for fill in kind.defaults:
        again = fill(again)
    assert again == once
    assert codec.read(name, once).unknown == []
