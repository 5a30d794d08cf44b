"""Several API servers behind one socket: each under a path of its own, such as `/clusters/member1`."""

from collections.abc import Mapping
from typing import Any

from trimtab.server.http.asgi import Edge, Receive, Scope, Send


class Mount:
    """An ASGI application that hands a request to the server its path begins with, else to the main one."""

    def __init__(self, main: Edge, others: Mapping[str, Edge]) -> None:
        self._main = main
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        for prefix, edge in self._others.items():
            if path == prefix or path.startswith(f"{prefix}/"):
                await edge(_below(scope, prefix), receive, send)
                return
        await self._main(scope, receive, send)


def _below(scope: Scope, prefix: str) -> Scope:
    inner: dict[str, Any] = {**scope, "path": scope["path"][len(prefix) :] or "/"}
    raw = scope.get("raw_path", b"")
    if raw.startswith(prefix.encode()):
        inner["raw_path"] = raw[len(prefix) :] or b"/"
    return inner
