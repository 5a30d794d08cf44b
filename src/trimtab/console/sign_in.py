"""Sign-in: the session of a request, the login page, and sessions from tokens, links and an OpenID Connect issuer."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from urllib.parse import quote, urlencode

from trimtab.console import code_flow as code_flows
from trimtab.console import messages
from trimtab.console.code_flow import CodeFlow
from trimtab.console.forms import check_origin, read_form
from trimtab.console.messages import ConsoleRequest, ConsoleResponse
from trimtab.console.permissions import Authority, Rights
from trimtab.console.rendering import Renderer
from trimtab.console.sessions import COOKIE, LIFETIME, Session, Sessions
from trimtab.errors import ApiError, Unauthorized
from trimtab.server.auth.oidc_issuer import IssuerUnavailable

SECONDS_BETWEEN_FAILED_LOGINS = 0.5


class SignInRequired(Exception):
    """The request has no session, or one that has ended."""


class SignIn:
    """Opens sessions and finds them again."""

    def __init__(
        self,
        sessions: Sessions,
        authority: Authority,
        rights: Rights,
        renderer: Renderer,
        code_flow: CodeFlow | None,
        now: Callable[[], datetime],
        before_first_page: Callable[[], Awaitable[None]],
    ) -> None:
        self._sessions = sessions
        self._authority = authority
        self._rights = rights
        self._renderer = renderer
        self._code_flow = code_flow
        self._now = now
        self._before_first_page = before_first_page
        self._renewals: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        if self._code_flow is not None:
            await self._code_flow.issuer.close()

    # sessions

    async def session_of(self, request: ConsoleRequest) -> Session:
        if request.bearer and not request.cookie:
            return await self._bearer_session(request.bearer)
        session = self._sessions.find(request.cookie) if request.cookie else None
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
            self._sessions.close(session)
            raise SignInRequired from None
        self._sessions.renew(session_id, session, tokens.id_token, tokens.refresh_token)
        self._rights.forget(session)

    async def _bearer_session(self, token: str) -> Session:
        user = await self._authority.identify(token)
        if user is None:
            await asyncio.sleep(SECONDS_BETWEEN_FAILED_LOGINS)
            raise SignInRequired
        return self._sessions.of_bearer(user, token)

    def sign_out(self, session: Session) -> ConsoleResponse:
        self._sessions.close(session)
        self._rights.forget(session)
        return self.login_page("/console/", 200, "You are signed out.")

    # pages

    def ask_to_sign_in(self, request: ConsoleRequest) -> ConsoleResponse:
        if request.wants_json or request.segments[:1] == ("events",):
            return messages.json({"code": 401, "message": "sign in first"}, 401)
        target = "/console/"
        if request.method == "GET":
            query = {name: value for name, value in request.query.items() if name != "wait"}
            target += "/".join(quote(part, safe="") for part in request.segments)
            target += f"?{urlencode(query)}" if query else ""
        return self.login_page(local_target(target), 401)

    def login_page(self, target: str, code: int, message: str = "") -> ConsoleResponse:
        values = {
            "target": target,
            "message": message,
            "issuer": self._code_flow.name if self._code_flow is not None else "",
        }
        return messages.html(self._renderer.template("login.html", values), code)

    async def respond(self, request: ConsoleRequest) -> ConsoleResponse:
        if request.method == "POST":
            return await self._login_with_token(request)
        if len(request.segments) == 1 or request.method == "HEAD":  # who only looks at a link does not use it up
            return self.login_page("/console/", 200)
        if self._code_flow is not None and request.segments[1:] == ("oidc",):
            return await self._begin_code_flow(self._code_flow, request)
        if self._code_flow is not None and request.segments[1:] == ("callback",):
            return await self._finish_code_flow(self._code_flow, request)
        session_id = self._sessions.follow_link(request.segments[1])
        if session_id is None:
            await asyncio.sleep(SECONDS_BETWEEN_FAILED_LOGINS)
            text = "This link was used already, or it is too old. Paste a token instead."
            return self.login_page("/console/", 403, text)
        await self._before_first_page()
        return self._signed_in(session_id, "/console/")

    async def _login_with_token(self, request: ConsoleRequest) -> ConsoleResponse:
        check_origin(request)
        form = dict(await read_form(request))
        token, target = form.get("token", "").strip(), local_target(form.get("target", ""))
        user = await self._authority.identify(token) if token else None
        if user is None:
            await asyncio.sleep(SECONDS_BETWEEN_FAILED_LOGINS)
            return self.login_page(target, 403, "The API server does not accept this token.")
        await self._before_first_page()
        return self._signed_in(self._sessions.open(user, token), target)

    async def _begin_code_flow(self, flow: CodeFlow, request: ConsoleRequest) -> ConsoleResponse:
        host, target = request.headers.get("host", ""), local_target(request.query.get("target", ""))
        try:
            begun = await flow.begin(host, target)
        except ApiError as fault:
            return self.login_page(target, fault.code, f"Nobody can sign in there now: {fault}.")
        seconds = int(code_flows.LIFETIME.total_seconds())
        # Lax: the browser comes back from the site of the issuer, where a strict cookie would not be sent.
        cookie = f"{code_flows.COOKIE}={begun.cookie}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={seconds}"
        return messages.see_other(begun.location, (("set-cookie", cookie),))

    async def _finish_code_flow(self, flow: CodeFlow, request: ConsoleRequest) -> ConsoleResponse:
        try:
            tokens, target = await flow.finish(request.query, request.cookie_of(code_flows.COOKIE))
        except ApiError as fault:
            await asyncio.sleep(SECONDS_BETWEEN_FAILED_LOGINS)
            return self.login_page("/console/", fault.code, str(fault))
        user = await self._authority.identify(tokens.id_token)
        if user is None:
            text = "The issuer has signed you in, but the API server does not accept its token."
            return self.login_page(target, 403, text)
        await self._before_first_page()
        return self._signed_in(self._sessions.open(user, tokens.id_token, tokens.refresh_token), target)

    def _signed_in(self, session_id: str, target: str) -> ConsoleResponse:
        """A page that leads on: a redirect from another site would arrive without the new, strict cookie."""
        cookie = (
            f"{COOKIE}={session_id}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={int(LIFETIME.total_seconds())}"
        )
        return messages.html(
            self._renderer.template("signed-in.html", {"target": target}), 200, (("set-cookie", cookie),)
        )


def local_target(target: str) -> str:
    """Where to go after the sign-in: only to this console."""
    return target if target.startswith("/console/") and "\\" not in target and "//" not in target else "/console/"
