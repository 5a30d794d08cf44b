"""Request bodies with duplicate keys or too deep nesting are detected."""

import json
from collections import Counter
from typing import Any

import orjson
import pytest

from trimtab.api.limits import (
    MAX_DEPTH,
    MAX_FIELD_PROBLEMS,
    MAX_NODES,
    MAX_PATH_LENGTH,
    MAX_YAML_BYTES_IN_LOOP,
    MAX_YAML_TOKENS_IN_LOOP,
)
from trimtab.errors import BadRequest, TooLarge
from trimtab.server.request import body_decoding
from trimtab.server.request.body_decoding import decode_body, is_small_yaml, load_json


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        (b"{}", []),
        (b'{"a":1,"b":2}', []),
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"a":1,"a":2,"b":"\\u0022:"}', ["a"]),
        (b'{"a":[{"x":1},{"x":2}],"b":{"a":{}}}', []),
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


def test_number_of_reported_duplicate_keys_is_bounded_and_the_search_is_linear() -> None:
    text = b"{" + b",".join(b'"k%d":1,"k%d":2' % (i, i) for i in range(30_000)) + b"}"
    assert decode_body("", text, "v1", "Pod").duplicates == [f"k{i}" for i in range(MAX_FIELD_PROBLEMS)]
    nested = b'{"a":' * 50 + text + b"}" * 50
    assert len(decode_body("", nested, "v1", "Pod").duplicates) == MAX_FIELD_PROBLEMS


def test_each_pair_of_a_body_with_duplicate_keys_is_visited_once(monkeypatch) -> None:
    visited: Counter[str] = Counter()

    class CountingPairs(body_decoding._ObjectPairs):
        def __iter__(self):
            for pair in super().__iter__():
                visited[pair[0]] += 1
                yield pair

    monkeypatch.setattr(body_decoding, "_ObjectPairs", CountingPairs)
    text = b'{"x":1,"x":2,' + b",".join(b'"k%d":{"y":1,"y":1}' % i for i in range(60)) + b"}"
    assert len(decode_body("", text, "v1", "Pod").duplicates) == 61
    assert visited["x"] == 2
    assert visited["y"] == 120
    assert max(visited[f"k{i}"] for i in range(60)) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"0," * MAX_NODES + b"0]",
        b'{"a":[' + b"{}," * MAX_NODES + b"{}]}",
        b'{"a":[' + b'"",' * 4 * MAX_NODES + b"1]}",
        b"{" + b",".join(b'"k%d":1' % i for i in range(MAX_NODES + 1)) + b"}",
    ],
)
def test_body_with_too_many_values_is_refused_before_it_is_parsed(body: bytes, monkeypatch) -> None:
    def parse(*_: Any, **__: Any) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(body_decoding.orjson, "loads", parse)
    monkeypatch.setattr(body_decoding.json, "loads", parse)
    with pytest.raises(TooLarge, match=f"more than {MAX_NODES} values"):
        load_json(body)


def test_long_strings_with_separators_are_accepted() -> None:
    body = orjson.dumps({"data": {"table.csv": "a,b,[c]{d}\n" * 200_000}})
    assert decode_body("", body, "v1", "ConfigMap").obj == json.loads(body)


def test_long_path_of_keys_is_refused() -> None:
    body = orjson.dumps({"k" * MAX_PATH_LENGTH: {"u": 1}})
    with pytest.raises(BadRequest, match="keys of a path"):
        decode_body("", body, "v1", "Pod")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b" " * 3_000_000, "unexpected end of JSON input"),
        (b"\n" * 3_000_000 + b"x", "invalid character 'x' looking for beginning of value"),
        (b"[" * 50_000, "exceeded max depth|unexpected end"),
        (b'{"a":' * 20_000, "exceeded max depth|unexpected end"),
        (b'"' + b'\\"' * 1_000_000, "unexpected end of JSON input"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b'{"a":1e999}', "cannot unmarshal number 1e999"),
        (b'{"a":' + b"1" * 1_000_000 + b"}", "cannot unmarshal number 111|invalid character at offset"),
        (b"[" + b"1," * 50_000 + b"}", "invalid character"),
        (b'{"a":"\\u12x4"}', r"in \\u hexadecimal character escape"),
    ],
)
def test_invalid_text_is_refused_with_a_reason(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        decode_body("", body, "v1", "Pod")


def test_invalid_utf8_with_duplicate_keys_is_accepted_as_by_go() -> None:
    decoded = decode_body("", b'{"a":"\xff","a":"\xfe"}', "v1", "Pod")
    assert decoded[:2] == ({"a": "\ufffd"}, ["a"])


def test_yaml_with_many_tokens_is_not_small() -> None:
    assert is_small_yaml(b"a: 1\n" * 100)
    assert not is_small_yaml(b"x" * (MAX_YAML_BYTES_IN_LOOP + 1))
    assert not is_small_yaml(b"[" + b"1," * MAX_YAML_TOKENS_IN_LOOP + b"]")
    assert not is_small_yaml(b"- " * (MAX_YAML_TOKENS_IN_LOOP + 1))


def test_yaml_body_is_refused_with_a_reason() -> None:
    with pytest.raises(BadRequest, match="exceeded max depth"):
        decode_body("application/yaml", b"[" * 40_000, "v1", "Pod")
    with pytest.raises(BadRequest, match="contains itself"):
        decode_body("application/yaml", b"a: &a [*a]", "v1", "Pod")
    with pytest.raises(TooLarge, match="counting those of aliases"):
        decode_body("application/yaml", b"a: &a [x]\nb: [" + b"*a," * MAX_NODES + b"]", "v1", "Pod")
    assert decode_body("application/yaml", b"a: &a {x: 1}\nb: *a\n1: c", "v1", "Pod").obj == {
        "a": {"x": 1},
        "b": {"x": 1},
        "1": "c",
    }
