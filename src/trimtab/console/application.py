"""The console as an ASGI application: sign-in, pages, forms, the event stream and static files below `/console`."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from trimtab.console import messages
from trimtab.console import pages as page_modules
from trimtab.console.actions import ActionError
from trimtab.console.code_flow import CodeFlow
from trimtab.console.forms import ActionForms, read_form_of
from trimtab.console.messages import ConsoleRequest, ConsoleResponse
from trimtab.console.page import Services
from trimtab.console.page_data import PageData
from trimtab.console.page_responses import PageResponses
from trimtab.console.permissions import Authority, Rights
from trimtab.console.rendering import STATIC, Renderer, static_file
from trimtab.console.sessions import COOKIE, Sessions
from trimtab.console.sign_in import SignIn, SignInRequired
from trimtab.console.stream import Hub
from trimtab.errors import ApiError, InputError, NotFound, Unauthorized
from trimtab.registry import discover
from trimtab.runtime.cache import Cache
from trimtab.server.auth.authenticate import ANONYMOUS_USER
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.tasks import LoggedFailure, stop_tasks

log = logging.getLogger("trimtab.console")


class Console:
    """One console: receives requests and passes them to its sign-in, pages and forms."""

    def __init__(
        self,
        authority: Authority,
        now: Callable[[], datetime],
        *,
        services: Services = Services(),  # noqa: B008 - a frozen value
        session_file: Path | None = None,
        history_file: Path | None = None,
        code_flow: CodeFlow | None = None,
    ) -> None:
        """`history_file` keeps the decisions over restarts; `code_flow` signs in at an OpenID Connect issuer."""
        discover(page_modules)
        self.data = PageData(now, services, history_file)
        self.model = self.data.model
        self.sessions = Sessions(now, session_file)
        self._authority = authority
        self._renderer = Renderer()
        self.hub = Hub(self.model, self._renderer)
        rights = Rights(authority, now)
        self.pages = PageResponses(self.data, rights, self.sessions, self._renderer, self.hub, now)
        self._forms = ActionForms(self.data, authority, rights, now)
        self._sign_in = SignIn(self.sessions, authority, rights, self._renderer, code_flow, now, self.data.start_feed)
        self._streams: set[asyncio.Task[None]] = set()

    def attach(self, cache: Cache) -> None:
        """Use this cache from the first request on; before, only loads and decisions that change are noted."""
        self.data.attach(cache)

    async def start(self) -> None:
        """Read everything now instead of at the first request."""
        await self.data.start_feed()

    async def wait(self) -> None:
        """Wait until the program is stopped."""
        await asyncio.Event().wait()

    def login_path(self, user: str, token: str) -> str:
        """The path of a link that signs in once."""
        return f"/console/login/{self.sessions.new_link(user, token)}"

    async def close(self) -> None:
        await stop_tasks(self._streams, log)
        await self.hub.close()
        await self.data.close()
        await self._sign_in.close()
        await self._authority.close()

    def end_streams(self) -> None:
        for task in list(self._streams):
            task.cancel()

    def user_of(self, headers: Mapping[bytes, bytes]) -> User:
        """For flow control: the user of the session that the headers of a request name, else nobody."""
        session_id = messages.cookie_value(headers.get(b"cookie", b"").decode("latin-1"), COOKIE)
        session = self.sessions.find(session_id) if session_id else None
        return User(session.user, (AUTHENTICATED,)) if session is not None else ANONYMOUS_USER

    # HTTP

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        try:
            body = await read_body(receive)
            request = messages.read_request(scope, body)
            response = await self._respond(request)
        except (ValueError, InputError) as fault:
            request = ConsoleRequest("GET", (), {}, {})
            response = ConsoleResponse(400, str(fault).encode(), "text/plain; charset=utf-8")
        content, compressed = messages.encode_body(response, request)
        headers = messages.headers_of(response, content, compressed=compressed)
        await send({"type": "http.response.start", "status": response.code, "headers": headers})
        if response.chunks is None:
            await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else content})
        else:
            await self._send_stream(response, receive, send)

    async def _send_stream(self, response: ConsoleResponse, receive: Any, send: Any) -> None:
        async def send_chunks() -> None:
            assert response.chunks is not None
            async for chunk in response.chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        sender = asyncio.ensure_future(send_chunks())
        listener = asyncio.ensure_future(wait_for_disconnect(receive))
        self._streams.add(sender)
        try:
            await asyncio.wait({sender, listener}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(sender)
            stopped = sender.cancelled() and not listener.done()
            await stop_tasks((sender, listener), log)
            await response.chunks.aclose()  # type: ignore[union-attr]
        if stopped:
            await send({"type": "http.response.body", "body": b""})

    async def _respond(self, request: ConsoleRequest) -> ConsoleResponse:
        with LoggedFailure(log, "a page failed: %s", "/".join(request.segments)):
            return await self._respond_or_refuse(request)
        return self._failure(request, 500, "This page failed", "The log of the server says why.")

    async def _respond_or_refuse(self, request: ConsoleRequest) -> ConsoleResponse:
        try:
            return await self._route(request)
        except SignInRequired:
            return self._sign_in.ask_to_sign_in(request)
        except Unauthorized:
            return self._sign_in.ask_to_sign_in(request)
        except NotFound as fault:
            return self._failure(request, 404, "Not found", str(fault))
        except (ApiError, ActionError) as fault:
            return self._failure(request, fault.code, "That did not work", str(fault))
        except InputError as fault:
            return self._failure(request, 400, "That did not work", str(fault))

    def _failure(self, request: ConsoleRequest, code: int, title: str, message: str) -> ConsoleResponse:
        if request.wants_json:
            return messages.json({"code": code, "message": message}, code)
        return messages.html(self._renderer.template("failure.html", {"title": title, "message": message}), code)

    async def _route(self, request: ConsoleRequest) -> ConsoleResponse:
        first = request.segments[0] if request.segments else ""
        if first == "static":
            return static_response(request)
        if request.method not in ("GET", "HEAD", "POST"):
            return ConsoleResponse(405, b"method not allowed", "text/plain", (("allow", "GET, HEAD, POST"),))
        if first == "login":
            return await self._sign_in.respond(request)
        session = await self._sign_in.session_of(request)
        await self.data.start_feed()
        if request.method == "POST" and request.segments == ("logout",):
            await read_form_of(request, session)
            return self._sign_in.sign_out(session)
        if request.method == "POST":
            return await self._forms.respond(request, session)
        if first == "events":
            return await self.pages.follow(request, session)
        return await self.pages.show(request, session)


def static_response(request: ConsoleRequest) -> ConsoleResponse:
    name = request.segments[-1]
    if request.method not in ("GET", "HEAD") or len(request.segments) != 2 or name not in STATIC:
        raise NotFound("there is no such file")
    content, hash_ = static_file(name)
    is_current = request.query.get("v") == hash_
    caching = "public, max-age=31536000, immutable" if is_current else "no-cache"
    return ConsoleResponse(200, content, STATIC[name], (("cache-control", caching),))


async def read_body(receive: Any) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > messages.MAX_FORM_BYTES:
            raise InputError("the form is too large")
        if not message.get("more_body"):
            return b"".join(parts)


async def wait_for_disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
