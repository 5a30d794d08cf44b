"""JSON merge patch (RFC 7386): maps merge, null deletes, everything else replaces."""

from typing import Any

from trimtab.api.patch.json_patch import json_equal
from trimtab.api.value import Raw
from trimtab.errors import BadRequest


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merge(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def apply_merge_patch(document: Raw, patch: Any) -> Raw:
    """A copy of `document` with `patch` merged into it."""
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: invalid JSON patch")
    merged: Raw = _merge(document, patch)
    return merged


def create_merge_patch(old: Raw, new: Raw) -> Raw:
    """The smallest merge patch that turns `old` into `new` (which has no nulls)."""
    patch: Raw = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := create_merge_patch(before, value):
                patch[key] = inner
        elif key not in old or not json_equal(before, value):
            patch[key] = value
    return patch
