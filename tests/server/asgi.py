"""Speaks to the server's edge without a socket."""

import asyncio
from typing import Any, NamedTuple

import orjson

from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.store.store import Store

ADMIN = User("admin", (MASTERS, AUTHENTICATED))


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


class Wire:
    """One server, and requests to it."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def __call__(
        self, method: str, path: str, body: Any = None, *, user: User | None = ADMIN, **headers: str
    ) -> Answered:
        raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        path, _, query = path.partition("?")
        told: dict[str, Any] = {"body": b"", "asked": False}

        async def receive() -> dict[str, Any]:
            if not told["asked"]:
                told["asked"] = True
                return {"type": "http.request", "body": raw}
            await asyncio.sleep(30)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                told["status"] = message["status"]
                told["headers"] = {}
                for key, value in message["headers"]:
                    known = told["headers"].get(key.decode())
                    told["headers"][key.decode()] = f"{known}\n{value.decode()}" if known else value.decode()
            else:
                told["body"] += message.get("body", b"")

        named = {name.replace("_", "-"): value for name, value in headers.items()}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode("utf-8", "surrogateescape"),
            "query_string": query.encode("utf-8", "surrogateescape"),
            "headers": [(key.encode(), value.encode("latin-1", "replace")) for key, value in named.items()],
            "server": ("127.0.0.1", 6443),
            "certificate_user": user,
        }
        await self.server.app(scope, receive, send)
        return Answered(told["status"], told["headers"], told["body"])


def with_wire(story, **settings):
    """Run `story(wire)` against a fresh server in virtual time."""

    async def run():
        server = ApiServer(Store(), Settings(clock=LoopClock(), **settings))
        await server.start()
        try:
            return await story(Wire(server))
        finally:
            await server.stop()

    return run_virtually(run())
