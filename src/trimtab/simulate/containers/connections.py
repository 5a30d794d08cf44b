"""Connections to the ports of simulated containers, as `kubectl port-forward` opens them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from http.client import responses

from trimtab.server.admission.dynamic.service_calls import ServerAnswer, ServerRequest
from trimtab.simulate.containers.input_buffer import MAX_BUFFERED_BYTES, WAIT_FOR_INPUT, InputBuffer
from trimtab.simulate.containers.shell import Run

Receive = Callable[[], Awaitable[bytes | None]]
"""The next bytes of the client; None when it has closed its direction."""
Send = Callable[[bytes], None]
Respond = Callable[[ServerRequest], ServerAnswer]
_MAX_HEAD_BYTES = 64 * 1024
_SHUTDOWN_SECONDS = 0.5
_BYTES_PER_SECOND = 20e6
"""How fast a program sends at most."""


class Connection:
    """One connection to a program that reads and writes bytes."""

    def __init__(self, send: Send) -> None:
        self.received = InputBuffer()
        self.send = send
        self.ended = asyncio.Event()
        """Set when the program has closed it."""


class Listener:
    """The connections that wait to be accepted by a program."""

    def __init__(self) -> None:
        self.waiting: deque[Connection] = deque()


def accept(listener: Listener) -> Run:
    """Wait for a connection; it is then the first of those that wait."""
    while not listener.waiting:
        yield WAIT_FOR_INPUT
    return 0


async def serve_http(respond: Respond, port: int, receive: Receive, send: Send) -> None:
    """Answer the HTTP requests of one connection, until the client closes it."""
    buffered = b""
    while True:
        while b"\r\n\r\n" not in buffered:
            part = await receive()
            if part is None or len(buffered) > _MAX_HEAD_BYTES:
                return
            buffered += part
        head, _, buffered = buffered.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        words, headers = first.split(" "), dict(_header(line) for line in lines)
        if len(words) != 3:
            send(_http_answer(ServerAnswer(400, "bad request\n"), is_last=True))
            return
        length = headers.get("content-length", "0")
        wanted = int(length[:9]) if length.isdecimal() else 0
        if wanted > MAX_BUFFERED_BYTES:
            send(_http_answer(ServerAnswer(413, "request entity too large\n"), is_last=True))
            return
        received = bytearray(buffered)
        while len(received) < wanted and (part := await receive()) is not None:
            received += part
        body, buffered = bytes(received[:wanted]), bytes(received[wanted:])
        is_last = headers.get("connection", "").lower() == "close" or words[2] == "HTTP/1.0"
        answer = respond(ServerRequest(words[1].partition("?")[0], body, words[0], port))
        send(_http_answer(answer, is_last=is_last, with_body=words[0] != "HEAD"))
        if is_last:
            return


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def _http_answer(answer: ServerAnswer, *, is_last: bool, with_body: bool = True) -> bytes:
    body = answer.body.encode()
    lines = [
        f"HTTP/1.1 {answer.status} {responses.get(answer.status, '')}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(body)}",
        *(["Connection: close"] if is_last else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (body if with_body else b"")


def send_chunks(listener: Listener, environment: Mapping[str, str], write: Callable[[str], None]) -> Run:
    """`agnhost port-forward-tester`: accepts one connection, checks what it sends, answers in chunks, and ends."""
    yield from accept(listener)
    connection = listener.waiting.popleft()
    write("Accepted client connection\n")
    try:
        return (yield from _converse(connection, environment, write))
    finally:
        connection.ended.set()


def _converse(connection: Connection, environment: Mapping[str, str], write: Callable[[str], None]) -> Run:
    expected = environment.get("EXPECTED_CLIENT_DATA", "").encode()
    if expected:
        while not connection.received.size and not connection.received.is_closed:
            yield WAIT_FOR_INPUT
        received = connection.received.take(len(expected))
        if len(received) != len(expected):
            write(f"Expected to read {len(expected)} bytes from client, but got {len(received)} instead. err=EOF\n")
            return 2
        if received != expected:
            write(f"Expect to read {expected!r}, but got {received!r}\n")
            return 3
        write("Received expected client data\n")
    numbers = [environment.get(name, "") for name in ("CHUNKS", "CHUNK_SIZE", "CHUNK_INTERVAL")]
    if not all(one.isdecimal() for one in numbers):
        write("Error parsing the size of the chunks\n")
        return 1
    chunks, size, interval = (int(one[:6]) for one in numbers)
    for number in range(chunks):
        connection.send(b"x" * size)
        if number + 1 < chunks:
            yield max(interval / 1000, size / _BYTES_PER_SECOND)
    write("Shutting down connection\n")
    connection.ended.set()
    yield _SHUTDOWN_SECONDS
    write("Done\n")
    return 0
