"""A server with scripted responses, and a client of it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.test_utils import TestServer

from trimtab.client.client import Resource, WatchEvent
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials

PODS = Resource("", "v1", "pods", "Pod")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def run_with_server(handle: Handler, scenario: Callable[[KubeClient], Awaitable[Any]], **credentials: Any) -> Any:
    """Run a scenario against a server that handles every request with `handle`."""

    async def main() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        async with TestServer(app) as server:
            client = KubeClient(Credentials(server=str(server.make_url("")).rstrip("/"), **credentials))
            try:
                return await scenario(client)
            finally:
                await client.close()

    return asyncio.run(main())


class ScriptedResponse(NamedTuple):
    """A response that can be sent several times."""

    code: int
    body: dict[str, Any]
    headers: dict[str, str]

    def build(self) -> web.Response:
        return web.json_response(self.body, status=self.code, headers=self.headers)


def status(code: int, reason: str, *, wait: str = "") -> ScriptedResponse:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"{reason} it is"}
    return ScriptedResponse(code, body, {"Retry-After": wait} if wait else {})


def pod(revision: int = 1) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": str(revision)}}


async def get(client: KubeClient) -> Any:
    return await client.get(PODS, "shop", "web")


class ResponseSequence:
    """Sends the given responses in order, and repeats the last one."""

    def __init__(self, *responses: ScriptedResponse | dict[str, Any]) -> None:
        self.responses = [
            response if isinstance(response, ScriptedResponse) else ScriptedResponse(200, response, {})
            for response in responses
        ]
        self.requests: list[web.Request] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        return response.build()


async def watch_events(client: KubeClient) -> list[WatchEvent]:
    return [change async for changes in client.watch(PODS, revision="7") for change in changes]


def stream(*lines: dict[str, Any], broken: bool = False) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for line in lines:
            text = json.dumps(line).encode() + b"\n"
            await response.write(text[:9])
            await asyncio.sleep(0.01)  # lines come in pieces
            await response.write(text[9:])
        if broken and request.transport is not None:
            request.transport.close()
        return response

    return handle
