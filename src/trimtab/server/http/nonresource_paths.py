"""Handles non-resource paths: discovery, OpenAPI, health, version, metrics."""

from collections.abc import Callable

import orjson

from trimtab.api.value import Raw
from trimtab.server import api_errors
from trimtab.server.auth.authorize import Action
from trimtab.server.discovery.discovery import AggregatedForm, Discovery
from trimtab.server.discovery.openapi import OpenApi
from trimtab.server.request.messages import Request, Response, StreamingResponse
from trimtab.server.request.negotiation import JSON, PROTOBUF, parse_accept
from trimtab.server.request.routes import RequestInfo
from trimtab.server.resources import ResourceCatalogue

PLAIN_TEXT = "text/plain; charset=utf-8"
VERSION: Raw = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.0",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "go1.23.3",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_NO_SNIFF = (b"x-content-type-options", b"nosniff")
_HEALTH = {"healthz", "livez", "readyz"}
_DISCOVERY_ROOTS = {"/api", "/apis"}
HealthCheck = Callable[[], str]
"""Returns why a check fails, empty if it passes. The text is shown to everybody: no paths, no names."""
_ONLY_FOR_READINESS = {"etcd"}
"""Checks that a restart of the process does not help: a probe of liveness must not see them fail."""


def text_response(code: int, body: str) -> Response:
    return Response(code, body.encode(), PLAIN_TEXT, [_NO_SNIFF])


class NonResourcePaths:
    """Handles every path that names no resource."""

    def __init__(
        self,
        catalogue: ResourceCatalogue,
        discovery: Discovery,
        openapi: OpenApi,
        health_checks: dict[str, HealthCheck],
        metrics: Callable[[], str],
    ) -> None:
        self._catalogue = catalogue
        self._discovery = discovery
        self._openapi = openapi
        self._health_checks = health_checks
        self._distinct_checks = tuple(dict.fromkeys(health_checks.values()))
        self._metrics = metrics
        self._pages: dict[str, Callable[[Request], Response | StreamingResponse]] = {}
        self._page_actions: dict[str, Callable[[Request], Action | None]] = {}

    def add_page(
        self,
        name: str,
        page: Callable[[Request], Response | StreamingResponse],
        action: Callable[[Request], Action | None] | None = None,
    ) -> None:
        """Serve a page below `/name`; a user who has `action` may read it, as may one who has the path."""
        self._pages[name] = page
        if action is not None:
            self._page_actions[name] = action

    def handle(self, request: Request, target: RequestInfo | None) -> Response | StreamingResponse:
        path = request.path.rstrip("/")
        first = path.split("/")[1] if path.startswith("/") else path  # `OPTIONS *` has a target without a slash
        if first in _HEALTH and request.method in {"GET", "HEAD"}:
            return self._health_response(request, path)
        if page := self._pages.get(first):
            return page(request)
        if request.method != "GET":
            raise api_errors.no_such_method()
        if first == "version":
            if request.without_body:
                raise api_errors.no_such_method()  # as kube-apiserver, whose page knows GET only
            return Response(200, orjson.dumps(VERSION))
        if first in {"api", "apis"}:
            return self._discovery_response(request, path, target)
        if first == "openapi":
            return self._openapi.handle(request, path)
        if path == "/metrics":
            return Response(200, self._metrics().encode(), "text/plain; version=0.0.4; charset=utf-8")
        if not path:
            further = ["/healthz", "/livez", "/readyz", "/metrics", "/openapi/v2", "/openapi/v3", "/version"]
            return Response(200, orjson.dumps(self._discovery.root_paths(further)))
        return text_response(404, "404 page not found\n")

    def builds_document(self, request: Request) -> bool:
        """Whether the response takes long, because a document about all resources is built for it."""
        path = request.path.rstrip("/")
        if path in _DISCOVERY_ROOTS:
            return not self._discovery.has_root_document(path.strip("/"), _aggregated_form(request))
        return path.startswith("/openapi/") and not self._openapi.is_current(path)

    def page_action(self, request: Request) -> Action | None:
        first = request.path.strip("/").partition("/")[0]
        return self._page_actions[first](request) if first in self._page_actions else None

    def not_served_response(self, target: RequestInfo) -> Response:
        """The response for a resource that is not served: plain text for an unknown group, else a Status."""
        if target.group and target.group not in self._catalogue.groups():
            return text_response(404, "404 page not found\n")
        raise api_errors.no_such_path()

    def _discovery_response(self, request: Request, path: str, target: RequestInfo | None) -> Response:
        parts = path.strip("/").split("/")
        if len(parts) == 1:
            return self._discovery_root_response(request, parts[0])
        found: Raw | None
        if target is not None:
            found = self._discovery.resources(target.group, target.version)
            if found is None:
                return self.not_served_response(target)
        else:
            group = self._discovery.group(parts[1]) if parts[0] == "apis" else None
            found = {"kind": "APIGroup", "apiVersion": "v1", **group} if group else None
        return Response(200, orjson.dumps(found)) if found else text_response(404, "404 page not found\n")

    def _discovery_root_response(self, request: Request, root: str) -> Response:
        if (form := _aggregated_form(request)) is not None:
            return self._aggregated_discovery_response(request, root, form)
        if root == "api":
            return Response(200, orjson.dumps(self._discovery.api_versions(request.server_address)))
        return Response(200, self._discovery.groups())

    def _aggregated_discovery_response(self, request: Request, root: str, form: AggregatedForm) -> Response:
        body, etag = self._discovery.aggregated_document(root, form)
        headers = [(b"etag", etag.encode()), (b"vary", b"Accept"), (b"cache-control", b"public")]
        if request.headers.get("if-none-match") == etag:
            return Response(304, b"", "", headers)
        return Response(200, body, form.content_type, headers, verbatim=True)

    def _health_response(self, request: Request, path: str) -> Response:
        kind, _, single = path.strip("/").partition("/")
        ignored = _ONLY_FOR_READINESS if kind != "readyz" else set[str]()
        if single:
            check = self._health_checks.get(single)
            if check is None:
                return text_response(404, "404 page not found\n")
            if single in ignored or not (reason := check()):
                return text_response(200, "ok")
            return text_response(500, f"internal server error: {single} failed: {reason}\n")
        if "verbose" not in request.query and not any(check() for check in self._distinct_checks):
            return text_response(200, "ok")
        excluded = [value for key, value in request.query.items() if key == "exclude"]
        skipped = ignored.union(excluded)
        results = {name: "" if name in skipped else check() for name, check in self._health_checks.items()}
        passed = not any(results.values())
        if passed and "verbose" not in request.query:
            return text_response(200, "ok")
        lines = [_health_line(name, reason, name in excluded) for name, reason in results.items()]
        ending = "passed" if passed else "failed"
        return text_response(200 if passed else 500, "".join(lines) + f"{kind} check {ending}\n")


def _aggregated_form(request: Request) -> AggregatedForm | None:
    """The form of aggregated discovery that a client asks for; None if it wants the other documents."""
    for entry in parse_accept(request.headers.get("accept", "")):
        parameters = entry.parameters
        if entry.media_type in {JSON, PROTOBUF} and parameters.get("as") == "APIGroupDiscoveryList":
            version = parameters.get("v", "")
            if parameters.get("g") == "apidiscovery.k8s.io" and version in {"v2", "v2beta1"}:
                return AggregatedForm(entry.media_type, version)
        elif "as" not in parameters:
            break
    return None


def _health_line(name: str, reason: str, excluded: bool) -> str:
    if excluded:
        return f"[+]{name} excluded: ok\n"
    return f"[-]{name} failed: {reason}\n" if reason else f"[+]{name} ok\n"
