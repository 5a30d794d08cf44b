"""Request bodies with duplicate keys or too deep nesting are detected."""

import pytest

from trimtab.api.limits import MAX_DEPTH
from trimtab.errors import BadRequest
from trimtab.server.request.body_decoding import decode_body


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
def test_duplicate_keys_are_reported_with_their_path(text: bytes, repeated: list[str]) -> None:
    assert decode_body("application/json", text, "v1", "Pod").duplicates == repeated


@pytest.mark.parametrize(("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]")])
def test_body_nested_deeper_than_the_limit_is_rejected(opening: bytes, closing: bytes) -> None:
    def nested(levels: int) -> bytes:
        return b'{"a":' + opening * levels + b"1" + closing * levels + b"}"

    assert decode_body("application/json", nested(MAX_DEPTH), "v1", "Pod").duplicates == []
    with pytest.raises(BadRequest, match="exceeded max depth"):
        decode_body("application/json", nested(MAX_DEPTH + 1), "v1", "Pod")
