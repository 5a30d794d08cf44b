"""Streams over one connection."""

import asyncio
import struct
import zlib

from server.subresources.spdy_client import SpdyClient
from trimtab.server.request.part_queue import UnreadBudget
from trimtab.server.subresources.spdy import DICTIONARY, MAX_FRAME_BYTES, SpdySession, SpdyStream, control_frame


async def accept_all(client: SpdyClient) -> list[SpdyStream]:
    return [stream async for stream in SpdySession(client).streams()]


def test_dictionary_is_that_of_the_protocol() -> None:
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def test_stream_has_the_headers_and_the_data_of_the_client() -> None:
    async def scenario() -> None:
        client = SpdyClient()
        client.open(1, streamtype="stdin")
        client.open(3, streamtype="error", fin=True)
        client.write(1, b"abc")
        client.write(1, b"def", fin=True)
        client.disconnect()
        first, second = await accept_all(client)
        assert (first.headers, second.headers) == ({"streamtype": "stdin"}, {"streamtype": "error"})
        assert [await first.receive() for _ in range(3)] == [b"abc", b"def", None]
        assert await second.receive() is None
        replies = [(kind, struct.unpack(">I", body[:4])[0]) for number, kind, body in client.frames() if number == 0]
        assert replies == [(2, 1), (2, 3)]

    asyncio.run(scenario())


def test_server_sends_data_and_closes_its_direction() -> None:
    async def scenario() -> None:
        client = SpdyClient()
        client.open(1, streamtype="stdout")
        client.disconnect()
        (stream,) = await accept_all(client)
        stream.send(b"x" * (MAX_FRAME_BYTES + 1))
        stream.close()
        stream.send(b"late")
        assert client.data(1) == b"x" * (MAX_FRAME_BYTES + 1)
        assert client.is_closed(1)

    asyncio.run(scenario())


def test_ping_is_answered_and_a_reset_ends_the_stream() -> None:
    async def scenario() -> None:
        client = SpdyClient()
        client.open(1, streamtype="stdin")
        client.feed(control_frame(6, b"\0\0\0\7"))
        client.feed(control_frame(3, struct.pack(">II", 1, 5)))
        client.write(1, b"late")
        client.disconnect()
        (stream,) = await accept_all(client)
        assert await stream.receive() is None
        assert (0, 6, b"\0\0\0\7") in list(client.frames())

    asyncio.run(scenario())


def test_frame_that_is_too_large_or_of_another_version_ends_the_connection() -> None:
    async def scenario(data: bytes) -> None:
        client = SpdyClient()
        client.feed(data)
        assert await accept_all(client) == []
        assert [kind for number, kind, _ in client.frames() if number == 0] == [7]

    asyncio.run(scenario(struct.pack(">II", 1, MAX_FRAME_BYTES + 1)))
    asyncio.run(scenario(struct.pack(">HHI", 0x8002, 1, 0)))
    asyncio.run(scenario(control_frame(1, b"\0" * 10 + b"not compressed")))


def test_number_of_an_open_stream_cannot_be_used_again() -> None:
    """Otherwise the streams of a connection are not bounded: each pair of a port-forward is a connection to the pod."""

    async def scenario() -> None:
        client = SpdyClient()
        client.open(1, streamtype="error")
        client.open(1, streamtype="error")
        client.open(3, streamtype="data")
        client.disconnect()
        assert len(await accept_all(client)) == 1
        assert list(client.frames())[-1][1] == 7  # GOAWAY

    asyncio.run(scenario())


def test_unread_data_of_all_streams_is_bounded_together() -> None:
    async def scenario() -> None:
        client = SpdyClient()
        for number in (1, 3):
            client.open(number, streamtype="stdin")
            client.write(number, bytes(1000))
        session = SpdySession(client, UnreadBudget(2000))
        assert len([stream async for stream in session.streams()]) == 2
        assert list(client.frames())[-1][1] == 7  # GOAWAY

    asyncio.run(scenario())
