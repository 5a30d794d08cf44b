"""JSON syntax errors have the messages of Go's `encoding/json`."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.server.request.go_json_errors import go_json_error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"{x", "invalid character 'x' looking for beginning of object key string"),
        (b'{"a" 1', "invalid character '1' after object key"),
        (b'{"a":1 2', "invalid character '2' after object key:value pair"),
        (b"[1 2", "invalid character '2' after array element"),
        (b"nulx", "invalid character 'x' in literal null (expecting 'l')"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b'"\n"', r"invalid character '\n' in string literal"),
        (b"{}", ""),
    ],
)
def test_first_syntax_error_is_reported(text: bytes, message: str) -> None:
    assert go_json_error(text) == message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_valid_json_has_no_error(value) -> None:
    try:
        text = orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits or a lone surrogate
        return
    assert go_json_error(text) == ""
