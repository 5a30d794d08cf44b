"""Connections to ports of pods, as kubectl port-forward opens them."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from server.subresources.spdy_client import SpdyClient
from trimtab.errors import BadRequest
from trimtab.server.request.messages import Request
from trimtab.server.subresources import port_forward
from trimtab.server.subresources.port_forward import port_forward_response
from trimtab.server.subresources.spdy import control_frame

POD = {"metadata": {"name": "p", "namespace": "n"}, "spec": {}, "status": {"phase": "Running"}}
SPDY = {"upgrade": "SPDY/3.1", "x-stream-protocol-version": "portforward.k8s.io"}


class EchoPorts:
    """Sends back what it receives, in capitals; nothing listens on port 81."""

    async def connect(
        self, pod: Any, port: int, receive: Callable[[], Awaitable[bytes | None]], send: Callable[[bytes], None]
    ) -> None:
        if port == 81:
            raise ConnectionError("connection refused")
        while (data := await receive()) is not None:
            send(data.upper())


def respond(headers: dict[str, str], pod: dict[str, Any] = POD, **query: str) -> Any:
    return port_forward_response(Request("POST", "/portforward", query, headers), pod, EchoPorts())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "headers", [SPDY, {"upgrade": "websocket", "sec-websocket-protocol": "SPDY/3.1+portforward.k8s.io"}]
)
def test_pairs_of_streams_are_connections(headers: dict[str, str]) -> None:
    async def scenario() -> None:
        client = SpdyClient()
        client.open(1, streamtype="error", port="80", requestid="0", fin=True)
        client.open(3, streamtype="data", port="80", requestid="0")
        client.open(5, streamtype="error", port="81", requestid="1", fin=True)
        client.open(7, streamtype="data", port="81", requestid="1")
        client.open(9, streamtype="data", port="80", requestid="of nobody")
        client.write(3, b"abc", fin=True)
        session = asyncio.ensure_future(respond(headers).run(client))
        for _ in range(1000):  # turns, not time: everything is in memory
            await asyncio.sleep(0)
        client.disconnect()
        await session
        assert client.data(3) == b"ABC"
        assert client.data(1) == b""
        assert client.data(5) == b"error forwarding port 81 to pod p_n, uid : connection refused"
        assert all(client.is_closed(number) for number in (1, 3, 5, 7))

    asyncio.run(scenario())


def test_channels_of_a_web_socket_are_connections() -> None:
    async def scenario() -> None:
        messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        sent: list[bytes] = []

        class Socket:
            async def receive(self) -> bytes | None:
                return await messages.get()

            def send(self, payload: bytes) -> None:
                sent.append(payload)

        for message in (b"\0abc", b"\5ignored", b"", None):
            messages.put_nowait(message)
        headers = {"upgrade": "websocket", "sec-websocket-protocol": "v4.channel.k8s.io"}
        await respond(headers, ports="80,81").run(Socket())
        assert sent[:4] == [b"\0\x50\0", b"\1\x50\0", b"\2\x51\0", b"\3\x51\0"]
        assert sorted(sent[4:]) == [b"\0ABC", b"\3error forwarding port 81 to pod p_n, uid : connection refused"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("headers", "query", "reason"),
    [
        ({}, {}, "must be upgraded"),
        ({"upgrade": "SPDY/3.1", "x-stream-protocol-version": "v4.channel.k8s.io"}, {}, "must offer"),
        ({"upgrade": "websocket", "sec-websocket-protocol": "other"}, {}, "must offer one of"),
        ({"upgrade": "websocket", "sec-websocket-protocol": "v4.channel.k8s.io"}, {"ports": "0"}, "list of ports"),
    ],
)
def test_request_that_cannot_be_served_is_refused(headers: dict[str, str], query: dict[str, str], reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        respond(headers, **query)


def test_pod_that_does_not_run_is_refused() -> None:
    with pytest.raises(BadRequest, match="pod is not running"):
        respond(SPDY, {**POD, "status": {"phase": "Pending"}})


def test_streams_that_the_client_resets_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_forward, "MAX_STREAMS", 10)

    async def scenario() -> None:
        client = SpdyClient()
        for number in range(1, 101, 2):
            client.open(number, streamtype="error", port="80", requestid=str(number))
            client.feed(control_frame(3, struct.pack(">II", number, 5)))
        session = asyncio.ensure_future(respond(SPDY).run(client))
        for _ in range(2000):
            await asyncio.sleep(0)
        client.disconnect()
        await session
        refused = [body for stream, kind, body in client.frames() if (stream, kind) == (0, 3)]
        assert len(refused) == 40

    asyncio.run(scenario())
