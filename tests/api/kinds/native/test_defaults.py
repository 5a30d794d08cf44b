import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trimtab.api.kinds
from api.kinds.native.native_objects import objects
from api.kinds.native.native_validation import decode_with_defaults
from trimtab.api.kind import kinds
from trimtab.api.kinds.native import codec
from trimtab.api.kinds.native.defaults import workloads as workloads_defaults
from trimtab.api.kinds.native.defaults.fill import fill_member, set_missing
from trimtab.api.kinds.native.fields import message_name
from trimtab.registry import discover

discover(trimtab.api.kinds)


def test_deployment_gets_the_recorded_defaults() -> None:
    raw = {
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "n"}]}},
        }
    }
    assert decode_with_defaults("apps/v1", "Deployment", raw) == {
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
def test_only_images_with_mutable_tags_are_always_pulled(image: str, policy: str) -> None:
    pod = decode_with_defaults("v1", "Pod", {"spec": {"containers": [{"name": "c", "image": image}]}})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_pod_with_a_limit_requests_the_limit() -> None:
    pod = decode_with_defaults(
        "v1", "Pod", {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}
    )
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert pod["spec"]["enableServiceLinks"] is True


def test_string_data_of_a_secret_is_encoded() -> None:
    secret = decode_with_defaults("v1", "Secret", {"stringData": {"a": "b"}})
    assert (secret["type"], secret["data"]) == ("Opaque", {"a": "Yg=="})
    assert "stringData" not in secret


def test_target_port_of_a_service_defaults_to_its_port() -> None:
    service = decode_with_defaults("v1", "Service", {"spec": {"ports": [{"port": 80}]}})
    assert service["spec"]["ports"] == [{"port": 80, "targetPort": 80, "protocol": "TCP"}]
    assert service["spec"]["type"] == "ClusterIP"


def test_job_selects_its_pods_by_its_uid() -> None:
    job = decode_with_defaults(
        "batch/v1", "Job", {"metadata": {"name": "j"}, "spec": {"template": {"metadata": {}, "spec": {}}}}
    )
    job["metadata"]["uid"] = "u-1"
    spec = workloads_defaults.with_job_selector(job)["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
    assert spec["template"]["metadata"]["labels"]["job-name"] == "j"
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimit"]) == (1, 1, 6)


# Cluster is a built-in of Karmada's aggregated API, not of Kubernetes, and has no native message.
NATIVE = [kind for kind in kinds.values() if not kind.custom and kind.defaults and kind.name != "Cluster"]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(NATIVE), st.data())
def test_defaulting_is_idempotent_and_does_not_modify_its_argument(kind: Any, data: st.DataObject) -> None:
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


def test_missing_and_null_members_are_set_in_their_order() -> None:
    obj = {"a": None, "b": 2}
    assert list(set_missing(obj, c=3, b=0, a=1).items()) == [("a", 1), ("b", 2), ("c", 3)]
    assert set_missing(obj, b=0) is obj
    assert fill_member(obj, "a", lambda member: member) is obj
