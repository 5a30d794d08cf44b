"""The HTTP side of the webhook."""

import asyncio
import json
from typing import Any

from trimtab.errors import Forbidden, NotFound
from trimtab.webhook.application import MAX_REVIEW_BYTES, WebhookApplication
from trimtab.webhook.review import ALLOWED, Refused, Review, Verdict

REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "r1", "operation": "CREATE", "object": {"metadata": {"name": "a"}}},
}


async def allow(review: Review) -> Verdict:
    return ALLOWED


async def refuse(review: Review) -> Verdict:
    raise Refused(Forbidden("no"))


async def fail(review: Review) -> Verdict:
    raise NotFound("a read of the webhook itself")


async def lose_connection(review: Review) -> Verdict:
    raise ConnectionResetError


APPLICATION = WebhookApplication({"/allow": allow, "/refuse": refuse, "/fail": fail, "/lost": lose_connection})


def call(path: str, body: bytes = json.dumps(REVIEW).encode(), method: str = "POST") -> tuple[int, Any]:
    sent: list[dict[str, Any]] = []
    parts = [body[:10], body[10:]]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(APPLICATION({"type": "http", "method": method, "path": path}, receive, send))  # type: ignore[arg-type]
    return sent[0]["status"], sent[1]["body"]


def test_reviews_are_answered() -> None:
    code, body = call("/allow")
    assert (code, json.loads(body)["response"]) == (200, {"uid": "r1", "allowed": True})
    code, body = call("/refuse")
    assert (code, json.loads(body)["response"]["allowed"]) == (200, False)


def test_handler_that_cannot_decide_leaves_it_to_the_failure_policy() -> None:
    assert call("/fail")[0] == 500
    assert call("/lost")[0] == 500


def test_other_requests_are_refused() -> None:
    assert call("/missing")[0] == 404
    assert call("/allow", method="GET")[0] == 405
    assert call("/allow", b"nonsense that is no review")[0] == 400
    for obj in (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b'{"a":"\xff"}'):
        review = json.dumps(REVIEW).encode().removesuffix(b"}") + b',"more":%s}' % obj
        deep = b'{"request":{"object":%s}}' % obj
        assert [call("/allow", body)[0] for body in (review, deep)] in ([400, 400], [200, 400])
    assert call("/allow", b"x" * (MAX_REVIEW_BYTES + 1))[0] == 413


def test_reviews_are_counted() -> None:
    application = WebhookApplication({"/allow": allow})
    assert [sample.name for sample in application.samples()] == ["trimtab_webhook_review_seconds_total"]
    found = {(s.labels.get("webhook"), s.labels.get("result")): s.value for s in APPLICATION.samples()}
    call("/refuse")
    after = {(s.labels.get("webhook"), s.labels.get("result")): s.value for s in APPLICATION.samples()}
    assert after["refuse", "refused"] == found.get(("refuse", "refused"), 0) + 1
