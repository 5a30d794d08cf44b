"""From the bytes of a request to an object: JSON, YAML or protobuf, with every complaint worded as Go words it."""

import json
import re
from itertools import chain
from typing import Any, NamedTuple

import orjson

from trimtab.api import protobuf
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, UnsupportedMedia
from trimtab.server.http.go_json_errors import complaint
from trimtab.server.http.negotiation import JSON, KNOWN, PROTOBUF, YAML

_MEDIA = {"", JSON}
_KEYS = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)
_SPACED_KEY = re.compile(rb'"\s+:')
_HEAD_TYPE = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
_SUMMARY = 30
DEEPEST = 512


class Body(NamedTuple):
    """A decoded body, and which of its keys stood there twice."""

    obj: Raw
    duplicates: list[str]


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count, value.values()))
    return sum(map(_count, value)) if isinstance(value, list) else 0


def _duplicates(text: bytes, obj: Any) -> list[str]:
    """Paths of repeated keys; the slow search runs only when the count of keys says there are some."""
    keys = _count(obj)
    if text.count(b'":') == keys and not _SPACED_KEY.search(text):
        return []  # there are no more keys than such places, and no fewer than the object has
    if sum(1 for found in _KEYS.findall(text) if found) == keys:
        return []
    return _repeated(json.loads(text, object_pairs_hook=_Pairs), "")


class _Pairs(list[tuple[str, Any]]):
    """An object with all of its keys, also the repeated ones."""


def _repeated(value: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            where = f"{path}.{key}" if path else key
            if key in seen and where not in found:
                found.append(where)
            seen.add(key)
            found += [inner for inner in _repeated(item, where) if inner not in found]
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _repeated(item, f"{path}[{index}]")
    return found


def _cleaned(value: Any) -> Any:
    """Lone surrogates become the replacement character, as in Go."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _number(text: str) -> int | float:
    """A whole number, or the nearest float when it does not fit into 64 bits."""
    value = int(text) if len(text) < 21 else float(text)
    return value if abs(value) < 1 << 63 else float(value)


def loads(text: bytes) -> Any:
    """JSON as Go reads it; ValueError carries Go's complaint."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        said = complaint(text)
        if said:
            raise ValueError(said) from None
    try:
        return _cleaned(json.loads(text.decode("utf-8", "replace"), parse_int=_number))
    except (ValueError, RecursionError):
        raise ValueError("exceeded max depth") from None


def _too_deep(obj: Raw) -> bool:
    """Whether more than so many objects and lists stand in each other; looked at level by level, for Python's own stack is short."""
    level: list[Any] = [obj]
    for _ in range(DEEPEST + 1):
        inside = chain.from_iterable(one.values() if isinstance(one, dict) else one for one in level)
        level = [item for item in inside if type(item) in (dict, list)]
    return bool(level)


def summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    ending = " ..." if len(body) > _SUMMARY else ""
    shown = body[:_SUMMARY]
    return (shown.decode("utf-8", "replace") if body[:1] == b"{" else shown.hex()) + ending


def unrecognized(kind: str, why: str, body: bytes) -> BadRequest:
    return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {why} ({summary(body)})")


def read_body(media: str, body: bytes, api_version: str, kind: str) -> Body:
    """The object in a body that should hold one of `kind`."""
    if media == PROTOBUF:
        return Body(protobuf.decode(body, api_version=api_version, kind=kind), [])
    if media == YAML:
        return read_yaml(body, kind)
    if media not in _MEDIA:
        raise UnsupportedMedia(
            f"the body of the request was in an unknown format - accepted media types include: {KNOWN}"
        )
    try:
        obj = loads(body)
    except ValueError as error:
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {error}", body) from None
    if not isinstance(obj, dict):
        why = f"json: cannot unmarshal {_go_name(obj)} into Go value of type {_HEAD_TYPE}"
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {why}", body)
    _check_head(obj, kind, body)
    if body.count(b"{") + body.count(b"[") > DEEPEST and _too_deep(obj):
        raise unrecognized(kind, "couldn't get version/kind; json parse error: exceeded max depth", body)
    return Body(obj, _duplicates(body, obj))


def _check_head(obj: Raw, kind: str, body: bytes) -> None:
    for key in ("apiVersion", "kind"):
        if not isinstance(obj.get(key) or "", str):
            why = f"json: cannot unmarshal {_go_name(obj[key])} into Go struct field .{key} of type string"
            raise unrecognized(kind, f"couldn't get version/kind; json parse error: {why}", body)


def _go_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    names = {str: "string", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "number")


def load_yaml(text: bytes) -> Any:
    """One YAML document, with times left as text; ValueError says why it cannot be read."""
    import yaml  # noqa: PLC0415 - only few requests are YAML

    try:
        return yaml.load(text, Loader=_yaml_loader())  # noqa: S506 - derived from CSafeLoader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"yaml: {str(error).splitlines()[0]}") from None


def read_yaml(body: bytes, kind: str) -> Body:
    try:
        obj = load_yaml(body)
    except ValueError as error:
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {error}", body) from None
    if not isinstance(obj, dict):
        raise unrecognized(kind, "couldn't get version/kind; json parse error: the document is not an object", body)
    _check_head(obj, kind, body)
    try:
        return Body(orjson.loads(orjson.dumps(obj)), [])
    except (TypeError, ValueError, RecursionError):
        raise unrecognized(
            kind, "couldn't get version/kind; the document is not JSON in YAML's clothes", body
        ) from None


_loader: Any = None


def _yaml_loader() -> Any:
    """CSafeLoader without the resolver that turns dates into objects."""
    global _loader  # noqa: PLW0603 - made once, when first needed
    if _loader is None:
        import yaml  # noqa: PLC0415

        class Loader(yaml.CSafeLoader):
            """Times are text in Kubernetes."""

        Loader.yaml_implicit_resolvers = {
            first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
            for first, pairs in yaml.CSafeLoader.yaml_implicit_resolvers.items()
        }
        _loader = Loader
    return _loader
