"""Serves several API servers on one listener, each below a path prefix such as `/clusters/member1`."""

from collections.abc import Mapping
from typing import Any

from trimtab.server.http.exchange import Application, Receive, Scope, Send


class Mount:
    """An ASGI application that routes a request by its path prefix, by default to the main server."""

    def __init__(self, main: Application, others: Mapping[str, Application]) -> None:
        self._main = main
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        for prefix, application in self._others.items():
            if path == prefix or path.startswith(f"{prefix}/"):
                await application(_strip_prefix(scope, prefix), receive, send)
                return
        await self._main(scope, receive, send)


def _strip_prefix(scope: Scope, prefix: str) -> Scope:
    inner: dict[str, Any] = {**scope, "path": scope["path"][len(prefix) :] or "/"}
    raw = scope.get("raw_path", b"")
    if raw.startswith(prefix.encode()):
        inner["raw_path"] = raw[len(prefix) :] or b"/"
    return inner
