"""Normalization and validation of bindings."""

import json

from trimtab.api.field_errors import duplicate, invalid, required
from trimtab.api.paths import indexed_objects, map_objects_at, value_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_DEPENDENCIES = "resourcebinding.karmada.io/dependencies"


def _rename_create_timestamp(item: Raw) -> Raw:
    if "createTimestamp" not in item or "creationTimestamp" in item:
        return item
    rest = {key: value for key, value in item.items() if key != "createTimestamp"}
    return {"creationTimestamp": item["createTimestamp"], **rest}


def rename_create_timestamps(binding: Raw) -> Raw:
    """Renames `createTimestamp`, an older spelling, to `creationTimestamp`."""
    binding = map_objects_at(binding, ("spec", "activeEvictionHistory"), _rename_create_timestamp)
    return map_objects_at(binding, ("status", "aggregatedStatus"), _rename_create_timestamp)


def check_binding(binding: Raw, old: Raw | None) -> list[Cause]:
    causes = []
    listed = value_at(binding, "metadata", "annotations", _DEPENDENCIES)
    if isinstance(listed, str) and not _is_json_list(listed):
        field = f"metadata.annotations.{_DEPENDENCIES}"
        causes.append(invalid(field, listed, "annotation value must be a valid JSON list"))
    seen: set[str] = set()
    for i, component in indexed_objects(value_at(binding, "spec", "components")):
        name, field = str(component.get("name", "")), f"spec.components[{i}].name"
        if not name:
            causes.append(required(field, "component names must be non-empty"))
        elif name in seen:
            causes.append(duplicate(field, name))
        seen.add(name)
    return causes


def _is_json_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list | None)
    except ValueError:
        return False
