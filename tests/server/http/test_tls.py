"""TLS connections: handshakes outside of the event loop, data in both directions, failures."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest
import uvloop

from trimtab.server.auth.certificates import ensure_authority
from trimtab.server.http import acceptor, tls
from trimtab.server.http.acceptor import Acceptor
from trimtab.server.http.listener import make_tls_context
from trimtab.server.http.tls import TlsLayer, TlsTransport

LARGE = 3 * 1024 * 1024
Run = Callable[[Callable[[], Awaitable[None]]], None]


class Echo(asyncio.Protocol):
    """Sends back what it receives; counts as an open connection."""

    owner: str | None = ""
    is_idle = True

    def __init__(self, connections: set["Echo"]) -> None:
        self.connections = connections
        self.ended = asyncio.get_running_loop().create_future()
        self.received: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self.received.append(data)
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self.ended.set_result(None)


class Server:
    """An acceptor with TLS and its open connections."""

    def __init__(self, directory: Path) -> None:
        self.connections: set[Echo] = set()
        self.listening = socket.create_server(("127.0.0.1", 0))
        context = make_tls_context(ensure_authority(directory / "pki", ["127.0.0.1"]))
        self.acceptor = Acceptor(self.listening, lambda: Echo(self.connections), context, self.connections)

    async def __aenter__(self) -> Self:
        self.acceptor.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.acceptor.stop()
        self.listening.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return await asyncio.open_connection(*self.listening.getsockname(), ssl=context)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def in_loop(scenario: Callable[[], Awaitable[None]]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(60):
                await scenario()

        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(limited())

    return in_loop


def test_large_data_arrives_in_both_directions(tmp_path: Path, run: Run) -> None:
    async def scenario() -> None:
        async with Server(tmp_path) as server:
            reader, writer = await server.connect()
            sent = bytes(range(256)) * (LARGE // 256)
            writer.write(sent)
            assert await reader.readexactly(LARGE) == sent
            writer.close()

    run(scenario)


def test_handshake_runs_outside_of_the_event_loop(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    take_step = TlsLayer._take_step

    def noted(layer: TlsLayer, data: bytes) -> bool:
        threads.append(threading.get_ident())
        return take_step(layer, data)

    monkeypatch.setattr(TlsLayer, "_take_step", noted)

    async def scenario() -> None:
        async with Server(tmp_path) as server:
            _, writer = await server.connect()
            writer.close()

    run(scenario)
    assert threads
    assert threading.get_ident() not in threads


def test_protocol_sees_the_connection_and_its_end(tmp_path: Path, run: Run) -> None:
    async def scenario() -> None:
        async with Server(tmp_path) as server:
            reader, writer = await server.connect()
            writer.write(b"x")
            await reader.readexactly(1)
            (echo,) = server.connections
            assert echo.transport.get_extra_info("sslcontext") is not None
            assert echo.transport.get_extra_info("peername")[0] == "127.0.0.1"
            assert not echo.transport.get_extra_info("peercert")
            writer.close()
            await echo.ended

    run(scenario)


async def sizes_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch, write: Callable[[TlsTransport], None]
) -> list[int]:
    """The sizes of what the server encrypts at a time, and that all of it arrives."""
    sizes: list[int] = []
    send = TlsLayer.send

    def noted(layer: TlsLayer, data: bytes) -> None:
        sizes.append(len(data))
        send(layer, data)

    reader, writer = await server.connect()
    writer.write(b"x")
    await reader.readexactly(1)
    (echo,) = server.connections
    monkeypatch.setattr(TlsLayer, "send", noted)
    assert isinstance(echo.transport, TlsTransport)
    write(echo.transport)
    assert await reader.readexactly(sum(sizes)) == b"y" * sum(sizes)
    writer.close()
    await echo.ended
    return sizes


def test_joined_writes_are_sent_together(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(transport: TlsTransport) -> None:
        transport.join_writes()
        for size in (100, 1000, 10):
            transport.write(b"y" * size)

    async def scenario() -> None:
        async with Server(tmp_path) as server:
            assert await sizes_sent(server, monkeypatch, write) == [1100, 10]

    run(scenario)


def test_large_write_is_not_copied_to_be_joined(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(transport: TlsTransport) -> None:
        transport.join_writes()
        transport.write(b"y" * 100)
        transport.write(b"y" * LARGE)

    async def scenario() -> None:
        async with Server(tmp_path) as server:
            assert await sizes_sent(server, monkeypatch, write) == [100, LARGE]

    run(scenario)


@pytest.mark.parametrize("end", [TlsTransport.end_joining, TlsTransport.close])
def test_write_that_nothing_follows_is_sent_at_the_end(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, end: Callable[[TlsTransport], None]
) -> None:
    def write(transport: TlsTransport) -> None:
        transport.join_writes()
        transport.write(b"y" * 100)
        end(transport)

    async def scenario() -> None:
        async with Server(tmp_path) as server:
            assert await sizes_sent(server, monkeypatch, write) == [100]

    run(scenario)


def count_received(address: tuple[str, int]) -> int:
    """A client with a blocking socket: sends a byte and reads everything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address, 30) as plain, context.wrap_socket(plain) as connection:
        connection.sendall(b"x")
        count = 0
        while data := connection.recv(65536):
            count += len(data)
        return count


def test_closing_sends_what_was_written_before(tmp_path: Path, run: Run) -> None:
    async def scenario() -> None:
        async with Server(tmp_path) as server:
            reading = asyncio.ensure_future(asyncio.to_thread(count_received, server.listening.getsockname()))
            while not any(echo.received for echo in server.connections):  # noqa: ASYNC110 - a list
                await asyncio.sleep(0.01)
            (echo,) = server.connections
            echo.transport.write(b"y" * LARGE)
            echo.transport.close()
            assert echo.transport.is_closing()
            assert await reading == LARGE + 1

    run(scenario)


def test_paused_protocol_receives_nothing_until_it_resumes(tmp_path: Path, run: Run) -> None:
    async def scenario() -> None:
        async with Server(tmp_path) as server:
            reader, writer = await server.connect()
            writer.write(b"x")
            await reader.readexactly(1)
            (echo,) = server.connections
            echo.transport.pause_reading()
            writer.write(b"y")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.readexactly(1), 0.1)
            assert echo.received == [b"x"]
            echo.transport.resume_reading()
            assert await reader.readexactly(1) == b"y"
            writer.close()

    run(scenario)


def test_failed_handshake_gets_an_alert_and_the_next_client_is_served(tmp_path: Path, run: Run) -> None:
    async def scenario() -> None:
        async with Server(tmp_path) as server:
            reader, writer = await asyncio.open_connection(*server.listening.getsockname())
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert (await reader.read())[:1] in (b"\x15", b"")  # an alert, if anything
            writer.close()
            reader, writer = await server.connect()
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            writer.close()

    run(scenario)


def test_unfinished_handshake_is_closed_after_its_time(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "_HANDSHAKE_SECONDS", 0.05)

    async def scenario() -> None:
        async with Server(tmp_path) as server:
            reader, writer = await asyncio.open_connection(*server.listening.getsockname())
            writer.write(b"\x16\x03\x01")
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            assert not server.connections

    run(scenario)


def test_handshake_with_too_much_data_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "_MAX_HANDSHAKE_BYTES", 100)

    async def scenario() -> None:
        async with Server(tmp_path) as server:
            reader, writer = await asyncio.open_connection(*server.listening.getsockname())
            writer.write(b"\x16" * 200)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(scenario())


def test_connection_that_ends_during_the_handshake_fails(tmp_path: Path) -> None:
    async def scenario() -> None:
        context = make_tls_context(ensure_authority(tmp_path / "pki", ["127.0.0.1"]))
        with ThreadPoolExecutor(1) as thread:
            layer = TlsLayer(context, asyncio.Protocol, thread)
            layer.connection_lost(None)
            with pytest.raises(OSError, match="during the handshake"):
                await layer.established

    asyncio.run(scenario())


def test_handshake_that_completes_after_its_time_opens_no_connection(tmp_path: Path) -> None:
    """The limit cancels the wait for the handshake while its last step is in the thread."""

    class Raw(asyncio.Transport):
        is_aborted = False

        def abort(self) -> None:
            self.is_aborted = True

        def write(self, data: object) -> None:
            """Nothing reads it."""

    async def scenario() -> None:
        context = make_tls_context(ensure_authority(tmp_path, ["127.0.0.1"]))
        connections: set[Echo] = set()
        raw = Raw()
        with ThreadPoolExecutor(1) as pool:
            layer = TlsLayer(context, lambda: Echo(connections), pool)
            layer.connection_made(raw)
            layer.established.cancel()
            step = asyncio.get_running_loop().create_future()
            step.set_result(True)
            layer._on_step(step)
        assert raw.is_aborted
        assert not connections

    asyncio.run(scenario())
