"""Label and field selectors of list and watch requests, evaluated on stored bytes."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from trimtab.api.selectors import InvalidSelector, ParsedSelector, parse_selector
from trimtab.api.value import Raw
from trimtab.errors import BadRequest
from trimtab.server.resources import ServedResource
from trimtab.server.storage.object_codec import labels_of

_EVENT_FIELDS = (
    *(
        f"involvedObject.{part}"
        for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    ),
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_SELECTABLE_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "services": ("spec.clusterIP", "spec.type"),
    "events": _EVENT_FIELDS,
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "jobs.batch": ("status.successful",),
    "replicationcontrollers": ("status.replicas",),
    "replicasets.apps": ("status.replicas",),
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
}
_NEW_EVENT_NAMES = {"regarding": "involvedObject", "reportingController": "reportingComponent"}
"""Fields of events.k8s.io that are stored under their core names."""
_ZERO_VALUES = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.successful": "0",
    "status.replicas": "0",
}


class FieldRequirement(NamedTuple):
    path: str
    value: str
    equal: bool


class RequestSelector(NamedTuple):
    """The label and field selectors of a request."""

    labels: ParsedSelector
    fields: tuple[FieldRequirement, ...]

    @property
    def matches_everything(self) -> bool:
        return not self.labels.rules and not self.fields

    @property
    def single_name(self) -> str:
        """The only name that can match, if the field selector requires one."""
        for rule in self.fields:
            if rule.path == "metadata.name" and rule.equal:
                return rule.value
        return ""

    def matches(self, value: bytes) -> bool:
        if self.labels.rules and not self.labels.matches(labels_of(value)):
            return False
        if not self.fields:
            return True
        obj = orjson.loads(value)
        return all((_field_value(obj, rule.path) == rule.value) == rule.equal for rule in self.fields)


MATCH_EVERYTHING = RequestSelector(ParsedSelector(), ())


def _field_value(obj: Raw, path: str) -> str:
    if path == "source" and isinstance(obj.get("source"), dict):
        return str(obj["source"].get("component") or obj.get("reportingComponent") or "")
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return _ZERO_VALUES.get(path, "") if value is None else str(value)


def _parse_fields(text: str) -> list[FieldRequirement]:
    rules = []
    for term in filter(None, text.split(",")):
        for sign, equal in (("!=", False), ("==", True), ("=", True)):
            path, operator, value = term.partition(sign)
            if operator:
                rules.append(FieldRequirement(path, value, equal))
                break
        else:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
    return rules


def _field_resolver(served: ServedResource) -> Callable[[str], str]:
    """A function that maps a field of the query to the stored one, or refuses it."""
    custom = served.kind.custom
    selectable = served.selectable if custom else _SELECTABLE_FIELDS.get(served.storage, ())

    def resolve(path: str) -> str:
        if served.storage == "events" and served.group:
            head, dot, tail = path.partition(".")
            path = f"{_NEW_EVENT_NAMES.get(head, head)}{dot}{tail}"
        if path in {"metadata.name", "metadata.namespace"} or path in selectable:
            return path
        if selectable or custom:
            raise BadRequest(f"field label not supported: {path}")
        raise BadRequest(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')

    return resolve


def _parse_labels(text: str) -> ParsedSelector:
    try:
        return parse_selector(text)
    except InvalidSelector as bad:
        raise BadRequest(_parse_error(text) or str(bad)) from bad


_TOKEN = re.compile(r"\s*(?:(==|!=|[=!<>(),])|([^\s=!<>(),]+))")
_OPERATORS = {"in", "notin", "=", "==", "!=", "gt", "lt", ">", "<"}


def _parse_error(text: str) -> str:
    """The error of Kubernetes' parser for a label selector; empty if it finds none."""
    tokens = [match[1] or match[2] for match in _TOKEN.finditer(text)] + [""]
    at = 0

    def error(expected: str) -> str:
        return f"unable to parse requirement: found '{tokens[at]}', expected: {expected}"

    while True:
        if tokens[at] == "!":
            at += 1
        if not tokens[at] or _TOKEN.fullmatch(tokens[at])[1]:  # type: ignore[index]
            return error("!, identifier, or 'end of string'")
        at += 1
        if tokens[at] in {"", ","}:
            pass
        elif tokens[at] not in _OPERATORS:
            return error("in, notin, =, ==, !=, gt, lt")
        elif tokens[at] in {"in", "notin"}:
            at += 1
            if tokens[at] != "(":
                return error("'('")
            while tokens[at] not in {")", ""}:
                at += 1
            if not tokens[at]:
                return error("',', ')' or identifier")
            at += 1
        else:
            at += 1
            at += bool(tokens[at] not in {"", ","})
        if not tokens[at]:
            return ""
        if tokens[at] != ",":
            return error("',' or 'end of string'")
        at += 1


def parse_selectors(served: ServedResource, labels: str, fields: str) -> RequestSelector:
    """Parse the two query parameters; refuses what Kubernetes refuses."""
    if not labels and not fields:
        return MATCH_EVERYTHING
    resolve = _field_resolver(served)
    rules = tuple(rule._replace(path=resolve(rule.path)) for rule in _parse_fields(fields)) if fields else ()
    return RequestSelector(_parse_labels(labels), rules)
