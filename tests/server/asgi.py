"""A client that calls the ASGI application of an API server without a socket."""

import asyncio
from typing import Any, NamedTuple

import orjson

from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.store.store import Store

ADMIN = User("admin", (MASTERS, AUTHENTICATED))


class ReceivedResponse(NamedTuple):
    """The response to one request."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


class AsgiClient:
    """Sends requests to one server."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def __call__(
        self, method: str, path: str, body: Any = None, *, user: User | None = ADMIN, **headers: str
    ) -> ReceivedResponse:
        raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        path, _, query = path.partition("?")
        received: dict[str, Any] = {"body": bytearray()}
        body_sent = False

        async def receive() -> dict[str, Any]:
            nonlocal body_sent
            if not body_sent:
                body_sent = True
                return {"type": "http.request", "body": raw}
            await asyncio.sleep(30)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                received["status"] = message["status"]
                received["headers"] = {}
                for key, value in message["headers"]:
                    earlier = received["headers"].get(key.decode())
                    received["headers"][key.decode()] = f"{earlier}\n{value.decode()}" if earlier else value.decode()
            else:
                received["body"] += message.get("body", b"")

        header_names = {name.replace("_", "-"): value for name, value in headers.items()}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode("utf-8", "surrogateescape"),
            "query_string": query.encode("utf-8", "surrogateescape"),
            "headers": [(key.encode(), value.encode("latin-1", "replace")) for key, value in header_names.items()],
            "server": ("127.0.0.1", 6443),
            "certificate_user": user,
        }
        await self.server.app(scope, receive, send)
        return ReceivedResponse(received["status"], received["headers"], bytes(received["body"]))


def with_asgi_client(
    scenario,
    *,
    garbage_collection: bool = True,
    check_all_budgets: bool = False,
    old_streamed_lists: bool = False,
    plugins=(),
    runner=run_virtually,
):
    """Run `scenario(client)` against a new server; in virtual time, which does not wait for threads, or by `asyncio.run`."""

    async def run():
        settings = ApiServerSettings(
            clock=LoopClock(),
            garbage_collection=garbage_collection,
            check_all_budgets=check_all_budgets,
            old_streamed_lists=old_streamed_lists,
            plugins=plugins,
        )
        server = ApiServer(Store(), settings)
        await server.start()
        try:
            return await scenario(AsgiClient(server))
        finally:
            await server.stop()

    return runner(run())
