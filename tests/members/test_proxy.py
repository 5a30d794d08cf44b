"""The proxy forwards requests to members with the identity of the caller and without the caller's credentials."""

import asyncio
from typing import Any, Self

import pytest

from trimtab.client.kube import KubeClient
from trimtab.errors import Unavailable
from trimtab.members.proxy import MemberProxy
from trimtab.server.auth.user import AUTHENTICATED, Caller, User
from trimtab.server.request.messages import Request, Response, StreamingResponse

ALICE = User("alice", ("devs", AUTHENTICATED))


def new_request(path: str, **query: str) -> Request:
    headers = {"authorization": "Bearer secret", "impersonate-user": "root", "accept": "application/json", "host": "h"}
    return Request("GET", f"/apis/x/clusters/east/proxy{path}", query, headers, caller=Caller(ALICE))


class FakeResponse:
    """An upstream response of two chunks."""

    status = 200
    headers = {"Content-Type": "application/json"}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to release."""

    async def read(self) -> bytes:
        return b"whole"

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
    assert (answer.body, answer.verbatim) == (b"whole", True)
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
