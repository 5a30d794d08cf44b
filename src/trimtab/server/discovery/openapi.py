"""OpenAPI documents for `kubectl explain`, client-side validation and merge keys."""

import hashlib
import logging
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import orjson

from trimtab.api.kinds.native import openapi as native
from trimtab.api.kinds.native.merge_keys import FIELD_DESCRIPTIONS
from trimtab.api.value import Raw
from trimtab.server.discovery.openapi_paths import META, REF, ResourcePaths, schema_name
from trimtab.server.discovery.swagger import SHARED_PARAMETERS, convert_definition, convert_path
from trimtab.server.discovery.swagger_protobuf import encode_document, encode_path, encode_schema
from trimtab.server.request.messages import Request, Response
from trimtab.server.request.negotiation import JSON, parse_accept
from trimtab.server.resources import RemoteVersion, ResourceCatalogue, ServedResource

log = logging.getLogger("trimtab.server")

_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_ACCEPT = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_V2_HEAD: Raw = {
    "swagger": "2.0",
    "info": {"title": "Kubernetes", "version": "v1.32.0"},
    "securityDefinitions": {
        "BearerToken": {
            "description": "Bearer Token authentication",
            "type": "apiKey",
            "name": "authorization",
            "in": "header",
        }
    },
    "security": [{"BearerToken": []}],
    "parameters": SHARED_PARAMETERS,
}
_COMMON_SCHEMAS = ("APIResourceList", "DeleteOptions", "Patch", "Status", "WatchEvent")
_JSON_ALIASES = {"", "*/*", "application/*", JSON}
_PATCH_TEXT = "A patch in one of the supported formats."


class OpenApiDocument(NamedTuple):
    body: bytes
    """Compressed with gzip: documents are large and rarely read."""
    hash: str


class SwaggerPart(NamedTuple):
    """What the resources of one group and version add to the OpenAPI v2 document, by name and already encoded."""

    paths: dict[str, bytes]
    definitions: dict[str, bytes]


class SwaggerFormat(NamedTuple):
    media_type: str
    encode_path: Callable[[Raw], bytes]
    encode_definition: Callable[[Raw], bytes]
    join: Callable[[Raw, Mapping[str, bytes], Mapping[str, bytes]], bytes]


def _join_json(head: Raw, paths: Mapping[str, bytes], definitions: Mapping[str, bytes]) -> bytes:
    def join_object(members: Mapping[str, bytes]) -> bytes:
        return b"{%b}" % b",".join(b"%b:%b" % (orjson.dumps(name), body) for name, body in members.items())

    further = {"paths": join_object(paths), "definitions": join_object(definitions)}
    return join_object({name: orjson.dumps(value) for name, value in head.items()} | further)


_SWAGGER_JSON = SwaggerFormat(JSON, orjson.dumps, orjson.dumps, _join_json)
_SWAGGER_PROTOBUF = SwaggerFormat(_V2_PROTOBUF, encode_path, encode_schema, encode_document)


def _custom_schema(served: ServedResource) -> Raw:
    """The schema of a custom resource, with standard metadata and its group, version and kind."""
    schema = served.schema
    properties: Raw = {**(schema.get("properties") or {})}
    properties["metadata"] = {
        "description": FIELD_DESCRIPTIONS["metadata"],
        "allOf": [{"$ref": f"{REF}{META}ObjectMeta"}],
    }
    for name in ("apiVersion", "kind"):
        properties[name] = {"description": FIELD_DESCRIPTIONS[name], "type": "string"}
    kind = {"group": served.group, "version": served.version, "kind": served.kind.name}
    return {**schema, "type": "object", "properties": properties, "x-kubernetes-group-version-kind": [kind]}


def _custom_list(served: ServedResource, name: str) -> Raw:
    kind = {"group": served.group, "version": served.version, "kind": f"{served.kind.name}List"}
    return {
        "description": f"A list of {served.kind.name} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"{REF}{META}ListMeta"}]},
            "items": {"type": "array", "items": {"$ref": f"{REF}{name}"}},
        },
        "x-kubernetes-group-version-kind": [kind],
    }


def _schemas(resources: Sequence[ServedResource]) -> dict[str, Raw]:
    custom: dict[str, Raw] = {}
    wanted = [f"{META}{name}" for name in _COMMON_SCHEMAS if name != "Patch"]
    for served in resources:
        name = schema_name(served)
        if name.startswith("io.k8s."):
            wanted += [name, f"{name}List"] if "list" in served.verbs else [name]
        else:
            custom |= {name: _custom_schema(served), f"{name}List": _custom_list(served, name)}
            wanted += [f"{META}ObjectMeta", f"{META}ListMeta"]
        for sub in served.subresources.values():
            if sub.version:
                wanted.append(native.schema_name(f"{sub.group}/{sub.version}", sub.kind))
    found = native.components([name for name in wanted if _has_native_schema(name)])
    for served in resources:
        if (listed := found.get(f"{schema_name(served)}List")) is not None:
            items = {**listed["properties"]["items"], "description": f"List of {served.resource}."}
            found[f"{schema_name(served)}List"] = {**listed, "properties": {**listed["properties"], "items": items}}
    return dict(sorted({**found, **custom, f"{META}Patch": {"description": _PATCH_TEXT, "type": "object"}}.items()))


def _has_native_schema(name: str) -> bool:
    try:
        native.component(name)
    except KeyError:
        return False
    return True


def _info(resources: Sequence[ServedResource]) -> Raw:
    if all(served.kind.custom for served in resources):
        return {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
    return {"title": "Kubernetes", "version": "1.32"}


class OpenApi:
    """The OpenAPI documents, built on the first request and again after the catalogue changes."""

    def __init__(self, catalogue: ResourceCatalogue) -> None:
        self._catalogue = catalogue
        self._documents: dict[str, tuple[tuple[ServedResource, ...], OpenApiDocument]] = {}
        self._index: tuple[int, bytes] = (-1, b"")
        self._swagger: dict[str, tuple[int, OpenApiDocument]] = {}
        self._swagger_parts: dict[tuple[str, str], tuple[tuple[ServedResource, ...], SwaggerPart]] = {}

    def handle(self, request: Request, path: str) -> Response:
        if path == "/openapi/v2":
            return self._v2_response(request)
        if path == "/openapi/v3":
            return self._index_response(request)
        if path.startswith("/openapi/v3/"):
            return self._v3_response(request, path.removeprefix("/openapi/v3/"))
        return Response(404, b"", "")

    def is_current(self, path: str) -> bool:
        """Whether the document of a path is built already; building may run in a thread."""
        if path == "/openapi/v2":
            formats = (_SWAGGER_JSON, _SWAGGER_PROTOBUF)
            built = (self._swagger.get(format_.media_type) for format_ in formats)
            return all(one is not None and one[0] == self._catalogue.changes for one in built)
        if path == "/openapi/v3":
            return self._index[0] == self._catalogue.changes
        name = path.removeprefix("/openapi/v3/")
        return name in self._documents and self._documents[name][0] == tuple(self._resources(name))

    def _document_names(self) -> list[str]:
        groups = [f"apis/{group}/{v}" for group in self._catalogue.groups() for v in self._catalogue.versions(group)]
        return [f"api/{version}" for version in self._catalogue.versions("")] + groups

    def _resources(self, name: str) -> Sequence[ServedResource]:
        parts = name.split("/")
        if len(parts) == 2 and parts[0] == "api":
            return self._catalogue.resources("", parts[1])
        return self._catalogue.resources(parts[1], parts[2]) if len(parts) == 3 and parts[0] == "apis" else []

    def document(self, name: str) -> OpenApiDocument | None:
        """The document of one group and version, rebuilt only when its own resources change."""
        resources = self._resources(name)
        if not resources:
            return None
        cached = self._documents.get(name)
        if cached is None or cached[0] != tuple(resources):
            cached = self._documents[name] = (tuple(resources), _compress(orjson.dumps(_build_document(resources))))
        return cached[1]

    def _hash_of(self, name: str) -> str:
        """The hash of a document, of this server or of another; empty when there is none."""
        _, _, of_group = name.partition("/")
        group, _, version = of_group.rpartition("/")
        if (remote := self._catalogue.remote.get((group, version))) is not None:
            return remote.schema_hash
        document = self.document(name)
        return document.hash if document is not None else ""

    def _index_response(self, request: Request) -> Response:
        changes = self._catalogue.changes  # read first: the catalogue may change while a thread builds the documents
        if self._index[0] != changes:
            paths: Raw = {}
            for name in self._document_names():
                if wanted := self._hash_of(name):
                    paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={wanted}"}
            self._index = (changes, orjson.dumps({"paths": paths}))
        body = self._index[1]
        etag = f'"{hashlib.sha512(body).hexdigest().upper()}"'
        if request.headers.get("if-none-match") == etag:
            return Response(304, b"", "", [(b"etag", etag.encode())])
        return Response(200, body, "text/plain; charset=utf-8", [(b"etag", etag.encode())])

    def _v3_response(self, request: Request, name: str) -> Response:
        document = self.document(name)
        if document is None:
            return Response(404, b"", "")
        wanted = request.query.get("hash", "")
        if wanted and wanted != document.hash:
            location = f"/openapi/v3/{name}?hash={document.hash}"
            return Response(301, b"", "", [(b"location", location.encode())])
        if not any(entry.media_type in _JSON_ALIASES for entry in parse_accept(request.headers.get("accept", ""))):
            return Response(406, b"", "")
        cache_control = b"public, immutable" if wanted else b"no-cache, private"
        headers = [(b"etag", f'"{document.hash}"'.encode()), (b"vary", b"Accept"), (b"cache-control", cache_control)]
        if wanted:
            headers.append((b"expires", b"Fri, 31 Dec 2099 23:59:59 GMT"))
        return _document_response(request, document, headers)

    def _v2_response(self, request: Request) -> Response:
        accepted = parse_accept(request.headers.get("accept", ""))
        wants_protobuf = any(entry.media_type == _V2_ACCEPT for entry in accepted)
        format_ = _SWAGGER_PROTOBUF if wants_protobuf else _SWAGGER_JSON
        cached = self._swagger.get(format_.media_type)
        if cached is None or cached[0] != self._catalogue.changes:
            cached = (self._catalogue.changes, _compress(self._swagger_document(format_)))
            self._swagger[format_.media_type] = cached
        headers = [(b"etag", f'"{cached[1].hash}"'.encode()), (b"vary", b"Accept")]
        return _document_response(request, cached[1], headers, format_.media_type)

    def _swagger_document(self, format_: SwaggerFormat) -> bytes:
        """The document of all groups; those parts are built again whose resources have changed."""
        paths: dict[str, bytes] = {}
        definitions: dict[str, bytes] = {}
        for name in self._document_names():
            resources, key = tuple(self._resources(name)), (format_.media_type, name)
            cached = self._swagger_parts.get(key)
            if cached is None or cached[0] != resources:
                cached = self._swagger_parts[key] = (resources, _build_swagger_part(list(resources), format_))
            paths |= cached[1].paths
            definitions |= cached[1].definitions
        for (group, version), remote in self._catalogue.remote.items():
            further = _remote_part(f"{version}.{group}", remote, format_)
            paths = further.paths | paths  # what this server defines takes precedence
            definitions = further.definitions | definitions
        return format_.join(_V2_HEAD, dict(sorted(paths.items())), dict(sorted(definitions.items())))


def _build_swagger_part(resources: Sequence[ServedResource], format_: SwaggerFormat) -> SwaggerPart:
    paths = {path: item for served in resources for path, item in ResourcePaths(served).paths().items()}
    schemas = _schemas(resources)
    return SwaggerPart(
        {path: format_.encode_path(convert_path(item)) for path, item in paths.items()},
        {name: format_.encode_definition(convert_definition(schema)) for name, schema in schemas.items()},
    )


def _remote_part(name: str, remote: RemoteVersion, format_: SwaggerFormat) -> SwaggerPart:
    """What another server adds to the document; nothing when that is not valid, so that it harms only itself."""
    try:
        return SwaggerPart(
            {path: format_.encode_path(item) for path, item in remote.paths.items()},
            {each: format_.encode_definition(schema) for each, schema in remote.definitions.items()},
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError, struct.error) as fault:
        log.warning(
            "the OpenAPI document of an APIService is not valid", extra={"apiservice": name, "error": str(fault)}
        )
        return SwaggerPart({}, {})


def _build_document(resources: Sequence[ServedResource]) -> Raw:
    paths: dict[str, Raw] = {}
    for served in resources:
        paths |= ResourcePaths(served).paths()
    return {
        "openapi": "3.0.0",
        "info": _info(resources),
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": _schemas(resources)},
    }


def _compress(body: bytes) -> OpenApiDocument:
    return OpenApiDocument(zlib.compress(body, 1, 31), hashlib.sha512(body).hexdigest().upper())


def _document_response(
    request: Request, document: OpenApiDocument, headers: list[tuple[bytes, bytes]], kind: str = JSON
) -> Response:
    if request.headers.get("if-none-match") == f'"{document.hash}"':
        return Response(304, b"", "", headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(200, document.body, kind, [*headers, (b"content-encoding", b"gzip")], verbatim=True)
    return Response(200, zlib.decompress(document.body, 31), kind, headers, verbatim=True)
