"""Plain text pages for probes and metric scrapers."""

import asyncio
from typing import Any

from trimtab.server.http.probe_pages import ProbePages


def fetch(method: str, path: str) -> tuple[int, bytes]:
    messages: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        messages.append(dict(message))

    async def receive() -> Any:
        raise AssertionError("the body of a probe request must not be read")

    pages = ProbePages({"/healthz": lambda: (200, "ok\n"), "/readyz": lambda: (503, "not yet\n")})
    asyncio.run(pages({"type": "http", "method": method, "path": path}, receive, send))
    return messages[0]["status"], messages[1]["body"]


def test_get_returns_code_and_text_of_the_page() -> None:
    assert fetch("GET", "/healthz") == (200, b"ok\n")
    assert fetch("GET", "/readyz") == (503, b"not yet\n")


def test_head_returns_code_without_body() -> None:
    assert fetch("HEAD", "/readyz") == (503, b"")


def test_unknown_path_lists_the_available_paths() -> None:
    assert fetch("GET", "/health") == (404, b"available paths: /healthz, /readyz\n")


def test_post_is_not_allowed() -> None:
    assert fetch("POST", "/healthz")[0] == 405
