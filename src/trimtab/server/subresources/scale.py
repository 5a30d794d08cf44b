"""The scale subresource."""

from typing import Any

from trimtab.api.field_errors import format_value
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, Cause
from trimtab.server import api_errors
from trimtab.server.printers.cells import format_selector
from trimtab.server.printers.responses import raw_response
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.patch_requests import Patcher, PatchFunction, decode_apply_body
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.messages import Request, Response
from trimtab.server.request.negotiation import APPLY, PROTOBUF, ResponseFormat, media_type_of
from trimtab.server.request.options import WriteOptions, parse_write_options
from trimtab.server.request.typed_bodies import decode_typed_body, read_typed
from trimtab.server.resources import ObjectPath, ServedResource

_API = "autoscaling/v1"


def _response_form(request: Request) -> ResponseFormat:
    return ResponseFormat(PROTOBUF) if request.protobuf_errors else ResponseFormat()


def _get_path(obj: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _get_number(obj: Any, path: str) -> int | None:
    """The replicas at `path`; a schema may declare another type there, which does not count."""
    found = _get_path(obj, path)
    return found if type(found) is int and abs(found) < 1 << 31 else None


def _set_path(obj: Raw, path: list[str], value: Any) -> Raw:
    """The object with `value` at `path`; missing parents are created."""
    first, *rest = path
    inner = obj.get(first)
    return {**obj, first: _set_path(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}


def _selector_string(served: ServedResource, obj: Raw) -> str:
    path = served.kind.scale.selector_path if served.kind.scale else ""
    found = _get_path(obj, path) if path else _get_path(obj, ".spec.selector") if not served.kind.custom else None
    if isinstance(found, str):
        return found
    if not isinstance(found, dict):
        return ""
    selector = found if {"matchLabels", "matchExpressions"} & set(found) else {"matchLabels": found}
    text = format_selector(selector)
    return "" if text == "<none>" else text


class ScaleSubresource:
    """Reads and writes scales."""

    def __init__(self, resource_store: ResourceStore, patcher: Patcher) -> None:
        self._resource_store = resource_store
        self._patcher = patcher

    async def handle(self, request: Request, where: ObjectPath, verb: str) -> Response:
        if verb == "get":
            return raw_response(
                200, self.scale_object(where, (await self._resource_store.read(where)).raw()), _response_form(request)
            )
        options = parse_write_options(
            "UpdateOptions" if verb == "update" else "PatchOptions", request.query, apply=self._is_apply(request, verb)
        )
        if verb == "patch":
            return await self._write(request, where, self._patch_function(request, where), options)
        body = decode_typed_body(request, _API, "Scale")
        return await self._write(request, where, lambda _: body, options)

    def _is_apply(self, request: Request, verb: str) -> bool:
        return verb == "patch" and media_type_of(request.headers.get("content-type", "")) == APPLY

    def _patch_function(self, request: Request, where: ObjectPath) -> PatchFunction:
        media = self._patcher.check_media(request, where.served)
        if media == APPLY:
            config = decode_apply_body(request.body)
            spec = read_typed(config, _API, "Scale").get("spec") or {}
            return lambda old: {**old, "spec": {**old["spec"], **spec}}
        return self._patcher.decode_patch(media, request.body, where.served)

    async def _write(
        self, request: Request, where: ObjectPath, change: PatchFunction, options: WriteOptions
    ) -> Response:
        def with_scale(old: Raw) -> DesiredObject:
            return DesiredObject(self._with_replicas(where, old, change(self.scale_object(where, old, strict=False))))

        outcome = await self._resource_store.change(where, with_scale, options, request.caller)
        return raw_response(200, self.scale_object(where, outcome.stored.raw(), strict=False), _response_form(request))

    def scale_object(self, where: ObjectPath, obj: Raw, *, strict: bool = True) -> Raw:
        """The Scale of an object; a custom resource without replicas has none."""
        scale = where.served.kind.scale
        if scale is None:
            raise api_errors.not_found(where.served.resource, where.served.group, where.name)
        replicas = _get_number(obj, scale.spec_path)
        if replicas is None and strict and where.served.kind.custom:
            raise api_errors.internal_error(f'the spec replicas field "{scale.spec_path}" does not exist')
        keys = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        status: Raw = {"replicas": _get_number(obj, scale.status_path) or 0}
        if selector := _selector_string(where.served, obj):
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": _API,
            "metadata": {key: obj["metadata"][key] for key in keys if key in obj["metadata"]},
            "spec": {"replicas": replicas} if replicas else {},
            "status": status,
        }

    def _with_replicas(self, where: ObjectPath, old: Raw, scale: Any) -> Raw:
        """The object with the replicas of a changed Scale."""
        scale = read_typed(scale, _API, "Scale")
        metadata = scale.get("metadata") or {}
        if metadata.get("name", where.name) != where.name:
            raise BadRequest(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({where.name})"
            )
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or abs(replicas) >= 1 << 31:
            raise BadRequest(
                'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal '
                "into Go struct field ScaleSpec.spec.replicas of type int32"
            )
        if replicas < 0:
            message = f"Invalid value: {format_value(replicas)}: must be greater than or equal to 0"
            raise api_errors.invalid(
                "Scale", "autoscaling", where.name, [Cause("FieldValueInvalid", message, "spec.replicas")]
            )
        path = where.served.kind.scale.spec_path if where.served.kind.scale else ".spec.replicas"
        new = _set_path(old, path.strip(".").split("."), replicas)
        version, uid = metadata.get("resourceVersion"), metadata.get("uid")
        kept = {**new["metadata"], "resourceVersion": version or "", "uid": uid or new["metadata"]["uid"]}
        return {**new, "metadata": kept}
