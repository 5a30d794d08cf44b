"""What an API server answers over HTTP: objects, lists, events and refusals, checked before they are used."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast, get_args

import orjson

from trimtab import errors
from trimtab.api.value import Raw
from trimtab.client.client import EventType, WatchEvent
from trimtab.client.connection_pool import MAX_RESPONSE_BYTES, Reply
from trimtab.errors import ApiError, Cause

if TYPE_CHECKING:
    import aiohttp

MAX_RETRY_SECONDS = 30

_BY_REASON = {
    fault.reason: fault
    for fault in vars(errors).values()
    if isinstance(fault, type) and issubclass(fault, ApiError) and fault is not ApiError and fault.reason
}
_EVENT_TYPES = frozenset(get_args(EventType))
_BY_CODE = {fault.code: fault for fault in reversed(_BY_REASON.values())}


def fault_from_status(status: Raw, code: int) -> ApiError:
    """The fault that a `Status` object describes; fields with the wrong type count as absent."""
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    kind = _BY_REASON.get(text_in(status, "reason")) or _BY_CODE.get(code, ApiError)
    causes = details.get("causes")
    wait = details.get("retryAfterSeconds")
    return kind(
        text_in(status, "message") or f"the server responded with status {code}",
        group=text_in(details, "group"),
        kind=text_in(details, "kind"),
        name=text_in(details, "name"),
        causes=[
            Cause(text_in(cause, "reason"), text_in(cause, "message"), text_in(cause, "field"))
            for cause in (causes if isinstance(causes, list) else ())
            if isinstance(cause, dict)
        ],
        retry_after=wait if type(wait) is int and wait >= 0 else None,
    )


def text_in(obj: Raw, key: str) -> str:
    """A field that must be a string; any other counts as absent."""
    value = obj.get(key)
    return value if isinstance(value, str) else ""


@contextmanager
def as_connection_errors() -> Iterator[None]:
    """Raise every connection failure as OSError, whichever library reports it."""
    import aiohttp  # noqa: PLC0415 - short commands need none of it

    try:
        yield
    except aiohttp.ClientError as error:
        if isinstance(error, OSError):
            raise
        raise ConnectionError(str(error) or type(error).__name__) from error


async def read_reply(response: "aiohttp.ClientResponse", limit: int) -> Reply:
    headers = response.headers
    body = await read_body(response, limit)
    return Reply(response.status, body, headers.get("Retry-After", ""), headers.get("ETag", ""))


async def read_body(response: "aiohttp.ClientResponse", limit: int = MAX_RESPONSE_BYTES) -> bytes:
    """The whole body; ConnectionError when it is too large or ends early."""
    parts: list[bytes] = []
    size = 0
    with as_connection_errors():
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > limit:
                raise ConnectionError(f"the response is larger than {limit >> 20} MiB")
            parts.append(chunk)
    return b"".join(parts)


def decode_object(text: bytes) -> Raw:
    try:
        decoded = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ApiError(f"the server did not respond with JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise ApiError("the server did not respond with a JSON object")
    return decoded


def decode_list(text: bytes) -> Raw:
    page = decode_object(text)
    metadata, items = page.get("metadata"), page.get("items") or []
    if not isinstance(metadata, dict) or not isinstance(metadata.get("resourceVersion"), str):
        raise ApiError("the server responded with a list without a resourceVersion")
    if not isinstance(items, list) or not all(_is_object(item) for item in items):
        raise ApiError("the server responded with a list whose items are not objects")
    return page


def _is_object(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("metadata"), dict)


def decode_event(line: bytes) -> WatchEvent:
    event = decode_object(line)
    kind, obj = event.get("type"), event.get("object")
    if not isinstance(kind, str) or not isinstance(obj, dict):
        raise ApiError("the server sent a watch event without a type or an object")
    if kind == "ERROR":
        code = obj.get("code")
        raise fault_from_status(obj, code if type(code) is int else 500)
    if kind not in _EVENT_TYPES or not _is_object(obj):
        raise ApiError("the server sent a watch event of an unknown type, or whose object has no metadata")
    return WatchEvent(cast("EventType", kind), obj)


def retry_seconds(reply: Reply) -> int | None:
    """How many seconds an overloaded server asks us to wait before a retry."""
    overloaded = reply.status == 429 or reply.status >= 500
    wait = parse_seconds(reply.retry_after)
    return min(MAX_RETRY_SECONDS, wait) if overloaded and wait is not None else None


def parse_seconds(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def fault_from_reply(reply: Reply) -> ApiError:
    if reply.status < 400:
        return ApiError(f"the server responded with status {reply.status}; redirects are not followed")
    try:
        status = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        status = {"message": reply.body.decode(errors="replace").strip()[:500]}
    fault = fault_from_status(status if isinstance(status, dict) else {}, reply.status)
    if fault.retry_after is None:
        fault.retry_after = parse_seconds(reply.retry_after)
    return fault
