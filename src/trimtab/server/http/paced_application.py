"""Lets the requests of another ASGI application of the process, such as the console, take turns with those of the API.

Without this, a caller could use all of the event loop with requests for pages, which flow control does not see. A request takes
no seat: the application may itself ask the API for something, and would hold one seat while it waits for another.
"""

from collections.abc import Callable, Mapping

from trimtab.errors import ApiError
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import User
from trimtab.server.flowcontrol.controller import RETRY_SECONDS, Admission, FlowController, Rejected
from trimtab.server.http.exchange import (
    BODY_WITHOUT_SEAT,
    NO_CONNECTION,
    Application,
    ClientDisconnected,
    Connection,
    Exchange,
    Message,
    Receive,
    Scope,
    Send,
)
from trimtab.server.http.request_size import check_size

UserOf = Callable[[Mapping[bytes, bytes]], User]
"""The user of a request, by its headers."""


class PacedApplication:
    """An ASGI application whose requests wait for their turn, by user."""

    def __init__(self, application: Application, flows: FlowController, user_of: UserOf) -> None:
        self._application = application
        self._flows = flows
        self._user_of = user_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(receive)
        connection: Connection = scope.get("connection", NO_CONNECTION)
        try:
            check_size(scope)
            complete = await exchange.read_body(BODY_WITHOUT_SEAT)
            exchange.admission = await self._admit(scope, connection)
            if not complete or connection.is_lost:
                await exchange.read_rest(connection)
            await self._application(scope, _replay(exchange.body(), receive), _release_at_stream(exchange, send))
        except ClientDisconnected:
            return
        except ApiError as error:
            if isinstance(error, Rejected):
                connection.delay_reading(RETRY_SECONDS)
            await _send_error(error, send)
        finally:
            exchange.end()

    async def _admit(self, scope: Scope, connection: Connection) -> Admission:
        flows, user = self._flows, self._user_of(dict(scope["headers"]))
        flow = flows.classify(user, Action(scope["method"].lower(), path=scope["path"]))
        if flows.is_exempt(flow):
            connection.owner = None
            return flows.admit_exempt(flow)
        connection.owner = user.name
        return await flows.admit(flow, 0)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read already, then what else the connection reports."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again


def _release_at_stream(exchange: Exchange, send: Send) -> Send:
    """Ends the turn of a request whose response goes on, such as a stream of events."""

    async def send_part(message: Message) -> None:
        if message.get("more_body"):
            exchange.end()
        await send(message)

    return send_part


async def _send_error(error: ApiError, send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    if error.retry_after is not None:
        headers.append((b"retry-after", str(error.retry_after).encode()))
    await send({"type": "http.response.start", "status": error.code, "headers": headers})
    await send({"type": "http.response.body", "body": str(error).encode()})
