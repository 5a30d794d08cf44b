"""Decodes objects by the schema of their kind, applies defaults, validates them and tracks managed fields."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypedDict

import orjson
from msgspec import Struct

from trimtab.api.json_bounds import has_more_values
from trimtab.api.kind import DefaultFunction, ValidateFunction, kinds
from trimtab.api.kinds.native import codec
from trimtab.api.kinds.native.fields import has_message, message, message_name
from trimtab.api.kinds.native.rules.pods import check_ephemeral_containers
from trimtab.api.limits import MAX_FIELD_PROBLEMS, MAX_SCHEMA_VALUES_IN_LOOP
from trimtab.api.patch.managed_fields import FieldManager, track_update
from trimtab.api.patch.merge_schema import MergeSchema, merge_schema_of, native_merge_schema
from trimtab.api.schema.structural import CelEvaluator, StructuralSchema
from trimtab.api.value import Raw
from trimtab.errors import ApiError, BadRequest, Cause
from trimtab.server import api_errors
from trimtab.server.auth.user import Caller
from trimtab.server.request.body_decoding import DecodedBody, decode_body
from trimtab.server.request.messages import Request
from trimtab.server.request.negotiation import media_type_of
from trimtab.server.resources import ObjectPath, ServedResource

_WITHOUT_KIND_VALIDATION = {"binding", "ephemeralcontainers", "resize", "finalize"}
"""Subresources that may change what the main resource may not."""
_OBJECT_META = "meta.v1.ObjectMeta"
CRD = "customresourcedefinitions.apiextensions.k8s.io"
_EXPRESSION_FIELDS = (b"pattern", b"rule")
_ADMISSION_GROUP = "admissionregistration.k8s.io"
_MAX_COMPILED_IN_LOOP = 20
"""Patterns, rules and conditions of an object that are compiled in the event loop, half a millisecond each."""
_MAX_COMPILED_BYTES_IN_LOOP = 8 * 1024
"""Of an object with such expressions, which may be long ones."""
_MAX_DEFINITION_BYTES_IN_LOOP = 32 * 1024


class DesiredObject(Struct, frozen=True):
    """An object to be written; an applied one already has its managedFields."""

    obj: Raw
    applied: bool = False
    has_defaults: bool = False
    """A stored object in which only fields without defaults were set."""


class ReadObject(NamedTuple):
    """A decoded object and the fields that were dropped."""

    obj: Raw
    problems: list[str]


def _compiles_slowly(expressions: int, text: bytes) -> bool:
    return expressions > _MAX_COMPILED_IN_LOOP or bool(expressions and len(text) > _MAX_COMPILED_BYTES_IN_LOOP)


class ObjectSchema:
    """The schemas of all resources of one server."""

    # `server_rules` are validations that only the server can do, because they concern serving
    def __init__(
        self, cel: CelEvaluator | None = None, server_rules: Mapping[str, ValidateFunction] = MappingProxyType({})
    ) -> None:
        self._cel = cel
        self._server_rules = server_rules
        self._structural_schemas: dict[ServedResource, StructuralSchema] = {}
        self._shapes: dict[ServedResource, MergeSchema] = {}
        self._slow_schemas: dict[ServedResource, bool] = {}

    def structural_schema(self, served: ServedResource) -> StructuralSchema:
        structural = self._structural_schemas.get(served)
        if structural is None:
            structural = self._structural_schemas[served] = StructuralSchema(served.schema)
        return structural

    def validates_slowly(self, served: ServedResource, text: bytes) -> bool:
        """Whether the object takes long however small it is, because of a large schema or expressions that users wrote.

        `text` is the object or the body of the request. Trimtab's own kinds have few and simple expressions.
        """
        if served.kind.id == CRD:
            expressions = sum(map(text.count, _EXPRESSION_FIELDS))
            return _compiles_slowly(expressions, text) or len(text) > _MAX_DEFINITION_BYTES_IN_LOOP
        if served.group == _ADMISSION_GROUP:
            return _compiles_slowly(text.count(b"xpression"), text)  # also that of a message
        if not served.kind.custom or served.kind.id in kinds:
            return False
        found = self._slow_schemas.get(served)
        if found is None:
            schema = orjson.dumps(served.schema)
            has_expressions = any(field in schema for field in _EXPRESSION_FIELDS)
            found = has_expressions or has_more_values(schema, MAX_SCHEMA_VALUES_IN_LOOP)
            self._slow_schemas[served] = found
        return found

    def forget_resource(self, served: ServedResource) -> None:
        self._slow_schemas.pop(served, None)
        self._structural_schemas.pop(served, None)
        self._shapes.pop(served, None)

    # reading

    def decode(self, served: ServedResource, body: DecodedBody, validation: str, caller: Caller) -> Raw:
        """The object of a request, validated as strictly as the client requested."""
        obj = self._check_type(served, body.obj)
        try:
            read = self.read(served, obj)
        except codec.NativeDecodeError as error:
            raise self._cannot_handle(served, obj, str(error)) from None
        problems = [f'duplicate field "{path}"' for path in body.duplicates] + read.problems
        if served.message and body.positions:  # a typed object is checked while its body is read
            problems.sort(key=lambda problem: body.positions.get(problem, len(body.positions)))
        problems = problems[:MAX_FIELD_PROBLEMS]
        if problems and validation == "Strict":
            raise self._cannot_handle(served, obj, f"strict decoding error: {', '.join(problems)}")
        if problems and validation == "Warn":
            for problem in problems:
                caller.warn(problem)
        return read.obj

    def decode_request(self, request: Request, served: ServedResource, validation: str) -> Raw:
        """The object in the body of a request."""
        media = media_type_of(request.headers.get("content-type", ""))
        body = decode_body(media, request.body, served.api_version, served.kind.name)
        return self.decode(served, body, validation, request.caller)

    def _cannot_handle(self, served: ServedResource, obj: Raw, reason: str) -> ApiError:
        kind, version = obj.get("kind", ""), str(obj.get("apiVersion", "")).rpartition("/")[2]
        return BadRequest(f'{kind} in version "{version}" cannot be handled as a {served.kind.name}: {reason}')

    def _check_type(self, served: ServedResource, obj: Raw) -> Raw:
        """The object with kind and apiVersion, which must match the request path."""
        version, kind = obj.get("apiVersion") or "", obj.get("kind") or ""
        if served.kind.custom:
            if not kind or not version:
                missing = "Kind" if not kind else "apiVersion"
                raise BadRequest(
                    f"the object provided is unrecognized (must be of type {served.kind.name}): "
                    f"Object '{missing}' is missing in '{api_errors.quote_value(obj)}' ({api_errors.quote_value(obj)[:30]} ...)"
                )
            if version != served.api_version:
                raise BadRequest(
                    f"the API version in the data ({version}) does not match the expected API version ({served.api_version})"
                )
            if kind != served.kind.name:
                raise BadRequest(f"the kind in the data ({kind}) does not match the expected kind ({served.kind.name})")
            return obj
        if version and kind and (version, kind) != (served.api_version, served.kind.name):
            why = (
                f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
            )
            if version == served.api_version or has_message(message_name(version, kind)):
                group = (served.group or "core").split(".")[0]
                why = f"converting ({version.rpartition('/')[2]}.{kind}) to ({group}.{served.kind.name}): unknown conversion"
            raise self._cannot_handle(served, obj, why)
        return {**obj, "apiVersion": served.api_version, "kind": served.kind.name}

    def read(self, served: ServedResource, obj: Raw) -> ReadObject:
        """Drop and report unknown fields; raises `codec.Unreadable` when a value has the wrong type."""
        if served.message:
            body, unknown = codec.read(served.message, obj)
            return ReadObject(body, [f'unknown field "{path}"' for path in unknown])
        metadata = obj.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise codec.NativeDecodeError("json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta")
        meta, unknown = codec.read(_OBJECT_META, metadata)
        meta = {key: value for key, value in meta.items() if value is not None}
        pruned, further = self.structural_schema(served).prune(obj)
        unknown = sorted([f"metadata.{path}" for path in unknown] + further)
        return ReadObject({**pruned, "metadata": meta}, [f'unknown field "{path}"' for path in unknown])

    def read_changed(self, served: ServedResource, obj: Raw, changed: Raw) -> ReadObject:
        """`read` for an object derived from a stored one: what did not change was read when it was stored.

        `changed` is what `changed_part` returns for the two.
        """
        if served.from_stored is not None:
            return self.read(served, obj)
        metadata = obj.get("metadata")
        read, problems = self.read(served, changed)
        if "metadata" not in changed:
            read.pop("metadata", None)
        elif isinstance(metadata, dict):
            read["metadata"] = _merge_members(metadata, changed["metadata"], read["metadata"])
        return ReadObject(_merge_members(obj, changed, read), problems)

    # writing

    def initial_status(self, served: ServedResource) -> Raw | None:
        """The initial status of a native object; None if the kind shows none."""
        field = message(served.message).json_fields.get("status") if served.message else None
        return codec.empty_message(field.type) if field is not None and field.always_written else None

    def apply_defaults(self, served: ServedResource, obj: Raw) -> Raw:
        """Defaults of the schema, then those of the kind.

        Defaults of the kind do not repair what the schema refuses: a kube-apiserver with our CRDs could not do that either.
        """
        if served.message:
            return _with_defaults(obj, served.kind.defaults)
        obj = self.structural_schema(served).apply_defaults(obj)
        defaulted = _with_defaults(obj, served.kind.defaults)
        return obj if defaulted is not obj and self.structural_schema(served).check(obj) else defaulted

    def validate(self, served: ServedResource, obj: Raw, old: Raw | None, subresource: str = "") -> list[Cause]:
        found: list[Cause] = []
        if not served.message:
            structural = self.structural_schema(served)
            check = structural.check_status if subresource == "status" else structural.check
            found += check(obj, old, self._cel)
        if subresource == "ephemeralcontainers" and old is not None:
            found += check_ephemeral_containers(obj, old)
        if subresource in _WITHOUT_KIND_VALIDATION:
            return found
        if found and any(cause.reason == "FieldValueTypeInvalid" for cause in found):
            return found  # the validators of a kind rely on the types that its schema ensures
        for validate in served.kind.validators:
            causes: Sequence[Cause] = validate(obj, old)
            found += causes
        if further := self._server_rules.get(served.kind.id):
            found += further(obj, old)
        return found

    def shape(self, served: ServedResource) -> MergeSchema:
        """How the parts of an object merge."""
        if served.message:
            return native_merge_schema(served.api_version, served.kind.name)
        shape = self._shapes.get(served)
        if shape is None:
            shape = self._shapes[served] = merge_schema_of(served.schema)
        return shape

    def with_managed_fields(
        self, where: ObjectPath, obj: Raw, old: Raw | None, manager: str, now: str, *, whole: bool = False
    ) -> Raw:
        """The object with managedFields that record what this write changed."""
        served = where.served
        writer = FieldManager(manager, "Update", served.api_version, where.subresource)
        time = None if where.subresource == "scale" else now  # scale updates have no timestamp
        return track_update(old, obj, self.shape(served), writer, time, **({} if whole else managed_part(where)))


def changed_part(new: Raw, before: Raw) -> Raw:
    """The members of an object that are not the same objects as before, and of its metadata only those."""
    changed = _changed_members(new, before)
    metadata = changed.get("metadata")
    if isinstance(metadata, dict):
        changed["metadata"] = _changed_members(metadata, before["metadata"])
    return changed


def _changed_members(new: Raw, before: Raw) -> Raw:
    """The members that are not the same objects as before."""
    return {key: value for key, value in new.items() if value is None or value is not before.get(key)}


def _with_defaults(obj: Raw, defaults: Iterable[DefaultFunction]) -> Raw:
    for fill in defaults:
        obj = fill(obj)
    return obj


def _merge_members(new: Raw, changed: Raw, read: Raw) -> Raw:
    """`new` with its changed members replaced by what reading made of them, and with members that reading adds."""
    merged = {
        key: read[key] if key in changed else value for key, value in new.items() if key not in changed or key in read
    }
    return {**merged, **{key: value for key, value in read.items() if key not in new}}


class ManagedPart(TypedDict, total=False):
    """The top-level fields that a path may change, as keyword arguments of `api.patch`."""

    only: Sequence[str]
    without: Sequence[str]


def managed_part(where: ObjectPath) -> ManagedPart:
    if where.subresource == "status":
        return {"only": ("status",)}
    return {"without": ("status",)} if where.served.kind.status else {}
