"""Parsing of request paths and verbs."""

import pytest

from trimtab.server.request.routes import RequestInfo, parse_path, verb_of


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1", RequestInfo("", "v1")),
        ("/apis/apps/v1/", RequestInfo("apps", "v1")),
        ("/api/v1/pods", RequestInfo("", "v1", "pods")),
        ("/api/v1/namespaces/x", RequestInfo("", "v1", "namespaces", "", "x")),
        ("/api/v1/namespaces/x/status", RequestInfo("", "v1", "namespaces", "", "x", "status")),
        ("/api/v1/namespaces/x/finalize", RequestInfo("", "v1", "namespaces", "", "x", "finalize")),
        ("/api/v1/namespaces/x/pods", RequestInfo("", "v1", "pods", "x")),
        ("/api/v1/namespaces/x/pods/p/log", RequestInfo("", "v1", "pods", "x", "p", "log")),
        ("/api/v1/namespaces/x/pods/p/proxy/a/b", RequestInfo("", "v1", "pods", "x", "p", "proxy/a/b")),
        ("/apis/apps/v1/namespaces/x/deployments/d/scale", RequestInfo("apps", "v1", "deployments", "x", "d", "scale")),
        ("/api/v1/watch/namespaces/x/pods", RequestInfo("", "v1", "pods", "x", legacy_watch=True)),
        ("/apis/g.io/v1/things/a%20b", RequestInfo("g.io", "v1", "things", "", "a b")),
        ("/", None),
        ("/version", None),
        ("/apis/apps", None),
    ],
)
def test_path_is_parsed_into_its_parts(path: str, target: RequestInfo | None) -> None:
    assert parse_path(path) == target


@pytest.mark.parametrize(
    ("method", "target", "query", "verb"),
    [
        ("GET", RequestInfo("", "v1", "pods"), {}, "list"),
        ("GET", RequestInfo("", "v1", "pods"), {"watch": "True"}, "watch"),
        ("GET", RequestInfo("", "v1", "pods"), {"watch": "0"}, "list"),
        ("GET", RequestInfo("", "v1", "pods", "x", "p"), {"watch": "1"}, "get"),
        ("GET", RequestInfo("", "v1", "pods", legacy_watch=True), {}, "watch"),
        ("DELETE", RequestInfo("", "v1", "pods"), {}, "deletecollection"),
        ("DELETE", RequestInfo("", "v1", "pods", "x", "p"), {}, "delete"),
        ("PATCH", RequestInfo("", "v1", "pods", "x", "p"), {}, "patch"),
        ("OPTIONS", RequestInfo("", "v1", "pods"), {}, ""),
    ],
)
def test_verb_follows_from_method_and_path(method: str, target: RequestInfo, query: dict, verb: str) -> None:
    assert verb_of(method, target, query) == verb
