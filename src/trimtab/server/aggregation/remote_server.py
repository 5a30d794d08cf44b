"""Connections to other API servers: verified with TLS, as a front proxy that vouches for the caller, without redirects."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from urllib.parse import quote, unquote, urlencode

import aiohttp
from yarl import URL

from trimtab.api.limits import MAX_REMOTE_ANSWER_BYTES, MAX_REMOTE_REQUESTS
from trimtab.errors import BadRequest, TooManyRequests, Unavailable
from trimtab.server.aggregation.remote_address import Address, CannotReach, ClientFiles, resolve, tls_context
from trimtab.server.auth.user import User
from trimtab.server.request.messages import Request, Response, StreamingResponse
from trimtab.server.request.routes import is_true

ANSWER_SECONDS = 60.0
"""For the whole answer; for a watch, until it starts."""
_NOT_FORWARDED = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive", "te", "upgrade"}
)
_CREDENTIALS = ("authorization", "cookie", "impersonate-", "proxy-", "x-remote-", "x-forwarded-")
"""Headers that identify the caller to this server, or that only a front proxy may set."""
_DOTS = frozenset((".", ".."))
_RETURNED = ("etag", "cache-control", "vary", "warning", "retry-after", "last-modified", "content-disposition")


class RemoteServer:
    """One other API server."""

    def __init__(self, address: Address, files: ClientFiles) -> None:
        self.address, self.files = address, files
        self._context = tls_context(address, files)
        self._session: aiohttp.ClientSession | None = None
        self._requests = 0

    async def fetch(self, path: str, user: User, seconds: float, accept: str = "application/json") -> bytes:
        """The body of a page; `CannotReach` unless it is a success."""
        try:
            async with asyncio.timeout(seconds):
                response = await self._send("GET", path, [("Accept", accept), *identity_headers(user)], b"")
                async with response:
                    if not 200 <= response.status < 300:
                        raise CannotReach(f"bad status from {self._url(path)}: {response.status}")
                    return await _read_to_end(response)
        except TimeoutError:
            raise CannotReach(
                f"failing or missing response from {self._url(path)}: it took more than {seconds:g} s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            raise CannotReach(f"failing or missing response from {self._url(path)}: {_reason(fault)}") from None

    async def forward(self, request: Request) -> Response | StreamingResponse:
        """Send a request on in the name of its caller, whose own credentials stay here."""
        if not _DOTS.isdisjoint(unquote(request.path).split("/")):
            raise BadRequest("the path must not have the parts . and ..")
        if request.headers.get("upgrade"):
            raise Unavailable("requests that change the protocol are not forwarded to other API servers")
        if self._requests >= MAX_REMOTE_REQUESTS:
            raise TooManyRequests("too many requests to this API server are in progress", retry_after=1)
        self._requests += 1
        try:
            return await self._forward(request)
        except TimeoutError:
            raise Unavailable(f"error trying to reach service: no answer in {ANSWER_SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError, CannotReach) as fault:
            raise Unavailable(f"error trying to reach service: {_reason(fault)}") from None
        finally:
            self._requests -= 1

    async def _forward(self, request: Request) -> Response | StreamingResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        async with asyncio.timeout(ANSWER_SECONDS), contextlib.AsyncExitStack() as stack:
            method = "HEAD" if request.without_body else request.method
            response = await self._send(method, request.path + query, forwarded_headers(request), request.body)
            await stack.enter_async_context(response)
            if 300 <= response.status < 400 and response.status != 304:
                message = b"the backend attempted to redirect this request, which is not permitted"
                return Response(502, message, "text/plain; charset=utf-8", verbatim=True)
            media = response.headers.get("Content-Type", "")
            headers = [
                (name.encode(), value.encode())
                for name in _RETURNED
                for value in response.headers.getall(name, ())
                if value.isprintable()
            ]
            if response.status == 200 and is_streamed(request):
                return StreamingResponse(_chunks(response, stack.pop_all()), media, headers)
            return Response(response.status, await _read_to_end(response), media, headers, verbatim=True)

    async def _send(
        self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> aiohttp.ClientResponse:
        host = await resolve(self.address.host, self.address.port)
        shown = f"[{host}]" if ":" in host else host
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._context),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return await self._session.request(
            method,
            URL(f"https://{shown}:{self.address.port}{path}", encoded=True),
            data=body or None,
            headers=[("Host", self.address.server_name), *headers],
            allow_redirects=False,
            server_hostname=self.address.server_name,
        )

    def _url(self, path: str) -> str:
        return f"https://{self.address.host}:{self.address.port}{path}"

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def identity_headers(user: User) -> list[tuple[str, str]]:
    """Who sends a request, in the headers of a front proxy."""
    extra = [(f"X-Remote-Extra-{quote(key, safe='')}", value) for key, values in user.extra for value in values]
    return [("X-Remote-User", user.name), *(("X-Remote-Group", group) for group in user.groups), *extra]


def forwarded_headers(request: Request) -> list[tuple[str, str]]:
    """The headers of a request without credentials and those of its connection, and with the identity of the caller."""
    kept = [
        (name, text)
        for name, text in request.headers.items()
        if name not in _NOT_FORWARDED and not name.startswith(_CREDENTIALS)
    ]
    return [*kept, *identity_headers(request.caller.user)]


def is_streamed(request: Request) -> bool:
    return any(is_true(request.query.get(parameter, "")) for parameter in ("watch", "follow"))


async def _read_to_end(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_REMOTE_ANSWER_BYTES:
            raise CannotReach(f"the answer is longer than {MAX_REMOTE_ANSWER_BYTES} bytes")
        parts.append(chunk)
    return b"".join(parts)


async def _chunks(response: aiohttp.ClientResponse, stack: contextlib.AsyncExitStack) -> AsyncIterator[bytes]:
    """The chunks until the server ends the stream; a broken connection ends it as well, and clients watch again."""
    async with stack:
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async for chunk in response.content.iter_any():
                yield chunk


def _reason(fault: Exception) -> str:
    return str(fault) or type(fault).__name__
