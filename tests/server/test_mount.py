"""Several API servers on one listener."""

import asyncio
from typing import Any

import pytest

from trimtab.server.mount import Mount


class RecordingApplication:
    """An ASGI application that records the scopes it receives."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(dict(scope))


@pytest.mark.parametrize(
    ("path", "to_member", "inner"),
    [
        ("/clusters/m1/api/v1", True, "/api/v1"),
        ("/clusters/m1", True, "/"),
        ("/clusters/m10/api", False, "/clusters/m10/api"),
        ("/api/v1", False, "/api/v1"),
    ],
)
def test_request_goes_to_the_server_of_its_prefix(path: str, to_member: bool, inner: str) -> None:
    main, member = RecordingApplication(), RecordingApplication()
    mount = Mount(main, {"/clusters/m1": member})  # type: ignore[arg-type]
    asyncio.run(mount({"path": path, "raw_path": path.encode()}, None, None))  # type: ignore[arg-type]
    (scope,) = (member if to_member else main).scopes
    assert (scope["path"], scope["raw_path"]) == (inner, inner.encode())
    assert not (main if to_member else member).scopes
