"""Defaulting and validation of override policies, as in Karmada's webhook."""

import re
from collections.abc import Iterator
from typing import Any

from trimtab.api.admission.field_order import in_declared_order
from trimtab.api.admission.placement import check_affinity
from trimtab.api.field_errors import invalid
from trimtab.api.names import label_value_faults, qualified_name_faults
from trimtab.api.paths import indexed_objects, object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_POINTER = re.compile(r"(/([^/~]|~[01])*)*\Z")


def fill_override(policy: Raw) -> Raw:
    """Adds the deprecated `overriders`, as upstream's webhook does even where they are unused."""
    spec = object_at(policy, "spec")
    return policy if "overriders" in spec else {**policy, "spec": {**spec, "overriders": {}}}


def check_override(policy: Raw, old: Raw | None) -> list[Cause]:
    return list(_check_spec(object_at(policy, "spec")))


def _check_spec(spec: Raw) -> Iterator[Cause]:
    target, overriders = spec.get("targetCluster"), object_at(spec, "overriders")
    yield from check_affinity(object_at(target), "spec.targetCluster")
    if spec.get("overrideRules") is not None:
        if target:
            yield invalid(
                "spec.targetCluster", in_declared_order(target), "overrideRules and targetCluster can't co-exist"
            )
        if any(overriders.values()):
            yield invalid("spec.overriders", overriders, "overrideRules and overriders can't co-exist")
    yield from _check_overriders(overriders, "spec.overriders")
    for i, rule in indexed_objects(spec.get("overrideRules")):
        field = f"spec.overrideRules[{i}]"
        yield from _check_overriders(object_at(rule, "overriders"), f"{field}.overriders")
        yield from check_affinity(object_at(rule, "targetCluster"), f"{field}.targetCluster")


def _check_overriders(overriders: Raw, field: str) -> Iterator[Cause]:
    for i, overrider in indexed_objects(overriders.get("annotationsOverrider")):
        for key in object_at(overrider, "value"):
            for fault in qualified_name_faults(key.lower()):
                yield invalid(f"{field}.annotationsOverrider[{i}].value", key, fault)
    for i, overrider in indexed_objects(overriders.get("labelsOverrider")):
        yield from _check_labels(object_at(overrider, "value"), f"{field}.labelsOverrider[{i}].value")
    for i, overrider in indexed_objects(overriders.get("imageOverrider")):
        path = object_at(overrider, "predicate").get("path")
        if path is not None:
            yield from _check_pointer(path, f"{field}.imageOverrider[{i}].predicate.path")
    for i, overrider in indexed_objects(overriders.get("fieldOverrider")):
        yield from _check_field_overrider(overrider, f"{field}.fieldOverrider[{i}]")


def _check_labels(labels: Raw, field: str) -> Iterator[Cause]:
    for key, value in labels.items():
        for fault in qualified_name_faults(key):
            yield invalid(field, key, fault)
        for fault in label_value_faults(str(value)):
            yield invalid(field, value, fault)


def _check_pointer(path: Any, field: str) -> Iterator[Cause]:
    if not isinstance(path, str) or (path and not path.startswith("/")):
        yield invalid(field, path, 'JSON pointer must be empty or start with a "/"')
    elif not _POINTER.match(path):
        yield invalid(field, path, "a ~ in a JSON pointer must be followed by 0 or 1")


def _check_field_overrider(overrider: Raw, field: str) -> Iterator[Cause]:
    given = [name for name in ("json", "yaml") if overrider.get(name)]
    if len(given) > 1:
        yield invalid(field, overrider, "FieldOverrider has both YAML and JSON set. Only one is allowed")
    elif not given:
        yield invalid(field, overrider, "one of json and yaml must be set")
    yield from _check_pointer(overrider.get("fieldPath", ""), f"{field}.fieldPath")
    for name in given:
        for i, operation in indexed_objects(overrider[name]):
            where = f"{field}.{name}[{i}]"
            yield from _check_pointer(operation.get("subPath", ""), f"{where}.subPath")
            needs_value, has_value = operation.get("operator") != "remove", operation.get("value") is not None
            if needs_value and not has_value:
                yield invalid(f"{where}.value", None, "value is required for add or replace operation")
            elif has_value and not needs_value:
                yield invalid(f"{where}.value", operation["value"], "value is not allowed for remove operation")
