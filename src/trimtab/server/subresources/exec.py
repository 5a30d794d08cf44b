"""`exec`: runs a command in a simulated container."""

import asyncio
from collections.abc import Sequence

import orjson

from trimtab.api.value import Raw
from trimtab.errors import ApiError, BadRequest
from trimtab.server.request.messages import Request, UpgradeResponse
from trimtab.server.request.routes import is_true
from trimtab.server.subresources.pod_runtime import PodRuntime
from trimtab.server.subresources.stream_channels import RESULT, STDOUT, Channels, stream_response

_INPUT_SECONDS = 30.0
"""How long a command that reads its input waits for the end of it."""
_MAX_INPUT_BYTES = 16 * 1024 * 1024
_READS_INPUT = frozenset(("cat", "sh", "bash", "ash", "dash"))


def exec_response(request: Request, pod: Raw, runtime: PodRuntime) -> UpgradeResponse:
    """The session of an exec request; raises `BadRequest` when it is not one that can be served."""
    if not request.commands:
        raise BadRequest("you must specify at least 1 command for the container")
    container = running_container(request, pod)
    takes_input = is_true(request.query.get("stdin", "")) and _reads_input(request.commands)

    async def run(channels: Channels) -> None:
        text = await _read_input(channels) if takes_input else ""

        def write(output: str) -> None:
            channels.send(STDOUT, output.encode("utf-8", "surrogateescape"))

        try:
            status = exit_status(await runtime.run_command(pod, container, request.commands, text, write))
        except ApiError as error:
            status = error.status()
        channels.send(RESULT, orjson.dumps(status))

    return stream_response(request, run)


def running_container(request: Request, pod: Raw) -> str:
    """The container that a request names, or the first one; it must run."""
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
    name = command[0].rpartition("/")[2]
    if name == "tar":
        return any("x" in one for one in command[1:2]) and "-" in command
    return name in _READS_INPUT and not any(not one.startswith("-") for one in command[1:])


async def _read_input(channels: Channels) -> str:
    """What the client sends until it closes the channel."""
    received = bytearray()
    try:
        async with asyncio.timeout(_INPUT_SECONDS):
            while (part := await channels.receive_input()) is not None and len(received) < _MAX_INPUT_BYTES:
                received += part
    except TimeoutError:
        pass
    return received.decode("utf-8", "surrogateescape")


def exit_status(code: int) -> Raw:
    """The result of a command, as an object."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
