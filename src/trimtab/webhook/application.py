"""The HTTP application of the webhook: an AdmissionReview in, an AdmissionReview out."""

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping

from trimtab.errors import ApiError, BadRequest, TooLarge
from trimtab.server.http.exchange import Receive, Scope, Send
from trimtab.telemetry import Sample
from trimtab.webhook.review import Refused, Review, Verdict, allowing_response, parse_review, refusing_response

Handler = Callable[[Review], Awaitable[Verdict]]
MAX_REVIEW_BYTES = 8 << 20
"""A kube-apiserver accepts objects of 3 MiB, and sends the old and the new one."""
_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
log = logging.getLogger("trimtab.webhook")


class WebhookApplication:
    """An ASGI application with one handler per path."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._counts: dict[tuple[str, str], int] = {}
        self._seconds = dict.fromkeys(handlers, 0.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        code, body = await self._respond(scope["method"], scope["path"], receive)
        headers = [*_HEADERS, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _respond(self, method: str, path: str, receive: Receive) -> tuple[int, bytes]:
        handler = self._handlers.get(path)
        if handler is None:
            return 404, b"{}"
        if method != "POST":
            return 405, b"{}"
        try:
            review = parse_review(await _read_body(receive))
        except ApiError as fault:
            self._count(path, "invalid")
            return fault.code, fault.message.encode()
        started = time.perf_counter()
        try:
            verdict = await handler(review)
        except Refused as refusal:
            result, response = "refused", refusing_response(review, refusal.fault)
            log.info("%s %s/%s refused: %s", path, review.namespace, review.name, refusal)
        except (ApiError, OSError, TimeoutError) as fault:
            # It could not decide, so the failure policy of the webhook applies.
            log.warning("%s %s/%s: cannot decide: %s", path, review.namespace, review.name, fault)
            self._count(path, "failed")
            return 500, b"cannot decide: the API server does not answer as expected"
        else:
            result, response = "allowed", allowing_response(review, verdict)
        self._seconds[path] += time.perf_counter() - started
        self._count(path, result)
        return 200, response

    def _count(self, path: str, result: str) -> None:
        self._counts[path, result] = self._counts.get((path, result), 0) + 1

    def samples(self) -> Iterator[Sample]:
        """How many reviews were allowed, refused, failed or invalid, and how long they took."""
        for (path, result), count in sorted(self._counts.items()):
            yield Sample("trimtab_webhook_reviews_total", count, {"webhook": path.strip("/"), "result": result})
        for path, seconds in self._seconds.items():
            yield Sample("trimtab_webhook_review_seconds_total", seconds, {"webhook": path.strip("/")})


async def _read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise BadRequest("the client closed the connection")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_REVIEW_BYTES:
            raise TooLarge(f"the body is larger than {MAX_REVIEW_BYTES >> 20} MiB")
        if not message.get("more_body"):
            return b"".join(parts)
