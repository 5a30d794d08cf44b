"""Lines carry one request after the other, are opened anew when they broke, and never hand over half an answer."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from trimtab.client import connection_pool
from trimtab.client.connection_pool import Broken, Lines, Reply

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Says what a script says, request by request; a line of its script that is None hangs up instead."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = list(answers)
        self.lines = 0
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines += 1
        while self._answers:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                break
            self.heads.append(head)
            length = [int(line.split(":")[1]) for line in head.splitlines() if line.startswith("Content-Length")]
            await reader.readexactly(length[0] if length else 0)
            answer = self._answers.pop(0)
            if answer is None:
                break
            writer.write(answer)
            await writer.drain()
        writer.close()


def said(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    told = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 {status}\r\n{told}Content-Length: {len(body)}\r\n\r\n".encode() + body


def talk(server: Server, conversation: Callable[[Lines], Awaitable[Any]], prefix: str = "", **more: Any) -> Any:
    async def main() -> Any:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        made = Lines(f"http://127.0.0.1:{port}{prefix}", trust=None, **more)
        try:
            return await conversation(made)
        finally:
            made.close()
            listening.close()

    return asyncio.run(main())


async def thrice(asked: Lines) -> list[Reply]:
    return [await asked.ask("GET", f"/{number}", {"Accept": "application/json"}) for number in range(3)]


def test_one_line_carries_request_after_request() -> None:
    server = Server(said(b"a"), said(b"b"), said(b"c", "Retry-After: 7", status="429 Too Many Requests"))
    assert talk(server, thrice) == [Reply(200, b"a"), Reply(200, b"b"), Reply(429, b"c", "7")]
    assert server.lines == 1
    assert server.heads[1].startswith("GET /1 HTTP/1.1\r\nHost: 127.0.0.1:")


def test_a_line_that_was_cut_while_idle_is_replaced() -> None:
    server = Server(said(b"a"), None, said(b"b"), said(b"c", "Connection: close"))
    assert [reply.body for reply in talk(server, thrice)] == [b"a", b"b", b"c"]
    assert server.lines == 2


def test_what_may_not_be_done_twice_is_not_sent_twice() -> None:
    async def post(asked: Lines) -> None:
        await asked.ask("GET", "/", {})
        await asked.ask("POST", "/", {}, b"{}")

    server = Server(said(b"a"), None, said(b"b"))
    with pytest.raises(Broken):
        talk(server, post)
    assert [head.split()[0] for head in server.heads] == ["GET", "POST"]


@pytest.mark.parametrize("half", [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"SSH-2.0-OpenSSH\r\n"])
def test_half_an_answer_is_none(half: bytes) -> None:
    async def once(asked: Lines) -> None:
        await asked.ask("GET", "/", {})

    with pytest.raises(ConnectionError):
        talk(Server(half), once)


def test_chunks_and_compressed_answers_are_put_together() -> None:
    squeezed = gzip.compress(b"b" * 5000)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\naa\r\n0\r\n\r\n"
    server = Server(chunked, said(squeezed, "Content-Encoding: gzip"), said(b""))
    assert [reply.body for reply in talk(server, thrice)] == [b"aaa", b"b" * 5000, b""]


def test_a_server_behind_a_path_is_asked_there() -> None:
    server = Server(said(b"a"), said(b"b"), said(b"c"))
    talk(server, thrice, "/k8s/clusters/c-1/")
    assert server.heads[0].startswith("GET /k8s/clusters/c-1/0 HTTP/1.1")


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "ANSWER_SECONDS", 0.2)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = Server()
    server.serve = silent  # type: ignore[method-assign]

    async def once(asked: Lines) -> None:
        await asked.ask("GET", "/", {})

    with pytest.raises(TimeoutError):
        talk(server, once)


@pytest.mark.parametrize("unasked", [1, 20, -1, None])
def test_what_a_server_says_unasked_does_not_pass_for_an_answer(unasked: int | None) -> None:
    server = Server(said(b"a") + said(b"unasked")[:unasked], said(b"b"), said(b"c"))

    async def slowly(asked: Lines) -> list[bytes]:
        bodies = []
        for number in range(3):
            bodies.append((await asked.ask("GET", f"/{number}", {})).body)
            await asyncio.sleep(0.05)
        return bodies

    assert talk(server, slowly) == [b"a", b"b", b"c"]


def test_more_than_there_are_lines_wait_their_turn() -> None:
    server = Server(*(said(b"a") for _ in range(6)))

    async def crowd(asked: Lines) -> int:
        replies = await asyncio.gather(*(asked.ask("GET", "/", {}) for _ in range(6)))
        return sum(reply.status == 200 for reply in replies)

    assert talk(server, crowd, at_once=2) == 6
    assert server.lines <= 2


@pytest.mark.parametrize("squeezed", [False, True])
def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch, squeezed: bool) -> None:
    monkeypatch.setattr(connection_pool, "LARGEST_ANSWER", 1 << 20)
    endless = b"a" * (2 << 20)
    answer = said(gzip.compress(endless), "Content-Encoding: gzip") if squeezed else said(endless)

    async def once(asked: Lines) -> None:
        await asked.ask("GET", "/", {})

    with pytest.raises(ConnectionError, match="larger than 1 MiB"):
        talk(Server(answer), once)
