"""Commands in simulated containers, as kubectl exec runs them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from server.subresources.spdy_client import SpdyClient
from trimtab.errors import BadRequest
from trimtab.server.request.messages import Request
from trimtab.server.subresources.exec import exec_response

RUNNING = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
POD = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c"}]}, "status": RUNNING}
HEADERS = {"upgrade": "websocket", "sec-websocket-protocol": "v5.channel.k8s.io, v4.channel.k8s.io"}


class EchoRuntime:
    """Runs nothing: prints the command and its input."""

    async def run_command(
        self, pod: Any, container: str, command: Sequence[str], text: str, write: Callable[[str], None]
    ) -> int:
        if command[0] == "gone":
            raise BadRequest("the container is gone")
        write(f"{container}: {' '.join(command)} {text}".strip())
        return 3 if command[0] == "false" else 0


class RecordingSocket:
    def __init__(self, *messages: bytes) -> None:
        self.messages, self.sent = list(messages), list[bytes]()

    async def receive(self) -> bytes | None:
        return self.messages.pop(0) if self.messages else None

    def send(self, payload: bytes) -> None:
        self.sent.append(payload)


def request(*commands: str, headers: dict[str, str] = HEADERS, **query: str) -> Request:
    return Request("GET", "/exec", query, headers, commands=list(commands))


def run(one: Request, *messages: bytes) -> tuple[list[bytes], dict[str, Any]]:
    """What was written to the output, and the status at the end."""
    response = exec_response(one, POD, EchoRuntime())  # type: ignore[arg-type]
    assert response.protocol == "v5.channel.k8s.io"
    socket = RecordingSocket(*messages)
    asyncio.run(response.run(socket))
    *output, status = socket.sent
    assert status[:1] == b"\x03"
    return output, orjson.loads(status[1:])


def test_output_and_success_are_sent_on_their_channels() -> None:
    assert run(request("echo", "a b")) == ([b"\x01c: echo a b"], {"metadata": {}, "status": "Success"})


def test_exit_code_is_sent_as_a_status() -> None:
    _, status = run(request("false"))
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert run(request("gone"))[1]["message"] == "the container is gone"


def test_command_that_reads_its_input_waits_for_the_end_of_it() -> None:
    messages = (b"\x00abc", b"\x04{}", b"\x00def", b"\xff\x00", b"\x00late")
    assert run(request("/bin/cat", stdin="true"), *messages)[0] == [b"\x01c: /bin/cat abcdef"]
    assert run(request("cat", "/file", stdin="true"), *messages)[0] == [b"\x01c: cat /file"]


def test_first_protocol_has_no_result_but_the_text_of_a_failure() -> None:
    async def sent(command: str) -> list[bytes]:
        headers = {"upgrade": "websocket", "sec-websocket-protocol": "channel.k8s.io"}
        response = exec_response(request(command, headers=headers), POD, EchoRuntime())  # type: ignore[arg-type]
        assert response.protocol == "channel.k8s.io"
        socket = RecordingSocket()
        await response.run(socket)
        return socket.sent

    assert asyncio.run(sent("echo")) == [b"\1c: echo"]
    assert asyncio.run(sent("false"))[1] == b"\3command terminated with non-zero exit code: exit status 3"


def test_streams_of_spdy_carry_the_same_channels() -> None:
    async def scenario() -> None:
        headers = {"upgrade": "SPDY/3.1", "x-stream-protocol-version": "v5.channel.k8s.io,v4.channel.k8s.io"}
        one = request("cat", headers=headers, stdin="true", stdout="true", stderr="true")
        response = exec_response(one, POD, EchoRuntime())  # type: ignore[arg-type]
        assert (response.protocol, response.is_spdy) == ("v4.channel.k8s.io", True)
        client = SpdyClient()
        for number, name in ((1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")):
            client.open(number, streamtype=name)
        client.write(3, b"abc", fin=True)
        await response.run(client)
        assert client.data(5) == b"c: cat abc"
        assert orjson.loads(client.data(1))["status"] == "Success"
        assert all(client.is_closed(number) for number in (1, 5, 7))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (request("x", headers={}), "must be upgraded"),
        (request("x", headers={"upgrade": "SPDY/3.1", "x-stream-protocol-version": "channel.k8s.io"}), "must offer"),
        (request("x", headers={**HEADERS, "sec-websocket-protocol": "base64.channel.k8s.io"}), "must offer"),
        (request(), "at least 1 command"),
        (request("x", container="other"), "container other is not valid"),
    ],
)
def test_request_that_cannot_be_served_is_refused(one: Request, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        exec_response(one, POD, EchoRuntime())  # type: ignore[arg-type]


def test_container_that_does_not_run_is_refused() -> None:
    waiting = {**POD, "status": {"containerStatuses": [{"name": "c", "state": {"waiting": {}}}]}}
    with pytest.raises(BadRequest, match="not running"):
        exec_response(request("x"), waiting, EchoRuntime())  # type: ignore[arg-type]
