"""Pages for probes and scrapers."""

import asyncio
from typing import Any

from trimtab.server.http.probe_pages import Pages


def told(method: str, path: str) -> tuple[int, bytes]:
    said: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        said.append(dict(message))

    async def receive() -> Any:
        raise AssertionError("nobody reads the body of such a request")

    pages = Pages({"/healthz": lambda: (200, "ok\n"), "/readyz": lambda: (503, "not yet\n")})
    asyncio.run(pages({"type": "http", "method": method, "path": path}, receive, send))
    return said[0]["status"], said[1]["body"]


def test_a_page_answers_with_its_code_and_text() -> None:
    assert told("GET", "/healthz") == (200, b"ok\n")
    assert told("GET", "/readyz") == (503, b"not yet\n")


def test_head_gets_the_code_without_the_text() -> None:
    assert told("HEAD", "/readyz") == (503, b"")


def test_a_path_that_is_not_there_names_those_that_are() -> None:
    assert told("GET", "/health") == (404, b"there is /healthz, /readyz\n")


def test_nothing_can_be_written() -> None:
    assert told("POST", "/healthz")[0] == 405
