"""Parsing of request paths and verbs."""

import pytest

from trimtab.server.request.routes import Target, resolve, verb_of


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1", Target("", "v1")),
        ("/apis/apps/v1/", Target("apps", "v1")),
        ("/api/v1/pods", Target("", "v1", "pods")),
        ("/api/v1/namespaces/x", Target("", "v1", "namespaces", "", "x")),
        ("/api/v1/namespaces/x/status", Target("", "v1", "namespaces", "", "x", "status")),
        ("/api/v1/namespaces/x/finalize", Target("", "v1", "namespaces", "", "x", "finalize")),
        ("/api/v1/namespaces/x/pods", Target("", "v1", "pods", "x")),
        ("/api/v1/namespaces/x/pods/p/log", Target("", "v1", "pods", "x", "p", "log")),
        ("/api/v1/namespaces/x/pods/p/proxy/a/b", Target("", "v1", "pods", "x", "p", "proxy/a/b")),
        ("/apis/apps/v1/namespaces/x/deployments/d/scale", Target("apps", "v1", "deployments", "x", "d", "scale")),
        ("/api/v1/watch/namespaces/x/pods", Target("", "v1", "pods", "x", legacy_watch=True)),
        ("/apis/g.io/v1/things/a%20b", Target("g.io", "v1", "things", "", "a b")),
        ("/", None),
        ("/version", None),
        ("/apis/apps", None),
    ],
)
def test_path_is_parsed_into_its_parts(path: str, target: Target | None) -> None:
    assert resolve(path) == target


@pytest.mark.parametrize(
    ("method", "target", "query", "verb"),
    [
        ("GET", Target("", "v1", "pods"), {}, "list"),
        ("GET", Target("", "v1", "pods"), {"watch": "True"}, "watch"),
        ("GET", Target("", "v1", "pods"), {"watch": "0"}, "list"),
        ("GET", Target("", "v1", "pods", "x", "p"), {"watch": "1"}, "get"),
        ("GET", Target("", "v1", "pods", legacy_watch=True), {}, "watch"),
        ("DELETE", Target("", "v1", "pods"), {}, "deletecollection"),
        ("DELETE", Target("", "v1", "pods", "x", "p"), {}, "delete"),
        ("PATCH", Target("", "v1", "pods", "x", "p"), {}, "patch"),
        ("OPTIONS", Target("", "v1", "pods"), {}, ""),
    ],
)
def test_verb_follows_from_method_and_path(method: str, target: Target, query: dict, verb: str) -> None:
    assert verb_of(method, target, query) == verb
