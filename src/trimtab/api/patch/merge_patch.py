"""JSON merge patch (RFC 7386): maps merge, null deletes, everything else replaces."""

from typing import Any

from trimtab.api.value import Raw
from trimtab.errors import BadRequest


def _merge(target: Any, patch: Raw) -> Raw:
    merged: Raw = dict(target) if type(target) is dict else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif type(value) is dict:
            merged[key] = _merge(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def apply_merge_patch(document: Raw, patch: Any) -> Raw:
    """A copy of `document` with `patch` merged into it."""
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: invalid JSON patch")
    return _merge(document, patch)
