"""Decodes native objects as kube-apiserver's Go types do: checks types, reports unknown fields, normalises empty ones."""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, NamedTuple

from trimtab.api import quantity
from trimtab.api.kinds.native.fields import SCALARS, Message, NativeField, message
from trimtab.api.text_cache import cache_short_texts
from trimtab.api.value import Raw
from trimtab.errors import BadRequest

_RFC3339 = "2006-01-02T15:04:05Z07:00"
_RFC3339_MICRO = "2006-01-02T15:04:05.000000Z07:00"
_QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_OMIT = object()

Reader = Callable[[Any, str, list[str]], Any]
"""Decodes one value, given its path and the list that collects the paths of unknown fields."""


class NativeDecodeError(ValueError):
    """The object does not match its type; the text is the error of Go's decoder."""


class _WrongType(ValueError):
    """A special type got a JSON type it cannot decode; the text is the Go type it expects."""


class DecodedObject(NamedTuple):
    body: Raw
    unknown: list[str]
    """Paths of fields that the type does not have, in document order."""


_STEPS_OMITTED_BY_GO = re.compile("\\[\\d+\\]|\x00[^\x01]*\x01")
"""List indexes and map keys in a path (keys stand between these marks); Go leaves both out of its errors."""


def _format_path(path: str) -> str:
    return path.replace("\x00", ".").replace("\x01", "")


def _go_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "number"


def _go_type(type_: str) -> str:
    if type_ in SCALARS:
        return {"bytes": "[]uint8", "double": "float64"}.get(type_, type_)
    return "v1." + type_.rsplit(".", 1)[-1]


def _type_mismatch_error(value: Any, owner: str, path: str, go_type: str) -> NativeDecodeError:
    where = _STEPS_OMITTED_BY_GO.sub("", path)
    return NativeDecodeError(
        f"json: cannot unmarshal {_go_kind(value)} into Go struct field {owner}.{where} of type {go_type}"
    )


_LIMITS = {"int32": 1 << 31, "int64": 1 << 63}


def _scalar_reader(field: NativeField, owner: str) -> Reader:
    type_ = field.type

    def read_string(value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) is not str:
            raise _type_mismatch_error(value, owner, path, field.go_type or "string")
        return value

    def read_bool(value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) is not bool:
            raise _type_mismatch_error(value, owner, path, "bool")
        return value

    def read_integer(value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) is int and -_LIMITS[type_] <= value < _LIMITS[type_]:
            return value
        error = _type_mismatch_error(value, owner, path, type_)
        if type(value) in (int, float):
            error = NativeDecodeError(str(error).replace("unmarshal number", f"unmarshal number {value}", 1))
        raise error

    def read_double(value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) not in (int, float):
            raise _type_mismatch_error(value, owner, path, "float64")
        return value

    def read_bytes(value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) is not str:
            raise _type_mismatch_error(value, owner, path, "[]uint8")
        compact = value.replace("\n", "").replace("\r", "")
        try:
            base64.b64decode(compact, validate=True)
        except (binascii.Error, ValueError):
            raise NativeDecodeError(f"illegal base64 data at input byte {_first_invalid_byte(value)}") from None
        return compact

    readers = {"string": read_string, "bool": read_bool, "double": read_double, "bytes": read_bytes}
    return readers.get(type_, read_integer)


def _first_invalid_byte(text: str) -> int:
    match = re.search(r"[^A-Za-z0-9+/\r\n]", text)
    return match.start() if match else len(text) // 4 * 4


@cache_short_texts(65536, longest=32)
def _canonical_quantity(text: str) -> str:
    return quantity.canonical_form(text)


def _read_quantity(value: Any, path: str, unknown: list[str]) -> Any:
    if type(value) not in (str, int, float):
        raise NativeDecodeError(_QUANTITY_RULE)
    try:
        return _canonical_quantity(value) if type(value) is str else quantity.canonical_form(value)
    except quantity.InvalidQuantity:
        raise NativeDecodeError(_QUANTITY_RULE) from None


_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")


def _read_time(value: Any, layout: str, micro: bool) -> Any:
    if not isinstance(value, str):
        raise _WrongType("string")
    if value == "":
        return _OMIT
    match = _TIME.match(value)
    if match is None:
        raise NativeDecodeError(f'parsing time "{value}" as "{layout}": {_time_parse_error(value, layout)}')
    if micro and len(match[7] or "") != 7:
        rest = value[19:]
        raise NativeDecodeError(f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as ".000000"')
    return _format_in_utc(match, value, micro)


def _format_in_utc(match: re.Match[str], value: str, micro: bool) -> str:
    try:
        moment = datetime.fromisoformat(value[:19] + match[8].replace("Z", "+00:00"))
    except ValueError:
        part = _out_of_range_part(match)
        raise NativeDecodeError(f'parsing time "{value}": {part} out of range') from None
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + (match[7] if micro else "") + "Z"


def _out_of_range_part(match: re.Match[str]) -> str:
    for name, index, top in (("month", 2, 12), ("day", 3, 31), ("hour", 4, 23), ("minute", 5, 59), ("second", 6, 59)):
        if int(match[index]) > top or (index < 4 and int(match[index]) == 0):
            return name
    return "day"


def _time_parse_error(value: str, layout: str) -> str:
    for start, end, part, pattern in (
        (0, 4, "2006", r"\d{4}"),
        (4, 5, "-", "-"),
        (5, 7, "01", r"\d\d"),
        (7, 8, "-", "-"),
        (8, 10, "02", r"\d\d"),
        (10, 11, "T", "T"),
        (11, 13, "15", r"\d\d"),
        (13, 14, ":", ":"),
        (14, 16, "04", r"\d\d"),
        (16, 17, ":", ":"),
        (17, 19, "05", r"\d\d"),
    ):
        if not re.fullmatch(pattern, value[start:end]):
            return f'cannot parse "{value[start:]}" as "{part}"'
    return f'cannot parse "{value[19:]}" as "{".000000" if "." in layout else "Z07:00"}"'


@cache_short_texts(4096)
def _read_time_cached(value: str) -> Any:
    """Cached, because objects written at about the same time contain the same few timestamps."""
    return _read_time(value, _RFC3339, micro=False)


def _read_plain_time(value: Any, path: str, unknown: list[str]) -> Any:
    return _read_time_cached(value) if type(value) is str else _read_time(value, _RFC3339, micro=False)


def _read_micro_time(value: Any, path: str, unknown: list[str]) -> Any:
    return _read_time(value, _RFC3339_MICRO, micro=True)


def _read_int_or_string(value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _WrongType("int32")
    if isinstance(value, int) and not -_LIMITS["int32"] <= value < _LIMITS["int32"]:
        raise NativeDecodeError(f"json: cannot unmarshal number {value} into Go value of type int32")
    return value


def _read_anything(value: Any, path: str, unknown: list[str]) -> Any:
    return value


def _read_extra(value: Any, path: str, unknown: list[str]) -> Any:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _WrongType("v1.ExtraValue")
    return value


def _read_schema_or_bool(value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, bool):
        return value
    return _read_schema_or_list(value, path, unknown)


def _read_schema_or_list(value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        return [_read_schema_or_list(item, f"{path}[{i}]", unknown) for i, item in enumerate(value)]
    if isinstance(value, str):
        return value
    return _read_message("apiextensions.v1.JSONSchemaProps", "JSONSchemaProps", "", value, path, unknown)


_SPECIAL: dict[str, Reader] = {
    "Quantity": _read_quantity,
    "Time": _read_plain_time,
    "MicroTime": _read_micro_time,
    "IntOrString": _read_int_or_string,
    "RawExtension": _read_anything,
    "FieldsV1": _read_anything,
    "JSON": _read_anything,
    "ExtraValue": _read_extra,
    "JSONSchemaPropsOrArray": _read_schema_or_list,
    "JSONSchemaPropsOrBool": _read_schema_or_bool,
    "JSONSchemaPropsOrStringArray": _read_schema_or_list,
}


def _with_field_in_error(special: Reader, owner: str) -> Reader:
    """The reader of a special type, with the field's path added to its errors about JSON types."""

    def read(value: Any, path: str, unknown: list[str]) -> Any:
        try:
            return special(value, path, unknown)
        except _WrongType as error:
            raise _type_mismatch_error(value, owner, path, str(error)) from None

    return read


def _item_reader(field: NativeField, owner: str) -> Reader:
    if field.type in SCALARS:
        return _scalar_reader(field, owner)
    if special := _SPECIAL.get(field.type):
        return _with_field_in_error(special, owner)

    return partial(_read_message, field.type, owner, field.go_type)


def _field_reader(field: NativeField, owner: str) -> Reader:
    read_item = _item_reader(field, owner)
    if field.shape == "list":

        def read_list(value: Any, path: str, unknown: list[str]) -> Any:
            if type(value) is not list:
                raise _type_mismatch_error(
                    value, owner, path, field.go_field_type or "[]" + (field.go_type or _go_type(field.type))
                )
            read = [
                zero_value(field) if item is None else read_item(item, f"{path}[{i}]", unknown)
                for i, item in enumerate(value)
            ]
            return read if read or not field.omit_zero else _OMIT

        return read_list
    if field.shape == "map":
        plain = _COPIED_TYPES.get(field.type)
        copied_types = frozenset((plain,) if plain is not None else ())

        def read_map(value: Any, path: str, unknown: list[str]) -> Any:
            if type(value) is not dict:
                raise _type_mismatch_error(
                    value, owner, path, field.go_field_type or "map[string]" + (field.go_type or _go_type(field.type))
                )
            if copied_types.issuperset(map(type, value.values())):
                read = dict(value)  # labels and similar maps, the most common case
            else:
                read = {
                    key: zero_value(field) if item is None else read_item(item, f"{path}\x00{key}\x01", unknown)
                    for key, item in value.items()
                }
            return read if read or not field.omit_zero else _OMIT

        return read_map
    if field.omit_zero:

        def read_unless_zero(value: Any, path: str, unknown: list[str]) -> Any:
            return read_item(value, path, unknown) or _OMIT

        return read_unless_zero
    return read_item


_ZEROS: dict[str, Any] = {
    "string": "",
    "int32": 0,
    "int64": 0,
    "bool": False,
    "bytes": "",
    "double": 0,
    "Quantity": "0",
    "IntOrString": 0,
}


def zero_value(field: NativeField) -> Any:
    """The value that Kubernetes writes for one empty value of this field's type."""
    return empty_message(field.type) if field.is_message else _ZEROS.get(field.type)


_TYPE_META = tuple(
    NativeField(name, 0, "string", "one", required=False, always_written=False, omit_zero=True, null_when_absent=False)
    for name in ("apiVersion", "kind")
)
_EMBEDDED_WITH_TYPE_META = frozenset({"core.v1.PersistentVolumeClaim", "meta.v1.DeleteOptions"})
"""Whole objects that also occur inside others, where they may carry apiVersion and kind."""


_COPIED_TYPES: dict[str, type] = {"string": str, "bool": bool}


class _MessageReaders(NamedTuple):
    readers: dict[str, Reader]
    always_written: tuple[tuple[str, NativeField], ...]
    copied_types: dict[str, type]
    """Fields whose non-empty values are copied unchanged when they have this type."""


@cache
def _message_readers(name: str) -> _MessageReaders:
    definition: Message = message(name)
    head = [field for field in _TYPE_META if name in _EMBEDDED_WITH_TYPE_META]
    return _MessageReaders(
        {
            field.name: _field_reader(field, definition.short_name)
            for field in (*head, *definition.json_fields.values())
        },
        tuple((field.name, field) for field in definition.json_fields.values() if field.always_written),
        {
            field.name: _COPIED_TYPES[field.type]
            for field in (*head, *definition.json_fields.values())
            if field.shape == "one" and field.type in _COPIED_TYPES
        },
    )


def _absent_value(field: NativeField) -> Any:
    return None if field.null_when_absent or field.shape != "one" else zero_value(field)


def empty_message(name: str) -> Raw:
    """The message as Kubernetes writes it when no field is set."""
    return {field_name: _absent_value(field) for field_name, field in _message_readers(name).always_written}


def _read_message(name: str, owner: str, go: str, value: Any, path: str, unknown: list[str]) -> Raw:
    if type(value) is not dict:
        raise _type_mismatch_error(value, owner, path, go or _go_type(name))
    plan = _message_readers(name)
    readers, plain = plan.readers, plan.copied_types
    prefix = f"{path}." if path else ""
    out: Raw = {}
    for key, item in value.items():
        if item and key in plain and type(item) is plain[key]:
            out[key] = item
            continue
        if key not in readers:
            unknown.append(_format_path(f"{prefix}{key}"))
        elif item is not None:
            read = readers[key](item, f"{prefix}{key}", unknown)
            if read is not _OMIT:
                out[key] = read
    for key, field in plan.always_written:
        if key not in out:
            out[key] = _absent_value(field)
    return out


def read(name: str, raw: Raw) -> DecodedObject:
    """`raw` as the message called `name`; raises `NativeDecodeError` with Go's error text. apiVersion and kind are copied."""
    unknown: list[str] = []
    head: Raw = {key: raw[key] for key in ("apiVersion", "kind") if key in raw}
    for key, value in head.items():
        if not isinstance(value, str):
            raise _type_mismatch_error(value, "TypeMeta", key, "string")
    body = {key: value for key, value in raw.items() if key not in head} if head else raw
    return DecodedObject({**head, **_read_message(name, name.rsplit(".", 1)[-1], "", body, "", unknown)}, unknown)


def decode(name: str, raw: Raw, api_version: str) -> DecodedObject:
    """`read`, with the error that a client gets when the object does not match its type."""
    try:
        return read(name, raw)
    except (NativeDecodeError, RecursionError) as fault:
        error = fault if isinstance(fault, NativeDecodeError) else "exceeded max depth"
        kind, version = name.rsplit(".", 1)[-1], api_version.rpartition("/")[2]
        raise BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}') from None
