"""The relay passes data on, stops it while it is cut, and resets broken connections when it heals."""

import asyncio

import pytest

from soak.partition import Relay


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


def test_nothing_passes_while_the_relay_is_cut() -> None:
    async def run() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        relay = Relay(server.sockets[0].getsockname()[1])
        await relay.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"one")
        assert await reader.read(100) == b"one"
        relay.cut()
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(100), 0.2)
        relay.heal()
        assert await reader.read(100) == b""
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"three")
        assert await reader.read(100) == b"three"
        writer.close()
        await relay.stop()
        server.close()

    asyncio.run(run())
