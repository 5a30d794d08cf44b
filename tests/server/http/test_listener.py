"""The listener closes connections whose requests are too large or never complete."""

import asyncio
import ssl
from pathlib import Path

import pytest

from trimtab.server.auth.certificates import ensure_authority
from trimtab.server.http import listener
from trimtab.server.http.listener import Listener
from trimtab.server.http.raw_socket import RawSocket
from trimtab.server.request import part_queue


async def hello(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


async def slow_hello(scope, receive, send) -> None:
    """Read the whole request, then respond after a delay."""
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] != "http.disconnect":
        await asyncio.sleep(0.2)
        await hello(scope, receive, send)


def exchange(*parts: bytes, pause: float = 0.0, app=hello) -> bytes:
    """The bytes that a listener without TLS returns after receiving these parts one by one."""

    async def scenario() -> bytes:
        listener = Listener(app, "127.0.0.1", 0, None)
        await listener.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause)
            response = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            return response
        finally:
            await listener.stop()

    return asyncio.run(scenario())


def test_complete_request_gets_a_response() -> None:
    assert exchange(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").endswith(b"hi")


def test_too_large_headers_get_status_431(monkeypatch) -> None:
    monkeypatch.setattr(listener, "_HEADER_LIMIT", 4096)
    assert exchange(b"GET / HTTP/1.1\r\n", b"x: " + b"y" * 8192 + b"\r\n").startswith(b"HTTP/1.1 431 ")


def test_incomplete_headers_close_the_connection_after_the_timeout(monkeypatch) -> None:
    monkeypatch.setattr(listener, "_HEADER_SECONDS", 0.05)
    assert exchange(b"GET / HTTP/1.1\r\n", b"x: y\r\n", pause=0.1) == b""


def test_incomplete_body_closes_the_connection_after_the_timeout(monkeypatch) -> None:
    monkeypatch.setattr(listener, "_BODY_SECONDS", 0.05)
    assert exchange(b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\n", b"half", pause=0.1, app=slow_hello) == b""


@pytest.mark.parametrize(
    "more", [b"", b"content-length: 4\r\n", b"upgrade: websocket\r\nconnection: upgrade, close\r\n"]
)
def test_complete_request_is_not_subject_to_the_timeouts(monkeypatch, more: bytes) -> None:
    monkeypatch.setattr(listener, "_HEADER_SECONDS", 0.05)
    monkeypatch.setattr(listener, "_BODY_SECONDS", 0.05)
    body = b"body" if b"length" in more else b""
    close = b"" if b"upgrade" in more else b"connection: close\r\n"
    response = exchange(b"POST / HTTP/1.1\r\n" + close + more + b"\r\n", body, app=slow_hello)
    assert response.endswith(b"hi")


def test_connection_without_any_request_is_closed_after_the_timeout(monkeypatch) -> None:
    monkeypatch.setattr(listener, "_HEADER_SECONDS", 0.05)
    assert exchange() == b""


def test_rejected_connection_is_not_read_for_a_while() -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []

        async def app(scope, receive, send) -> None:
            seen.append(scope["path"])
            if scope["path"] == "/rejected":
                scope["connection"].delay_reading(30.0)
            await hello(scope, receive, send)

        serving = Listener(app, "127.0.0.1", 0, None)
        await serving.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
            for path in ("/first", "/rejected", "/again"):
                writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
                if path != "/again":
                    await asyncio.wait_for(reader.readuntil(b"hi"), 10)
            await asyncio.sleep(0.3)
            writer.close()
        finally:
            await serving.stop()
        return seen

    assert asyncio.run(scenario()) == ["/first", "/rejected"]


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([b"GET /", *[b"x" * 65536] * 14, b" HTTP/1.1\r\nhost: x\r\n\r\n"], b"414 "),
        ([b"GET / HTTP/1.1\r\nhost: x\r\nx: ", *[b"y" * 65536] * 14, b"\r\n\r\n"], b"431 "),
    ],
)
def test_client_that_goes_on_sending_still_reads_the_refusal(parts: list[bytes], status: bytes) -> None:
    assert exchange(*parts, pause=0.001).startswith(b"HTTP/1.1 " + status)


def test_head_of_a_response_without_a_body_is_sent_at_once_over_tls(tmp_path: Path) -> None:
    async def app(scope, receive, send) -> None:
        scope["connection"].join_writes()
        await hello(scope, receive, send)

    async def scenario() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        serving = Listener(app, "127.0.0.1", 0, ensure_authority(tmp_path, ["127.0.0.1"]))
        await serving.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", serving.port, ssl=context)
            for method, end in (("HEAD", b"\r\n\r\n"), ("GET", b"hi")):
                writer.write(f"{method} / HTTP/1.1\r\nhost: x\r\n\r\n".encode())
                response = await asyncio.wait_for(reader.readuntil(end), 10)
                assert response.startswith(b"HTTP/1.1 200 ")
            writer.close()
        finally:
            await serving.stop()

    asyncio.run(scenario())


async def next_turn() -> None:
    await asyncio.sleep(0)


def test_session_in_which_nothing_is_sent_ends(monkeypatch) -> None:
    monkeypatch.setattr(listener, "_IDLE_SESSION_SECONDS", 0.1)

    async def app(scope, receive, send) -> None:
        socket = scope["connection"].upgrade(b"HTTP/1.1 101 \r\n\r\n", RawSocket, next_turn)
        while await socket.receive() is not None:
            pass

    assert exchange(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", app=app) == b"HTTP/1.1 101 \r\n\r\n"


def test_client_of_a_session_that_does_not_read_is_disconnected(monkeypatch) -> None:
    monkeypatch.setattr(part_queue, "MAX_UNREAD_BYTES", 1 << 20)

    async def scenario() -> int:
        ended = asyncio.get_running_loop().create_future()

        async def app(scope, receive, send) -> None:
            connection = scope["connection"]
            socket = connection.upgrade(b"HTTP/1.1 101 \r\n\r\n", RawSocket, next_turn)
            sent = 0
            while not connection.is_lost and sent < 64:
                socket.send(bytes(1 << 20))
                sent += 1
                await asyncio.sleep(0)
            ended.set_result(sent)

        serving = Listener(app, "127.0.0.1", 0, None)
        await serving.start()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", serving.port, limit=1)
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            return await asyncio.wait_for(ended, 30)
        finally:
            await serving.stop()

    assert asyncio.run(scenario()) < 64
