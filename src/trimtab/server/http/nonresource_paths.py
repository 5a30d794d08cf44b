"""Handles non-resource paths: discovery, OpenAPI, health, version, metrics."""

from collections.abc import Callable
from typing import Any

import orjson

from trimtab.api.value import Raw
from trimtab.server import api_errors
from trimtab.server.auth.authorize import Action
from trimtab.server.discovery.discovery import AGGREGATED, Discovery
from trimtab.server.discovery.openapi import OpenApi
from trimtab.server.request.messages import Answer, Ask
from trimtab.server.request.negotiation import JSON, PROTOBUF, entries
from trimtab.server.request.protobuf_responses import discovery
from trimtab.server.request.routes import Target
from trimtab.server.resources import Catalogue

TEXT = "text/plain; charset=utf-8"
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
Check = Callable[[], bool]


def text(code: int, body: str) -> Answer:
    return Answer(code, body.encode(), TEXT, [_NO_SNIFF])


class Landing:
    """Handles every path that names no resource."""

    def __init__(
        self,
        catalogue: Catalogue,
        discovery: Discovery,
        openapi: OpenApi,
        checks: dict[str, Check],
        metrics: Callable[[], str],
    ) -> None:
        self._catalogue = catalogue
        self._discovery = discovery
        self._openapi = openapi
        self._checks = checks
        self._metrics = metrics
        self.pages: dict[str, Callable[[Ask], Answer]] = {}
        """Further pages by the first segment of their path, added by programs that embed the server."""
        self.actions: dict[str, Callable[[Ask], Action | None]] = {}
        """Resource actions of these pages: a user with the action may read the page, as may one with the path."""

    def answer(self, request: Ask, target: Target | None) -> Answer:
        path = request.path.rstrip("/")
        first = path.split("/")[1] if path else ""
        if first in _HEALTH and request.method in {"GET", "HEAD"}:
            return self._health(request, path)
        if page := self.pages.get(first):
            return page(request)
        if request.method != "GET":
            raise api_errors.no_such_method()
        if first == "version":
            return Answer(200, orjson.dumps(VERSION))
        if first in {"api", "apis"}:
            return self._discover(request, path, target)
        if first == "openapi":
            return self._openapi.answer(request, path)
        if path == "/metrics":
            return Answer(200, self._metrics().encode(), "text/plain; version=0.0.4; charset=utf-8")
        if not path:
            further = ["/healthz", "/livez", "/readyz", "/metrics", "/openapi/v2", "/openapi/v3", "/version"]
            return Answer(200, orjson.dumps(self._discovery.paths(further)))
        return text(404, "404 page not found\n")

    def action(self, request: Ask) -> Action | None:
        first = request.path.strip("/").partition("/")[0]
        return self.actions[first](request) if first in self.actions else None

    def missing(self, target: Target) -> Answer:
        """The response for a resource that is not served: plain text for an unknown group, else a Status."""
        if target.group and target.group not in self._catalogue.groups():
            return text(404, "404 page not found\n")
        raise api_errors.no_such_path()

    def _discover(self, request: Ask, path: str, target: Target | None) -> Answer:
        parts = path.strip("/").split("/")
        if len(parts) == 1:
            return self._root(request, parts[0])
        found: Raw | None
        if target is not None:
            found = self._discovery.resources(target.group, target.version)
            if found is None:
                return self.missing(target)
        else:
            group = self._discovery.group(parts[1]) if parts[0] == "apis" else None
            found = {"kind": "APIGroup", "apiVersion": "v1", **group} if group else None
        return Answer(200, orjson.dumps(found)) if found else text(404, "404 page not found\n")

    def _root(self, request: Ask, root: str) -> Answer:
        for entry in entries(request.headers.get("accept", "")):
            parameters = entry.parameters
            if entry.media in {JSON, PROTOBUF} and parameters.get("as") == "APIGroupDiscoveryList":
                version = parameters.get("v", "")
                if parameters.get("g") == "apidiscovery.k8s.io" and version in {"v2", "v2beta1"}:
                    return self._aggregated(request, root, version, entry.media)
            elif "as" not in parameters:
                break
        body: Any = self._discovery.versions(request.server_address) if root == "api" else self._discovery.groups()
        return Answer(200, orjson.dumps(body))

    def _aggregated(self, request: Ask, root: str, version: str, media: str) -> Answer:
        body, etag = self._discovery.aggregated(root, version)
        headers = [(b"etag", etag.encode()), (b"vary", b"Accept"), (b"cache-control", b"public")]
        if request.headers.get("if-none-match") == etag:
            return Answer(304, b"", "", headers)
        payload = discovery(orjson.loads(body)) if media == PROTOBUF else body
        return Answer(200, payload, AGGREGATED.format(media, version), headers, verbatim=True)

    def _health(self, request: Ask, path: str) -> Answer:
        kind, _, single = path.strip("/").partition("/")
        if single:
            check = self._checks.get(single)
            if check is None:
                return text(404, "404 page not found\n")
            return text(200, "ok") if check() else text(500, f"internal server error: {single} failed\n")
        excluded = [value for key, value in request.query.items() if key == "exclude"]
        results = {name: name in excluded or check() for name, check in self._checks.items()}
        passed = all(results.values())
        if passed and "verbose" not in request.query:
            return text(200, "ok")
        lines = [_line(name, good, name in excluded) for name, good in results.items()]
        ending = "passed" if passed else "failed"
        return text(200 if passed else 500, "".join(lines) + f"{kind} check {ending}\n")


def _line(name: str, good: bool, excluded: bool) -> str:
    if excluded:
        return f"[+]{name} excluded: ok\n"
    return f"[+]{name} ok\n" if good else f"[-]{name} failed: reason withheld\n"
