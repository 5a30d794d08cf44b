"""Requests to one API server over HTTP: credentials, connections, retries.

Redirects are not followed: they would send our credentials and objects to another server.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import orjson

from trimtab import __version__
from trimtab.client.connection_pool import MAX_PLAIN_BYTES, MAX_RESPONSE_BYTES, ConnectionPool, Reply
from trimtab.client.kubeconfig import Credentials, TokenSource, load_client_certificate
from trimtab.client.responses import as_connection_errors, fault_from_reply, read_reply, retry_seconds
from trimtab.clock import Clock, WallClock
from trimtab.errors import InputError, Unauthorized

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

STREAM_SECONDS = 300
"""How long a server may keep a response open, such as that of a watch."""
MAX_ATTEMPTS = 5
NOT_MODIFIED = 304
MAX_SESSION_CONNECTIONS = 64
MAX_CONNECTIONS = 12
"""Connections shared by requests: more would only add handshakes, and one costs as much as a dozen requests."""
_SAFE_CHARACTERS = "/:@!$&'()*+,;=~"
_is_plain_path = re.compile(r"[A-Za-z0-9_.~/-]*").fullmatch
"""Finds what no path has to escape; to ask `quote` takes nine calls."""
_is_plain_value = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch


class HTTPTransport:
    """One connection pool to one API server; honours Retry-After."""

    def __init__(
        self,
        credentials: Credentials,
        clock: Clock | None = None,
        *,
        agent: str = "trimtab",
        before_write: Callable[[], None] | None = None,
    ) -> None:
        """`before_write` is called before every request that may change something; it raises to prevent the request."""
        self.requests = 0
        """The number of requests sent."""
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
        self._stream_session: aiohttp.ClientSession | None = None
        self._retired_sessions: list[aiohttp.ClientSession] = []

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] = {},
        body: Any = None,
        content: str = "application/json",
    ) -> bytes:
        """Send one request and return the body of its response."""
        headers = {"Content-Type": content} if body is not None else {}
        encoded = orjson.dumps(body) if body is not None else None
        return (await self._exchange(method, _request_target(path, query), headers, encoded)).body

    async def fetch_if_changed(self, path: str, accept: str, etag: str) -> Reply | None:
        """The document at this path; None if it is still the one that the server sent with this ETag."""
        headers = {"Accept": accept, **({"If-None-Match": etag} if etag else {})}
        reply = await self._exchange("GET", path, headers, None)
        return reply if reply.status != NOT_MODIFIED else None

    async def _exchange(self, method: str, target: str, wanted: dict[str, str], encoded: bytes | None) -> Reply:
        """Send one request; when the server sends Retry-After, wait and retry a few times."""
        for attempt in range(MAX_ATTEMPTS):
            headers = {**await self.headers(), **wanted}
            if method != "GET" and self._before_write is not None:
                self._before_write()
            reply = await self.send(method, target, headers, encoded)
            if reply.status < 300 or (reply.status == NOT_MODIFIED and "If-None-Match" in wanted):
                return reply
            if reply.status == 401 and attempt == 0 and self._tokens.invalidate():
                continue
            wait = retry_seconds(reply)
            if wait is None or attempt == MAX_ATTEMPTS - 1:
                raise fault_from_reply(reply)
            await asyncio.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def send(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | None = None,
        *,
        limit: int | None = None,
    ) -> Reply:
        """Send one request, once; its response has at most `limit` bytes."""
        self.requests += 1
        if not self._credentials.proxy:
            headers = {**self._default_headers, **headers}
            return await self._pool.request(method, target, headers, body or b"", limit=limit)
        url = _encoded_url(self._credentials.server + target)
        with as_connection_errors():
            async with self._session_for_requests.request(
                method, url, data=body, headers=headers, **self._request_options()
            ) as response:
                return await read_reply(response, limit or MAX_RESPONSE_BYTES)

    async def stream(self, path: str, query: Mapping[str, str | int]) -> AsyncGenerator[bytes, None]:
        """The chunks of a response that the server keeps open, such as that of a watch."""
        self.requests += 1
        with as_connection_errors():
            async with self._session_for_streams.get(
                self._url(path, query),
                headers=await self.headers(),
                timeout=_stream_timeout(),
                **self._request_options(),
            ) as response:
                if response.status >= 300:
                    if response.status == 401:
                        self._tokens.invalidate()
                    raise fault_from_reply(await read_reply(response, MAX_PLAIN_BYTES))
                async for chunk in response.content.iter_any():
                    yield chunk

    async def forward(
        self, method: str, path: str, query: Mapping[str, str], headers: Sequence[tuple[str, str]], body: bytes
    ) -> "aiohttp.ClientResponse":
        """Forward a request unchanged except for our credentials; the caller reads and closes the response."""
        self.requests += 1
        return await self._session_for_requests.request(
            method,
            _encoded_url(self._url(path, query)),  # dots in the path must not leave the path of the server
            data=body or None,
            headers=[*headers, *(await self.headers()).items()],
            timeout=_stream_timeout(),
            **self._request_options(),
        )

    async def download(self, path: str) -> AsyncIterator[bytes]:
        """The body of a path in chunks; it may be larger than the memory."""
        with as_connection_errors():
            response = await self.forward("GET", path, {}, [], b"")
            async with response:
                if response.status >= 400:
                    raise fault_from_reply(Reply(response.status, await response.read()))
                async for chunk in response.content.iter_any():
                    yield chunk

    async def close(self) -> None:
        self._pool.close()
        for session in (self._request_session, self._stream_session, *self._retired_sessions):
            if session is not None:
                await session.close()
        self._request_session = self._stream_session = None
        self._retired_sessions = []

    @property
    def _session_for_requests(self) -> "aiohttp.ClientSession":
        if self._request_session is None:
            self._request_session = self._new_session(MAX_SESSION_CONNECTIONS)
        return self._request_session

    @property
    def _session_for_streams(self) -> "aiohttp.ClientSession":
        """A session without a limit: every stream occupies a connection, and must not block requests."""
        if self._stream_session is None:
            self._stream_session = self._new_session(0)
        return self._stream_session

    def _new_session(self, limit: int) -> "aiohttp.ClientSession":
        import aiohttp  # noqa: PLC0415 - requests without a proxy, as those of short commands, need none of it

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, ssl=self._ssl if self._ssl is not None else True),
            timeout=aiohttp.ClientTimeout(total=60, sock_connect=10),
            headers=self._default_headers,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def headers(self) -> dict[str, str]:
        """The headers with our credentials, renewed if necessary."""
        try:
            # An exec plugin may be slow and must not block the loop.
            token = await asyncio.to_thread(self._token) if self._credentials.exec is not None else self._token()
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
        earlier = self._retired_sessions  # of the renewal before: their streams have ended long ago
        self._retired_sessions = [one for one in (self._request_session, self._stream_session) if one is not None]
        self._request_session = self._stream_session = None
        for session in earlier:
            await session.close()

    def _token(self) -> str:
        return self._tokens.current(self._clock.now())

    def _request_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"allow_redirects": False}
        if self._credentials.server_name:
            options["server_hostname"] = self._credentials.server_name
        if self._credentials.proxy:
            options["proxy"] = self._credentials.proxy
        return options

    def _url(self, path: str, query: Mapping[str, str | int]) -> str:
        return self._credentials.server + path + _query_string(query)


def _stream_timeout() -> "aiohttp.ClientTimeout":
    import aiohttp  # noqa: PLC0415

    return aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=STREAM_SECONDS + 60)


def _encoded_url(text: str) -> "URL":
    from yarl import URL  # noqa: PLC0415

    return URL(text, encoded=True)


def _query_string(parameters: Mapping[str, str | int]) -> str:
    present = [(key, value) for key, value in parameters.items() if value not in ("", None)]
    return "?" + "&".join([f"{_escape(key)}={_escape(value)}" for key, value in present]) if present else ""


def _escape(value: str | int) -> str:
    """A key or a value of a query."""
    text = str(value)
    return text if _is_plain_value(text) else quote_plus(text)


def _request_target(path: str, query: Mapping[str, str | int]) -> str:
    """The request target; object names may have characters that must be escaped."""
    escaped = path if _is_plain_path(path) else quote(path, safe=_SAFE_CHARACTERS)
    return escaped + _query_string(query)
