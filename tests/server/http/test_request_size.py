"""Request lines and headers longer than any client needs are refused before anything is derived from them."""

from typing import Any

import pytest

from trimtab.errors import ApiError
from trimtab.server.http.request_size import check_size


def scope(path: bytes = b"/api", query: bytes = b"", headers: tuple[tuple[bytes, bytes], ...] = ()) -> Any:
    return {"path": path.decode(), "raw_path": path, "query_string": query, "headers": headers}


@pytest.mark.parametrize(
    "allowed",
    [
        scope(b"/" * 8192, b"q" * (64 * 1024 - 8192)),
        scope(headers=((b"a", b"b"),) * 1000),
        scope(headers=((b"a", b"x" * (64 * 1024 - 1)),)),
    ],
)
def test_request_at_the_limits_is_allowed(allowed: Any) -> None:
    check_size(allowed)


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (scope(b"/" * 8193), 414),
        (scope(b"/api", b"q" * (64 * 1024 - 3)), 414),
        (scope(headers=((b"a", b""),) * 1001), 431),
        (scope(headers=((b"a", b"x" * (64 * 1024)),)), 431),
    ],
)
def test_request_beyond_a_limit_is_refused(refused: Any, code: int) -> None:
    with pytest.raises(ApiError) as raised:
        check_size(refused)
    assert raised.value.code == code


def test_query_in_the_raw_path_does_not_count_twice() -> None:
    check_size({**scope(b"/api?" + b"q" * 9000, b"q" * 9000)})
