"""Requests generated from our own OpenAPI documents never cause an internal failure."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.server.http.listener import Listener
from trimtab.store.store import Store

TOKEN = "t0ken"
DOCUMENTS = [
    "api/v1",
    "apis/apps/v1",
    "apis/policy/v1",
    "apis/policy.karmada.io/v1alpha1",
    "apis/work.karmada.io/v1alpha2",
]


class ServerThread:
    """A server on its own socket, in its own thread."""

    def __init__(self) -> None:
        self.port = 0
        self.documents: dict[str, dict] = {}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self._ready.wait(20)

    async def _run(self) -> None:
        admin = User("admin", (MASTERS, AUTHENTICATED))
        server = ApiServer(Store(), ApiServerSettings(static_tokens={TOKEN: admin}))
        await server.start()
        listener = Listener(server.app, "127.0.0.1", 0, None)
        await listener.start()
        self._loop, self._done, self.port = asyncio.get_running_loop(), asyncio.Event(), listener.port
        self._ready.set()
        await self._done.wait()
        server.app.end_streams()
        await listener.stop()
        await server.stop()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(20)


@pytest.fixture(scope="module")
def served() -> Iterator[ServerThread]:
    running = ServerThread()
    yield running
    running.stop()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_request_generated_from_openapi_documents_fails_the_server(document: str, served: ServerThread) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    base = f"http://127.0.0.1:{served.port}"
    schema = schemathesis.openapi.from_url(f"{base}/openapi/v3/{document}", headers=headers)
    operations = [found.ok() for found in schema.get_all_operations()]

    @settings(max_examples=25, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(operations).flatmap(lambda operation: operation.as_strategy()))
    def send(case) -> None:
        if isinstance(case.query, dict):
            case.query.pop("watch", None)  # a watch does not end
        response = case.call(base_url=base, headers=headers, timeout=20)
        assert b"unexpected server failure" not in response.content, case.as_curl_command()

    send()
