"""An OpenTelemetry collector on loopback that keeps the spans it gets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.Response]]


class Collector:
    """Answers with the given codes, then with 200; keeps spans that it accepted."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.paths: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.endpoint = ""

    async def handle(self, request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        assert request.content_type == "application/json"
        self.paths.append(request.path)
        code = self.codes.pop(0) if self.codes else 200
        if code == 200:
            self.bodies.append(body)
        return web.json_response({}, status=code)

    @property
    def spans(self) -> list[dict[str, Any]]:
        scopes = [scope for body in self.bodies for one in body["resourceSpans"] for scope in one["scopeSpans"]]
        return [span for scope in scopes for span in scope["spans"]]

    async def until(self, is_true: Callable[[], object]) -> None:
        while not is_true():  # noqa: ASYNC110 - spans arrive without an event
            await asyncio.sleep(0.02)


@asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[str]:
    """The address of a server on loopback that answers every POST with `handle`."""
    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def collecting(*codes: int) -> AsyncIterator[Collector]:
    collector = Collector(*codes)
    async with serving(collector.handle) as collector.endpoint:
        yield collector


def attributes_of(span: dict[str, Any]) -> dict[str, str]:
    return {one["key"]: one["value"]["stringValue"] for one in span["attributes"]}
