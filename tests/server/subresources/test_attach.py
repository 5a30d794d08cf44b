"""Input and output of running containers, as kubectl attach connects them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson

from trimtab.server.request.messages import Request
from trimtab.server.subresources.attach import attach_response
from trimtab.server.subresources.pod_runtime import LogLine

HEADERS = {"upgrade": "websocket", "sec-websocket-protocol": "v5.channel.k8s.io"}


def pod(**container: Any) -> dict[str, Any]:
    running = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", **container}]}, "status": running}


class EchoContainer:
    """Prints each line of its input, and ends at the end of it, or at once when it has none."""

    def __init__(self, *, has_input: bool) -> None:
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.inputs: list[bytes | None] = []
        if not has_input:
            self._lines.put_nowait(None)

    def send_input(self, pod: Any, container: str, data: bytes | None) -> None:
        self.inputs.append(data)
        self._lines.put_nowait(data)

    async def follow_log(self, pod: Any, container: str) -> AsyncIterator[Sequence[LogLine]]:
        while (data := await self._lines.get()) is not None:
            yield [LogLine(None, data.decode())]


class Socket:
    def __init__(self, *messages: bytes) -> None:
        self._messages, self.sent = list(messages), list[bytes]()

    async def receive(self) -> bytes | None:
        return self._messages.pop(0) if self._messages else None

    def send(self, payload: bytes) -> None:
        self.sent.append(payload)


async def attach(container: EchoContainer, socket: Socket, **spec: Any) -> None:
    request = Request("GET", "/attach", {"stdin": "true", "stdout": "true"}, HEADERS)
    await attach_response(request, pod(**spec), container).run(socket)  # type: ignore[arg-type]


def test_input_reaches_the_container_and_its_output_the_client() -> None:
    async def scenario() -> None:
        container, socket = EchoContainer(has_input=True), Socket(b"\0one", b"\0two", b"\xff\0")
        await attach(container, socket, stdin=True, stdinOnce=True)
        assert container.inputs == [b"one", b"two", None]
        assert socket.sent[:-1] == [b"\1one\n", b"\1two\n"]
        assert orjson.loads(socket.sent[-1][1:])["status"] == "Success"

    asyncio.run(scenario())


def test_input_stays_open_for_the_next_client_unless_it_is_for_one() -> None:
    async def scenario() -> None:
        container, socket = EchoContainer(has_input=True), Socket(b"\0one", b"\xff\0")
        await attach(container, socket, stdin=True)
        assert container.inputs == [b"one"]

    asyncio.run(scenario())


def test_container_without_an_input_gets_none() -> None:
    async def scenario() -> None:
        container, socket = EchoContainer(has_input=False), Socket(b"\0one")
        await attach(container, socket)
        assert container.inputs == []

    asyncio.run(scenario())
