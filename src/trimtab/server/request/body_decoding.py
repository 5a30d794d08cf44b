"""Decodes request bodies in JSON, YAML or protobuf; errors have the wording of Go and kube-apiserver."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from trimtab.api import protobuf
from trimtab.api.json_bounds import check_depth, count_keys, has_more_values
from trimtab.api.limits import (
    MAX_DEPTH,
    MAX_FIELD_PROBLEMS,
    MAX_NODES,
    MAX_NUMBER_LENGTH,
    MAX_PATH_LENGTH,
    MAX_PROTOBUF_FIELDS,
    MAX_YAML_BYTES_IN_LOOP,
    MAX_YAML_TOKENS_IN_LOOP,
)
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, TooLarge, UnsupportedMedia
from trimtab.server.request.go_json_errors import go_json_error
from trimtab.server.request.negotiation import JSON, PROTOBUF, SUPPORTED_MEDIA_TYPES, YAML

_JSON_MEDIA_TYPES = {"", JSON}
_CONTAINER_TYPES = frozenset({dict, list})
_SPACED_KEY_PATTERN = re.compile(rb'"\s++:')
_LONE_SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")
_CHARACTERS_AT_A_TIME = 65_536
"""How much of a string is searched before other threads can run."""
_YAML_TOKENS = (b"\n", b",", b":", b"-", b"[", b"{", b"?")
"""Every value of a YAML text has at least one of these before or after it."""
_TYPE_META_GO_TYPE = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
_SUMMARY_BYTES = 30


class DecodedBody(NamedTuple):
    """A decoded body and the paths of its duplicate keys."""

    obj: Raw
    duplicates: list[str]
    positions: Mapping[str, int] = {}
    """Where in the body a problem is, by its message; only for a body with duplicate keys."""


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum([_count_keys(item) for item in value.values() if type(item) in _CONTAINER_TYPES])
    if isinstance(value, list):
        return sum([_count_keys(item) for item in value if type(item) in _CONTAINER_TYPES])
    return 0


def has_duplicate_keys(text: bytes, obj: Any) -> bool:
    """Whether the number of keys shows that some are duplicate."""
    if b"\\" not in text and not _SPACED_KEY_PATTERN.search(text):
        # no string has a quotation mark, so every `":` follows a key; encoding counts them faster than a walk
        return text.count(b'":') != orjson.dumps(obj).count(b'":')
    return count_keys(text) != _count_keys(obj)


def _with_duplicates(text: bytes, obj: Raw) -> DecodedBody:
    """The body with the paths of its duplicate keys; the slow search runs only when there are some."""
    if not has_duplicate_keys(text, obj):
        return DecodedBody(obj, [])
    found: dict[str, None] = {}
    positions: dict[str, int] = {}
    pairs = json.loads(
        text.decode("utf-8", "replace"), object_pairs_hook=_ObjectPairs, parse_int=_ignore, parse_float=_ignore
    )
    _collect_repeated_keys(pairs, "", found, positions)
    return DecodedBody(obj, list(found)[:MAX_FIELD_PROBLEMS], positions)


def _ignore(text: str) -> None:
    """The value of a number does not matter where only keys are read, and converting it may be slow."""


class _ObjectPairs(list[tuple[str, Any]]):
    """A JSON object that keeps duplicate keys."""


def _collect_repeated_keys(value: Any, path: str, found: dict[str, None], positions: dict[str, int]) -> None:
    if len(found) >= MAX_FIELD_PROBLEMS:
        return
    if isinstance(value, _ObjectPairs):
        seen: set[str] = set()
        for key, item in value:
            repeated = key in seen
            seen.add(key)
            key_path = f"{path}.{key}" if path else key
            positions.setdefault(f'{"duplicate" if repeated else "unknown"} field "{key_path}"', len(positions))
            if repeated:
                found[key_path] = None
            if isinstance(item, list):
                _collect_repeated_keys(item, key_path, found, positions)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, list):
                _collect_repeated_keys(item, f"{path}[{index}]", found, positions)


def _replace_lone_surrogates(value: Any) -> Any:
    """Replace lone surrogates by U+FFFD, as Go does."""
    if isinstance(value, str):
        parts = (value[start : start + _CHARACTERS_AT_A_TIME] for start in range(0, len(value), _CHARACTERS_AT_A_TIME))
        return "".join(_LONE_SURROGATE_PATTERN.sub("\ufffd", part) for part in parts)
    if isinstance(value, dict):
        return {_replace_lone_surrogates(key): _replace_lone_surrogates(item) for key, item in value.items()}
    return [_replace_lone_surrogates(item) for item in value] if isinstance(value, list) else value


class _NumberOutOfRange(ValueError):
    """A number that does not fit into 64 bits as a float."""


def _parse_float(text: str) -> float:
    value = float(text) if len(text) <= MAX_NUMBER_LENGTH else math.inf
    if not math.isfinite(value):
        raise _NumberOutOfRange(f"json: cannot unmarshal number {text[:40]} into Go value of type float64")
    return value


def _parse_integer(text: str) -> int | float:
    """An integer, or the nearest float when it does not fit into 64 bits."""
    value = int(text) if len(text) < 21 else _parse_float(text)
    return value if abs(value) < 1 << 63 else float(value)


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def load_json(text: bytes) -> Any:
    """Parse JSON as Go does; ValueError carries Go's error message, TooLarge says that it has too many values."""
    if has_more_values(text, MAX_NODES):
        raise TooLarge(f"Request entity too large: the body has more than {MAX_NODES} values")
    try:
        obj = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        obj = _load_json_as_go(text, error)
    if len(text) > MAX_PATH_LENGTH or text.count(b"{") + text.count(b"[") > MAX_DEPTH:
        check_depth(obj)
    return obj


def _load_json_as_go(text: bytes, first_error: orjson.JSONDecodeError) -> Any:
    """Parse what orjson refuses: Go accepts invalid UTF-8, lone surrogates and long integers."""
    try:
        found = json.loads(
            text.decode("utf-8", "replace"),
            parse_int=_parse_integer,
            parse_float=_parse_float,
            parse_constant=_refuse_constant,
        )
        return _replace_lone_surrogates(found)
    except _NumberOutOfRange:
        raise
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    except ValueError:
        message = go_json_error(text) or f"invalid character at offset {first_error.pos}"
        raise ValueError(message) from None


def summarize_body(body: bytes) -> str:
    if not body:
        return "<empty>"
    ending = " ..." if len(body) > _SUMMARY_BYTES else ""
    excerpt = body[:_SUMMARY_BYTES]
    return (excerpt.decode("utf-8", "replace") if body[:1] == b"{" else excerpt.hex()) + ending


def unrecognized_error(kind: str, reason: str, body: bytes) -> BadRequest:
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind}): {reason} ({summarize_body(body)})"
    )


def decode_body(media_type: str, body: bytes, api_version: str, kind: str) -> DecodedBody:
    """Decode a body that should contain an object of `kind`."""
    if media_type == PROTOBUF:
        return DecodedBody(load_protobuf(body, api_version, kind), [])
    if media_type == YAML:
        return decode_yaml_body(body, kind)
    if media_type not in _JSON_MEDIA_TYPES:
        raise UnsupportedMedia(
            f"the body of the request was in an unknown format - accepted media types include: {SUPPORTED_MEDIA_TYPES}"
        )
    try:
        obj = load_json(body)
    except ValueError as error:
        raise unrecognized_error(kind, f"couldn't get version/kind; json parse error: {error}", body) from None
    if not isinstance(obj, dict):
        why = f"json: cannot unmarshal {_go_type_name(obj)} into Go value of type {_TYPE_META_GO_TYPE}"
        raise unrecognized_error(kind, f"couldn't get version/kind; json parse error: {why}", body)
    _check_type_meta(obj, kind, body)
    return _with_duplicates(body, obj)


def _check_type_meta(obj: Raw, kind: str, body: bytes) -> None:
    for key in ("apiVersion", "kind"):
        if not isinstance(obj.get(key) or "", str):
            why = f"json: cannot unmarshal {_go_type_name(obj[key])} into Go struct field .{key} of type string"
            raise unrecognized_error(kind, f"couldn't get version/kind; json parse error: {why}", body)


def _go_type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    names = {str: "string", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "number")


def load_protobuf(body: bytes, api_version: str, kind: str) -> Raw:
    try:
        return protobuf.decode(body, api_version=api_version, kind=kind)
    except protobuf.TooManyFields:
        raise TooLarge(f"Request entity too large: the message has more than {MAX_PROTOBUF_FIELDS} fields") from None


def is_small_yaml(text: bytes) -> bool:
    """Whether a YAML text can be parsed in a few milliseconds."""
    return len(text) <= MAX_YAML_BYTES_IN_LOOP and sum(map(text.count, _YAML_TOKENS)) <= MAX_YAML_TOKENS_IN_LOOP


def load_yaml(text: bytes) -> Any:
    """Parse one YAML document as JSON values; ValueError carries the reason, TooLarge says that it has too many values."""
    from trimtab.api import yaml_documents  # noqa: PLC0415 - few requests are YAML

    try:
        obj = orjson.loads(orjson.dumps(yaml_documents.load_yaml(text)))  # values of aliases are no longer shared
    except yaml_documents.YamlTooLarge as error:
        raise TooLarge(f"Request entity too large: {error}") from None
    except (yaml_documents.YamlError, TypeError) as error:
        raise ValueError(f"yaml: {str(error).splitlines()[0]}") from None
    check_depth(obj)
    return obj


def decode_yaml_body(body: bytes, kind: str) -> DecodedBody:
    try:
        obj = load_yaml(body)
    except ValueError as error:
        raise unrecognized_error(kind, f"couldn't get version/kind; json parse error: {error}", body) from None
    if not isinstance(obj, dict):
        raise unrecognized_error(
            kind, "couldn't get version/kind; json parse error: the document is not an object", body
        )
    _check_type_meta(obj, kind, body)
    return DecodedBody(obj, [])
