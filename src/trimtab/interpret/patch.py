"""JSON Patch (RFC 6902) with add, remove and replace: what overriders are made of."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_INDEX = re.compile(r"-?(0|[1-9]\d*)")


class BadPatch(ValueError):
    """An operation that cannot be applied to this document."""


class Step(NamedTuple):
    operator: str
    path: str
    value: Any = None


def escape(key: str) -> str:
    """A key as one segment of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def segments(path: str) -> list[str]:
    """The keys along a JSON pointer."""
    if path == "":
        return []
    if not path.startswith("/"):
        raise BadPatch(f"the path {path!r} must start with '/'")
    return [segment.replace("~1", "/").replace("~0", "~") for segment in path[1:].split("/")]


def look_up(document: Any, path: str) -> Any:
    """What lies at a JSON pointer; a missing step is a fault."""
    for segment in segments(path):
        document = _child(document, segment, path)
    return document


def apply_patch(document: Any, steps: Sequence[Step]) -> Any:
    """The document after all steps, in order; what was handed in stays as it is."""
    for step in steps:
        if step.operator not in ("add", "remove", "replace"):
            raise BadPatch(f"the operator {step.operator!r} is none of add, remove, replace")
        document = _changed(document, segments(step.path), step)
    return document


def _changed(node: Any, path: list[str], step: Step) -> Any:
    if not path:
        return _whole(step)
    head, *rest = path
    if not rest:
        return _leaf(node, head, step)
    inner = _changed(_child(node, head, step.path), rest, step)
    if isinstance(node, dict):
        return {**node, head: inner}
    index = _index(node, head, step.path)
    return [*node[:index], inner, *node[index + 1 :]]


def _whole(step: Step) -> Any:
    if step.operator == "remove":
        raise BadPatch("the whole document cannot be removed")
    return step.value


def _child(node: Any, key: str, path: str) -> Any:
    if isinstance(node, dict) and key in node:
        return node[key]
    if isinstance(node, list):
        return node[_index(node, key, path)]
    raise BadPatch(f"the path {path} does not exist: there is no {key!r}")


def _leaf(node: Any, key: str, step: Step) -> Any:
    if isinstance(node, list):
        return _element(node, key, step)
    if not isinstance(node, dict):
        raise BadPatch(f"the path {step.path} does not exist: its parent is neither a mapping nor a list")
    if step.operator != "add" and key not in node:
        raise BadPatch(f"{step.operator} of the missing path {step.path}")
    if step.operator == "remove":
        return {name: value for name, value in node.items() if name != key}
    return {**node, key: step.value}


def _element(node: list[Any], key: str, step: Step) -> list[Any]:
    if step.operator == "add":
        index = len(node) if key == "-" else _index(node, key, step.path, beyond=1)
        return [*node[:index], step.value, *node[index:]]
    index = _index(node, key, step.path)
    kept = [] if step.operator == "remove" else [step.value]
    return [*node[:index], *kept, *node[index + 1 :]]


def _index(node: list[Any], key: str, path: str, beyond: int = 0) -> int:
    """Negative indexes count from the end, as upstream's patches allow."""
    if not _INDEX.fullmatch(key):
        raise BadPatch(f"the path {path} does not exist: {key!r} is not an index of a list")
    index = int(key)
    size = len(node) + beyond
    if not -size <= index < size:
        raise BadPatch(f"the path {path} does not exist: the list has {len(node)} elements")
    return index % size if index < 0 else index
