"""Plain text pages for probes and metric scrapers of a process that serves no API."""

from collections.abc import Callable, Mapping

from trimtab.server.http.exchange import Receive, Scope, Send

ProbePage = Callable[[], tuple[int, str]]
"""Returns the current status code and text of a page."""

_HEADERS = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8"), (b"cache-control", b"no-store")]


class ProbePages:
    """An ASGI application that serves GET and HEAD of fixed paths; it never reads request bodies."""

    def __init__(self, pages: Mapping[str, ProbePage]) -> None:
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        code, text = self._page_for(scope["method"], scope["path"])
        body = text.encode()
        headers = [*_HEADERS, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _page_for(self, method: str, path: str) -> tuple[int, str]:
        page = self._pages.get(path)
        if page is None:
            return 404, f"available paths: {', '.join(sorted(self._pages))}\n"
        if method not in ("GET", "HEAD"):
            return 405, "only GET and HEAD are allowed\n"
        return page()
