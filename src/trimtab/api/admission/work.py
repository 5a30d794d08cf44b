"""Normalization and validation of bindings."""

import json

from trimtab.api.field_errors import duplicate, invalid, required
from trimtab.api.paths import dig, indexed_objects, map_objects_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_DEPENDENCIES = "resourcebinding.karmada.io/dependencies"


def _creation(item: Raw) -> Raw:
    if "createTimestamp" not in item or "creationTimestamp" in item:
        return item
    rest = {key: value for key, value in item.items() if key != "createTimestamp"}
    return {"creationTimestamp": item["createTimestamp"], **rest}


def rename_creation(binding: Raw) -> Raw:
    """Renames `createTimestamp`, an older spelling, to `creationTimestamp`."""
    binding = map_objects_at(binding, ("spec", "activeEvictionHistory"), _creation)
    return map_objects_at(binding, ("status", "aggregatedStatus"), _creation)


def check_binding(binding: Raw, old: Raw | None) -> list[Cause]:
    causes = []
    listed = dig(binding, "metadata", "annotations", _DEPENDENCIES)
    if isinstance(listed, str) and not _is_list(listed):
        field = f"metadata.annotations.{_DEPENDENCIES}"
        causes.append(invalid(field, listed, "annotation value must be a valid JSON list"))
    seen: set[str] = set()
    for i, component in indexed_objects(dig(binding, "spec", "components")):
        name, field = str(component.get("name", "")), f"spec.components[{i}].name"
        if not name:
            causes.append(required(field, "component names must be non-empty"))
        elif name in seen:
            causes.append(duplicate(field, name))
        seen.add(name)
    return causes


def _is_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list | None)
    except ValueError:
        return False
