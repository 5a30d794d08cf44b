"""The console as an ASGI application: sign-in, pages, forms, the event stream and static files below `/console`."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from trimtab.api.kinds.work import Binding
from trimtab.console import code_flow as code_flows
from trimtab.console import messages
from trimtab.console import pages as page_modules
from trimtab.console.actions import ActionError, PlanChanged, find_action
from trimtab.console.code_flow import CodeFlow
from trimtab.console.decision_history import DecisionHistory
from trimtab.console.feed import Feed
from trimtab.console.load_history import LoadHistory
from trimtab.console.messages import ConsoleRequest, ConsoleResponse
from trimtab.console.model import FleetModel
from trimtab.console.page import Page, PageContext, Services, find_page
from trimtab.console.pages.stories import STORY_PATH
from trimtab.console.permissions import Authority, Rights
from trimtab.console.plans import Planner
from trimtab.console.pulse import pulse_of
from trimtab.console.rendering import STATIC, Renderer, build_id, static_file
from trimtab.console.sessions import COOKIE, LIFETIME, Session, Sessions, is_csrf_token
from trimtab.console.stream import Hub, LivePage
from trimtab.console.text import iso
from trimtab.errors import ApiError, Forbidden, InputError, NotFound, Unauthorized
from trimtab.registry import discover
from trimtab.runtime.cache import Cache
from trimtab.server.auth.authenticate import ANONYMOUS_USER
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.oidc_issuer import IssuerUnavailable
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.server.request import large_objects
from trimtab.tasks import LoggedFailure, stop_tasks

SECONDS_BETWEEN_FAILED_LOGINS = 0.5
MAX_FORM_BYTES_IN_LOOP = 16 << 10
NAVIGATION = (
    ("fleet", "Fleet", "", "f"),
    ("workloads", "Workloads", "workloads", "w"),
    ("moves", "Moves", "moves", "m"),
    ("rebalance", "Rebalance", "rebalance", "r"),
    ("drill", "Drill", "drill", "d"),
    ("budgets", "Budgets", "budgets", "b"),
    ("placements", "Placements", "placements", "p"),
    ("stories", "Stories", "stories", "s"),
)
log = logging.getLogger("trimtab.console")


class SignInRequired(Exception):
    """The request has no session, or one that has ended."""


class Console:
    """One console: its sessions, its model, its pages and its streams."""

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
        self.model = FleetModel(self._labels_of)
        self.loads = LoadHistory(now)
        self.decisions = DecisionHistory(now, history_file)
        self.services = services._replace(loads=self.loads.loads, decisions=self.decisions.decisions)
        self.sessions = Sessions(now, session_file)
        self._code_flow = code_flow
        self._renewals: dict[str, asyncio.Task[None]] = {}
        self._authority = authority
        self._now = now
        self._rights = Rights(authority, now)
        self._renderer = Renderer()
        self.hub = Hub(self.model, self._renderer)
        if services.stories is not None:
            services.stories.add_listener(self._story_changed)
        self._cache: Cache | None = None
        self._feed: Feed | None = None
        self._is_asked_for = False
        """Whether a page was requested: a browser connects again before the cache of a new process is there."""
        self._streams: set[asyncio.Task[None]] = set()

    def _labels_of(self, binding: Binding) -> Mapping[str, str]:
        return self._feed.labels_of(binding) if self._feed is not None else {}

    def _story_changed(self) -> None:
        self.model.count_change("stories")

    def attach(self, cache: Cache) -> None:
        """Use this cache from the first request on; before, only loads and decisions that change are noted."""
        if cache is self._cache:
            return
        self._cache = cache
        self.loads.follow(cache)
        self.decisions.follow(cache)
        if self._is_asked_for:
            self._feed_model(cache)

    async def start(self) -> None:
        """Read everything now instead of at the first request."""
        await self._start_feed()

    async def wait(self) -> None:
        """Wait until the program is stopped."""
        await asyncio.Event().wait()

    async def _start_feed(self) -> None:
        self._is_asked_for = True
        if self._feed is None and self._cache is not None:
            self._feed_model(self._cache)
            await self._cache.wait_until_synced()

    def _feed_model(self, cache: Cache) -> None:
        if self._feed is not None:
            return
        self._feed = Feed(self.model, cache)
        self._feed.start()
        planner = Planner(cache, self.services.profile, self.services.settings)
        self.services = self.services._replace(
            plan=planner.plan, known_plan=planner.known_plan, resource=planner.resource, policy=planner.policy
        )

    def login_path(self, user: str, token: str) -> str:
        """The path of a link that signs in once."""
        return f"/console/login/{self.sessions.new_link(user, token)}"

    async def close(self) -> None:
        await stop_tasks(self._streams, log)
        await self.hub.close()
        self.decisions.close()
        if self.services.stories is not None:
            await self.services.stories.close()
        if self._code_flow is not None:
            await self._code_flow.issuer.close()
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
            return self._ask_to_sign_in(request)
        except Unauthorized:
            return self._ask_to_sign_in(request)
        except NotFound as fault:
            return self._failure(request, 404, "There is no such page", str(fault))
        except (ApiError, ActionError) as fault:
            return self._failure(request, fault.code, "That did not work", str(fault))
        except InputError as fault:
            return self._failure(request, 400, "That did not work", str(fault))

    def _failure(self, request: ConsoleRequest, code: int, title: str, message: str) -> ConsoleResponse:
        if request.wants_json:
            return messages.json({"code": code, "message": message}, code)
        return messages.html(self._renderer.template("failure.html", {"title": title, "message": message}), code)

    def _ask_to_sign_in(self, request: ConsoleRequest) -> ConsoleResponse:
        if request.wants_json or request.segments[:1] == ("events",):
            return messages.json({"code": 401, "message": "sign in first"}, 401)
        target = "/console/"
        if request.method == "GET":
            query = {name: value for name, value in request.query.items() if name != "wait"}
            target += "/".join(quote(part, safe="") for part in request.segments)
            target += f"?{urlencode(query)}" if query else ""
        return self._login_page(local_target(target), 401)

    def _login_page(self, target: str, code: int, message: str = "") -> ConsoleResponse:
        values = {
            "target": target,
            "message": message,
            "issuer": self._code_flow.name if self._code_flow is not None else "",
        }
        return messages.html(self._renderer.template("login.html", values), code)

    async def _route(self, request: ConsoleRequest) -> ConsoleResponse:
        first = request.segments[0] if request.segments else ""
        if first == "static":
            return static_response(request)
        if request.method not in ("GET", "HEAD", "POST"):
            return ConsoleResponse(405, b"method not allowed", "text/plain", (("allow", "GET, HEAD, POST"),))
        if first == "login":
            return await self._login(request)
        session = await self._session(request)
        await self._start_feed()
        if request.method == "POST":
            return await self._post(request, session)
        if first == "events":
            return await self._events(request, session)
        return await self._show(request, session)

    async def _session(self, request: ConsoleRequest) -> Session:
        if request.bearer and not request.cookie:
            return await self._bearer_session(request.bearer)
        session = self.sessions.find(request.cookie) if request.cookie else None
        if session is None:
            raise SignInRequired
        if session.refresh_token and code_flows.ends_soon(session.token, self._now()):
            await self._renew(request.cookie, session)
        return session

    async def _renew(self, session_id: str, session: Session) -> None:
        """Exchange the tokens of a session that end soon; requests of one browser share the exchange."""
        task = self._renewals.get(session.digest)
        if task is None:
            task = asyncio.ensure_future(self._exchange_tokens(session_id, session))
            self._renewals[session.digest] = task
            task.add_done_callback(lambda _: self._renewals.pop(session.digest, None))
        await asyncio.shield(task)

    async def _exchange_tokens(self, session_id: str, session: Session) -> None:
        try:
            if self._code_flow is None:
                raise Unauthorized("there is no issuer any more")
            tokens = await self._code_flow.renew(session.refresh_token)
            if await self._authority.identify(tokens.id_token) != session.user:
                raise Unauthorized("the token is of another user")
        except IssuerUnavailable:
            raise
        except ApiError:
            self.sessions.close(session)
            raise SignInRequired from None
        self.sessions.renew(session_id, session, tokens.id_token, tokens.refresh_token)
        self._rights.forget(session)

    async def _bearer_session(self, token: str) -> Session:
        user = await self._authority.identify(token)
        if user is None:
            await asyncio.sleep(SECONDS_BETWEEN_FAILED_LOGINS)
            raise SignInRequired
        return self.sessions.of_bearer(user, token)

    # sign-in

    async def _login(self, request: ConsoleRequest) -> ConsoleResponse:
        if request.method == "POST":
            return await self._login_with_token(request)
        if len(request.segments) == 1 or request.method == "HEAD":  # who only looks at a link does not use it up
            return self._login_page("/console/", 200)
        if self._code_flow is not None and request.segments[1:] == ("oidc",):
            return await self._begin_code_flow(self._code_flow, request)
        if self._code_flow is not None and request.segments[1:] == ("callback",):
            return await self._finish_code_flow(self._code_flow, request)
        session_id = self.sessions.follow_link(request.segments[1])
        if session_id is None:
            await asyncio.sleep(SECONDS_BETWEEN_FAILED_LOGINS)
            text = "This link was used already, or it is too old. Paste a token instead."
            return self._login_page("/console/", 403, text)
        await self._start_feed()
        return self._signed_in(session_id, "/console/")

    async def _login_with_token(self, request: ConsoleRequest) -> ConsoleResponse:
        check_origin(request)
        form = dict(await read_form(request))
        token, target = form.get("token", "").strip(), local_target(form.get("target", ""))
        user = await self._authority.identify(token) if token else None
        if user is None:
            await asyncio.sleep(SECONDS_BETWEEN_FAILED_LOGINS)
            return self._login_page(target, 403, "The API server does not accept this token.")
        await self._start_feed()
        return self._signed_in(self.sessions.open(user, token), target)

    async def _begin_code_flow(self, flow: CodeFlow, request: ConsoleRequest) -> ConsoleResponse:
        host, target = request.headers.get("host", ""), local_target(request.query.get("target", ""))
        try:
            begun = await flow.begin(host, target)
        except ApiError as fault:
            return self._login_page(target, fault.code, f"Nobody can sign in there now: {fault}.")
        seconds = int(code_flows.LIFETIME.total_seconds())
        # Lax: the browser comes back from the site of the issuer, where a strict cookie would not be sent.
        cookie = f"{code_flows.COOKIE}={begun.cookie}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={seconds}"
        return messages.see_other(begun.location, (("set-cookie", cookie),))

    async def _finish_code_flow(self, flow: CodeFlow, request: ConsoleRequest) -> ConsoleResponse:
        try:
            tokens, target = await flow.finish(request.query, request.cookie_of(code_flows.COOKIE))
        except ApiError as fault:
            await asyncio.sleep(SECONDS_BETWEEN_FAILED_LOGINS)
            return self._login_page("/console/", fault.code, str(fault))
        user = await self._authority.identify(tokens.id_token)
        if user is None:
            text = "The issuer has signed you in, but the API server does not accept its token."
            return self._login_page(target, 403, text)
        await self._start_feed()
        return self._signed_in(self.sessions.open(user, tokens.id_token, tokens.refresh_token), target)

    def _signed_in(self, session_id: str, target: str) -> ConsoleResponse:
        """A page that leads on: a redirect from another site would arrive without the new, strict cookie."""
        cookie = (
            f"{COOKIE}={session_id}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={int(LIFETIME.total_seconds())}"
        )
        return messages.html(
            self._renderer.template("signed-in.html", {"target": target}), 200, (("set-cookie", cookie),)
        )

    # pages

    async def context(
        self, session: Session, segments: tuple[str, ...], query: Mapping[str, str]
    ) -> tuple[Page, PageContext]:
        page, values = find_page(segments)
        visibility = await self._rights.visibility(session, self.model.namespaces())
        context = PageContext(
            self.model, self._now(), visibility, query, values, services=self.services, user=session.user
        )
        wanted = page.actions(context)
        may = {
            name: not self.services.is_read_only and await self._rights.allows(session, action)
            for name, action in wanted.items()
        }
        return page, context._replace(may=may)

    def values(self, page: Page, context: PageContext, session: Session) -> Mapping[str, Any]:
        """What the template of a page gets."""
        return {
            "view": page.view(context),
            "pulse": pulse_of(context),
            "context": context,
            "may": context.may,
            "query": context.query,
            "now": context.now,
            "now_text": iso(context.now),
            "user": session.user,
            "csrf": session.csrf,
            "nav": page.nav,
            "navigation": NAVIGATION,
            "revision": self.hub.revision,
            "build": build_id(),
            "profile": self.services.profile.name,
            "read_only": self.services.is_read_only,
        }

    async def _show(self, request: ConsoleRequest, session: Session) -> ConsoleResponse:
        page, context = await self.context(session, request.segments, request.query)
        if page.prepare is not None and page.is_slow(context) and request.shows_progress:
            context = context._replace(is_pending=True)
        elif page.prepare is not None:
            context = context._replace(extra=await page.prepare(context))
        if request.wants_json:
            return messages.json({"pulse": pulse_of(context), **page.view(context)})
        if not self._renderer.is_compiled(page):
            await large_objects.run(True, self._renderer.compile, page)
        return messages.html(self._renderer.page(page, self.values(page, context, session)))

    async def _events(self, request: ConsoleRequest, session: Session) -> ConsoleResponse:
        address = split_page(request.query.get("page", "/console/"))
        segments = tuple(unquote(part) for part in address.path.removeprefix("/console").split("/") if part)
        query = dict(messages.parse_query(address.query))
        page, context = await self.context(session, segments, query)
        first = context

        async def values() -> Mapping[str, Any] | None:
            try:
                _, again = await self.context(session, segments, query)
            except ApiError:
                return None
            if (again.visibility, again.may) != (first.visibility, first.may):
                return None
            return {**self.values(page, again, session), "csrf": "", "user": ""}

        async def is_allowed() -> bool:
            try:
                _, again = await self.context(session, segments, query)
            except ApiError:
                return False
            return (again.visibility, again.may) == (first.visibility, first.may)

        async def pulse() -> tuple[Any, Mapping[str, Any]] | None:
            try:
                visibility = await self._rights.visibility(session, self.model.namespaces())
            except ApiError:
                return None
            if visibility != first.visibility:
                return None
            return visibility, {"pulse": pulse_of(first._replace(now=self._now()))}

        key = (
            page.path,
            context.segments,
            tuple(sorted(query.items())),
            context.visibility,
            tuple(context.may.items()),
        )
        chunks = await self.hub.subscribe(
            LivePage(key, page, values, pulse, is_allowed),
            request.headers.get("last-event-id") or request.query.get("rev", ""),
            lambda: self.sessions.find(request.cookie) is not None,
            session.digest,
        )
        if chunks is None:
            return ConsoleResponse(503, b"too many open pages", "text/plain", (("retry-after", "10"),))
        return ConsoleResponse(200, b"", "text/event-stream", (("cache-control", "no-store"),), chunks)

    # forms

    async def _post(self, request: ConsoleRequest, session: Session) -> ConsoleResponse:
        check_origin(request)
        form = await read_form(request)
        if not session.is_bearer and not is_csrf_token(session, dict(form).get("csrf", "")):
            raise Forbidden("the form is too old: load the page again")
        if request.segments == ("logout",):
            self.sessions.close(session)
            self._rights.forget(session)
            return self._login_page("/console/", 200, "You are signed out.")
        if self.services.is_read_only:
            raise Forbidden("this console is read-only")
        action, values = find_action(request.segments)
        may = {"play": await self._rights.allows(session, Action("post", path=STORY_PATH))}
        context = PageContext(
            self.model,
            self._now(),
            segments=values,
            services=self.services,
            user=session.user,
            may=may,
            allows=partial(self._rights.allows, session),
        )
        visibility = await self._rights.visibility(session, self.model.namespaces())
        try:
            target = await action(context._replace(visibility=visibility), self._authority.client(session), form)
        except PlanChanged as fault:
            if request.wants_json:
                return messages.json({"code": 409, "message": str(fault), "differences": fault.differences}, 409)
            return messages.see_other(fault.location)
        log.info("%s: %s by %s", "/".join(request.segments), target, session.user)
        return messages.json({"location": target}, 201) if request.wants_json else messages.see_other(target)


async def read_form(request: ConsoleRequest) -> list[tuple[str, str]]:
    """The fields of a form; decoding a large one takes long, so a thread does it."""
    return await large_objects.run(len(request.body) > MAX_FORM_BYTES_IN_LOOP, request.form)


def check_origin(request: ConsoleRequest) -> None:
    """Refuse forms that another site has sent."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin", "")
    host = request.headers.get("host", "")
    if site != "same-origin" or (origin and origin.partition("://")[2] != host):
        raise Forbidden("the form was sent by another site")


def split_page(page: str) -> SplitResult:
    """Path and query of the page whose events a browser wants."""
    try:
        return urlsplit(page)
    except ValueError as fault:
        raise InputError(f"the page is not an address: {fault}") from None


def local_target(target: str) -> str:
    """Where to go after the sign-in: only to this console."""
    return target if target.startswith("/console/") and "\\" not in target and "//" not in target else "/console/"


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
