"""A session of exec, attach or port-forward ends when its client leaves, also one that reads nothing from it."""

import asyncio

import pytest

from trimtab.server.http import asgi
from trimtab.server.http.asgi import AsgiApplication
from trimtab.server.http.exchange import Exchange, NoConnection
from trimtab.server.http.raw_socket import RawSocket
from trimtab.server.request.messages import Request, UpgradeResponse
from trimtab.server.request.part_queue import MAX_UNREAD_BYTES_OF_ALL, SESSIONS
from trimtab.server.subresources.spdy import ByteSocket


class UpgradedConnection(NoConnection):
    """A connection whose other end is the test."""

    def upgrade(self, head, framing, wait_for_turn):
        self.socket: RawSocket = framing(lambda _: None, lambda: None)
        return self.socket


def run_session(monkeypatch: pytest.MonkeyPatch, *, reads: bool) -> list[str]:
    """What a session notes whose client leaves."""
    monkeypatch.setattr(asgi, "_END_OF_SESSION_SECONDS", 0.05)
    noted: list[str] = []

    async def run(socket: ByteSocket) -> None:
        try:
            if reads:
                while await socket.receive() is not None:
                    pass
            else:
                await asyncio.sleep(3600)
        except asyncio.CancelledError:
            noted.append("cancelled")
            raise
        noted.append("ended")

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def scenario() -> None:
        app, connection = AsgiApplication(None), UpgradedConnection()  # type: ignore[arg-type]
        request = Request("POST", "/", {}, {})
        response = UpgradeResponse("p", run, is_spdy=True)
        serving = asyncio.ensure_future(app._run_session(response, request, Exchange(receive), connection))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connection.socket.feed(b"hello")
        connection.socket.feed_eof()
        await serving
        await asyncio.sleep(0)
        assert not app._streams
        assert SESSIONS.share() <= MAX_UNREAD_BYTES_OF_ALL

    asyncio.run(scenario())
    return noted


def test_session_that_reads_sees_the_end_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_session(monkeypatch, reads=True) == ["ended"]


def test_session_that_does_not_read_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_session(monkeypatch, reads=False) == ["cancelled"]
