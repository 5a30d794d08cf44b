"""An answer of a webhook is used only if Kubernetes would accept it as one."""

import base64
import json
from typing import Any

import pytest

from server.admission.webhook_server import review
from trimtab.errors import Conflict, Forbidden, TooManyRequests
from trimtab.server import api_errors
from trimtab.server.admission.dynamic.admission_reviews import AnswerStatus, denial, read_answer, review_version
from trimtab.server.admission.dynamic.webhook_calls import CallFailed

SENT = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u"}}
GOOD = {"uid": "u", "allowed": True}
PATCH = base64.b64encode(b"[]").decode()
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "a number": b"1",
    "not JSON": b"<html>",
    "two documents": review(GOOD) + b"{}",
    "invalid UTF-8": review(GOOD).replace(b'"u"', b'"\xff\xfe"'),
    "lone surrogate": review(GOOD).replace(b'"u"', b'"\\ud800"'),
    "too deep": b'{"response":' + b"[" * 5000,
    "deep unknown field": b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "no response": json.dumps(SENT).encode(),
    "null response": review(None),
    "response is a list": review([GOOD]),
    "response is a string": review("allowed"),
    "no uid": review({"allowed": True}),
    "another uid": review({**GOOD, "uid": "v"}),
    "uid is a number": review({**GOOD, "uid": 1}),
    "no apiVersion": json.dumps({"kind": "AdmissionReview", "response": GOOD}).encode(),
    "another apiVersion": review(GOOD, apiVersion="admission.k8s.io/v1beta1"),
    "apiVersion is a number": review(GOOD, apiVersion=1),
    "another kind": review(GOOD, kind="Status"),
    "allowed is a string": review({**GOOD, "allowed": "true"}),
    "allowed is a number": review({**GOOD, "allowed": 1}),
    "status is a string": review({**GOOD, "allowed": False, "status": "no"}),
    "code is a string": review({**GOOD, "allowed": False, "status": {"code": "403"}}),
    "code is too large": review({**GOOD, "allowed": False, "status": {"code": 1 << 70}}),
    "message is an object": review({**GOOD, "allowed": False, "status": {"message": {}}}),
    "causes are a string": review({**GOOD, "status": {"details": {"causes": "x"}}}),
    "patch is not base64": review({**GOOD, "patch": "%%%", "patchType": "JSONPatch"}),
    "patch is a list": review({**GOOD, "patch": [], "patchType": "JSONPatch"}),
    "patch without patchType": review({**GOOD, "patch": PATCH}),
    "patchType without patch": review({**GOOD, "patchType": "JSONPatch"}),
    "empty patchType": review({**GOOD, "patch": PATCH, "patchType": ""}),
    "unknown patchType": review({**GOOD, "patch": PATCH, "patchType": "MergePatch"}),
    "warnings are a string": review({**GOOD, "warnings": "careful"}),
    "warnings are numbers": review({**GOOD, "warnings": [1]}),
    "auditAnnotations are a list": review({**GOOD, "auditAnnotations": []}),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_answer_is_a_failed_call(body: bytes) -> None:
    with pytest.raises(CallFailed):
        read_answer(body, SENT, mutating=True)


def test_good_answers_are_read() -> None:
    assert read_answer(review(GOOD), SENT, mutating=False).allowed is True
    assert read_answer(review({"uid": "u"}), SENT, mutating=False).allowed is None
    patched = read_answer(review({**GOOD, "patch": PATCH, "patchType": "JSONPatch", "new": 1}), SENT, mutating=True)
    assert patched.patch == b"[]"
    nothing = {"status": None, "patch": None, "patchType": None, "warnings": None, "auditAnnotations": None}
    assert read_answer(review({**GOOD, **nothing}), SENT, mutating=True).allowed is True


def test_validating_webhook_may_not_patch() -> None:
    for more in ({"patch": PATCH}, {"patchType": "JSONPatch"}):
        with pytest.raises(CallFailed, match="validating webhook may not return"):
            read_answer(review({**GOOD, **more}), SENT, mutating=False)


def test_older_version_may_omit_what_identifies_the_answer() -> None:
    sent = {**SENT, "apiVersion": "admission.k8s.io/v1beta1"}
    body = json.dumps({"response": {"allowed": True, "patch": PATCH}}).encode()
    assert read_answer(body, sent, mutating=True).patch_type == "JSONPatch"


def test_version_is_the_first_known_one() -> None:
    assert review_version(["v2", "v1beta1", "v1"]) == "v1beta1"
    with pytest.raises(CallFailed):
        review_version(["v2"])


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (None, 400, ""),
        (AnswerStatus(code=200), 400, ""),
        (AnswerStatus(code=0), 400, ""),
        (AnswerStatus(code=700), 400, ""),
        (AnswerStatus(code=-1), 400, ""),
        (AnswerStatus(code=403, reason="Forbidden"), 403, "Forbidden"),
        (AnswerStatus(code=418, reason="Teapot"), 418, "Teapot"),
        (AnswerStatus(code=500, message="broken"), 500, ""),
    ],
)
def test_denial_is_never_a_success(status: AnswerStatus | None, code: int, reason: str) -> None:
    sent: dict[str, Any] = api_errors.status_of(denial("h", status))
    assert (sent["code"], sent.get("reason", ""), sent["status"]) == (code, reason, "Failure")
    assert sent["message"].startswith('admission webhook "h" denied the request')


def test_denial_is_the_error_of_its_reason() -> None:
    assert isinstance(denial("h", AnswerStatus(code=409, reason="Conflict")), Conflict)
    assert isinstance(denial("h", AnswerStatus(code=403)), Forbidden)
    details = read_answer(
        review({**GOOD, "allowed": False, "status": {"code": 429, "details": {"retryAfterSeconds": 3}}}),
        SENT,
        mutating=False,
    )
    slow = denial("h", details.status)
    assert isinstance(slow, TooManyRequests)
    assert slow.retry_after == 3
