"""`attach`: the output of a simulated container from now on, and its input."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import orjson

from trimtab.api.value import Raw
from trimtab.server.request.messages import Request, UpgradeResponse
from trimtab.server.request.routes import is_true
from trimtab.server.subresources.exec import exit_status, running_container
from trimtab.server.subresources.pod_runtime import LogLine, PodRuntime
from trimtab.server.subresources.stream_channels import RESULT, STDOUT, Channels, stream_response


def attach_response(request: Request, pod: Raw, runtime: PodRuntime) -> UpgradeResponse:
    """The session of an attach request; raises `BadRequest` when it is not one that can be served."""
    container = running_container(request, pod)
    spec = _spec_of(pod, container)
    takes_input = is_true(request.query.get("stdin", "")) and bool(spec.get("stdin"))

    async def pass_input(channels: Channels) -> None:
        while (data := await channels.receive_input()) is not None:
            runtime.send_input(pod, container, data)
        if spec.get("stdinOnce"):
            runtime.send_input(pod, container, None)

    async def pass_output(channels: Channels, lines: AsyncIterator[Sequence[LogLine]]) -> None:
        async for batch in lines:
            text = "".join(f"{line.text}\n" for line in batch)
            channels.send(STDOUT, text.encode("utf-8", "surrogateescape"))

    async def run(channels: Channels) -> None:
        lines = runtime.follow_log(pod, container)  # from now on: what input causes must not be missed
        output = asyncio.ensure_future(pass_output(channels, lines))
        passing = asyncio.ensure_future(pass_input(channels)) if takes_input else None
        # a container whose input stays open for others goes on; the client that has ended its own does not wait for it
        ends = {output} if passing is None or spec.get("stdinOnce") else {output, passing}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (output, passing):
                if task is not None:
                    task.cancel()
        channels.send(RESULT, orjson.dumps(exit_status(0)))

    return stream_response(request, run)


def _spec_of(pod: Raw, container: str) -> Raw:
    parts = ("containers", "initContainers", "ephemeralContainers")
    found: Raw = next(one for part in parts for one in pod["spec"].get(part) or () if one["name"] == container)
    return found
