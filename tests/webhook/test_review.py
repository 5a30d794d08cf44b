"""AdmissionReviews are read, and answered with a patch or a refusal."""

import base64
import json
from typing import Any

import pytest

from trimtab.api.patch.json_patch import apply_json_patch
from trimtab.errors import BadRequest, Cause, TooManyRequests
from trimtab.webhook.review import (
    Review,
    Verdict,
    allowing_response,
    parse_review,
    patch_between,
    refusing_response,
)

REQUEST = {
    "uid": "r1",
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "subResource": "eviction",
    "namespace": "default",
    "name": "web-1",
    "operation": "CREATE",
    "userInfo": {"username": "drain"},
    "object": {"metadata": {"name": "web-1"}},
    "oldObject": None,
    "dryRun": True,
}


def body(**change: Any) -> bytes:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": REQUEST}
    return json.dumps({**review, **change}).encode()


def test_request_is_read() -> None:
    review = parse_review(body())
    assert (review.resource, review.subresource, review.name, review.user) == ("pods", "eviction", "web-1", "drain")
    assert review.dry_run
    assert review.old is None


def test_group_is_part_of_the_resource() -> None:
    request = {**REQUEST, "resource": {"group": "policy.karmada.io", "version": "v1", "resource": "overridepolicies"}}
    assert parse_review(body(request=request)).resource == "overridepolicies.policy.karmada.io"


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", body(kind="Pod"), body(apiVersion="admission.k8s.io/v1beta1")])
def test_other_bodies_are_bad_requests(text: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_review(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": 1}, {"a": 1}),
        ({"a": 1, "b": [1]}, {"b": [2], "c": {"d": 1}}),
        ({"m": {"x/y~z": "1"}}, {"m": {"x/y~z": "2", "n": None}}),
        ({"m": {"a": 1}}, {"m": [1]}),
    ],
)
def test_patch_turns_the_object_into_the_wanted_one(before: Any, after: Any) -> None:
    assert apply_json_patch(before, list(patch_between(before, after))) == after


def test_changed_object_is_answered_as_a_patch() -> None:
    review = Review("r1", "pods", "CREATE", object={"spec": {}})
    response = json.loads(allowing_response(review, Verdict(object={"spec": {"a": 1}}, warnings=["w"])))["response"]
    assert (response["uid"], response["allowed"], response["warnings"]) == ("r1", True, ["w"])
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "add", "path": "/spec/a", "value": 1}]


def test_unchanged_object_is_answered_without_a_patch() -> None:
    review = Review("r1", "pods", "CREATE", object={"spec": {}})
    assert "patch" not in json.loads(allowing_response(review, Verdict(object={"spec": {}})))["response"]


def test_refusal_keeps_its_code_and_the_time_to_wait() -> None:
    fault = TooManyRequests("wait", causes=[Cause("DisruptionBudget", "no")], retry_after=7)
    status = json.loads(refusing_response(Review("r1", "pods", "CREATE"), fault))["response"]["status"]
    assert (status["code"], status["reason"], status["message"]) == (429, "TooManyRequests", "wait")
    assert status["details"]["retryAfterSeconds"] == 7
