"""`exec`: runs a command in a simulated container, over a WebSocket with the channels of Kubernetes."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import orjson

from trimtab.api.value import Raw
from trimtab.errors import ApiError, BadRequest
from trimtab.server.request.messages import Request, UpgradeResponse
from trimtab.server.request.routes import is_true
from trimtab.server.subresources.pod_runtime import PodRuntime

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _ERROR, _CLOSE = 0, 1, 3, 255
_INPUT_SECONDS = 30.0
"""How long a command that reads its input waits for the end of it."""
_READS_INPUT = frozenset(("cat", "sh", "bash", "ash", "dash"))


class Socket(Protocol):
    """The connection to the client."""

    async def receive(self) -> bytes | None: ...

    def send(self, payload: bytes) -> None: ...


def exec_response(request: Request, pod: Raw, runtime: PodRuntime) -> UpgradeResponse:
    """The session of an exec request; raises `BadRequest` when it is not one that can be served."""
    if request.headers.get("upgrade", "").lower() != "websocket":
        raise BadRequest("exec of a simulated container needs a WebSocket: use kubectl 1.31 or newer")
    offered = [one.strip() for one in request.headers.get("sec-websocket-protocol", "").split(",")]
    protocol = next((one for one in _PROTOCOLS if one in offered), "")
    if not protocol:
        raise BadRequest(f"the client must offer one of the protocols {', '.join(_PROTOCOLS)}")
    if not request.commands:
        raise BadRequest("you must specify at least 1 command for the container")
    container = _container_of(request, pod)
    takes_input = is_true(request.query.get("stdin", "")) and _reads_input(request.commands)

    async def run(socket: Socket) -> None:
        text = await _read_input(socket) if takes_input else ""

        def write(output: str) -> None:
            socket.send(bytes((_STDOUT,)) + output.encode())

        try:
            status = _exit_status(await runtime.run_command(pod, container, request.commands, text, write))
        except ApiError as error:
            status = error.status()
        socket.send(bytes((_ERROR,)) + orjson.dumps(status))

    return UpgradeResponse(protocol, run)


def _container_of(request: Request, pod: Raw) -> str:
    spec = pod["spec"]
    names = [
        one["name"] for part in ("containers", "initContainers", "ephemeralContainers") for one in spec.get(part) or ()
    ]
    wanted = request.query.get("container", "") or names[0]
    if wanted not in names:
        raise BadRequest(f"container {wanted} is not valid for pod {pod['metadata']['name']}")
    statuses = [
        one
        for part in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for one in (pod.get("status") or {}).get(part) or ()
    ]
    if not any(one["name"] == wanted and "running" in (one.get("state") or {}) for one in statuses):
        raise BadRequest(f'container "{wanted}" of pod {pod["metadata"]["name"]} is not running')
    return str(wanted)


def _reads_input(command: Sequence[str]) -> bool:
    return command[0].rpartition("/")[2] in _READS_INPUT and not any(not one.startswith("-") for one in command[1:])


async def _read_input(socket: Socket) -> str:
    """What the client sends until it closes the channel."""
    received = b""
    try:
        async with asyncio.timeout(_INPUT_SECONDS):
            while (message := await socket.receive()) is not None:
                if message[:1] == bytes((_CLOSE,)):
                    break
                if message[:1] == bytes((_STDIN,)):
                    received += message[1:]
    except TimeoutError:
        pass
    return received.decode("utf-8", "replace")


def _exit_status(code: int) -> Raw:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
