"""Format 2 of stored objects: fields, keys and values that were renamed before the first release.

A store of format 1 has the old names. Old fields are unknown to the schema now, so the next write would prune them; an
old condition type would stay beside the new one.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from trimtab.api.value import Raw
from trimtab.store.keys import resource_prefix

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
    resource_prefix("work.karmada.io", "resourcebindings"): _BINDING,
    resource_prefix("work.karmada.io", "clusterresourcebindings"): _BINDING,
    resource_prefix("trimtab.dev", "disruptionbudgets"): {("status", "down"): "unavailable"},
    resource_prefix("trimtab.dev", "disruptionpolicies"): {("spec", "storm", "atLeast"): "minUnreadyClusters"},
}
"""Old field paths (lists are passed through) to new names, by the prefix of the stored keys."""

Texts = Mapping[tuple[str, ...], Mapping[str, str]]

_ACCEPTED: Texts = {("status", "conditions", "reason"): {"InForce": "Accepted"}}
RENAMED_TEXTS: Mapping[str, Texts] = {
    resource_prefix("trimtab.dev", "disruptionbudgets"): {
        ("status", "conditions", "type"): {"Allowing": "DisruptionsAllowed"},
        ("status", "conditions", "reason"): {"Allowing": "BudgetAvailable", "Counted": "BudgetEvaluated"},
    },
    resource_prefix("trimtab.dev", "disruptionpolicies"): _ACCEPTED,
    resource_prefix("trimtab.dev", "priorityorders"): _ACCEPTED,
    resource_prefix("cluster.karmada.io", "clusters"): {
        ("metadata", "annotations", "trimtab.dev/drain"): {"closed-before": "cordoned-before"},
    },
}
"""Words of texts at these paths, by the prefix of the stored keys."""

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
_DOMAIN = "trimtab.dev/"
_RENAMED_KEYS = {_DOMAIN + old: _DOMAIN + new for old, new in RENAMED_ANNOTATIONS.items()} | {
    "simulate.trimtab.dev/filler": "simulate.trimtab.dev/placeholder"
}
_QUOTED_KEYS = {
    start + old.encode() + b'":': start + new.encode() + b'":'
    for old, new in _RENAMED_KEYS.items()
    for start in (b'"', b'"f:')
}
"""Keys of objects and of managedFields; a value with the same text is not an annotation and is kept."""


def convert_to_format_2(key: str, value: bytes) -> bytes:
    """The stored object with the new names; the same bytes if it has no old one."""
    value = _with_renamed_keys(value)
    for prefix, renames in RENAMED.items():
        if key.startswith(prefix):
            value = _with_renamed_fields(value, renames)
    for prefix, texts in RENAMED_TEXTS.items():
        if key.startswith(prefix):
            value = _with_renamed_texts(value, texts)
    return value


def _with_renamed_keys(value: bytes) -> bytes:
    if _DOMAIN.encode() in value:
        for old, new in _QUOTED_KEYS.items():
            value = value.replace(old, new)
    return value


def _with_renamed_fields(value: bytes, renames: Renames) -> bytes:
    if not any(f'"{path[-1]}":'.encode() in value for path in renames):
        return value
    before: Raw = orjson.loads(value)
    after = rename_fields(before, renames)
    return value if after == before else orjson.dumps(after)


def _with_renamed_texts(value: bytes, texts: Texts) -> bytes:
    if not any(old.encode() in value for words in texts.values() for old in words):
        return value
    before: Raw = orjson.loads(value)
    after = rename_texts(before, texts)
    return value if after == before else orjson.dumps(after)


def rename_texts(value: Any, texts: Texts, path: tuple[str, ...] = ()) -> Any:
    """The value with the old words of the texts at these paths replaced."""
    if isinstance(value, list):
        return [rename_texts(item, texts, path) for item in value]
    if isinstance(value, dict):
        return {name: rename_texts(inner, texts, (*path, name)) for name, inner in value.items()}
    if isinstance(value, str) and path in texts:
        return " ".join(texts[path].get(word, word) for word in value.split(" "))
    return value


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
