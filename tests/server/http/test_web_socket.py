"""WebSocket frames and connections."""

import asyncio
import struct

import pytest

from trimtab.server.http.web_socket import MAX_MESSAGE_BYTES, FrameReader, WebSocket, encode_frame, handshake
from trimtab.server.request.part_queue import MAX_UNREAD_BYTES

MASK = b"\x01\x02\x03\x04"


def client_frame(payload: bytes, opcode: int = 2, *, last: bool = True) -> bytes:
    masked = bytes(byte ^ MASK[i % 4] for i, byte in enumerate(payload))
    first = (0x80 if last else 0) | opcode
    size = len(payload)
    head = struct.pack(">BB", first, 0x80 | size) if size < 126 else struct.pack(">BBH", first, 0x80 | 126, size)
    return head + MASK + masked


def test_handshake_has_the_key_of_the_standard() -> None:
    answer = handshake("dGhlIHNhbXBsZSBub25jZQ==", "v5.channel.k8s.io")
    assert b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    assert answer.endswith(b"sec-websocket-protocol: v5.channel.k8s.io\r\n\r\n")


@pytest.mark.parametrize("size", [0, 5, 125, 126, 70_000])
def test_frames_are_read_in_whatever_pieces_they_arrive(size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    masked = client_frame(payload) if size < 1 << 16 else None
    if masked is None:
        head = struct.pack(">BBQ", 0x82, 0x80 | 127, size)
        masked = head + MASK + bytes(byte ^ MASK[i % 4] for i, byte in enumerate(payload))
    reader, found = FrameReader(), []
    for at in range(0, len(masked), 1000):
        found += list(reader.feed(masked[at : at + 1000]))
    assert found == [(True, 2, payload)]


def test_frame_without_a_mask_or_beyond_the_limit_is_refused() -> None:
    for data in (encode_frame(2, b"x"), struct.pack(">BBQ", 0x82, 0x80 | 127, MAX_MESSAGE_BYTES + 1) + MASK):
        with pytest.raises(ValueError, match="too large or not masked"):
            list(FrameReader().feed(data))


def test_connection_joins_fragments_answers_pings_and_closes_once() -> None:
    async def scenario() -> None:
        written: list[bytes] = []
        closed: list[bool] = []
        socket = WebSocket(written.append, lambda: closed.append(True))
        socket.feed(client_frame(b"ab", last=False) + client_frame(b"cd", 0) + client_frame(b"ping", 9))
        assert await socket.receive() == b"abcd"
        socket.send(b"hello")
        socket.feed(client_frame(struct.pack(">H", 1000), 8))
        socket.close()
        socket.send(b"too late")
        assert await socket.receive() is None
        assert written == [
            encode_frame(10, b"ping"),
            encode_frame(2, b"hello"),
            encode_frame(8, struct.pack(">H", 1000)),
        ]
        assert closed == [True]

    asyncio.run(scenario())


def test_client_that_sends_more_than_is_read_is_disconnected() -> None:
    async def scenario() -> None:
        ends: list[bool] = []
        socket = WebSocket(lambda _: None, lambda: ends.append(True))
        frame = struct.pack(">BBQ", 0x82, 0x80 | 127, MAX_MESSAGE_BYTES) + bytes(4 + MAX_MESSAGE_BYTES)
        for _ in range(MAX_UNREAD_BYTES // MAX_MESSAGE_BYTES):
            socket.feed(frame)
        assert ends == [True]
        assert await socket.receive() == bytes(MAX_MESSAGE_BYTES)

    asyncio.run(scenario())


def test_message_in_many_pieces_is_put_together() -> None:
    async def scenario() -> None:
        socket = WebSocket(lambda _: None, lambda: None)
        for number in range(300):
            socket.feed(client_frame(b"x", 2 if number == 0 else 0, last=number == 299))
        socket.feed(client_frame(b"y"))
        assert [await socket.receive() for _ in range(2)] == [b"x" * 300, b"y"]

    asyncio.run(scenario())
