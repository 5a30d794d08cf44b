"""Forms of pages: who may send them, and the action that each carries out with the rights of its sender."""

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial

from trimtab.console import messages
from trimtab.console.actions import PlanChanged, find_action
from trimtab.console.messages import ConsoleRequest, ConsoleResponse
from trimtab.console.page import PageContext
from trimtab.console.page_data import PageData
from trimtab.console.pages.stories import STORY_PATH
from trimtab.console.permissions import Authority, Rights
from trimtab.console.sessions import Session, is_csrf_token
from trimtab.errors import Forbidden
from trimtab.server.auth.authorize import Action
from trimtab.server.request import large_objects

MAX_FORM_BYTES_IN_LOOP = 16 << 10
log = logging.getLogger("trimtab.console")


class ActionForms:
    """Carries out the actions of forms."""

    def __init__(self, data: PageData, authority: Authority, rights: Rights, now: Callable[[], datetime]) -> None:
        self._data = data
        self._authority = authority
        self._rights = rights
        self._now = now

    async def respond(self, request: ConsoleRequest, session: Session) -> ConsoleResponse:
        form = await read_form_of(request, session)
        services = self._data.services
        if services.is_read_only:
            raise Forbidden("this console is read-only")
        action, values = find_action(request.segments)
        context = PageContext(
            self._data.model,
            self._now(),
            segments=values,
            services=services,
            user=session.user,
            may={"play": await self._rights.allows(session, Action("post", path=STORY_PATH))},
            allows=partial(self._rights.allows, session),
        )
        visibility = await self._rights.visibility(session, self._data.model.namespaces())
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


async def read_form_of(request: ConsoleRequest, session: Session) -> list[tuple[str, str]]:
    """The fields of a form that the user of the session has sent from a page of this console."""
    check_origin(request)
    form = await read_form(request)
    if not session.is_bearer and not is_csrf_token(session, dict(form).get("csrf", "")):
        raise Forbidden("the form is too old: load the page again")
    return form


def check_origin(request: ConsoleRequest) -> None:
    """Refuse forms that another site has sent."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin", "")
    host = request.headers.get("host", "")
    if site != "same-origin" or (origin and origin.partition("://")[2] != host):
        raise Forbidden("the form was sent by another site")
