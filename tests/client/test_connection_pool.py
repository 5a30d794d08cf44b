"""Pooled connections are reused, replaced when broken, and never return an incomplete response."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from trimtab.client import connection_pool
from trimtab.client.connection_pool import ConnectionBroken, ConnectionPool, Reply
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ScriptedServer:
    """Sends scripted responses, one per request; None closes the connection instead."""

    def __init__(self, *responses: bytes | None) -> None:
        self._responses = list(responses)
        self.connections = 0
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self._responses:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                break
            self.heads.append(head)
            length = [int(line.split(":")[1]) for line in head.splitlines() if line.startswith("Content-Length")]
            await reader.readexactly(length[0] if length else 0)
            response = self._responses.pop(0)
            if response is None:
                break
            writer.write(response)
            await writer.drain()
        writer.close()


def http_response(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def run_with_server(
    server: ScriptedServer, scenario: Callable[[ConnectionPool], Awaitable[Any]], prefix: str = "", **more: Any
) -> Any:
    async def main() -> Any:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        pool = ConnectionPool(f"http://127.0.0.1:{port}{prefix}", ssl_context=None, **more)
        try:
            return await scenario(pool)
        finally:
            pool.close()
            listener.close()

    return asyncio.run(main())


async def three_requests(pool: ConnectionPool) -> list[Reply]:
    return [await pool.request("GET", f"/{number}", {"Accept": "application/json"}) for number in range(3)]


def test_retired_connections_carry_no_further_request() -> None:
    server = ScriptedServer(*(http_response(b"a") for _ in range(4)))

    async def scenario(pool: ConnectionPool) -> list[int]:
        counts = []
        for retires in (False, False, True):
            if retires:
                pool.retire_connections()
            assert (await pool.request("GET", "/", {})).status == 200
            counts.append(server.connections)
        waiting = asyncio.ensure_future(pool.request("GET", "/", {}))
        await asyncio.sleep(0)
        pool.retire_connections()
        assert (await waiting).status == 200  # a request in progress ends normally
        return [*counts, len(pool._idle)]

    assert run_with_server(server, scenario) == [1, 1, 2, 0]


def test_one_connection_carries_several_requests() -> None:
    server = ScriptedServer(
        http_response(b"a"), http_response(b"b"), http_response(b"c", "Retry-After: 7", status="429 Too Many Requests")
    )
    assert run_with_server(server, three_requests) == [Reply(200, b"a"), Reply(200, b"b"), Reply(429, b"c", "7")]
    assert server.connections == 1
    assert server.heads[1].startswith("GET /1 HTTP/1.1\r\nHost: 127.0.0.1:")


def test_connection_closed_while_idle_is_replaced() -> None:
    server = ScriptedServer(http_response(b"a"), None, http_response(b"b"), http_response(b"c", "Connection: close"))
    assert [reply.body for reply in run_with_server(server, three_requests)] == [b"a", b"b", b"c"]
    assert server.connections == 2


def test_connections_beyond_what_is_used_are_closed() -> None:
    server = ScriptedServer(*(http_response(b"a") for _ in range(4)))

    async def scenario(pool: ConnectionPool) -> tuple[int, list[bool], bool]:
        await asyncio.gather(*(pool.request("GET", "/", {}) for _ in range(3)))
        opened = [*pool._idle]
        for connection in opened:
            connection.last_used -= connection_pool.IDLE_SECONDS - 5
        await pool.request("GET", "/", {})
        for connection in opened:
            connection.last_used -= 5
        pool._check_connections()
        return len(opened), [connection.is_open for connection in opened], pool._next_check is not None

    assert run_with_server(server, scenario) == (3, [False, False, True], True)


def test_request_that_is_not_idempotent_is_not_repeated() -> None:
    async def post(pool: ConnectionPool) -> None:
        await pool.request("GET", "/", {})
        await pool.request("POST", "/", {}, b"{}")

    server = ScriptedServer(http_response(b"a"), None, http_response(b"b"))
    with pytest.raises(ConnectionBroken):
        run_with_server(server, post)
    assert [head.split()[0] for head in server.heads] == ["GET", "POST"]


@pytest.mark.parametrize("incomplete", [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"SSH-2.0-OpenSSH\r\n"])
def test_incomplete_response_is_a_connection_error(incomplete: bytes) -> None:
    async def once(pool: ConnectionPool) -> None:
        await pool.request("GET", "/", {})

    with pytest.raises(ConnectionError):
        run_with_server(ScriptedServer(incomplete), once)


def test_chunked_and_compressed_responses_are_decoded() -> None:
    compressed = gzip.compress(b"b" * 5000)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\naa\r\n0\r\n\r\n"
    server = ScriptedServer(chunked, http_response(compressed, "Content-Encoding: gzip"), http_response(b""))
    assert [reply.body for reply in run_with_server(server, three_requests)] == [b"aaa", b"b" * 5000, b""]


def test_incomplete_gzip_stream_is_a_connection_error() -> None:
    cut = gzip.compress(b"[" + b"1," * 500)[:-9]
    with pytest.raises(ConnectionBroken, match="not a complete gzip stream"):
        run_with_server(
            ScriptedServer(http_response(cut, "Content-Encoding: gzip")), lambda pool: pool.request("GET", "/", {})
        )


def test_server_url_with_a_path_prefixes_requests() -> None:
    server = ScriptedServer(http_response(b"a"), http_response(b"b"), http_response(b"c"))
    run_with_server(server, three_requests, "/k8s/clusters/c-1/")
    assert server.heads[0].startswith("GET /k8s/clusters/c-1/0 HTTP/1.1")


def test_request_without_a_response_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "RESPONSE_SECONDS", 0.2)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = ScriptedServer()
    server.serve = silent  # type: ignore[method-assign]

    async def once(pool: ConnectionPool) -> None:
        await pool.request("GET", "/", {})

    with pytest.raises(TimeoutError):
        run_with_server(server, once)


@pytest.mark.parametrize("unsolicited", [1, 20, -1, None])
def test_unsolicited_response_is_not_taken_for_the_next_one(unsolicited: int | None) -> None:
    server = ScriptedServer(
        http_response(b"a") + http_response(b"unasked")[:unsolicited], http_response(b"b"), http_response(b"c")
    )

    async def slowly(pool: ConnectionPool) -> list[bytes]:
        bodies = []
        for number in range(3):
            bodies.append((await pool.request("GET", f"/{number}", {})).body)
            await asyncio.sleep(0.05)
        return bodies

    assert run_with_server(server, slowly) == [b"a", b"b", b"c"]


def test_requests_beyond_the_connection_limit_wait() -> None:
    server = ScriptedServer(*(http_response(b"a") for _ in range(6)))

    async def crowd(pool: ConnectionPool) -> int:
        replies = await asyncio.gather(*(pool.request("GET", "/", {}) for _ in range(6)))
        return sum(reply.status == 200 for reply in replies)

    assert run_with_server(server, crowd, max_connections=2) == 6
    assert server.connections <= 2


@pytest.mark.parametrize("compressed", [False, True])
def test_too_large_response_is_refused(monkeypatch: pytest.MonkeyPatch, compressed: bool) -> None:
    monkeypatch.setattr(connection_pool, "MAX_RESPONSE_BYTES", 1 << 20)
    endless = b"a" * (2 << 20)
    response = http_response(gzip.compress(endless), "Content-Encoding: gzip") if compressed else http_response(endless)

    async def once(pool: ConnectionPool) -> None:
        await pool.request("GET", "/", {})

    with pytest.raises(ConnectionError, match="larger than 1 MiB"):
        run_with_server(ScriptedServer(response), once)


def test_plain_document_has_a_smaller_limit_than_a_list_of_objects() -> None:
    server = ScriptedServer(http_response(b"a" * (connection_pool.MAX_PLAIN_BYTES + 1)))

    async def read_health(pool: ConnectionPool) -> None:
        client = KubeClient(Credentials(server=f"http://{pool._host}:{pool._port}"))
        try:
            await client.fetch("/readyz")
        finally:
            await client.close()

    with pytest.raises(ConnectionError, match="larger than 8 MiB"):
        run_with_server(server, read_health)
