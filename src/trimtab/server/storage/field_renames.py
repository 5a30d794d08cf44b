"""Format 2 of stored objects: fields and annotations that were renamed before the first release.

A store of format 1 has the old names. They are unknown to the schema now, so the next write would prune them.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from trimtab.api.value import Raw

Renames = Mapping[tuple[str, ...], str]

_BINDING: Renames = {
    ("status", "challenger"): "betterPlacement",
    ("status", "followed"): "placementRefClusters",
    ("status", "rollout", "fingerprint"): "templateHash",
    ("status", "previousPlacement", "undone"): "revertedFailbacks",
    ("status", "decision", "rule"): "divisionStrategy",
    ("status", "decision", "considered"): "totalClusters",
    ("status", "decision", "feasible"): "feasibleClusters",
    ("status", "decision", "refused", "rule"): "filter",
    ("status", "decision", "refused"): "rejected",
}
RENAMED: Mapping[str, Renames] = {
    "/registry/work.karmada.io/resourcebindings/": _BINDING,
    "/registry/work.karmada.io/clusterresourcebindings/": _BINDING,
    "/registry/trimtab.dev/disruptionbudgets/": {("status", "down"): "unavailable"},
    "/registry/trimtab.dev/disruptionpolicies/": {("spec", "storm", "atLeast"): "minUnreadyClusters"},
}
"""Old field paths (lists are passed through) to new names, by the prefix of the stored keys."""

RENAMED_ANNOTATIONS = {
    "asked-by": "reschedule-request",
    "together": "evict-together-with",
    "surged": "drain-surge-replicas",
    "surge": "drain-surge",
    "share-weight": "fair-share-weight",
    "on-deletion": "deletion-policy",
    "leaving-since": "unselected-since",
}
"""Annotations of `trimtab.dev/`, on objects of any kind."""
_PREFIX = b"trimtab.dev/"
_QUOTED_ANNOTATIONS = {
    start + _PREFIX + old.encode() + b'":': start + _PREFIX + new.encode() + b'":'
    for old, new in RENAMED_ANNOTATIONS.items()
    for start in (b'"', b'"f:')
}
"""Keys of objects and of managedFields; a value with the same text is not an annotation and is kept."""


def convert_to_format_2(key: str, value: bytes) -> bytes:
    """The stored object with the new names; the same bytes if it has no old one."""
    value = _with_renamed_annotations(value)
    for prefix, renames in RENAMED.items():
        if key.startswith(prefix):
            value = _with_renamed_fields(value, renames)
    return value


def _with_renamed_annotations(value: bytes) -> bytes:
    if _PREFIX in value:
        for old, new in _QUOTED_ANNOTATIONS.items():
            value = value.replace(old, new)
    return value


def _with_renamed_fields(value: bytes, renames: Renames) -> bytes:
    if not any(f'"{path[-1]}":'.encode() in value for path in renames):
        return value
    before: Raw = orjson.loads(value)
    after = rename_fields(before, renames)
    return value if after == before else orjson.dumps(after)


def rename_fields(value: Any, renames: Renames, path: tuple[str, ...] = ()) -> Any:
    """The value with the old fields under their new names; a new field that is there already wins."""
    if isinstance(value, list):
        return [rename_fields(item, renames, path) for item in value]
    if not isinstance(value, dict):
        return value
    found: Raw = {}
    for name, inner in value.items():
        here = (*path, name)
        if not any(old[: len(here)] == here for old in renames):
            found[name] = inner
        elif renames.get(here, name) == name or renames[here] not in value:
            found[renames.get(here, name)] = rename_fields(inner, renames, here)
    return found
