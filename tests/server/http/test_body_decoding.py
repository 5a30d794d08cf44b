"""What stood in a body twice or too deep is found however the body is written."""

import pytest

from trimtab.errors import BadRequest
from trimtab.server.http.body_decoding import DEEPEST, read_body


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        (b"{}", []),
        (b'{"a":1,"b":2}', []),
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"a" :1,"b":2}', []),
        (b'{"a" :1,"a":2}', ["a"]),
        (b'{"a"\n:1,"b":2,"b":3}', ["b"]),
        (b'{"a":{"x":1,"x" : 2},"b":"\\":"}', ["a.x"]),
        (b'{"a":"\\":","b":1}', []),
        (b'{"a":"\\":","a":1}', ["a"]),
        (b'{"a":"\\":","a" :1}', ["a"]),
        (b'{"a":[{"x":1},{"x":1,"x":2}]}', ["a[1].x"]),
    ],
)
def test_repeated_keys_are_found(text: bytes, repeated: list[str]) -> None:
    assert read_body("application/json", text, "v1", "Pod").duplicates == repeated


@pytest.mark.parametrize(("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]")])
def test_a_body_may_be_deep_but_not_too_deep(opening: bytes, closing: bytes) -> None:
    def nested(levels: int) -> bytes:
        return b'{"a":' + opening * levels + b"1" + closing * levels + b"}"

    assert read_body("application/json", nested(DEEPEST), "v1", "Pod").duplicates == []
    with pytest.raises(BadRequest, match="exceeded max depth"):
        read_body("application/json", nested(DEEPEST + 1), "v1", "Pod")
