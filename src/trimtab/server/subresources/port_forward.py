"""`port-forward`: connections to ports of simulated containers, over SPDY streams or the channels of a WebSocket.

With SPDY, also inside a WebSocket, the client opens two streams for every connection: one for data, one for errors. With the
older channels there is one connection for each port that the address of the request names.
"""

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable
from functools import partial

from trimtab.api.value import Raw
from trimtab.errors import BadRequest
from trimtab.server.request.messages import Request, UpgradeResponse
from trimtab.server.request.part_queue import PartQueue, TooMuchUnread, UnreadBudget
from trimtab.server.subresources.pod_runtime import PodRuntime
from trimtab.server.subresources.spdy import MAX_STREAMS, ByteSocket, SpdySession, SpdyStream
from trimtab.server.subresources.stream_channels import is_spdy, offered_protocols

_PROTOCOL = "portforward.k8s.io"
_TUNNEL = f"SPDY/3.1+{_PROTOCOL}"
_CHANNELS = "v4.channel.k8s.io"
_MAX_PORTS = 100
Connect = Callable[[int, Callable[[], Awaitable[bytes | None]], Callable[[bytes], None]], Awaitable[None]]
"""Carries a connection to a port: (port, receive, send)."""


def port_forward_response(request: Request, pod: Raw, runtime: PodRuntime) -> UpgradeResponse:
    """The session of a request; raises `BadRequest` when it is not one that can be served."""
    if (pod.get("status") or {}).get("phase") != "Running":
        raise BadRequest(f"unable to forward port because pod is not running. Current status={_phase(pod)}")
    name = f"{pod['metadata']['name']}_{pod['metadata']['namespace']}"
    connect = partial(runtime.connect, pod)
    if is_spdy(request):
        if _PROTOCOL not in offered_protocols(request, "x-stream-protocol-version"):
            raise BadRequest(f"the client must offer the protocol {_PROTOCOL}")
        return UpgradeResponse(_PROTOCOL, lambda socket: _serve_streams(socket, name, connect), is_spdy=True)
    if request.headers.get("upgrade", "").lower() != "websocket":
        raise BadRequest("the connection must be upgraded to a WebSocket or to SPDY/3.1")
    offered = offered_protocols(request, "sec-websocket-protocol")
    if _TUNNEL in offered:
        return UpgradeResponse(_TUNNEL, lambda socket: _serve_streams(socket, name, connect))
    if _CHANNELS in offered:
        ports = _ports_of(request)
        return UpgradeResponse(_CHANNELS, lambda socket: _serve_channels(socket, name, ports, connect))
    raise BadRequest(f"the client must offer one of the protocols {_TUNNEL}, {_CHANNELS}")


def _phase(pod: Raw) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _ports_of(request: Request) -> list[int]:
    words = [one for one in request.query.get("ports", "").split(",") if one]
    if not words or len(words) > _MAX_PORTS or not all(one.isdecimal() and 0 < int(one[:6]) < 65536 for one in words):
        raise BadRequest("query parameter ports must be a list of ports")
    return [int(one) for one in words]


async def _serve_streams(socket: ByteSocket, name: str, connect: Connect) -> None:
    """Carry a connection for every pair of streams with the same id.

    A stream that the client has reset is not one of the session any more, but may still wait for its pair or be carried.
    """
    session = SpdySession(socket)
    errors: dict[str, SpdyStream] = {}
    tasks: set[asyncio.Task[None]] = set()
    try:
        async for stream in session.streams():
            key, port = stream.headers.get("requestid", ""), stream.headers.get("port", "")
            if len(errors) + len(tasks) >= MAX_STREAMS:
                stream.reset()
                session.forget(stream)
            elif stream.headers.get("streamtype") == "error":
                errors[key] = stream
            elif port.isdecimal() and (error := errors.pop(key, None)) is not None:
                task = asyncio.ensure_future(_carry_streams(session, stream, error, name, int(port[:6]), connect))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            else:
                stream.reset()
    finally:
        for task in tasks:
            task.cancel()


async def _carry_streams(
    session: SpdySession, data: SpdyStream, error: SpdyStream, name: str, port: int, connect: Connect
) -> None:
    try:
        await connect(port, data.receive, data.send)
    except ConnectionError as fault:
        error.send(_message(name, port, fault))
    data.close()
    error.close()
    for stream in (data, error):
        session.forget(stream)


async def _serve_channels(socket: ByteSocket, name: str, ports: list[int], connect: Connect) -> None:
    """Carry one connection for each port: channels 0 and 1 for the data and errors of the first one, and so on."""
    budget = UnreadBudget()
    queues = [PartQueue(budget) for _ in ports]
    for number, port in enumerate(ports):
        for channel in (2 * number, 2 * number + 1):
            socket.send(bytes((channel,)) + struct.pack("<H", port))

    async def carry(number: int, port: int) -> None:
        try:
            await connect(port, queues[number].get, lambda data: socket.send(bytes((2 * number,)) + data))
        except ConnectionError as fault:
            socket.send(bytes((2 * number + 1,)) + _message(name, port, fault))

    async def receive() -> None:
        with contextlib.suppress(TooMuchUnread):
            while (message := await socket.receive()) is not None:
                number, is_error = divmod(message[0], 2) if message else (len(ports), 0)
                if number < len(ports) and not is_error:
                    queues[number].put(message[1:])
        for queue in queues:
            queue.put_end()

    receiving = asyncio.ensure_future(receive())
    try:
        await asyncio.gather(*(carry(number, port) for number, port in enumerate(ports)))
    finally:
        receiving.cancel()


def _message(name: str, port: int, fault: ConnectionError) -> bytes:
    return f"error forwarding port {port} to pod {name}, uid : {fault}".encode()
