"""The paths that are not objects: discovery, OpenAPI, health, version, metrics."""

from collections.abc import Callable
from typing import Any

import orjson

from trimtab.api.value import Raw
from trimtab.server.auth.authorize import Action
from trimtab.server.discovery.discovery import AGGREGATED, Discovery
from trimtab.server.discovery.openapi import OpenApi
from trimtab.server.http.messages import Answer, Ask
from trimtab.server.http.negotiation import JSON, PROTOBUF, entries
from trimtab.server.http.protobuf_responses import discovery
from trimtab.server.http.routes import Target
from trimtab.server.registry import api_errors
from trimtab.server.registry.resources import Catalogue

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
    """Answers every path that names no resource."""

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
        """Further paths by their first word, from those who build this server into something larger."""
        self.actions: dict[str, Callable[[Ask], Action | None]] = {}
        """What asking for such a page amounts to: who may do that may ask, beside those who may use the path."""

    def answer(self, ask: Ask, target: Target | None) -> Answer:
        path = ask.path.rstrip("/")
        first = path.split("/")[1] if path else ""
        if first in _HEALTH and ask.method in {"GET", "HEAD"}:
            return self._health(ask, path)
        if page := self.pages.get(first):
            return page(ask)
        if ask.method != "GET":
            raise api_errors.no_such_method()
        if first == "version":
            return Answer(200, orjson.dumps(VERSION))
        if first in {"api", "apis"}:
            return self._discover(ask, path, target)
        if first == "openapi":
            return self._openapi.answer(ask, path)
        if path == "/metrics":
            return Answer(200, self._metrics().encode(), "text/plain; version=0.0.4; charset=utf-8")
        if not path:
            further = ["/healthz", "/livez", "/readyz", "/metrics", "/openapi/v2", "/openapi/v3", "/version"]
            return Answer(200, orjson.dumps(self._discovery.paths(further)))
        return text(404, "404 page not found\n")

    def action(self, ask: Ask) -> Action | None:
        first = ask.path.strip("/").partition("/")[0]
        return self.actions[first](ask) if first in self.actions else None

    def missing(self, target: Target) -> Answer:
        """A resource that is not served: groups that nobody knows have no words of their own."""
        if target.group and target.group not in self._catalogue.groups():
            return text(404, "404 page not found\n")
        raise api_errors.no_such_path()

    def _discover(self, ask: Ask, path: str, target: Target | None) -> Answer:
        parts = path.strip("/").split("/")
        if len(parts) == 1:
            return self._root(ask, parts[0])
        found: Raw | None
        if target is not None:
            found = self._discovery.resources(target.group, target.version)
            if found is None:
                return self.missing(target)
        else:
            group = self._discovery.group(parts[1]) if parts[0] == "apis" else None
            found = {"kind": "APIGroup", "apiVersion": "v1", **group} if group else None
        return Answer(200, orjson.dumps(found)) if found else text(404, "404 page not found\n")

    def _root(self, ask: Ask, root: str) -> Answer:
        for entry in entries(ask.headers.get("accept", "")):
            parameters = entry.parameters
            if entry.media in {JSON, PROTOBUF} and parameters.get("as") == "APIGroupDiscoveryList":
                version = parameters.get("v", "")
                if parameters.get("g") == "apidiscovery.k8s.io" and version in {"v2", "v2beta1"}:
                    return self._aggregated(ask, root, version, entry.media)
            elif "as" not in parameters:
                break
        body: Any = self._discovery.versions(ask.server_address) if root == "api" else self._discovery.groups()
        return Answer(200, orjson.dumps(body))

    def _aggregated(self, ask: Ask, root: str, version: str, media: str) -> Answer:
        body, etag = self._discovery.aggregated(root, version)
        headers = [(b"etag", etag.encode()), (b"vary", b"Accept"), (b"cache-control", b"public")]
        if ask.headers.get("if-none-match") == etag:
            return Answer(304, b"", "", headers)
        told = discovery(orjson.loads(body)) if media == PROTOBUF else body
        return Answer(200, told, AGGREGATED.format(media, version), headers, verbatim=True)

    def _health(self, ask: Ask, path: str) -> Answer:
        kind, _, single = path.strip("/").partition("/")
        if single:
            check = self._checks.get(single)
            if check is None:
                return text(404, "404 page not found\n")
            return text(200, "ok") if check() else text(500, f"internal server error: {single} failed\n")
        excluded = [value for key, value in ask.query.items() if key == "exclude"]
        results = {name: name in excluded or check() for name, check in self._checks.items()}
        passed = all(results.values())
        if passed and "verbose" not in ask.query:
            return text(200, "ok")
        lines = [_line(name, good, name in excluded) for name, good in results.items()]
        ending = "passed" if passed else "failed"
        return text(200 if passed else 500, "".join(lines) + f"{kind} check {ending}\n")


def _line(name: str, good: bool, excluded: bool) -> str:
    if excluded:
        return f"[+]{name} excluded: ok\n"
    return f"[+]{name} ok\n" if good else f"[-]{name} failed: reason withheld\n"
