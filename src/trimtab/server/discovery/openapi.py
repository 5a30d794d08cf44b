"""OpenAPI documents for `kubectl explain`, client-side validation and merge keys."""

import hashlib
import zlib
from typing import Any, NamedTuple

import orjson

from trimtab.api.kinds.native import openapi as native
from trimtab.api.value import Raw
from trimtab.server.discovery.openapi_paths import META, REF, ResourcePaths, schema_name
from trimtab.server.request.messages import Request, Response
from trimtab.server.request.negotiation import JSON, parse_accept
from trimtab.server.resources import ResourceCatalogue, ServedResource

_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_ACCEPT = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_V2_STUB = b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.32\x42\x00"
"""An empty OpenAPI v2 document in protobuf, the only format that kubectl requests; it accepts an empty one."""
_COMMON_SCHEMAS = ("APIResourceList", "DeleteOptions", "Patch", "Status", "WatchEvent")
_JSON_ALIASES = {"", "*/*", "application/*", JSON}
_PATCH_TEXT = "A patch in one of the supported formats."


class OpenApiDocument(NamedTuple):
    body: bytes
    """Compressed with gzip: documents are large and rarely read."""
    hash: str


def _custom_schema(served: ServedResource) -> Raw:
    """The schema of a custom resource, with standard metadata and its group, version and kind."""
    schema = served.schema
    properties: Raw = {**(schema.get("properties") or {})}
    properties["metadata"] = {
        "description": "Standard object metadata.",
        "allOf": [{"$ref": f"{REF}{META}ObjectMeta"}],
    }
    for name in ("apiVersion", "kind"):
        properties.setdefault(name, {"type": "string"})
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


def _schemas(resources: list[ServedResource]) -> dict[str, Raw]:
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
    return dict(sorted({**found, **custom, f"{META}Patch": {"description": _PATCH_TEXT, "type": "object"}}.items()))


def _has_native_schema(name: str) -> bool:
    try:
        native.component(name)
    except KeyError:
        return False
    return True


def _info(resources: list[ServedResource]) -> Raw:
    if all(served.kind.custom for served in resources):
        return {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
    return {"title": "Kubernetes", "version": "1.32"}


class OpenApi:
    """The OpenAPI documents, built on the first request and again after the catalogue changes."""

    def __init__(self, catalogue: ResourceCatalogue) -> None:
        self._catalogue = catalogue
        self._documents: dict[str, tuple[tuple[ServedResource, ...], OpenApiDocument]] = {}
        self._index: tuple[int, bytes] = (-1, b"")
        self._swagger: tuple[int, OpenApiDocument] | None = None

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
            return self._swagger is not None and self._swagger[0] == self._catalogue.changes
        if path == "/openapi/v3":
            return self._index[0] == self._catalogue.changes
        name = path.removeprefix("/openapi/v3/")
        return name in self._documents and self._documents[name][0] == tuple(self._resources(name))

    def _document_names(self) -> list[str]:
        groups = [f"apis/{group}/{v}" for group in self._catalogue.groups() for v in self._catalogue.versions(group)]
        return [f"api/{version}" for version in self._catalogue.versions("")] + groups

    def _resources(self, name: str) -> list[ServedResource]:
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
            cached = self._documents[name] = (tuple(resources), _compress(_build_document(resources)))
        return cached[1]

    def _index_response(self, request: Request) -> Response:
        if self._index[0] != self._catalogue.changes:
            paths: Raw = {}
            for name in self._document_names():
                if document := self.document(name):
                    paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={document.hash}"}
            self._index = (self._catalogue.changes, orjson.dumps({"paths": paths}))
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
        if any(entry.media_type == _V2_ACCEPT for entry in parse_accept(request.headers.get("accept", ""))):
            return Response(200, _V2_STUB, _V2_PROTOBUF, [(b"vary", b"Accept")])
        if self._swagger is None or self._swagger[0] != self._catalogue.changes:
            self._swagger = (self._catalogue.changes, _compress(self._swagger_document()))
        document = self._swagger[1]
        return _document_response(request, document, [(b"etag", f'"{document.hash}"'.encode()), (b"vary", b"Accept")])

    def _swagger_document(self) -> Raw:
        definitions: Raw = {}
        for name in self._document_names():
            definitions |= _schemas(self._resources(name))
        text = orjson.dumps(definitions).replace(REF.encode(), b"#/definitions/")
        info = {"title": "Kubernetes", "version": "1.32"}
        security = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}
        return {
            "swagger": "2.0",
            "info": info,
            "paths": {},
            "definitions": orjson.loads(text),
            "parameters": {},
            "securityDefinitions": security,
            "security": [{"BearerToken": []}],
        }


def _build_document(resources: list[ServedResource]) -> Raw:
    paths: dict[str, Raw] = {}
    for served in resources:
        paths |= ResourcePaths(served).paths()
    return {
        "openapi": "3.0.0",
        "info": _info(resources),
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": _schemas(resources)},
    }


def _compress(document: Any) -> OpenApiDocument:
    body = orjson.dumps(document)
    return OpenApiDocument(zlib.compress(body, 1, 31), hashlib.sha512(body).hexdigest().upper())


def _document_response(request: Request, document: OpenApiDocument, headers: list[tuple[bytes, bytes]]) -> Response:
    if request.headers.get("if-none-match") == f'"{document.hash}"':
        return Response(304, b"", "", headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(200, document.body, JSON, [*headers, (b"content-encoding", b"gzip")], verbatim=True)
    return Response(200, zlib.decompress(document.body, 31), JSON, headers, verbatim=True)
