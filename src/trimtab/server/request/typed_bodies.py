"""Decodes request bodies whose kind is not that of the resource, such as an Eviction, and checks their types."""

from typing import Any

from trimtab.api.kinds.native import codec
from trimtab.api.kinds.native.fields import message_name
from trimtab.api.limits import MAX_JSON_BYTES_IN_LOOP, MAX_VALUES_IN_LOOP
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, TooLarge
from trimtab.server.request import large_objects
from trimtab.server.request.body_decoding import decode_body
from trimtab.server.request.messages import Request
from trimtab.server.request.negotiation import media_type_of


def decode_typed_body(request: Request, api_version: str, kind: str) -> Raw:
    """The body as an object of `kind`; the body may omit its kind."""
    check_size(request, kind)
    obj = decode_body(media_type_of(request.headers.get("content-type", "")), request.body, api_version, kind).obj
    if (found := obj.get("kind") or kind) != kind:
        group = (api_version.rpartition("/")[0] or "core").split(".")[0]
        version = str(obj.get("apiVersion", "")).rpartition("/")[2]
        raise BadRequest(
            f'{found} in version "{version}" cannot be handled as a {kind}: '
            f"converting ({version}.{found}) to ({group}.{kind}): unknown conversion"
        )
    return read_typed(obj, api_version, kind)


def check_size(request: Request, kind: str) -> None:
    """Refuse a body that takes long to read: objects of these kinds are small."""
    if large_objects.is_large(request.body):
        limits = f"{MAX_VALUES_IN_LOOP} values and {MAX_JSON_BYTES_IN_LOOP} bytes"
        raise TooLarge(f"Request entity too large: a {kind} has at most {limits}")


def read_typed(obj: Any, api_version: str, kind: str) -> Raw:
    """The object without unknown fields; BadRequest when a value has the wrong type."""
    if not isinstance(obj, dict):
        raise BadRequest(f"{kind} cannot be read: it must be an object")
    given = {key: value for key, value in obj.items() if value is not None}
    return codec.decode(message_name(api_version, kind), given, api_version).body
