"""The paths section of an OpenAPI v3 document: operations, parameters, request and response bodies of a resource."""

from collections.abc import Iterable, Sequence

from trimtab.api.kinds.native import openapi as native
from trimtab.api.value import Raw
from trimtab.server.resources import ServedResource

REF = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_BUILT_IN_MEDIA = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")
_CUSTOM_MEDIA = ("application/json", "application/yaml")
_STREAM_MEDIA = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
_PATCH_MEDIA = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_LIST_PARAMETERS = {
    "allowWatchBookmarks": "boolean",
    "continue": "string",
    "fieldSelector": "string",
    "labelSelector": "string",
    "limit": "integer",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
_WRITE_PARAMETERS = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
_DELETE_PARAMETERS = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "orphanDependents": "boolean",
    "propagationPolicy": "string",
}
_METHODS = {"create": "post", "update": "put", "patch": "patch", "delete": "delete", "get": "get"}
_OPERATION_VERBS = {"create": "create", "update": "replace", "patch": "patch", "delete": "delete", "get": "read"}
_DESCRIPTIONS = {
    "dryRun": "`All` validates the request without persisting it.",
    "fieldManager": "Name of the field manager that makes the change.",
    "fieldValidation": "How to handle unknown fields: Ignore, Warn or Strict.",
    "labelSelector": "Restricts the list of returned objects to those whose labels match.",
    "fieldSelector": "Restricts the list of returned objects to those whose fields match.",
    "watch": "Watch for changes to the described resources, as a stream of events instead of one list.",
}


def _parameter(name: str, kind: str) -> Raw:
    parameter: Raw = {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
    return {**parameter, "description": _DESCRIPTIONS[name]} if name in _DESCRIPTIONS else parameter


def _parameters(types: dict[str, str]) -> list[Raw]:
    return [_parameter(name, kind) for name, kind in types.items()]


def _path_parameter(name: str) -> Raw:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}


def _content(media_types: Iterable[str], schema: str) -> Raw:
    return {"content": {kind: {"schema": {"$ref": f"{REF}{schema}"}} for kind in media_types}}


def schema_name(served: ServedResource) -> str:
    """The name of the component schema of a resource."""
    if not served.kind.custom and not served.group.endswith(".karmada.io"):
        return native.schema_name(served.api_version, served.kind.name)
    return ".".join([*reversed(served.group.split(".")), served.version, served.kind.name])


class ResourcePaths:
    """The paths of one resource."""

    def __init__(self, served: ServedResource) -> None:
        self._served = served
        self._kind = {"group": served.group, "version": served.version, "kind": served.kind.name}
        self._media_types = _CUSTOM_MEDIA if served.kind.custom else _BUILT_IN_MEDIA
        self._schema = schema_name(served)
        head = served.group.split(".")
        if not served.kind.custom:
            head = head[:1]  # operation ids of built-in groups use only the first label of the group
        words = [part.capitalize() for part in head if part] or ["Core"]
        self._operation_stem = "".join(words) + served.version.capitalize()
        first, *further = head if served.group else ["core"]
        self._tag = first + "".join(part.capitalize() for part in further) + f"_{served.version}"

    def paths(self) -> dict[str, Raw]:
        served = self._served
        root = f"/apis/{served.group}/{served.version}" if served.group else f"/api/{served.version}"
        place = "/namespaces/{namespace}" if served.kind.namespaced else ""
        collection = f"{root}{place}/{served.resource}"
        found = {collection: self._collection_operations()}
        if served.kind.namespaced and "list" in served.verbs:
            found[f"{root}/{served.resource}"] = self._all_namespaces_operations()
        if "get" in served.verbs:
            found[f"{collection}/{{name}}"] = self._named_object_operations()
        for name, sub in served.subresources.items():
            component = self._subresource_schema(sub.kind, sub.group, sub.version)
            methods = {verb for verb in sub.verbs if verb in _METHODS}
            found[f"{collection}/{{name}}/{name}"] = self._object_operations(methods, component, name.capitalize())
        return found

    def _subresource_schema(self, kind: str, group: str, version: str) -> str:
        if not version:
            return self._schema
        return native.schema_name(f"{group}/{version}", kind)

    def _operation(self, action: str, operation_id: str, **parts: object) -> Raw:
        return {
            "tags": [self._tag],
            "operationId": operation_id,
            **parts,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self._kind,
        }

    def _operation_id(self, word: str, suffix: str = "") -> str:
        place = "Namespaced" if self._served.kind.namespaced else ""
        return f"{word}{self._operation_stem}{place}{self._served.kind.name}{suffix}"

    def _responses(self, schema: str, *codes: str, media: Sequence[str] = ()) -> Raw:
        found: Raw = {code: {"description": "OK", **_content(media or self._media_types, schema)} for code in codes}
        return {**found, "401": {"description": "Unauthorized"}}

    def _list_operation(self, operation_id: str) -> Raw:
        media = self._media_types if self._served.kind.custom else (*self._media_types, *_STREAM_MEDIA)
        return self._operation(
            "list", operation_id, responses=self._responses(f"{self._schema}List", "200", media=media)
        )

    def _collection_operations(self) -> Raw:
        verbs = self._served.verbs
        found: Raw = {}
        if "list" in verbs:
            found["get"] = {
                **self._list_operation(self._operation_id("list")),
                "parameters": _parameters(_LIST_PARAMETERS),
            }
        if "create" in verbs:
            found["post"] = self._write_operation("create", self._schema, "")
        if "deletecollection" in verbs:
            parameters = {**_LIST_PARAMETERS, **({} if self._served.kind.custom else _DELETE_PARAMETERS)}
            identity = self._operation_id("delete").replace(
                self._operation_stem, f"{self._operation_stem}Collection", 1
            )
            found["delete"] = self._operation(
                "deletecollection",
                identity,
                parameters=_parameters(dict(sorted(parameters.items()))),
                responses=self._responses(f"{META}Status", "200"),
            )
        return {**found, "parameters": self._common_parameters(named=False)}

    def _all_namespaces_operations(self) -> Raw:
        word = f"list{self._operation_stem}{self._served.kind.name}ForAllNamespaces"
        return {
            "get": self._list_operation(word),
            "parameters": _parameters(dict(sorted({**_LIST_PARAMETERS, "pretty": "string"}.items()))),
        }

    def _named_object_operations(self) -> Raw:
        verbs = {verb for verb in self._served.verbs if verb in _METHODS and verb != "create"}
        return self._object_operations(verbs, self._schema, "")

    def _object_operations(self, verbs: set[str], schema: str, suffix: str) -> Raw:
        found: Raw = {}
        if "get" in verbs:
            parameters = [_parameter("resourceVersion", "string")] if self._served.kind.custom else []
            found["get"] = self._operation(
                "get",
                self._operation_id("read", suffix),
                **({"parameters": parameters} if parameters else {}),
                responses=self._responses(schema, "200"),
            )
        for verb in ("update", "create"):
            if verb in verbs:
                found[_METHODS[verb]] = self._write_operation(verb, schema, suffix)
        if "delete" in verbs:
            found["delete"] = self._operation(
                "delete",
                self._operation_id("delete", suffix),
                parameters=_parameters(_DELETE_PARAMETERS),
                requestBody=_content(self._media_types, f"{META}DeleteOptions"),
                responses=self._responses(f"{META}Status", "200", "202"),
            )
        if "patch" in verbs:
            found["patch"] = self._patch_operation(schema, suffix)
        return {**found, "parameters": self._common_parameters(named=True)}

    def _write_operation(self, verb: str, schema: str, suffix: str) -> Raw:
        codes = ("200", "201", "202") if verb == "create" else ("200", "201")
        return self._operation(
            _METHODS[verb],
            self._operation_id(_OPERATION_VERBS[verb], suffix),
            parameters=_parameters(_WRITE_PARAMETERS),
            requestBody={**_content(self._media_types, schema), "required": True},
            responses=self._responses(schema, *codes),
        )

    def _patch_operation(self, schema: str, suffix: str) -> Raw:
        media = [kind for kind in _PATCH_MEDIA if not (self._served.kind.custom and "strategic" in kind)]
        codes = ("200",) if self._served.kind.custom else ("200", "201")
        return self._operation(
            "patch",
            self._operation_id("patch", suffix),
            parameters=_parameters({**_WRITE_PARAMETERS, "force": "boolean"}),
            requestBody={**_content(media, f"{META}Patch"), "required": True},
            responses=self._responses(schema, *codes),
        )

    def _common_parameters(self, *, named: bool) -> list[Raw]:
        found = [_path_parameter("name")] if named else []
        if self._served.kind.namespaced:
            found.append(_path_parameter("namespace"))
        return [*found, _parameter("pretty", "string")]
