"""A client may not talk for ever before it says what it wants."""

import asyncio

import pytest

from trimtab.server.http import listener
from trimtab.server.http.listener import Listener


async def hello(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


async def slow_hello(scope, receive, send) -> None:
    """Reads all of the request, then takes its time."""
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] != "http.disconnect":
        await asyncio.sleep(0.2)
        await hello(scope, receive, send)


def talk(*sentences: bytes, pause: float = 0.0, app=hello) -> bytes:
    """What a plain listener answers to these bytes, sent one after the other."""

    async def story() -> bytes:
        listener = Listener(app, "127.0.0.1", 0, None)
        await listener.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            for sentence in sentences:
                writer.write(sentence)
                await writer.drain()
                await asyncio.sleep(pause)
            answer = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            return answer
        finally:
            await listener.stop()

    return asyncio.run(story())


def test_an_ordinary_request_is_answered() -> None:
    assert talk(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").endswith(b"hi")


def test_endless_headers_are_cut_off(monkeypatch) -> None:
    monkeypatch.setattr(listener, "_HEADER_LIMIT", 4096)
    assert talk(b"GET / HTTP/1.1\r\n", b"x: " + b"y" * 8192 + b"\r\n").startswith(b"HTTP/1.1 431 ")


def test_headers_that_never_end_are_not_waited_for(monkeypatch) -> None:
    monkeypatch.setattr(listener, "_HEADER_SECONDS", 0.05)
    assert talk(b"GET / HTTP/1.1\r\n", b"x: y\r\n", pause=0.1) == b""


def test_a_body_that_never_ends_is_not_waited_for(monkeypatch) -> None:
    monkeypatch.setattr(listener, "_BODY_SECONDS", 0.05)
    assert talk(b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\n", b"half", pause=0.1, app=slow_hello) == b""


@pytest.mark.parametrize(
    "more", [b"", b"content-length: 4\r\n", b"upgrade: websocket\r\nconnection: upgrade, close\r\n"]
)
def test_who_has_said_everything_may_wait_for_the_answer(monkeypatch, more: bytes) -> None:
    monkeypatch.setattr(listener, "_HEADER_SECONDS", 0.05)
    monkeypatch.setattr(listener, "_BODY_SECONDS", 0.05)
    body = b"body" if b"length" in more else b""
    close = b"" if b"upgrade" in more else b"connection: close\r\n"
    told = talk(b"POST / HTTP/1.1\r\n" + close + more + b"\r\n", body, app=slow_hello)
    assert told.endswith(b"hi")
