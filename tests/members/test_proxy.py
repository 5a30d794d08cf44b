"""The proxy forwards requests to members with the identity of the caller and without the caller's credentials."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Self

import aiohttp
import pytest

from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials
from trimtab.errors import BadRequest, Unavailable
from trimtab.members.proxy import MemberProxy
from trimtab.server.auth.user import AUTHENTICATED, Caller, User
from trimtab.server.request.messages import Request, Response, StreamingResponse, UpgradeResponse

ALICE = User("alice", ("devs", AUTHENTICATED))


def new_request(path: str, **query: str) -> Request:
    headers = {"authorization": "Bearer secret", "impersonate-user": "root", "accept": "application/json", "host": "h"}
    headers |= {"cookie": "__Host-trimtab=secret", "x-remote-user": "root", "proxy-authorization": "Basic secret"}
    return Request("GET", f"/apis/x/clusters/east/proxy{path}", query, headers, caller=Caller(ALICE))


class FakeResponse:
    """An upstream response of two chunks."""

    status = 200
    headers = {"Content-Type": "application/json"}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to release."""

    @property
    def content(self) -> "FakeResponse":
        return self

    async def iter_any(self) -> Any:
        for chunk in (b"one", b"two"):
            yield chunk


class FakeKubeClient(KubeClient):
    """A remote member that records what is forwarded."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.forwarded: list[Any] = []

    async def forward(self, *arguments: Any) -> Any:
        if self.fault is not None:
            raise self.fault
        self.forwarded.append(arguments)
        return FakeResponse()


def test_local_server_gets_the_path_behind_the_proxy_and_the_user() -> None:
    received: list[Request] = []

    async def serve(request: Request) -> Response:
        received.append(request)
        return Response(200, b"{}")

    asyncio.run(MemberProxy(lambda _: serve).forward(new_request("/api/v1/pods"), "east"))
    (request,) = received
    assert (request.path, request.certificate_user) == ("/api/v1/pods", ALICE)
    assert sorted(request.headers) == ["accept", "host"]


def test_remote_server_gets_impersonation_headers_instead_of_credentials() -> None:
    client = FakeKubeClient()
    answer = asyncio.run(MemberProxy(lambda _: client).forward(new_request("/api"), "east"))
    assert isinstance(answer, Response)
    assert (answer.body, answer.verbatim) == (b"onetwo", True)
    ((method, path, _, headers, _),) = client.forwarded
    assert (method, path) == ("GET", "/api")
    assert headers == [("accept", "application/json"), ("Impersonate-User", "alice"), ("Impersonate-Group", "devs")]


def test_watch_is_streamed() -> None:
    async def run() -> list[bytes]:
        answer = await MemberProxy(lambda _: FakeKubeClient()).forward(
            new_request("/api/v1/pods", watch="true"), "east"
        )
        assert isinstance(answer, StreamingResponse)
        return [chunk async for chunk in answer.chunks]

    assert asyncio.run(run()) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("server", "message"),
    [(None, "neither an endpoint nor credentials"), (FakeKubeClient(OSError("refused")), "does not respond: refused")],
)
def test_cluster_that_cannot_be_reached_is_unavailable(server: KubeClient | None, message: str) -> None:
    with pytest.raises(Unavailable, match=message):
        asyncio.run(MemberProxy(lambda _: server).forward(new_request("/api"), "east"))


def with_member(answer: bytes, scenario: Callable[[MemberProxy], Awaitable[Any]], prefix: str = "") -> list[str]:
    """Run a scenario against a member on a socket that sends these bytes to everyone; returns the requested paths."""
    paths: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        paths.append((await reader.readuntil(b"\r\n\r\n")).decode().split()[1])
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def run() -> None:
        listener = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = KubeClient(Credentials(server=f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}{prefix}"))
        try:
            await scenario(MemberProxy(lambda _: client))
        finally:
            await client.close()
            listener.close()

    asyncio.run(run())
    return paths


def test_redirect_of_a_member_is_not_followed() -> None:
    async def scenario(proxy: MemberProxy) -> None:
        answer = await proxy.forward(new_request("/api"), "east")
        assert isinstance(answer, Response)
        assert answer.code == 307

    assert with_member(b"HTTP/1.1 307 Moved\r\nLocation: /secret\r\nContent-Length: 0\r\n\r\n", scenario) == ["/api"]


@pytest.mark.parametrize(
    "path", ["/../../apis", "/%2e%2e/c-2", "/api/./v1", "/..%2Fc-2", "%2Fapi", "%2F@127.0.0.1:1/steal", "@127.0.0.1:1/"]
)
def test_path_that_could_lead_away_from_the_member_is_refused(path: str) -> None:
    async def scenario(proxy: MemberProxy) -> None:
        with pytest.raises(BadRequest):
            await proxy.forward(new_request(path), "east")

    good = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    assert with_member(good, scenario, "/k8s/clusters/c-1") == []


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 777 Lucky\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_broken_response_of_a_member_is_unavailable(answer: bytes) -> None:
    async def scenario(proxy: MemberProxy) -> None:
        with pytest.raises(Unavailable):
            await proxy.forward(new_request("/api"), "east")

    with_member(answer, scenario)


def test_stream_that_breaks_ends_without_an_error(caplog: pytest.LogCaptureFixture) -> None:
    class Breaking(FakeResponse):
        async def iter_any(self) -> Any:
            yield b"one"
            raise aiohttp.ClientPayloadError("broken")

    class Client(FakeKubeClient):
        async def forward(self, *arguments: Any) -> Any:
            return Breaking()

    async def run() -> list[bytes]:
        answer = await MemberProxy(lambda _: Client()).forward(new_request("/api/v1/pods", watch="1"), "east")
        assert isinstance(answer, StreamingResponse)
        return [chunk async for chunk in answer.chunks]

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(run()) == [b"one"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_session_of_a_member_in_this_process_runs_on_the_connection_of_the_caller() -> None:
    async def run(_: Any) -> None:
        """Nothing is sent."""

    session = UpgradeResponse("v5.channel.k8s.io", run)

    async def serve(request: Request) -> UpgradeResponse:
        assert request.headers["upgrade"] == "websocket"
        return session

    request = new_request("/api/v1/namespaces/a/pods/b/exec")
    request.headers["upgrade"] = "websocket"
    assert asyncio.run(MemberProxy(lambda _: serve).forward(request, "east")) is session
