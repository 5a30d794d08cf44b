"""Parses Kubernetes URL paths and derives the verb of a request."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class RequestInfo(NamedTuple):
    """Group, version, resource, namespace and name of a request path."""

    group: str
    version: str
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    legacy_watch: bool = False
    """The deprecated `/watch/` form of the path."""


def parse_path(path: str) -> RequestInfo | None:
    """The target of a path below `/api/` or `/apis/`; None when the path has no such shape."""
    parts = [part for part in path.split("/") if part]
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if not parts:
        return None
    if parts[0] == "api" and len(parts) >= 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    legacy = bool(rest) and rest[0] == "watch" and len(rest) > 1
    return _parse_resource_path(group, version, rest[1:] if legacy else rest, legacy)


def _parse_resource_path(group: str, version: str, rest: list[str], legacy: bool) -> RequestInfo | None:
    if not rest:
        return RequestInfo(group, version)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    if len(rest) <= 2:
        return RequestInfo(group, version, rest[0], namespace, rest[1] if len(rest) == 2 else "", "", legacy)
    resource, name, *deeper = rest
    if (resource, deeper) == ("pods", ["evict"]):
        deeper = ["eviction"]  # accepted alias from an earlier design; discovery advertises only `eviction`
    return RequestInfo(group, version, resource, namespace, name, "/".join(deeper), legacy)


def verb_of(method: str, target: RequestInfo, query: Mapping[str, str]) -> str:
    """The Kubernetes verb of a request; empty when the method has none."""
    if method == "GET":
        if target.legacy_watch:
            return "watch"
        if target.name:
            return "get"
        return "watch" if is_true(query.get("watch", "")) else "list"
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    return _VERBS.get(method, "")


def is_true(text: str) -> bool:
    """The value of a boolean query parameter: empty, `0` and `false` are false, anything else is true."""
    return text not in {"", "0", "false"}
