"""Accepts connections, not faster than the event loop can handle them and not more than the process can hold.

The problem: connections cost memory, file descriptors and, with TLS, a handshake of about a millisecond before the server
knows its caller (`tls` runs them in a thread). 500 connections that are opened together would use the processor for as long as
their handshakes take, and one caller that keeps enough idle connections would keep everybody else out.

Therefore one connection is accepted per turn of the loop, and only so many per second. A connection that does not finish its handshake in time is
closed, and the oldest of these as soon as there are too many. When the process has as many connections as it may have, the
caller with the most of them loses one, an idle one if possible; callers that flow control exempts lose none.
"""

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from trimtab.server.http.tls import TlsLayer
from trimtab.tasks import stop_tasks

log = logging.getLogger("trimtab.server")

MAX_CONNECTIONS = 4096
_RESERVED_FILES = 256
"""File descriptors that are left for the store, members and webhooks."""
MAX_HANDSHAKES = 256
_HANDSHAKE_SECONDS = 10.0
_RETRY_SECONDS = 0.1
_PER_SECOND, _BURST = 50.0, 64
"""Connections per second after a burst: handshakes run in a thread, but a connection also costs half a millisecond here."""


class OpenConnection(Protocol):
    """An accepted connection."""

    owner: str | None
    """The user of its last request; None when the connection must not be closed, empty before the first request."""

    @property
    def is_idle(self) -> bool: ...

    def abort(self) -> None: ...


def most_connections() -> int:
    """The connections that this process may have."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files < 0 else max(16, min(MAX_CONNECTIONS, files - _RESERVED_FILES))


def connection_to_close(connections: Iterable[OpenConnection]) -> OpenConnection | None:
    """The connection that makes room for a new one: of the owner with the most connections, idle if possible."""
    closable = [connection for connection in connections if connection.owner is not None]
    if not closable:
        return None
    owner = Counter(connection.owner for connection in closable).most_common(1)[0][0]
    owned = [connection for connection in closable if connection.owner == owner]
    return next((connection for connection in owned if connection.is_idle), owned[0])


class Acceptor:
    """Accepts the connections of one listening socket."""

    def __init__(
        self,
        listening: socket.socket,
        new_protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        connections: Collection[Any],
        *,
        limit: int | None = None,
    ) -> None:
        listening.setblocking(False)
        self._socket = listening
        self._new_protocol = new_protocol
        self._tls = tls
        self._connections = connections
        self._limit = most_connections() if limit is None else limit
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._next_at = 0.0
        self._handshake_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="TLS handshakes")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="accept connections")

    async def stop(self) -> None:
        tasks = [task for task in (self._task, *self._handshakes) if task is not None]
        await stop_tasks(tasks, log)
        self._handshake_thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._socket)
            except OSError:  # no file descriptor is free, or the client has gone
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            accepted.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
            )  # else a response waits 40 ms for its second part
            if self._has_room():
                handshake = loop.create_task(self._connect(accepted))
                self._handshakes[handshake] = None
                handshake.add_done_callback(self._forget_handshake)
            else:
                accepted.close()
            await self._pace()

    async def _pace(self) -> None:
        """Wait before the next connection: a token bucket, and one connection per turn of the loop."""
        now = asyncio.get_running_loop().time()
        self._next_at = max(self._next_at, now - _BURST / _PER_SECOND) + 1 / _PER_SECOND
        await asyncio.sleep(max(0.0, self._next_at - now))

    def _forget_handshake(self, handshake: "asyncio.Task[None]") -> None:
        self._handshakes.pop(handshake, None)

    def _has_room(self) -> bool:
        """Whether one more connection can be accepted, if necessary after closing another one."""
        if len(self._handshakes) >= MAX_HANDSHAKES:
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            oldest.cancel()
        if len(self._connections) + len(self._handshakes) < self._limit:
            return True
        connection = connection_to_close(self._connections)
        if connection is None:
            return False
        connection.abort()
        return True

    async def _connect(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        if self._tls is None:
            with contextlib.suppress(OSError):
                await loop.connect_accepted_socket(self._new_protocol, accepted)
            return
        layer = TlsLayer(self._tls, self._new_protocol, self._handshake_thread)
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                await loop.connect_accepted_socket(lambda: layer, accepted)
                await layer.established
        except OSError:  # also a timeout; a failed handshake concerns the client only
            layer.give_up()
        except asyncio.CancelledError:
            layer.abort()
            raise
