"""Answers of an OpenID Connect issuer are read to their end, within a limit."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import orjson
import pytest

from server.auth.fake_issuer import CLIENT
from trimtab.clock import WallClock
from trimtab.server.auth.id_tokens import IdTokens, OidcClaims
from trimtab.server.auth.oidc_issuer import MAX_ANSWER_BYTES, IssuerUnavailable, OidcClient, OidcIssuer, read_answer

DOCUMENT = {"issuer": "https://issuer.example", "padding": "x" * 3000}


async def fetch(parts: Sequence[bytes], headers: str = "") -> object:
    """What is read of an answer that arrives in these pieces."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        length = sum(map(len, parts))
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{headers}\r\n".encode())
        for part in parts:
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(part)
        await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    issuer = OidcIssuer(OidcClient(CLIENT), IdTokens(OidcClaims("https://issuer.example", CLIENT), WallClock().now))
    try:
        return await issuer._fetch("GET", f"http://127.0.0.1:{port}/")
    finally:
        server.close()


def test_an_answer_that_arrives_in_pieces_is_read_whole() -> None:
    text = orjson.dumps(DOCUMENT)
    assert asyncio.run(fetch([text[:20], text[20:1000], text[1000:]])) == DOCUMENT


def test_a_compressed_answer_is_not_expanded() -> None:
    with pytest.raises(IssuerUnavailable):
        asyncio.run(fetch([b"\x1f\x8b\x08"], "Content-Encoding: gzip\r\n"))


def test_a_large_answer_is_not_read_to_its_end() -> None:
    read: list[int] = []

    async def chunks() -> AsyncIterator[bytes]:
        for number in range(100):
            read.append(number)
            yield bytes(1 << 16)

    assert len(asyncio.run(read_answer(chunks()))) > MAX_ANSWER_BYTES
    assert len(read) < 20
