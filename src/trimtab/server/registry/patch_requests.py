"""PATCH requests: JSON patch, merge patch, strategic merge patch and server-side apply."""

import json
import re
from collections.abc import Callable
from typing import Any

from trimtab.api.json_bounds import check_depth
from trimtab.api.kinds.native import codec
from trimtab.api.limits import MAX_FIELD_PROBLEMS
from trimtab.api.patch.apply import apply
from trimtab.api.patch.json_patch import apply_json_patch
from trimtab.api.patch.merge_patch import apply_merge_patch
from trimtab.api.patch.strategic_merge import apply_strategic_patch
from trimtab.api.value import Raw
from trimtab.api.yaml_documents import repeated_yaml_keys
from trimtab.clock import timestamp
from trimtab.errors import BadRequest, Cause, Conflict, Invalid, UnsupportedMedia
from trimtab.server import api_errors
from trimtab.server.auth.user import Caller
from trimtab.server.registry.object_commits import WriteOutcome
from trimtab.server.registry.object_schema import DesiredObject, ObjectSchema, changed_part, managed_part
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request import large_objects
from trimtab.server.request.body_decoding import has_duplicate_keys, load_json, load_yaml
from trimtab.server.request.messages import Request
from trimtab.server.request.negotiation import APPLY, media_type_of
from trimtab.server.request.options import TRUSTED, WriteOptions, parse_write_options
from trimtab.server.resources import ObjectPath, ServedResource

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_BUILTIN_MEDIA = (JSON_PATCH, MERGE, STRATEGIC, APPLY)
_CUSTOM_MEDIA = (JSON_PATCH, MERGE, APPLY)
_METADATA_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
"""The field order of Go, for errors that show the whole object."""
PatchFunction = Callable[[Raw], Any]


class _WrongType(Exception):
    """A patched object has a value of another type than its field."""

    def __init__(self, patched: Raw, reason: str) -> None:
        super().__init__(reason)
        self.patched = patched
        self.reason = reason


_UNMARSHAL = re.compile(r"json: cannot unmarshal (\w+) into .* of type (\S+)$")
_GO_KINDS = {"number": "int64", "array": "slice", "object": "map"}


def _restore_error(reason: str) -> str:
    """The reason in the words of a strategic merge patch, which is decoded from a map and not from JSON."""
    found = _UNMARSHAL.search(reason)
    if found is None:
        return reason
    value = _GO_KINDS.get(found[1], found[1])
    if found[2].startswith("map["):
        return f"cannot restore map from {value}"
    if found[2].startswith("[]"):
        return f"cannot restore slice from {value}"
    return f"cannot restore struct from: {value}" if "." in found[2] else reason


class Patcher:
    """Applies patch requests to stored objects."""

    def __init__(self, resource_store: ResourceStore) -> None:
        self._resource_store = resource_store

    @property
    def _object_schema(self) -> ObjectSchema:
        return self._resource_store.object_schema

    def check_media(self, request: Request, served: ServedResource) -> str:
        media = media_type_of(request.headers.get("content-type", ""))
        if media not in _BUILTIN_MEDIA:
            raise UnsupportedMedia("415: Unsupported Media Type", details=True)
        if media == STRATEGIC and served.kind.custom:
            raise UnsupportedMedia(
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(_CUSTOM_MEDIA)
            )
        return media

    async def patch(self, request: Request, where: ObjectPath) -> WriteOutcome:
        media = self.check_media(request, where.served)
        options = parse_write_options("PatchOptions", request.query, apply=media == APPLY)
        if media == APPLY:
            config = await large_objects.run(request.caller.sends_large_object, decode_apply_body, request.body)
            _check_repeated_keys(request, config, options.validation)
            return await self.apply(where, config, options, request.caller)
        change = await large_objects.run(
            request.caller.sends_large_object, self.decode_patch, media, request.body, where.served
        )
        return await self.change(where, change, options, request.caller, is_strategic=media == STRATEGIC)

    async def change(
        self,
        where: ObjectPath,
        apply: PatchFunction,
        options: WriteOptions,
        caller: Caller,
        *,
        is_strategic: bool = False,
    ) -> WriteOutcome:
        def with_patch(old: Raw) -> DesiredObject:
            try:
                return DesiredObject(self._decode_patched(where.served, apply(old), old, options.validation, caller))
            except _WrongType as error:
                reason = _restore_error(error.reason) if is_strategic else error.reason
                raise _invalid_patch(error.patched, reason) from None

        return await self._resource_store.change(where, with_patch, options, caller)

    def decode_patch(self, media: str, body: bytes, served: ServedResource) -> PatchFunction:
        """The function that applies the patch; raises when the body is not a patch."""
        try:
            patch = load_json(body)
        except ValueError as error:
            why = "invalid JSON patch" if media == MERGE else f"error decoding patch: {error}"
            raise BadRequest(why) from None
        return self.patch_function(media, patch, served)

    def patch_function(self, media: str, patch: Any, served: ServedResource) -> PatchFunction:
        if media == JSON_PATCH:
            return lambda old: apply_json_patch(old, patch)
        if media == MERGE:
            return lambda old: apply_merge_patch(old, patch)
        return lambda old: apply_strategic_patch(old, patch, self._object_schema.shape(served))

    def _decode_patched(self, served: ServedResource, new: Any, old: Raw, validation: str, caller: Caller) -> Raw:
        """The patched object, validated."""
        if not isinstance(new, dict) or not isinstance(new.get("metadata", {}), dict):
            raise _invalid_patch(new, "json: cannot unmarshal the patched object into an object")
        patched: Raw = {**new, "apiVersion": served.api_version, "kind": served.kind.name}
        metadata = patched.setdefault("metadata", {})
        if validation == TRUSTED and not served.message:  # encoded from one of our types, whose depth is limited
            _check_path(metadata, old["metadata"])
            return patched
        changed = changed_part(patched, old)
        try:
            check_depth(changed)  # the rest is stored
        except ValueError as error:
            raise BadRequest(f"the patched object cannot be stored: {error}") from None
        try:
            read = self._object_schema.read_changed(served, patched, changed)
        except codec.NativeDecodeError as error:
            raise _WrongType(patched, str(error)) from None
        problems = read.problems[:MAX_FIELD_PROBLEMS]
        if problems and validation == "Strict":
            raise _invalid_patch(patched, f"strict decoding error: {', '.join(problems)}")
        if validation == "Warn":
            for problem in problems:
                caller.warn(problem)
        _check_path(metadata, old["metadata"])
        return read.obj

    async def apply(self, where: ObjectPath, config: Raw, options: WriteOptions, caller: Caller) -> WriteOutcome:
        """Server-side apply: create the object, or update the fields that this manager owns."""
        config, now = _with_path_metadata(where, config), timestamp(self._resource_store.clock.now())
        if self._resource_store.store.get(where.key) is None and not where.subresource:
            if config["metadata"].get("uid"):
                raise _uid_without_object(where, config["metadata"]["uid"])
            new = await large_objects.run(
                caller.sends_large_object, self._merge_applied, where, None, config, options, now
            )
            return await self._resource_store.create(where, DesiredObject(new, applied=True), options, caller)

        def merge(old: Raw) -> DesiredObject:
            return DesiredObject(self._merge_applied(where, old, config, options, now), applied=True)

        return await self._resource_store.change(where, merge, options, caller)

    def _merge_applied(self, where: ObjectPath, live: Raw | None, config: Raw, options: WriteOptions, now: str) -> Raw:
        served = where.served
        merged = apply(
            live,
            config,
            self._object_schema.shape(served),
            options.field_manager,
            now,
            api_version=served.api_version,
            kind=served.kind.name,
            force=options.force,
            subresource=where.subresource,
            **managed_part(where),
        )
        try:
            return self._object_schema.read(served, merged).obj
        except codec.NativeDecodeError as error:
            raise _invalid_patch(merged, str(error)) from None


def _with_path_metadata(where: ObjectPath, config: Raw) -> Raw:
    """An applied object with name and namespace of its URL, which it may omit but not contradict."""
    metadata = config.get("metadata")
    metadata = {**metadata} if isinstance(metadata, dict) else {}
    if metadata.setdefault("name", where.name) != where.name:
        raise BadRequest(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({where.name})"
        )
    if where.namespace and metadata.get("namespace", where.namespace) != where.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    return {**config, "metadata": metadata}


def _uid_without_object(where: ObjectPath, uid: str) -> Conflict:
    message = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    return api_errors.conflict(where.served.resource, where.served.group, where.name, message)


def _check_path(new: Raw, old: Raw) -> None:
    if new is old:
        return
    if new.get("name") != old["name"]:
        raise BadRequest(
            f"the name of the object ({new.get('name', '')}) does not match the name on the URL ({old['name']})"
        )
    if new.get("namespace", "") != old.get("namespace", ""):
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def _invalid_patch(new: Any, reason: str) -> Invalid:
    if isinstance(new, dict) and isinstance(new.get("metadata"), dict):
        metadata = new["metadata"]
        ordered = {key: metadata[key] for key in (*_METADATA_ORDER, *metadata) if key in metadata}
        rest = json.loads(json.dumps(new, sort_keys=True))
        new = {key: value if key != "metadata" else ordered for key, value in rest.items()}
    text = api_errors.quote_value(api_errors.quote_value(new))
    return api_errors.invalid("", "", "", [Cause("FieldValueInvalid", f"Invalid value: {text}: {reason}", "patch")])


def _check_repeated_keys(request: Request, config: Raw, validation: str) -> None:
    """Refuse an applied configuration in which a key occurs twice, or warn about it, as the client requested."""
    body = request.body
    if validation not in ("Strict", "Warn") or large_objects.is_large(body):
        return
    if body.lstrip()[:1] == b"{" and not has_duplicate_keys(body, config):
        return
    if repeated := repeated_yaml_keys(body):
        lines = "\n".join(f"  {line}" for line in repeated)
        reason = f"error converting YAML to JSON: yaml: unmarshal errors:\n{lines}"
        if validation == "Strict":
            raise BadRequest(f"error strict decoding YAML: {reason}")
        request.caller.warn(reason)


def _load_json_or_yaml(body: bytes) -> Any:
    if body.lstrip()[:1] == b"{":
        try:
            return load_json(body)
        except ValueError:  # YAML may begin with a brace as well
            pass
    return load_yaml(body)


def decode_apply_body(body: bytes) -> Raw:
    """The object in an apply patch, which is YAML or JSON."""
    try:
        applied = _load_json_or_yaml(body)
    except ValueError as error:
        raise BadRequest(f"error decoding YAML: {error}") from None
    if not isinstance(applied, dict):
        raise BadRequest("error decoding YAML: the document is not an object")
    return applied
