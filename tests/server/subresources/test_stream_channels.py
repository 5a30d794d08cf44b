"""Logs as messages of a WebSocket."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from trimtab.errors import BadRequest
from trimtab.server.request.messages import Request
from trimtab.server.subresources.stream_channels import log_response


async def chunks() -> AsyncIterator[bytes]:
    yield b"one\n"
    yield b"two\n"


class Socket:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, payload: bytes) -> None:
        self.sent.append(payload)


def log_request(protocol: str) -> Request:
    return Request("GET", "/log", {}, {"upgrade": "websocket", "sec-websocket-protocol": protocol})


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("binary.k8s.io", [b"one\n", b"two\n"]), ("base64.binary.k8s.io", [b"b25lCg==", b"dHdvCg=="])],
)
def test_log_is_sent_in_messages(protocol: str, expected: list[bytes]) -> None:
    socket = Socket()
    response = log_response(log_request(protocol), chunks())
    assert response.protocol == protocol
    asyncio.run(response.run(socket))
    assert socket.sent == expected


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(BadRequest, match="must offer"):
        log_response(log_request("other"), chunks())
