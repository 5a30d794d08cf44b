"""The ASGI application of an API server; the only place in the server that catches all exceptions."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson
from msgspec.structs import replace

from trimtab.api.limits import MAX_QUERY_PARAMETERS
from trimtab.errors import ApiError, BadRequest, InternalError
from trimtab.server import api_errors
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import User
from trimtab.server.flowcontrol.controller import RETRY_SECONDS, Admission, FlowController, Rejected
from trimtab.server.http.audit import Audit, AuditEntry
from trimtab.server.http.dispatch import RequestHandler
from trimtab.server.http.exchange import (
    BODY_WITHOUT_SEAT,
    NO_CONNECTION,
    SEND_TIMEOUT_SECONDS,
    ClientDisconnected,
    Connection,
    Exchange,
    Receive,
    Scope,
    Send,
)
from trimtab.server.http.metrics import RequestMetrics
from trimtab.server.http.raw_socket import RawSocket, spdy_handshake
from trimtab.server.http.request_size import check_size
from trimtab.server.http.response_sending import (
    TO_YAML,
    common_headers,
    conversion_task,
    is_large,
    send_response,
)
from trimtab.server.http.web_socket import WebSocket, handshake
from trimtab.server.request.messages import (
    AnyResponse,
    PartedResponse,
    Request,
    Response,
    StreamingResponse,
    UpgradeResponse,
)
from trimtab.server.request.negotiation import JSON, YAML, accept_error
from trimtab.server.request.part_queue import SESSIONS
from trimtab.server.request.protobuf_responses import protobuf_response

log = logging.getLogger("trimtab.server")

_EXTRA_PREFIX = "impersonate-extra-"
_END_OF_SESSION_SECONDS = 1.0
_PACED_VERBS = frozenset({"create", "update", "patch"})
"""Writes of exempt callers that pause while the controllers lag; deletions leave less to do."""
"""How long a session may go on after its client has left."""
_REPEATED = frozenset({"accept", "impersonate-group", "x-stream-protocol-version"})
"""Headers of which all are read, not only the last."""


class AsgiApplication:
    """The ASGI application of one API server."""

    def __init__(
        self,
        handler: RequestHandler,
        flow_control: FlowController | None = None,
        own_flow_control: FlowController | None = None,
    ) -> None:
        self._handler = handler
        self._streams: set[asyncio.Task[None]] = set()
        self.request_metrics = RequestMetrics()
        self._flow_control = flow_control
        """Limits the requests of all callers; None in servers that only this process uses."""
        self._own_flow_control = own_flow_control
        """Further limits of this server alone, when the first ones are shared with others."""
        self.audit: Audit | None = None

    def end_streams(self) -> None:
        """End every watch before the server stops."""
        for stream in self._streams:
            stream.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request, refusal = _read_request(scope)
        connection: Connection = scope.get("connection", NO_CONNECTION)
        started = time.perf_counter()
        exchange = Exchange(receive)
        try:
            audited = None if self.audit is None else _AuditedExchange(self.audit, (scope.get("client") or ("",))[0])
            response = await self._respond(request, refusal, exchange, connection, audited)
            if audited is not None:
                audited.end(request, response)
            if isinstance(response, UpgradeResponse):
                exchange.end()
                self.request_metrics.observe(scope["method"], 101, None)
                await self._run_session(response, request, exchange, connection)
            elif isinstance(response, StreamingResponse):
                response.chunks = exchange.in_turns(response.chunks)
                exchange.end()
                self.request_metrics.observe(scope["method"], 200, None)
                await self._send_stream(response, request, scope, receive, send)
            else:
                self.request_metrics.observe(scope["method"], response.code, time.perf_counter() - started)
                if task := conversion_task(response, request):
                    response = await self._convert(response, task, request, exchange)
                if request.method != "GET" and exchange.admission is not None:
                    await exchange.admission.wait_to_answer()
                await send_response(response, task, request, exchange, connection, send)
                if connection.is_congested():
                    await exchange.wait_until_sent(connection)
        except ClientDisconnected:
            return
        finally:
            exchange.end()

    async def _run_session(
        self, response: UpgradeResponse, request: Request, exchange: Exchange, connection: Connection
    ) -> None:
        """Take over the connection for as long as the session runs and its client is there."""
        if response.is_spdy:
            socket = connection.upgrade(spdy_handshake(response.protocol), RawSocket, exchange.pause)
        else:
            key = request.headers.get("sec-websocket-key", "")
            socket = connection.upgrade(handshake(key, response.protocol), WebSocket, exchange.pause)
        session = asyncio.ensure_future(response.run(socket))
        closed = asyncio.ensure_future(socket.wait_until_closed())
        self._streams.add(session)
        try:
            with SESSIONS.one_more():
                await asyncio.wait({session, closed}, return_when=asyncio.FIRST_COMPLETED)
                # What reads from the client ends by itself; a command that does not would go on without it.
                await asyncio.wait({session}, timeout=_END_OF_SESSION_SECONDS)
            if session.done():
                session.result()
        finally:
            self._streams.discard(session)
            session.cancel()
            closed.cancel()
            socket.close()

    async def _respond(
        self,
        request: Request,
        refusal: ApiError | None,
        exchange: Exchange,
        connection: Connection,
        audited: "_AuditedExchange | None",
    ) -> AnyResponse:
        """The response to a request, also to one that fails."""
        try:
            complete = await exchange.read_body(BODY_WITHOUT_SEAT)
            action = await self._admit(request, refusal, exchange, connection)
            if audited is not None:
                audited.begin(request)
            if not complete or connection.is_lost:
                await exchange.read_rest(connection)
            request.body = exchange.body()
            return await self._handler.answer(request, action)
        except ApiError as error:
            if isinstance(error, Rejected):
                request.flow_headers = error.headers
                connection.delay_reading(RETRY_SECONDS)
            return error_response(error, protobuf=request.protobuf_errors)
        except (asyncio.CancelledError, ClientDisconnected):
            raise
        except RecursionError:
            return error_response(BadRequest("the request nests too deeply"), protobuf=request.protobuf_errors)
        except Exception:
            log.exception("request failed unexpectedly", extra={"path": request.path})
            return error_response(
                InternalError("Internal error occurred: unexpected server failure; see the server log")
            )

    async def _admit(
        self, request: Request, refusal: ApiError | None, exchange: Exchange, connection: Connection
    ) -> Action:
        """Identify the caller and wait for a seat; returns what the request wants to do."""
        flows = self._flow_control
        try:
            if refusal is not None:
                raise refusal
            action = self._handler.identify(request)
        except ApiError:
            if flows is not None:
                await flows.pace()
            raise
        if flows is None:
            return action
        user, seats = request.caller.user, self._handler.estimate_seats(request, action)
        if self._own_flow_control is not None:
            exchange.own_admission = await _admit_to(self._own_flow_control, user, action, seats)
        flow = flows.classify(user, action)
        if flows.is_exempt(flow):
            connection.owner = None
            admission = flows.admit_exempt(flow)
            if action.verb in _PACED_VERBS:
                await flows.wait_for_controllers()
        else:
            connection.owner = user.name
            admission = await flows.admit(flow, seats)
        exchange.admission = admission
        request.flow_headers = (exchange.own_admission or admission).headers
        return action

    async def _convert(
        self, response: Response | PartedResponse, task: str, request: Request, exchange: Exchange
    ) -> Response | PartedResponse:
        """A large response as YAML or indented JSON, which takes too long to do here; a small one as it is."""
        if isinstance(response, PartedResponse):
            response = await response.join(exchange.pause)
        if not is_large(response.body):
            return response
        try:
            body = await self._handler.body_worker.convert(response.body, task)
        except ApiError as error:
            return error_response(error, protobuf=request.protobuf_errors)
        return replace(response, body=body, media_type=YAML if task == TO_YAML else JSON, verbatim=True)

    async def _send_stream(
        self, streaming_response: StreamingResponse, request: Request, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send chunks until the stream ends, the client disconnects or stops reading."""
        await send(
            {"type": "http.response.start", "status": 200, "headers": common_headers(streaming_response, request)}
        )
        if request.without_body:
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        sender = asyncio.ensure_future(_send_chunks(streaming_response, send, scope.get("is_congested", lambda: True)))
        disconnect_listener = asyncio.ensure_future(_wait_for_disconnect(receive))
        self._streams.add(sender)
        try:
            await asyncio.wait({sender, disconnect_listener}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(sender)
            stopping = sender.cancelled() and not disconnect_listener.done()
            for task in (sender, disconnect_listener):
                task.cancel()
            results: Iterable[Any] = await asyncio.gather(sender, disconnect_listener, return_exceptions=True)
            for result in results:
                if isinstance(result, Exception) and not isinstance(result, TimeoutError):
                    log.error("watch failed", exc_info=result)
        if stopping:
            await send({"type": "http.response.body", "body": b""})

    @property
    def watcher_count(self) -> int:
        return len(self._streams)


async def _admit_to(flows: FlowController, user: User, action: Action, seats: int) -> Admission:
    flow = flows.classify(user, action)
    return flows.admit_exempt(flow) if flows.is_exempt(flow) else await flows.admit(flow, seats)


class _AuditedExchange:
    """The audit events of one request."""

    def __init__(self, audit: Audit, client: str) -> None:
        self._audit = audit
        self._client = client
        self._entry: AuditEntry | None = None
        self._has_begun = False

    def begin(self, request: Request) -> None:
        self._entry = self._audit.begin(request, self._client)
        self._has_begun = True

    def end(self, request: Request, response: AnyResponse) -> None:
        if not self._has_begun:
            self._audit.refuse(request, self._client, response)
        elif self._entry is not None:
            self._audit.end(self._entry, response)


def _has_too_many_parameters(scope: Scope) -> bool:
    return bool(scope["query_string"].count(b"&") >= MAX_QUERY_PARAMETERS)


def _check_request(request: Request, scope: Scope) -> None:
    if scope["query_string"] and _has_too_many_parameters(scope):
        raise BadRequest(f"the query has more than {MAX_QUERY_PARAMETERS} parameters")
    if why := accept_error(request.headers.get("accept", "")):
        request.headers["accept"] = JSON  # for the answer
        raise BadRequest(why)


def _read_request(scope: Scope) -> tuple[Request, ApiError | None]:
    """The request, and why it is refused before anything is done with it."""
    try:
        check_size(scope)
    except ApiError as error:
        return Request("GET", "/", {}, {}), error
    request = _parse_request(scope)
    try:
        _check_request(request, scope)
    except ApiError as error:
        return request, error
    return request, None


def _parse_request(scope: Scope) -> Request:
    headers: dict[str, str] = {}
    groups: list[str] = []
    extra: list[tuple[str, str]] = []
    accepted: list[str] = []
    offered: list[str] = []
    for name, content in scope["headers"]:
        key, value = name.decode("latin-1"), content.decode("latin-1")
        if key not in _REPEATED and not key.startswith(_EXTRA_PREFIX):
            headers[key] = value
        elif key == "accept":
            accepted.append(value)
        elif key == "impersonate-group":
            groups.append(value)
        elif key == "x-stream-protocol-version":
            offered.append(value)
        else:
            extra.append((unquote(key.removeprefix(_EXTRA_PREFIX)).lower(), value))
    if accepted:
        headers["accept"] = ",".join(accepted)
    if offered:
        headers["x-stream-protocol-version"] = ",".join(offered)
    raw = scope["query_string"]
    if not raw or _has_too_many_parameters(scope):
        pairs, query = [], {}
    else:
        pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True)
        query = dict(reversed(pairs))
    path = scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1") or scope["path"]
    is_head = scope["method"] == "HEAD"
    return Request(
        method="GET" if is_head else scope["method"],
        path=path,
        query=query,
        headers=headers,
        impersonate_groups=groups,
        impersonate_extra=extra,
        commands=[value for name, value in pairs if name == "command"] if "command" in query else [],
        without_body=is_head,
        certificate_user=scope.get("certificate_user"),
        server_address=_server_address(scope),
    )


def _server_address(scope: Scope) -> str:
    server = scope.get("server")
    return f"{server[0]}:{server[1]}" if server else ""


def error_response(error: ApiError, *, protobuf: bool = False) -> Response:
    status = api_errors.status_of(error)
    response = protobuf_response(error.code, status) if protobuf else Response(error.code, orjson.dumps(status))
    if error.retry_after is not None and error.retry_after <= 10:
        response.headers.append((b"retry-after", str(error.retry_after).encode()))
    if error.code == 401:
        response.headers.append((b"www-authenticate", b'Bearer realm="trimtab"'))
    return response


async def _send_chunks(response: StreamingResponse, send: Send, is_congested: Callable[[], bool]) -> None:
    async for chunk in response.chunks:
        if not chunk:  # the stream only let others have a turn
            continue
        async with asyncio.timeout(SEND_TIMEOUT_SECONDS if is_congested() else None):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
