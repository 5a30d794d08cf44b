"""TLS for accepted connections, with handshakes outside of the event loop.

The problem: a handshake takes about a millisecond of CPU before the server knows its caller. In the event loop, callers that
open a new connection for every request would delay everybody else, and a limit on new connections would keep everybody out.

Therefore `TlsLayer` is the protocol of the socket. It runs the steps of the handshake in a thread; OpenSSL does not hold Python's
lock meanwhile. Then it connects the protocol of the server to a `TlsTransport`, which encrypts in the event loop: a
record takes microseconds. While a step is in the thread, nothing is read from the client and nothing else touches the TLS state.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, cast

_MAX_HANDSHAKE_BYTES = 256 * 1024
"""What a client may send before its handshake is complete; the largest chains of certificates are smaller."""
_READ_BYTES = 256 * 1024
_MAX_JOINED_BYTES = 64 * 1024
"""The largest write that is copied to be sent together with the one before it: copying costs less than a system call."""


class TlsTransport(asyncio.Transport):
    """What the protocol of a connection sees of it."""

    def __init__(self, layer: "TlsLayer", raw: asyncio.Transport, tls: ssl.SSLObject) -> None:
        super().__init__()
        self._layer, self._raw, self._tls = layer, raw, tls
        self._is_joining = False
        self._held = b""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peercert":
            return self._tls.getpeercert()
        if name == "sslcontext":
            return self._tls.context
        return self._tls if name == "ssl_object" else self._raw.get_extra_info(name, default)

    def join_writes(self) -> None:
        """Send the next write together with the one after it, in one record: the head of a response and its body."""
        self._is_joining = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_joining:
            self._is_joining, self._held = False, bytes(data)
            return
        if self._held:
            held, self._held = self._held, b""
            if len(data) > _MAX_JOINED_BYTES:
                self._layer.send(held)
            else:
                data = held + data
        self._layer.send(data)

    def end_joining(self) -> None:
        """Send a write that nothing followed, such as the head of a response without a body."""
        self._is_joining = False
        if self._held:
            self.write(b"")

    def close(self) -> None:
        self.end_joining()
        self._layer.close()

    def abort(self) -> None:
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._layer.is_closing or self._raw.is_closing()

    def pause_reading(self) -> None:
        self._layer.pause_reading()

    def resume_reading(self) -> None:
        self._layer.resume_reading()

    def is_reading(self) -> bool:
        return self._raw.is_reading()

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def can_write_eof(self) -> bool:
        return False


class TlsLayer(asyncio.Protocol):
    """The server's side of TLS on one socket."""

    def __init__(
        self, context: ssl.SSLContext, new_protocol: Callable[[], asyncio.Protocol], handshakes: Executor
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._new_protocol = new_protocol
        self._handshakes = handshakes
        self._loop = asyncio.get_running_loop()
        self.established: asyncio.Future[None] = self._loop.create_future()
        """Done when the handshake is complete, or failed with an `OSError`."""
        self.is_closing = False
        self._handshake_bytes = 0
        self._is_lost = True
        """Until the connection is made, and after it is lost."""
        self._is_paused = False
        self._protocol: asyncio.Protocol | None = None
        self._raw: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)  # those of uvloop are no subclass
        self._is_lost = False

    def abort(self) -> None:
        """Close the connection at once, also during the handshake."""
        self.is_closing = True
        if not self.established.done():
            self.established.cancel()
        if not self._is_lost:
            self._raw.abort()

    def give_up(self) -> None:
        """Close a connection whose handshake failed; an alert that was sent still arrives."""
        if not self.is_closing:
            self.abort()

    # handshake

    def data_received(self, data: bytes) -> None:
        if self._protocol is not None:
            self._incoming.write(data)
            self._deliver()
            return
        self._handshake_bytes += len(data)
        self._raw.pause_reading()  # until the step is done
        step = self._loop.run_in_executor(self._handshakes, self._take_step, data)
        step.add_done_callback(self._on_step)

    def _take_step(self, data: bytes) -> bool:
        """Process what the client sent; returns whether the handshake is complete. Runs in the thread."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _on_step(self, step: "asyncio.Future[bool]") -> None:
        if step.cancelled() or self._is_lost:
            return
        self._flush()
        if (error := step.exception()) is not None:
            self.is_closing = True
            self._raw.close()  # after the alert that says why
            if not self.established.done():
                self.established.set_exception(error if isinstance(error, OSError) else OSError(str(error)))
        elif (
            self.is_closing
            or self.established.done()  # the time limit passed during the last step
            or (not step.result() and self._handshake_bytes > _MAX_HANDSHAKE_BYTES)
        ):
            self.abort()
        else:
            self._raw.resume_reading()
            if step.result():
                self._connect_protocol()

    def _connect_protocol(self) -> None:
        self._protocol = self._new_protocol()
        self._protocol.connection_made(TlsTransport(self, self._raw, self._tls))
        self.established.set_result(None)
        self._deliver()  # what the client sent together with the end of its handshake

    # the connection afterwards

    def _deliver(self) -> None:
        """Pass on what the client sent, until the protocol pauses or everything is read."""
        protocol, is_ended = self._protocol, False
        assert protocol is not None
        try:
            while not self._is_paused and not self.is_closing:
                data = self._tls.read(_READ_BYTES)
                if not data:
                    is_ended = True
                    break
                protocol.data_received(data)
                if not self._incoming.pending and not self._tls.pending():
                    break  # another read would only raise
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            is_ended = True
        self._flush()
        if is_ended and not self.is_closing:
            self.close()

    def send(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_closing or self._is_lost:
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError:
            self.abort()
            return
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def close(self) -> None:
        """Say goodbye, and close when everything is sent."""
        if self.is_closing or self._is_lost:
            return
        self.is_closing = True
        with contextlib.suppress(ssl.SSLError):  # the client has not said goodbye yet
            self._tls.unwrap()
        self._flush()
        self._raw.close()

    def pause_reading(self) -> None:
        self._is_paused = True
        if not self._raw.is_closing():
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and not self._raw.is_closing():
            self._is_paused = False
            self._raw.resume_reading()
            self._loop.call_soon(self._deliver_kept)

    def _deliver_kept(self) -> None:
        if not self._is_lost and not self._is_paused:
            self._deliver()

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def eof_received(self) -> bool:
        if self._protocol is not None:
            self._protocol.eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = self.is_closing = True
        if not self.established.done():
            self.established.set_exception(OSError("the connection was closed during the handshake"))
        if self._protocol is not None:
            self._protocol.connection_lost(exc)
