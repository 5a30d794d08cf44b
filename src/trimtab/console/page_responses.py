"""Pages as responses: rendered as a whole, or as a stream of the parts that change."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from trimtab.console import messages
from trimtab.console.messages import ConsoleRequest, ConsoleResponse
from trimtab.console.page import Page, PageContext, find_page
from trimtab.console.page_data import PageData
from trimtab.console.permissions import Rights
from trimtab.console.pulse import pulse_of
from trimtab.console.rendering import Renderer, build_id
from trimtab.console.sessions import Session, Sessions
from trimtab.console.stream import Hub, LivePage
from trimtab.console.text import iso
from trimtab.errors import ApiError, InputError
from trimtab.server.request import large_objects

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


class PageResponses:
    """Shows pages to users, each as much as he may see."""

    def __init__(
        self,
        data: PageData,
        rights: Rights,
        sessions: Sessions,
        renderer: Renderer,
        hub: Hub,
        now: Callable[[], datetime],
    ) -> None:
        self._data = data
        self._rights = rights
        self._sessions = sessions
        self._renderer = renderer
        self._hub = hub
        self._now = now

    async def context(
        self, session: Session, segments: tuple[str, ...], query: Mapping[str, str]
    ) -> tuple[Page, PageContext]:
        page, values = find_page(segments)
        visibility = await self._rights.visibility(session, self._data.model.namespaces())
        context = PageContext(
            self._data.model, self._now(), visibility, query, values, services=self._data.services, user=session.user
        )
        wanted = page.actions(context)
        may = {
            name: not self._data.services.is_read_only and await self._rights.allows(session, action)
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
            "revision": self._hub.revision,
            "build": build_id(),
            "profile": self._data.services.profile.name,
            "read_only": self._data.services.is_read_only,
        }

    async def show(self, request: ConsoleRequest, session: Session) -> ConsoleResponse:
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

    async def follow(self, request: ConsoleRequest, session: Session) -> ConsoleResponse:
        """The stream of the page that the request names."""
        segments, query = address_of(request)
        page, context = await self.context(session, segments, query)
        live = _FollowedPage(self, page, context, session, (segments, query))
        key = (
            page.path,
            context.segments,
            tuple(sorted(query.items())),
            context.visibility,
            tuple(context.may.items()),
        )
        chunks = await self._hub.subscribe(
            LivePage(key, page, live.values, live.pulse, live.is_allowed),
            request.headers.get("last-event-id") or request.query.get("rev", ""),
            lambda: self._sessions.find(request.cookie) is not None,
            session.digest,
        )
        if chunks is None:
            return ConsoleResponse(503, b"too many open pages", "text/plain", (("retry-after", "10"),))
        return ConsoleResponse(200, b"", "text/event-stream", (("cache-control", "no-store"),), chunks)

    async def pulse_values(self, session: Session, first: PageContext) -> tuple[Any, Mapping[str, Any]] | None:
        """What the pulse of a page shows now; None when the user may see something else than at first."""
        try:
            visibility = await self._rights.visibility(session, self._data.model.namespaces())
        except ApiError:
            return None
        if visibility != first.visibility:
            return None
        return visibility, {"pulse": pulse_of(first._replace(now=self._now()))}


class _FollowedPage:
    """A page of which a browser shows the changes, as long as its user has the same rights as at first."""

    def __init__(
        self,
        pages: PageResponses,
        page: Page,
        first: PageContext,
        session: Session,
        address: tuple[tuple[str, ...], Mapping[str, str]],
    ) -> None:
        self._pages = pages
        self._page = page
        self._first = first
        self._session = session
        self._address = address

    async def values(self) -> Mapping[str, Any] | None:
        """What the parts of the page show now, for all sessions that may see the same; None when it has to end."""
        again = await self._context_now()
        if again is None:
            return None
        return {**self._pages.values(self._page, again, self._session), "csrf": "", "user": ""}

    async def is_allowed(self) -> bool:
        return await self._context_now() is not None

    async def pulse(self) -> tuple[Any, Mapping[str, Any]] | None:
        return await self._pages.pulse_values(self._session, self._first)

    async def _context_now(self) -> PageContext | None:
        """The context of the page now; None when its user has other rights than at first."""
        try:
            _, again = await self._pages.context(self._session, *self._address)
        except ApiError:
            return None
        return again if (again.visibility, again.may) == (self._first.visibility, self._first.may) else None


def address_of(request: ConsoleRequest) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Path and query of the page whose events a browser wants."""
    address = split_page(request.query.get("page", "/console/"))
    segments = tuple(unquote(part) for part in address.path.removeprefix("/console").split("/") if part)
    return segments, dict(messages.parse_query(address.query))


def split_page(page: str) -> SplitResult:
    try:
        return urlsplit(page)
    except ValueError as fault:
        raise InputError(f"the page is not an address: {fault}") from None
