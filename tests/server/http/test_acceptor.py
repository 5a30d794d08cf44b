"""The acceptor limits connections and handshakes."""

import asyncio
import socket
from typing import NamedTuple

import pytest

from trimtab.server.http import acceptor
from trimtab.server.http.acceptor import Acceptor, connection_to_close, most_connections


class FakeConnection(NamedTuple):
    owner: str | None
    is_idle: bool = True

    def abort(self) -> None:
        """Nothing is connected."""


class EchoProtocol(asyncio.Protocol):
    """Greets its client and counts as an open connection."""

    owner: str | None = ""
    is_idle = True

    def __init__(self, connections: set["EchoProtocol"]) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(self)
        transport.write(b"hello")  # type: ignore[attr-defined]

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)

    def abort(self) -> None:
        self._transport.abort()  # type: ignore[attr-defined]


async def open_connections(count: int, limit: int) -> tuple[list[asyncio.StreamReader], set[EchoProtocol]]:
    """Open connections one after the other; returns their readers and the server's open connections."""
    listening = socket.create_server(("127.0.0.1", 0))
    connections: set[EchoProtocol] = set()
    accepting = Acceptor(listening, lambda: EchoProtocol(connections), None, connections, limit=limit)
    accepting.start()
    readers, writers = [], []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        assert await asyncio.wait_for(reader.read(5), 10) == b"hello"
        readers.append(reader)
        writers.append(writer)
    await accepting.stop()
    for writer in writers:
        writer.close()
    listening.close()
    return readers, connections


def test_connections_above_the_limit_replace_others() -> None:
    async def scenario() -> int:
        readers, _ = await open_connections(6, limit=4)
        await asyncio.sleep(0.05)
        return sum(reader.at_eof() or reader.exception() is not None for reader in readers)

    assert asyncio.run(scenario()) >= 2


def test_owner_with_the_most_connections_loses_an_idle_one() -> None:
    few = [FakeConnection("bob")] * 2
    busy = FakeConnection("ann", is_idle=False)
    idle = FakeConnection("ann")
    assert connection_to_close([busy, busy, *few, idle]) is idle
    assert connection_to_close([*few, busy, busy, busy]) is busy


def test_connections_of_exempt_users_are_never_closed() -> None:
    exempt = FakeConnection(None)
    only = FakeConnection("bob")
    assert connection_to_close([exempt] * 10) is None
    assert connection_to_close([*[exempt] * 10, only]) is only


def test_file_descriptors_limit_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor.resource, "getrlimit", lambda _: (1024, 1024))
    assert most_connections() == 768
    monkeypatch.setattr(acceptor.resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    assert most_connections() == acceptor.MAX_CONNECTIONS


def test_oldest_unfinished_handshake_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "MAX_HANDSHAKES", 2)

    async def scenario() -> list[bool]:
        accepting = Acceptor(socket.create_server(("127.0.0.1", 0)), asyncio.Protocol, None, set(), limit=10)
        handshakes = [asyncio.ensure_future(asyncio.sleep(60)) for _ in range(2)]
        for handshake in handshakes:
            accepting._handshakes[handshake] = None  # type: ignore[index]
        assert accepting._has_room()
        await asyncio.gather(handshakes[0], return_exceptions=True)
        cancelled = [handshake.cancelled() for handshake in handshakes]
        handshakes[1].cancel()
        return cancelled

    assert asyncio.run(scenario()) == [True, False]


def test_accepting_slows_down_after_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def scenario() -> None:
        accepting = Acceptor(socket.create_server(("127.0.0.1", 0)), asyncio.Protocol, None, set(), limit=10)

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        monkeypatch.setattr(acceptor.asyncio, "sleep", sleep)
        for _ in range(acceptor._BURST + 50):
            await accepting._pace()

    asyncio.run(scenario())
    assert max(waits[: acceptor._BURST - 2]) == 0
    assert waits[-1] > 0.5  # about a second after fifty connections too many


def test_responses_are_sent_without_delay() -> None:
    """Without TCP_NODELAY the second part of a response waits for the client's delayed acknowledgement."""

    async def scenario() -> bool:
        listening = socket.create_server(("127.0.0.1", 0))
        connections: set[EchoProtocol] = set()
        accepting = Acceptor(listening, lambda: EchoProtocol(connections), None, connections)
        accepting.start()
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        await asyncio.wait_for(reader.read(5), 10)
        (connection,) = connections
        accepted = connection._transport.get_extra_info("socket")
        value = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
        await accepting.stop()
        listening.close()
        return bool(value)

    assert asyncio.run(scenario())
