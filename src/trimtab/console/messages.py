"""Requests and responses of the console, independent of ASGI, and the headers that every response has."""

import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from trimtab.console.sessions import COOKIE
from trimtab.errors import InputError

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types trimtab"
)
SECURITY_HEADERS = (
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),  # without any, browsers would send forms with the origin `null`
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)
MAX_FORM_BYTES = 512 << 10
"""Enough for the largest text of a preview, each byte of which may be written as three."""
MAX_FORM_FIELDS = 10_000
MAX_QUERY_FIELDS = 100
GZIP_MIN_BYTES = 1024
HTML = "text/html; charset=utf-8"


class ConsoleRequest(NamedTuple):
    """One request of a browser."""

    method: str
    segments: tuple[str, ...]
    """The path below `/console`."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def cookie(self) -> str:
        """The session id; empty without one."""
        return self.cookie_of(COOKIE)

    def cookie_of(self, name: str) -> str:
        """The value of a cookie; empty without one."""
        return cookie_value(self.headers.get("cookie", ""), name)

    @property
    def bearer(self) -> str:
        """The token of a program that asks for JSON; empty for browsers."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" and self.wants_json else ""

    @property
    def wants_json(self) -> bool:
        accept = self.headers.get("accept", "")
        return "application/json" in accept and "text/html" not in accept

    @property
    def shows_progress(self) -> bool:
        """Whether a browser asks for a page that its script completes; without a script, `wait` asks for all of it."""
        return not self.wants_json and "x-trimtab-fetch" not in self.headers and "wait" not in self.query

    def form(self) -> list[tuple[str, str]]:
        text = self.body.decode("utf-8", "replace")
        try:
            return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
        except ValueError:
            raise InputError(f"the form has more than {MAX_FORM_FIELDS} fields") from None


class ConsoleResponse(NamedTuple):
    code: int
    body: bytes = b""
    media_type: str = HTML
    headers: tuple[tuple[str, str], ...] = ()
    chunks: AsyncIterator[bytes] | None = None
    """The body of a stream."""


def cookie_value(header: str, wanted: str) -> str:
    """The value of a cookie in a Cookie header; empty without one.

    Python's own parser of cookies takes time that grows with the square of some values.
    """
    for pair in header.split(";"):
        name, _, value = pair.partition("=")
        if name.strip() == wanted:
            return value.strip()
    return ""


def parse_query(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS)
    except ValueError:
        raise InputError(f"the query has more than {MAX_QUERY_FIELDS} parameters") from None


def read_request(scope: Mapping[str, Any], body: bytes) -> ConsoleRequest:
    raw = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    pairs = parse_query(scope["query_string"].decode("latin-1"))
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    segments = tuple(unquote(part) for part in path.split("/") if part)
    return ConsoleRequest(scope["method"], segments, dict(pairs), headers, body)


def html(text: str, code: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> ConsoleResponse:
    return ConsoleResponse(code, text.encode(), HTML, headers)


def json(value: Mapping[str, Any], code: int = 200) -> ConsoleResponse:
    return ConsoleResponse(code, msgspec.json.encode(without_internals(value), enc_hook=str), "application/json")


def without_internals(value: Any) -> Any:
    """A view model without the keys that only templates use."""
    if isinstance(value, dict):
        return {name: without_internals(one) for name, one in value.items() if not str(name).startswith("_")}
    return [without_internals(one) for one in value] if isinstance(value, list) else value


def see_other(location: str, headers: tuple[tuple[str, str], ...] = ()) -> ConsoleResponse:
    """Send the browser to a page after a form."""
    return ConsoleResponse(303, b"", "", (("location", location), *headers))


def headers_of(response: ConsoleResponse, body: bytes, *, compressed: bool) -> list[tuple[bytes, bytes]]:
    headers = [*SECURITY_HEADERS, *response.headers]
    if not any(name == "cache-control" for name, _ in response.headers):
        headers.append(("cache-control", "no-store"))
    if response.media_type:
        headers.append(("content-type", response.media_type))
    if compressed:
        headers += [("content-encoding", "gzip"), ("vary", "accept-encoding, accept")]
    if response.chunks is None:
        headers.append(("content-length", str(len(body))))
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def encode_body(response: ConsoleResponse, request: ConsoleRequest) -> tuple[bytes, bool]:
    """The body, compressed where that helps and the browser can read it."""
    if len(response.body) < GZIP_MIN_BYTES or "gzip" not in request.headers.get("accept-encoding", ""):
        return response.body, False
    compressor = zlib.compressobj(1, zlib.DEFLATED, 31)
    return compressor.compress(response.body) + compressor.flush(), True
