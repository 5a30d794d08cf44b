"""Pruning and defaulting of a raw object by a structural schema, compiled once and copying only what changes."""

import copy
from collections.abc import Callable
from typing import Any

from trimtab.api.value import Raw

Pruner = Callable[[Any, str, list[str]], Any]
"""(value, its path, unknown paths found so far) -> the value without fields that the schema does not declare."""

Defaulter = Callable[[Any], Any]
"""value -> the value with defaults; the same object when nothing was missing."""

_CONTAINERS = frozenset((dict, list))
_OBJECT_FIELDS = frozenset(("apiVersion", "kind", "metadata"))
_METADATA_FIELDS = frozenset(
    [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ]
)


def compile_pruner(schema: Raw, *, root: bool = False) -> Pruner | None:
    """None when everything below is kept. The type of the value decides, whatever type the schema declares."""
    inside = [key for key in ("properties", "items", "additionalProperties") if schema.get(key)]
    if schema.get("x-kubernetes-preserve-unknown-fields") and not inside:
        return None
    if not inside and not root and not schema.get("x-kubernetes-embedded-resource"):
        return _prune_all
    of_object, of_array = _object_pruner(schema, root=root), _array_pruner(schema)

    def prune(value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) is dict:
            return of_object(value, path, unknown)
        return of_array(value, path, unknown) if type(value) is list else value

    return prune


def _prune_all(value: Any, path: str, unknown: list[str]) -> Any:
    """Nothing is declared inside: objects lose every member, and so do objects in lists."""
    if type(value) is dict:
        unknown.extend(f"{path}.{key}" if path else key for key in value)
        return {} if value else value
    if type(value) is list:
        return _same_if_unchanged(value, [_prune_all(item, f"{path}[{i}]", unknown) for i, item in enumerate(value)])
    return value


def _same_if_unchanged(value: list[Any], pruned: list[Any]) -> list[Any]:
    return value if all(a is b for a, b in zip(pruned, value, strict=True)) else pruned


def _array_pruner(schema: Raw) -> Pruner:
    inner = compile_pruner(schema.get("items") or {})

    def prune(value: Any, path: str, unknown: list[str]) -> Any:
        if inner is None:
            return value
        return _same_if_unchanged(value, [inner(item, f"{path}[{i}]", unknown) for i, item in enumerate(value)])

    return prune


def _drops_null(schema: Raw) -> bool:
    """Whether a null is dropped: the schema neither allows it nor replaces it by a default."""
    return not schema.get("nullable") and "default" not in schema


def _known_metadata(metadata: Raw, path: str, unknown: list[str]) -> Raw:
    """The metadata of an embedded object without fields that no object has."""
    unknown.extend(f"{path}.{key}" for key in metadata if key not in _METADATA_FIELDS)
    return {key: value for key, value in metadata.items() if key in _METADATA_FIELDS}


def _object_pruner(schema: Raw, *, root: bool) -> Pruner:
    head = _OBJECT_FIELDS if root or schema.get("x-kubernetes-embedded-resource") else frozenset[str]()
    known = {
        key: (compile_pruner(child), _drops_null(child))
        for key, child in (schema.get("properties") or {}).items()
        if key not in head
    }
    additional = schema.get("additionalProperties")
    keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or additional is True
    typed = additional if isinstance(additional, dict) else None
    rest = (compile_pruner(typed), _drops_null(typed)) if typed is not None else None

    def prune(value: Any, path: str, unknown: list[str]) -> Any:
        result = value
        prefix = f"{path}." if path else ""
        for key, item in value.items():
            if key in head:
                if key == "metadata" and not root and type(item) is dict and not _METADATA_FIELDS.issuperset(item):
                    result = dict(value) if result is value else result
                    result[key] = _known_metadata(item, prefix + key, unknown)
                continue
            rule = known.get(key, rest)
            if rule is None:
                if not keeps:
                    unknown.append(prefix + key)
                    result = dict(value) if result is value else result
                    del result[key]
                continue
            inner, drops_null = rule
            if item is None:
                if drops_null:
                    result = dict(value) if result is value else result
                    del result[key]
            elif inner is not None and type(item) in _CONTAINERS:
                pruned = inner(item, prefix + key, unknown)
                if pruned is not item:
                    result = dict(value) if result is value else result
                    result[key] = pruned
        return result

    return prune


def compile_defaulter(schema: Raw) -> Defaulter | None:
    """None when there is no default anywhere below."""
    if "items" in schema:
        return _array_defaulter(schema["items"])
    return _object_defaulter(schema)


def _replaces_null(schema: Raw) -> bool:
    return "default" in schema and not schema.get("nullable")


def _array_defaulter(items: Raw) -> Defaulter | None:
    inner, replaces_null = compile_defaulter(items), _replaces_null(items)
    if inner is None and not replaces_null:
        return None

    def fill(value: Any) -> Any:
        if type(value) is not list:
            return value
        filled: list[Any] = []
        for item in value:
            new = copy.deepcopy(items["default"]) if item is None and replaces_null else item
            filled.append(inner(new) if inner is not None else new)
        return _same_if_unchanged(value, filled)

    return fill


def _object_defaulter(schema: Raw) -> Defaulter | None:
    properties = schema.get("properties") or {}
    defaults = {
        key: (child["default"], _replaces_null(child)) for key, child in properties.items() if "default" in child
    }
    inners = {key: inner for key, child in properties.items() if (inner := compile_defaulter(child)) is not None}
    additional = schema.get("additionalProperties")
    rest = compile_defaulter(additional) if isinstance(additional, dict) else None
    rest_default = additional if isinstance(additional, dict) and _replaces_null(additional) else None
    if not defaults and not inners and rest is None and rest_default is None:
        return None

    def fill_rest(value: Raw) -> Raw:
        result = value
        for key, item in value.items():
            if key in properties:
                continue
            new = copy.deepcopy(rest_default["default"]) if item is None and rest_default is not None else item
            new = rest(new) if rest is not None else new
            if new is not item:
                result = dict(value) if result is value else result
                result[key] = new
        return result

    def fill(value: Any) -> Any:
        if type(value) is not dict:
            return value
        result = value
        for key, (default, replaces_null) in defaults.items():
            if key not in value or (value[key] is None and replaces_null):
                result = dict(value) if result is value else result
                result[key] = copy.deepcopy(default)
        for key, inner in inners.items():
            if key in result:
                new = inner(result[key])
                if new is not result[key]:
                    result = dict(value) if result is value else result
                    result[key] = new
        return fill_rest(result) if rest is not None or rest_default is not None else result

    return fill
