"""Serves an ASGI application with uvicorn over TLS and passes on the user of the client certificate."""

import asyncio
import contextlib
import logging
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trimtab.errors import InputError
from trimtab.server.auth.authenticate import REVOKED_USER, user_of_certificate
from trimtab.server.auth.certificates import CertificateAuthority
from trimtab.server.auth.revocation import RevokedCertificates
from trimtab.server.http.acceptor import Acceptor
from trimtab.server.http.exchange import Framing, UpgradedSocket
from trimtab.server.http.session_input import SessionInput
from trimtab.server.http.tls import TlsTransport
from trimtab.server.request.part_queue import SESSIONS

logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # uvicorn warns about every upgrade attempt of a client
_HEADER_LIMIT = 384 * 1024
"""Bytes received before the headers are complete: 64 KiB each of request line and headers, and a first part of the body."""
_HEADER_SECONDS = 30.0
"""Seconds in which a client must send its request headers."""
_REFUSAL_SECONDS = 1.0
"""Seconds for which a connection stays open after a refusal."""
_BODY_SECONDS = 60.0
"""Seconds in which a client must then send its request body."""

_IDLE_SESSION_SECONDS = 4 * 3600.0
"""Seconds without data in either direction after which a session of exec, attach or port-forward ends, as in a kubelet."""


class ServerProtocol(HttpToolsProtocol):
    """Adds the user of the client certificate to the scope and closes connections with incomplete requests."""

    revoked: RevokedCertificates | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._tls = transport if isinstance(transport, TlsTransport) else None
        certificate = transport.get_extra_info("peercert")
        self.serial = str((certificate or {}).get("serialNumber") or "")
        self.certificate_user = user_of_certificate(certificate)
        if self.is_revoked:
            self.certificate_user = REVOKED_USER
        self.header_size = 0
        self.session_input: SessionInput | None = None
        """Takes what a client sends on an upgraded connection."""
        self.line_complete = False
        """Whether the request line was received."""
        self.headers_complete = False
        self.request_complete = False
        """Whether the data received so far is a complete request."""
        self.is_lost = False
        self.is_refused = False
        """Whether what the client still sends is discarded."""
        self.owner: str | None = ""
        """The user of the last request; None when it is exempt from flow control, empty before the first request."""
        self._reading_delay = 0.0
        self._active_at = 0.0
        """When the client of an upgraded connection last sent or was sent anything."""
        self.timeout_handle: asyncio.TimerHandle | None = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope["certificate_user"] = self.certificate_user
        scope["is_congested"] = self.is_congested
        scope["connection"] = self
        self.headers_complete = self.request_complete = False

    def is_congested(self) -> bool:
        """Whether sending would wait for the client to read."""
        return self.flow.write_paused

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def is_revoked(self) -> bool:
        return bool(self.serial) and self.revoked is not None and self.revoked.contains(self.serial)

    async def wait_until_sent(self) -> None:
        await self.flow.drain()

    def join_writes(self) -> None:
        if self._tls is not None:  # other sockets join the writes of a turn by themselves
            self._tls.join_writes()

    def abort(self) -> None:
        self.transport.abort()

    def upgrade(self, head: bytes, framing: Framing, wait_for_turn: Callable[[], Awaitable[None]]) -> UpgradedSocket:
        """Let the connection carry another protocol; no further request is read from it."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # the response is not one of HTTP
        self._cancel_timeout()
        self.transport.write(head)
        upgraded = framing(self._write_upgraded, self._close_upgraded)
        self.session_input = SessionInput(upgraded, wait_for_turn, self.flow.pause_reading, self._resume_reading)
        self._active_at = self.loop.time()
        self._close_when_idle()
        return upgraded

    def _close_upgraded(self) -> None:
        if self.session_input is not None:
            self.session_input.stop()
        self.transport.close()

    def _write_upgraded(self, data: bytes) -> None:
        """Send at once; a client that does not read what was sent before loses its connection."""
        if self.transport.get_write_buffer_size() > SESSIONS.share():
            self.transport.abort()
        else:
            self._active_at = self.loop.time()
            self.transport.write(data)

    def _close_when_idle(self) -> None:
        left = self._active_at + _IDLE_SESSION_SECONDS - self.loop.time()
        if left > 0:
            self.timeout_handle = self.loop.call_later(left, self._close_when_idle)
        else:
            self.transport.close()

    def delay_reading(self, seconds: float) -> None:
        """Read the next request only this long after the response: for clients that do not wait as they are told."""
        self._reading_delay = seconds

    def on_response_complete(self) -> None:
        if self._tls is not None:
            self._tls.end_joining()
        super().on_response_complete()
        if self._reading_delay and not self.transport.is_closing():
            self.flow.pause_reading()
            spread = 1.0 + random.random()  # noqa: S311 - so that those rejected together do not return together
            self.loop.call_later(self._reading_delay * spread, self._resume_reading)
        self._reading_delay = 0.0

    def _resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def on_headers_complete(self) -> None:
        self.headers_complete, self.line_complete, self.header_size = True, False, 0
        self._cancel_timeout()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.headers_complete, self.request_complete = False, True
        self._cancel_timeout()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._cancel_timeout()
        if self.session_input is not None:
            self.session_input.feed_eof()
        super().connection_lost(exc)

    def _cancel_timeout(self) -> None:
        if self.timeout_handle is not None:
            self.timeout_handle.cancel()
            self.timeout_handle = None

    def _refuse_headers(self, data: bytes) -> None:
        """Refuse a request, and close a moment later: a client that is still sending would otherwise lose the refusal."""
        self.is_refused = True
        status = b"431 Request Header Fields Too Large" if self.line_complete or b"\n" in data else b"414 URI Too Long"
        self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self._cancel_timeout()
        self.timeout_handle = self.loop.call_later(_REFUSAL_SECONDS, self.transport.close)

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            return
        if self.session_input is not None:
            self._active_at = self.loop.time()
            self.session_input.feed(data)
            return
        if not self.headers_complete:
            self.request_complete = False
            self.header_size += len(data)
            if self.header_size > _HEADER_LIMIT:
                self._refuse_headers(data)
                return
            self.line_complete = self.line_complete or b"\n" in data
        super().data_received(data)
        if (
            not self.request_complete and self.timeout_handle is None
        ):  # most requests arrive in one piece and need no timer
            timeout = _BODY_SECONDS if self.headers_complete else _HEADER_SECONDS
            self.timeout_handle = self.loop.call_later(timeout, self.transport.close)


class _AcceptingServer(uvicorn.Server):
    """A uvicorn server that accepts connections itself and leaves signal handling to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        await self.lifespan.startup()
        self.servers = []
        self._acceptor = Acceptor(sockets[0], self._new_protocol, self.config.ssl, self.server_state.connections)
        self._acceptor.start()
        self.started = True

    def _new_protocol(self) -> ServerProtocol:
        protocol = ServerProtocol(self.config, self.server_state, self.lifespan.state)
        protocol.revoked = self.revoked
        return protocol

    revoked: RevokedCertificates | None = None

    def close_revoked(self) -> None:
        """Close the connections whose certificates are revoked."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, ServerProtocol) and connection.is_revoked:
                connection.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._acceptor.stop()
        await super().shutdown(sockets)


class Listener:
    """Serves one application on one address."""

    def __init__(
        self,
        app: Any,
        host: str,
        port: int,
        authority: CertificateAuthority | None,
        *,
        option_names: str = "--port or --bind",
        revoked: RevokedCertificates | None = None,
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=2048)
        except OSError as error:
            why = (error.strerror or str(error)).partition(" (while")[0]
            raise InputError(
                f"cannot serve on {host or 'any address'} port {port}: {why}; choose another with {option_names}"
            ) from None
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            http=ServerProtocol,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
            proxy_headers=False,
        )
        config.load()
        self._tls = config.ssl = make_tls_context(authority) if authority is not None else None
        self._server = _AcceptingServer(config)
        self._server.revoked = revoked
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0.001)

    def reload_certificates(self, authority: CertificateAuthority) -> None:
        """Use renewed certificates for new connections."""
        if self._tls is not None:
            _load_certificates(self._tls, authority)

    def trust(self, certificate: Path) -> None:
        """Accept, on new connections, certificates of a further authority of clients."""
        if self._tls is not None:
            self._tls.load_verify_locations(certificate)

    def close_revoked(self) -> None:
        """Close the connections whose certificates were revoked meanwhile."""
        self._server.close_revoked()

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await self._task


def make_tls_context(authority: CertificateAuthority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificates(context, authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_certificates(context: ssl.SSLContext, authority: CertificateAuthority) -> None:
    certificate, key = authority.certificate_and_key("server")
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority.certificate)
