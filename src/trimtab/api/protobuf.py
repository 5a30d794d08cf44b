"""Codec of Kubernetes' protobuf bodies, which kubectl and client-go send for every built-in kind."""

import base64
import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

import orjson

from trimtab.api.json_bounds import check_depth
from trimtab.api.kinds.native.fields import SCALARS, NativeField, has_message, message, message_name
from trimtab.api.limits import MAX_PROTOBUF_DEPTH, MAX_PROTOBUF_FIELDS
from trimtab.api.protobuf_wire import FIXED64, encode_delimited, encode_integer, encode_key
from trimtab.api.value import Raw
from trimtab.errors import BadRequest

MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SECONDS = 253402300799  # the last second of the year 9999, the end of RFC 3339


class MalformedProtobuf(ValueError):
    """The bytes are not a valid protobuf message of their type."""


class TooManyFields(Exception):
    """The message has more fields than may be decoded here."""


class _FieldCounter:
    """Counts the fields of a message and of what it contains."""

    def __init__(self, limit: int) -> None:
        self._remaining = limit

    def count(self) -> None:
        self._remaining -= 1
        if self._remaining < 0:
            raise TooManyFields


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(body):
            raise MalformedProtobuf("unexpected EOF")
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise MalformedProtobuf("proto: integer overflow")


def _iter_fields(body: bytes, counter: _FieldCounter) -> Iterator[tuple[int, int, Any]]:
    """Each field as (number, wire type, value)."""
    at = 0
    while at < len(body):
        counter.count()
        key, at = _read_varint(body, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise MalformedProtobuf("proto: illegal tag 0")
        value: Any
        if wire == 0:
            value, at = _read_varint(body, at)
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            value, at = body[at : at + width], at + width
        elif wire == 2:
            length, at = _read_varint(body, at)
            value, at = body[at : at + length], at + length
        else:
            raise MalformedProtobuf(f"proto: illegal wireType {wire}")
        if at > len(body):
            raise MalformedProtobuf("unexpected EOF")
        yield number, wire, value


def _to_signed(value: Any, bits: int) -> int:
    if not isinstance(value, int):
        raise MalformedProtobuf("proto: wrong wireType for an integer")
    low = int(value) & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def _decode_text(value: Any) -> str:
    try:
        return bytes(value).decode()
    except (UnicodeDecodeError, TypeError, ValueError):
        raise MalformedProtobuf("proto: invalid UTF-8 string") from None


def _expect_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise MalformedProtobuf("proto: wrong wireType for a length-delimited field")
    return value


def _decode_double(value: Any) -> float:
    if not isinstance(value, bytes) or len(value) != 8:
        raise MalformedProtobuf("proto: wrong wireType for a double")
    number: float = struct.unpack("<d", value)[0]
    return int(number) if number.is_integer() else number


def _decode_scalar(type_: str, value: Any) -> Any:
    if type_ == "string":
        return _decode_text(_expect_bytes(value))
    if type_ == "bool":
        return bool(_to_signed(value, 64))
    if type_ == "int32":
        return _to_signed(value, 32)
    if type_ == "int64":
        return _to_signed(value, 64)
    if type_ == "double":
        return _decode_double(value)
    return base64.b64encode(_expect_bytes(value)).decode()


def _decode_time(body: bytes, micro: bool, counter: _FieldCounter) -> str | None:
    seconds = nanos = 0
    for number, _, value in _iter_fields(body, counter):
        if number == 1:
            seconds = _to_signed(value, 64)
        elif number == 2:
            nanos = _to_signed(value, 32)
    if not body or abs(seconds) > _MAX_SECONDS:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000 if micro else 0)
    except OverflowError:
        return None
    text = f"{moment.year:04}{moment.strftime('-%m-%dT%H:%M:%S')}"  # %Y has fewer digits before the year 1000
    return f"{text}.{moment.microsecond:06d}Z" if micro else f"{text}Z"


def _decode_json(body: bytes) -> Any:
    if not body:
        return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise MalformedProtobuf("invalid JSON inside the message") from None


def _decode_special(type_: str, body: bytes, depth: int, counter: _FieldCounter) -> Any:
    if type_ in ("Time", "MicroTime"):
        return _decode_time(body, type_ == "MicroTime", counter)
    parts: dict[int, list[Any]] = {}
    for number, _, value in _iter_fields(body, counter):
        parts.setdefault(number, []).append(value)
    first = {number: values[-1] for number, values in parts.items()}
    if type_ == "Quantity":
        return _decode_text(_expect_bytes(first.get(1, b""))) or "0"
    if type_ == "IntOrString":
        if _to_signed(first.get(1, 0), 64):
            return _decode_text(_expect_bytes(first.get(3, b"")))
        return _to_signed(first.get(2, 0), 32)
    if type_ in ("RawExtension", "FieldsV1", "JSON"):
        return _decode_json(_expect_bytes(first.get(1, b"")))
    if type_ == "ExtraValue":
        return [_decode_text(_expect_bytes(value)) for value in parts.get(1, [])]
    return _decode_schema_choice(type_, parts, depth, counter)


def _decode_schema_choice(type_: str, parts: dict[int, list[Any]], depth: int, counter: _FieldCounter) -> Any:
    props = "apiextensions.v1.JSONSchemaProps"
    if type_ == "JSONSchemaPropsOrBool":
        if 2 in parts:
            return _decode_message(props, _expect_bytes(parts[2][-1]), depth, counter)
        return bool(_to_signed(parts.get(1, [0])[-1], 64))
    if 1 in parts:
        return _decode_message(props, _expect_bytes(parts[1][-1]), depth, counter)
    if type_ == "JSONSchemaPropsOrArray":
        return [_decode_message(props, _expect_bytes(item), depth, counter) for item in parts.get(2, [])]
    return [_decode_text(_expect_bytes(item)) for item in parts.get(2, [])]


@cache
def _fields_by_number(name: str) -> dict[int, NativeField]:
    return {field.number: field for field in message(name).declared_fields}


def _decode_one(type_: str, value: Any, depth: int, counter: _FieldCounter) -> Any:
    if type_ in SCALARS:
        return _decode_scalar(type_, value)
    if "." in type_:
        return _decode_message(type_, _expect_bytes(value), depth + 1, counter)
    return _decode_special(type_, _expect_bytes(value), depth + 1, counter)


def _decode_packed(type_: str, body: bytes, counter: _FieldCounter) -> Iterator[Any]:
    at = 0
    while at < len(body):
        counter.count()
        value, at = _read_varint(body, at)
        yield _decode_scalar(type_, value)


def _decode_map_entry(field: NativeField, body: bytes, depth: int, counter: _FieldCounter) -> tuple[str, Any]:
    key, value = "", None
    for number, _, part in _iter_fields(body, counter):
        if number == 1:
            key = _decode_text(_expect_bytes(part))
        elif number == 2:
            value = _decode_one(field.type, part, depth, counter)
    return key, value if value is not None else {"string": "", "bytes": ""}.get(field.type)


def _decode_message(name: str, body: bytes, depth: int, counter: _FieldCounter) -> Raw:
    if depth > MAX_PROTOBUF_DEPTH:
        raise MalformedProtobuf("the message is nested too deeply")
    fields = _fields_by_number(name)
    out: Raw = {}
    for number, wire, value in _iter_fields(body, counter):
        field = fields.get(number)
        if field is None:
            continue
        if field.shape == "inline":
            out.update(_decode_message(field.type, _expect_bytes(value), depth + 1, counter))
        elif field.shape == "map":
            key, item = _decode_map_entry(field, _expect_bytes(value), depth, counter)
            out.setdefault(field.name, {})[key] = item
        elif field.shape == "list":
            items = out.setdefault(field.name, [])
            if wire == 2 and field.type in ("int32", "int64", "bool"):
                items.extend(_decode_packed(field.type, value, counter))
            else:
                items.append(_decode_one(field.type, value, depth, counter))
        else:
            item = _decode_one(field.type, value, depth, counter)
            if item is not None and not (field.omit_zero and not item):
                out[field.name] = item
    return out


class ProtobufEnvelope(NamedTuple):
    api_version: str
    kind: str
    raw: bytes


def decode_envelope(body: bytes, counter: _FieldCounter | None = None) -> ProtobufEnvelope:
    """The apiVersion and kind that a body names, and its undecoded contents."""
    counter = counter or _FieldCounter(MAX_PROTOBUF_FIELDS)
    if not body.startswith(MAGIC):
        raise MalformedProtobuf(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    head = raw = b""
    for number, _, value in _iter_fields(body[4:], counter):
        if number == 1:
            head = _expect_bytes(value)
        elif number == 2:
            raw = _expect_bytes(value)
    names = {
        number: _decode_text(_expect_bytes(value))
        for number, _, value in _iter_fields(head, counter)
        if number in (1, 2)
    }
    return ProtobufEnvelope(names.get(1, ""), names.get(2, ""), raw)


def decode(body: bytes, *, api_version: str = "", kind: str = "", max_fields: int = MAX_PROTOBUF_FIELDS) -> Raw:
    """The JSON form of a protobuf body; `api_version` and `kind` are used where the body does not name its own.

    Raises `BadRequest` for any malformed body, and `TooManyFields`.
    """
    counter = _FieldCounter(max_fields)
    try:
        envelope = decode_envelope(body, counter)
        body_version, body_kind = envelope.api_version or api_version, envelope.kind or kind
        name = message_name(body_version, body_kind)
        if not has_message(name):
            raise BadRequest(f'no kind "{body_kind}" is registered for version "{body_version}"')
        found = {"apiVersion": body_version, "kind": body_kind, **_decode_message(name, envelope.raw, 0, counter)}
        check_depth(found)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    return found


def _encode_time(text: str) -> bytes:
    moment = datetime.fromisoformat(text)
    seconds = int((moment - _EPOCH).total_seconds() // 1)
    return encode_integer(1, seconds) + encode_integer(2, moment.microsecond * 1000)


def _encode_special(type_: str, value: Any) -> bytes:
    if type_ in ("Time", "MicroTime"):
        return _encode_time(value) if value else b""
    if type_ == "Quantity":
        return encode_delimited(1, str(value).encode())
    if type_ == "IntOrString":
        if isinstance(value, str):
            return encode_integer(1, 1) + encode_integer(2, 0) + encode_delimited(3, value.encode())
        return encode_integer(1, 0) + encode_integer(2, value) + encode_delimited(3, b"")
    if type_ == "ExtraValue":
        return b"".join(encode_delimited(1, item.encode()) for item in value)
    if type_.startswith("JSONSchemaProps"):
        return _encode_schema_choice(type_, value)
    return encode_delimited(1, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _encode_schema_choice(type_: str, value: Any) -> bytes:
    props = "apiextensions.v1.JSONSchemaProps"
    schema_number = 2 if type_ == "JSONSchemaPropsOrBool" else 1
    if isinstance(value, bool):
        return encode_integer(1, int(value))
    if isinstance(value, dict):
        allowed = encode_integer(1, 1) if schema_number == 2 else b""
        return allowed + encode_delimited(schema_number, _encode_message(props, value))
    items = (item.encode() if isinstance(item, str) else _encode_message(props, item) for item in value)
    return b"".join(encode_delimited(2, item) for item in items)


def _encode_one(number: int, type_: str, value: Any) -> bytes:
    if type_ == "string":
        return encode_delimited(number, value.encode())
    if type_ == "bytes":
        return encode_delimited(number, base64.b64decode(value))
    if type_ == "double":
        return encode_key(number, FIXED64) + struct.pack("<d", value)
    if type_ in SCALARS:
        return encode_integer(number, int(value))
    body = _encode_message(type_, value) if "." in type_ else _encode_special(type_, value)
    return encode_delimited(number, body)


def _encode_field(field: NativeField, value: Any) -> bytes:
    if field.shape == "list":
        return b"".join(_encode_one(field.number, field.type, item) for item in value)
    if field.shape == "map":
        return b"".join(
            encode_delimited(field.number, encode_delimited(1, key.encode()) + _encode_one(2, field.type, value[key]))
            for key in sorted(value)
        )
    return _encode_one(field.number, field.type, value)


def _encode_message(name: str, value: Raw) -> bytes:
    out = []
    for field in message(name).declared_fields:
        if field.shape == "inline":
            if body := _encode_message(field.type, value):
                out.append(encode_delimited(field.number, body))
        elif value.get(field.name) is not None:
            out.append(_encode_field(field, value[field.name]))
    return b"".join(out)


def encode(raw: Raw) -> bytes:
    """A built-in object as a protobuf body."""
    return wrap_in_envelope(raw, _encode_message(message_name(raw["apiVersion"], raw["kind"]), raw))


def wrap_in_envelope(head: Raw, body: bytes) -> bytes:
    """The body of an object with what names its kind."""
    kind = encode_delimited(1, head["apiVersion"].encode()) + encode_delimited(2, head["kind"].encode())
    return (
        MAGIC
        + encode_delimited(1, kind)
        + encode_delimited(2, body)
        + encode_delimited(3, b"")
        + encode_delimited(4, b"")
    )
