"""A Client over HTTP, to any Kubernetes API server."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, cast, get_args
from urllib.parse import quote, urlencode

import aiohttp
import orjson
from yarl import URL

from trimtab import __version__, errors
from trimtab.api.value import Raw
from trimtab.client.client import (
    EVENTS,
    EventType,
    Listing,
    PatchType,
    PlainResponse,
    Propagation,
    Resource,
    WatchEvent,
)
from trimtab.client.connection_pool import MAX_RESPONSE_BYTES, ConnectionPool, Reply
from trimtab.client.kubeconfig import Credentials, TokenSource, load_client_certificate
from trimtab.clock import Clock, WallClock
from trimtab.errors import ApiError, Cause, InputError, Unauthorized

PATCH_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
PAGE_SIZE = 2000
WATCH_SECONDS = 300
MAX_ATTEMPTS = 5
MAX_RETRY_SECONDS = 30
MAX_EVENT_BYTES = 16 << 20
MAX_SESSION_CONNECTIONS = 64
MAX_CONNECTIONS = 12
"""Connections shared by requests: more would only add handshakes, and one costs as much as a dozen requests."""
_SAFE_CHARACTERS = "/:@!$&'()*+,;=~"
AGGREGATED_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

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
    kind = _BY_REASON.get(_text(status, "reason")) or _BY_CODE.get(code, ApiError)
    causes = details.get("causes")
    wait = details.get("retryAfterSeconds")
    return kind(
        _text(status, "message") or f"the server responded with status {code}",
        group=_text(details, "group"),
        kind=_text(details, "kind"),
        name=_text(details, "name"),
        causes=[
            Cause(_text(cause, "reason"), _text(cause, "message"), _text(cause, "field"))
            for cause in (causes if isinstance(causes, list) else ())
            if isinstance(cause, dict)
        ],
        retry_after=wait if type(wait) is int and wait >= 0 else None,
    )


def _text(obj: Raw, key: str) -> str:
    value = obj.get(key)
    return value if isinstance(value, str) else ""


class KubeClient:
    """One connection pool to one API server; reads and sends JSON, and honours Retry-After."""

    def __init__(
        self,
        credentials: Credentials,
        clock: Clock | None = None,
        *,
        agent: str = "trimtab",
        before_write: Callable[[], None] | None = None,
    ) -> None:
        """`before_write` is called before every request that may change something; it raises to prevent the request."""
        self._credentials = credentials
        self._before_write = before_write
        self._clock = clock or WallClock()
        self._tokens = TokenSource(credentials)
        self._ssl = credentials.ssl_context()
        self._pool = ConnectionPool(
            credentials.server,
            ssl_context=self._ssl,
            server_name=credentials.server_name,
            max_connections=MAX_CONNECTIONS,
        )
        self._default_headers = {"User-Agent": f"{agent}/{__version__}", "Accept": "application/json"}
        self._request_session: aiohttp.ClientSession | None = None
        self._watch_session: aiohttp.ClientSession | None = None
        self._retired_sessions: list[aiohttp.ClientSession] = []
        self.requests = 0
        self._last_discovery: tuple[tuple[bytes, ...], Sequence[Resource]] = ((), ())

    @property
    def _session_for_requests(self) -> aiohttp.ClientSession:
        if self._request_session is None:
            self._request_session = self._new_session(MAX_SESSION_CONNECTIONS)
        return self._request_session

    @property
    def _session_for_watches(self) -> aiohttp.ClientSession:
        """A session without a limit: every watch occupies a connection, and must not block requests."""
        if self._watch_session is None:
            self._watch_session = self._new_session(0)
        return self._watch_session

    def _new_session(self, limit: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, ssl=self._ssl if self._ssl is not None else True),
            timeout=aiohttp.ClientTimeout(total=60, sock_connect=10),
            headers=self._default_headers,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def _headers(self) -> dict[str, str]:
        try:
            # An exec plugin may be slow and must not block the loop.
            token = await asyncio.to_thread(self._token) if self._token_may_block else self._token()
        except InputError as error:
            # The plugin may succeed later: report it like any other refusal.
            raise Unauthorized(str(error)) from error
        if self._ssl is not None and (self._tokens.cert or self._tokens.ca):
            self._use_renewed_certificates(self._ssl)
            await self._retire_connections()
        return {"Authorization": f"Bearer {' '.join(token.split())}"} if token else {}

    def _use_renewed_certificates(self, context: ssl.SSLContext) -> None:
        """Use renewed certificates for new connections."""
        try:
            if self._tokens.cert:
                load_client_certificate(context, *self._tokens.cert)
            if self._tokens.ca:
                context.load_verify_locations(cadata=self._tokens.ca.decode())
        except (ssl.SSLError, ValueError) as error:
            raise Unauthorized(f"the renewed certificates cannot be used: {error}") from error
        finally:
            self._tokens.cert, self._tokens.ca = None, b""

    async def _retire_connections(self) -> None:
        """Connect anew for the next requests: an API server refuses those on a connection whose certificate has expired."""
        self._pool.retire_connections()
        earlier = self._retired_sessions  # of the renewal before: their watches have ended long ago
        self._retired_sessions = [one for one in (self._request_session, self._watch_session) if one is not None]
        self._request_session = self._watch_session = None
        for session in earlier:
            await session.close()

    def _token(self) -> str:
        return self._tokens.current(self._clock.now())

    @property
    def _token_may_block(self) -> bool:
        return self._credentials.exec is not None

    def _request_options(self) -> dict[str, Any]:
        """Redirects are not followed: they would send our credentials and objects to another server."""
        options: dict[str, Any] = {"allow_redirects": False}
        if self._credentials.server_name:
            options["server_hostname"] = self._credentials.server_name
        if self._credentials.proxy:
            options["proxy"] = self._credentials.proxy
        return options

    def _url(self, path: str, query: Mapping[str, str | int]) -> str:
        return self._credentials.server + path + _query_string(query)

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] = {},
        body: Any = None,
        content: str = "application/json",
        accept: str = "",
    ) -> bytes:
        """Send one request; when the server sends Retry-After, wait and retry a few times."""
        encoded = orjson.dumps(body) if body is not None else None
        target = _request_target(path, query)
        for attempt in range(MAX_ATTEMPTS):
            headers = await self._headers()
            if encoded is not None:
                headers["Content-Type"] = content
            if accept:
                headers["Accept"] = accept
            if method != "GET" and self._before_write is not None:
                self._before_write()
            reply = await self._send(method, target, headers, encoded)
            if reply.status < 300:
                return reply.body
            if reply.status == 401 and attempt == 0 and self._tokens.invalidate():
                continue
            wait = _retry_seconds(reply)
            if wait is None or attempt == MAX_ATTEMPTS - 1:
                raise _fault_from_reply(reply)
            await asyncio.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _send(self, method: str, target: str, headers: dict[str, str], body: bytes | None = None) -> Reply:
        self.requests += 1
        if not self._credentials.proxy:
            return await self._pool.request(method, target, {**self._default_headers, **headers}, body or b"")
        url = URL(self._credentials.server + target, encoded=True)
        with _as_connection_errors():
            async with self._session_for_requests.request(
                method, url, data=body, headers=headers, **self._request_options()
            ) as response:
                return await _read_reply(response)

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        return _decode_object(await self._request("GET", resource.path(namespace, name)))

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        items: list[Raw] = []
        token = ""
        while True:
            query = {"labelSelector": labels, "fieldSelector": fields, "limit": PAGE_SIZE, "continue": token}
            page = _decode_list(await self._request("GET", resource.path(namespace), query))
            # List items lack apiVersion and kind; callers get complete objects.
            type_of = {"apiVersion": resource.api_version, "kind": resource.kind}
            items.extend(type_of | item for item in page.get("items") or [])
            token = _text(page["metadata"], "continue")
            if not token:
                return Listing(items, page["metadata"]["resourceVersion"])

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        query: dict[str, str | int] = {
            "watch": "1",
            "resourceVersion": revision,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": WATCH_SECONDS,
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        self.requests += 1
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=WATCH_SECONDS + 60)
        with _as_connection_errors():
            async with self._session_for_watches.get(
                self._url(resource.path(namespace), query),
                headers=await self._headers(),
                timeout=timeout,
                **self._request_options(),
            ) as response:
                if response.status >= 300:
                    if response.status == 401:
                        self._tokens.invalidate()
                    raise _fault_from_reply(await _read_reply(response))
                rest = b""
                async for chunk in response.content.iter_any():
                    lines = (rest + chunk).split(b"\n")
                    rest = lines.pop()
                    if len(rest) > MAX_EVENT_BYTES:
                        raise ApiError("the server sent a watch event that is too large")
                    if changes := [_decode_event(line) for line in lines if line]:
                        yield changes

    @property
    def takes_status(self) -> bool:
        return False

    async def create(
        self, resource: Resource, obj: Raw, *, manager: str = "trimtab", dry_run: bool = False, typed: bool = False
    ) -> Raw:
        query = {"fieldManager": manager, "dryRun": "All" if dry_run else ""}
        namespace = obj["metadata"].get("namespace", "")
        return _decode_object(await self._request("POST", resource.path(namespace), query, obj))

    async def create_together(
        self, resource: Resource, objects: Sequence[Raw], *, manager: str = "trimtab"
    ) -> Sequence[Raw] | None:
        """Kubernetes has no such call."""
        return None

    async def record(self, events: Sequence[Raw]) -> None:
        creations = (self.create(EVENTS, event, manager=event["reportingComponent"]) for event in events)
        for result in await asyncio.gather(*creations, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, ApiError):
                raise result

    async def replace(self, resource: Resource, obj: Raw, *, subresource: str = "", manager: str = "trimtab") -> Raw:
        metadata = obj["metadata"]
        path = resource.path(metadata.get("namespace", ""), metadata["name"], subresource)
        return _decode_object(await self._request("PUT", path, {"fieldManager": manager}, obj))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        *,
        type: PatchType = "merge",  # noqa: A002 - kubectl's name for it
        subresource: str = "",
        manager: str = "trimtab",
        force: bool = False,
        typed: bool = False,
        dry_run: bool = False,
    ) -> Raw:
        query = {"fieldManager": manager, "force": "true" if force else "", "dryRun": "All" if dry_run else ""}
        path = resource.path(namespace, name, subresource)
        return _decode_object(await self._request("PATCH", path, query, patch, PATCH_TYPES[type]))

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        revision: str = "",
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", revision)) if value}
        options: Raw = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self._request("DELETE", resource.path(namespace, name), body=options)

    async def submit(self, resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
        return _decode_object(await self._request("POST", resource.path(namespace, name, subresource), body=obj))

    async def resources(self) -> Sequence[Resource]:
        """Called every few seconds, so a response equal to the last one is not decoded again."""
        responses = (
            await self._request("GET", "/api", accept=AGGREGATED_DISCOVERY),
            await self._request("GET", "/apis", accept=AGGREGATED_DISCOVERY),
        )
        if responses == self._last_discovery[0]:
            return self._last_discovery[1]
        core, others = map(_decode_object, responses)
        with _as_malformed_discovery():
            if core.get("kind") == others.get("kind") == "APIGroupDiscoveryList":
                groups = [*(core.get("items") or []), *(others.get("items") or [])]
                self._last_discovery = responses, list(chain.from_iterable(map(_resources_in_group, groups)))
                return self._last_discovery[1]
            return await self._discover_each_version(core["versions"], others["groups"])

    async def _discover_each_version(self, versions: Sequence[str], groups: Sequence[Raw]) -> Sequence[Resource]:
        """Discovery for servers without aggregated discovery."""
        found: dict[tuple[str, str], Resource] = {}
        for version in versions:
            self._add_resources(found, "", version, _decode_object(await self._request("GET", f"/api/{version}")))
        for group in groups:
            preferred = group["preferredVersion"]["version"]
            versions = sorted((v["version"] for v in group["versions"]), key=lambda v: v != preferred)
            for version in versions:
                try:
                    listing = _decode_object(await self._request("GET", f"/apis/{group['name']}/{version}"))
                except ApiError:
                    continue  # an aggregated API may be unavailable; the others still count
                self._add_resources(found, group["name"], version, listing)
        return list(found.values())

    @staticmethod
    def _add_resources(found: dict[tuple[str, str], Resource], group: str, version: str, listing: Raw) -> None:
        for entry in listing.get("resources") or []:
            if "/" not in entry["name"]:
                found.setdefault(
                    (group, entry["name"]),
                    Resource(group, version, entry["name"], entry["kind"], entry["namespaced"], tuple(entry["verbs"])),
                )

    async def fetch(self, path: str) -> PlainResponse:
        reply = await self._send("GET", path, await self._headers())
        return PlainResponse(reply.status, reply.body)

    async def forward(
        self, method: str, path: str, query: Mapping[str, str], headers: Sequence[tuple[str, str]], body: bytes
    ) -> aiohttp.ClientResponse:
        """Forward a request unchanged except for our credentials; the caller reads and closes the response."""
        self.requests += 1
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=WATCH_SECONDS + 60)
        return await self._session_for_requests.request(
            method,
            URL(self._url(path, query), encoded=True),  # dots in the path must not leave the path of the server
            data=body or None,
            headers=[*headers, *(await self._headers()).items()],
            timeout=timeout,
            **self._request_options(),
        )

    async def download(self, path: str) -> AsyncIterator[bytes]:
        """The body of a path in chunks; it may be larger than the memory."""
        with _as_connection_errors():
            response = await self.forward("GET", path, {}, [], b"")
            async with response:
                if response.status >= 400:
                    raise _fault_from_reply(Reply(response.status, await response.read()))
                async for chunk in response.content.iter_any():
                    yield chunk

    async def close(self) -> None:
        self._pool.close()
        for session in (self._request_session, self._watch_session, *self._retired_sessions):
            if session is not None:
                await session.close()
        self._request_session = self._watch_session = None
        self._retired_sessions = []


@contextmanager
def _as_connection_errors() -> Iterator[None]:
    """Raise every connection failure as OSError, whichever library reports it."""
    try:
        yield
    except aiohttp.ClientError as error:
        if isinstance(error, OSError):
            raise
        raise ConnectionError(str(error) or type(error).__name__) from error


@contextmanager
def _as_malformed_discovery() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ApiError(f"the server's discovery documents are not valid: {error!r}") from error


async def _read_reply(response: aiohttp.ClientResponse) -> Reply:
    return Reply(response.status, await read_body(response), response.headers.get("Retry-After", ""))


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """The whole body; ConnectionError when it is too large or ends early."""
    parts: list[bytes] = []
    size = 0
    with _as_connection_errors():
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > MAX_RESPONSE_BYTES:
                raise ConnectionError(f"the response is larger than {MAX_RESPONSE_BYTES >> 20} MiB")
            parts.append(chunk)
    return b"".join(parts)


def _resources_in_group(group: Raw) -> Iterator[Resource]:
    """The resources of a group in aggregated discovery, each in the first, that is the preferred, version that has it."""
    name, seen = group["metadata"].get("name", ""), set()
    for version in group.get("versions") or []:
        if version.get("freshness") == "Stale":
            continue  # an aggregated API may be unavailable; the others still count
        for entry in version.get("resources") or []:
            kind = (entry.get("responseKind") or {}).get("kind", "")
            if kind and entry["resource"] not in seen:
                seen.add(entry["resource"])
                namespaced, verbs = entry.get("scope") == "Namespaced", tuple(entry.get("verbs") or ())
                yield Resource(name, version["version"], entry["resource"], kind, namespaced, verbs)


def _decode_object(text: bytes) -> Raw:
    try:
        decoded = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ApiError(f"the server did not respond with JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise ApiError("the server did not respond with a JSON object")
    return decoded


def _decode_list(text: bytes) -> Raw:
    page = _decode_object(text)
    metadata, items = page.get("metadata"), page.get("items") or []
    if not isinstance(metadata, dict) or not isinstance(metadata.get("resourceVersion"), str):
        raise ApiError("the server responded with a list without a resourceVersion")
    if not isinstance(items, list) or not all(_is_object(item) for item in items):
        raise ApiError("the server responded with a list whose items are not objects")
    return page


def _is_object(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("metadata"), dict)


def _decode_event(line: bytes) -> WatchEvent:
    event = _decode_object(line)
    kind, obj = event.get("type"), event.get("object")
    if not isinstance(kind, str) or not isinstance(obj, dict):
        raise ApiError("the server sent a watch event without a type or an object")
    if kind == "ERROR":
        code = obj.get("code")
        raise fault_from_status(obj, code if type(code) is int else 500)
    if kind not in _EVENT_TYPES or not _is_object(obj):
        raise ApiError("the server sent a watch event of an unknown type, or whose object has no metadata")
    return WatchEvent(cast("EventType", kind), obj)


def _query_string(parameters: Mapping[str, str | int]) -> str:
    present = [(key, value) for key, value in parameters.items() if value not in ("", None)]
    return "?" + urlencode(present) if present else ""


def _request_target(path: str, query: Mapping[str, str | int]) -> str:
    """The request target; object names may have characters that must be escaped."""
    return quote(path, safe=_SAFE_CHARACTERS) + _query_string(query)


def _retry_seconds(reply: Reply) -> int | None:
    """How many seconds an overloaded server asks us to wait before a retry."""
    overloaded = reply.status == 429 or reply.status >= 500
    wait = _parse_seconds(reply.retry_after)
    return min(MAX_RETRY_SECONDS, wait) if overloaded and wait is not None else None


def _parse_seconds(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _fault_from_reply(reply: Reply) -> ApiError:
    if reply.status < 400:
        return ApiError(f"the server responded with status {reply.status}; redirects are not followed")
    try:
        status = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        status = {"message": reply.body.decode(errors="replace").strip()[:500]}
    fault = fault_from_status(status if isinstance(status, dict) else {}, reply.status)
    if fault.retry_after is None:
        fault.retry_after = _parse_seconds(reply.retry_after)
    return fault
