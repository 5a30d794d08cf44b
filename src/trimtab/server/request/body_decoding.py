"""Decodes request bodies in JSON, YAML or protobuf; errors have the wording of Go and kube-apiserver."""

import json
import re
from itertools import chain
from typing import Any, NamedTuple

import orjson

from trimtab.api import protobuf
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, UnsupportedMedia
from trimtab.server.request.go_json_errors import go_json_error
from trimtab.server.request.negotiation import JSON, PROTOBUF, SUPPORTED_MEDIA_TYPES, YAML

_JSON_MEDIA_TYPES = {"", JSON}
_STRING_PATTERN = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)
_SPACED_KEY_PATTERN = re.compile(rb'"\s+:')
_TYPE_META_GO_TYPE = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
_SUMMARY_BYTES = 30
MAX_DEPTH = 512


class DecodedBody(NamedTuple):
    """A decoded body and the paths of its duplicate keys."""

    obj: Raw
    duplicates: list[str]


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0


def _duplicate_keys(text: bytes, obj: Any) -> list[str]:
    """Paths of duplicate keys; the slow search runs only when the number of keys shows that there are some."""
    keys = _count_keys(obj)
    if text.count(b'":') == keys and not _SPACED_KEY_PATTERN.search(text):
        return []  # every key is followed by `":`, so equal counts mean that no key is duplicate
    if sum(1 for found in _STRING_PATTERN.findall(text) if found) == keys:
        return []
    return _find_repeated_keys(json.loads(text, object_pairs_hook=_ObjectPairs), "")


class _ObjectPairs(list[tuple[str, Any]]):
    """A JSON object that keeps duplicate keys."""


def _find_repeated_keys(value: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, _ObjectPairs):
        seen: set[str] = set()
        for key, item in value:
            key_path = f"{path}.{key}" if path else key
            if key in seen and key_path not in found:
                found.append(key_path)
            seen.add(key)
            found += [inner for inner in _find_repeated_keys(item, key_path) if inner not in found]
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _find_repeated_keys(item, f"{path}[{index}]")
    return found


def _replace_lone_surrogates(value: Any) -> Any:
    """Replace lone surrogates by U+FFFD, as Go does."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_replace_lone_surrogates(key): _replace_lone_surrogates(item) for key, item in value.items()}
    return [_replace_lone_surrogates(item) for item in value] if isinstance(value, list) else value


def _parse_integer(text: str) -> int | float:
    """An integer, or the nearest float when it does not fit into 64 bits."""
    value = int(text) if len(text) < 21 else float(text)
    return value if abs(value) < 1 << 63 else float(value)


def load_json(text: bytes) -> Any:
    """Parse JSON as Go does; ValueError carries Go's error message."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        message = go_json_error(text)
        if message:
            raise ValueError(message) from None
    try:
        return _replace_lone_surrogates(json.loads(text.decode("utf-8", "replace"), parse_int=_parse_integer))
    except (ValueError, RecursionError):
        raise ValueError("exceeded max depth") from None


def _is_too_deep(obj: Raw) -> bool:
    """Whether objects and lists nest deeper than the limit; not recursive, because Python's stack is short."""
    level: list[Any] = [obj]
    for _ in range(MAX_DEPTH + 1):
        children = chain.from_iterable(node.values() if isinstance(node, dict) else node for node in level)
        level = [item for item in children if type(item) in (dict, list)]
    return bool(level)


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
        return DecodedBody(protobuf.decode(body, api_version=api_version, kind=kind), [])
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
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _is_too_deep(obj):
        raise unrecognized_error(kind, "couldn't get version/kind; json parse error: exceeded max depth", body)
    return DecodedBody(obj, _duplicate_keys(body, obj))


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


def load_yaml(text: bytes) -> Any:
    """Parse one YAML document, leaving timestamps as strings; ValueError carries the reason."""
    import yaml  # noqa: PLC0415 - few requests are YAML

    try:
        return yaml.load(text, Loader=_yaml_loader())  # noqa: S506 - derived from CSafeLoader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"yaml: {str(error).splitlines()[0]}") from None


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
    try:
        return DecodedBody(orjson.loads(orjson.dumps(obj)), [])
    except (TypeError, ValueError, RecursionError):
        raise unrecognized_error(
            kind, "couldn't get version/kind; the document cannot be converted to JSON", body
        ) from None


_loader: Any = None


def _yaml_loader() -> Any:
    """CSafeLoader without the resolver that converts timestamps to datetime objects."""
    global _loader  # noqa: PLW0603 - created once, on first use
    if _loader is None:
        import yaml  # noqa: PLC0415

        class Loader(yaml.CSafeLoader):
            """Timestamps are strings in Kubernetes."""

        Loader.yaml_implicit_resolvers = {
            first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
            for first, pairs in yaml.CSafeLoader.yaml_implicit_resolvers.items()
        }
        _loader = Loader
    return _loader
