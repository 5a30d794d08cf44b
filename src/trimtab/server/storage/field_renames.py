"""Converts stored objects whose fields were renamed before the first release.

A store written by an earlier build has the old names. They are unknown to the schema now, so the next write would prune
them. The server therefore renames them once, before it serves.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from trimtab.api.value import Raw
from trimtab.store.store import Store
from trimtab.store.txn import PutKey

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


async def convert_renamed_fields(store: Store) -> None:
    """Rename the old fields of all stored objects in one transaction."""
    writes = list(_conversions(store))
    if writes:
        await store.commit(writes)


def _conversions(store: Store) -> Iterator[PutKey]:
    for prefix, renames in RENAMED.items():
        quoted = {f'"{path[-1]}":'.encode() for path in renames}
        for entry in store.list(prefix).entries:
            if not any(name in entry.value for name in quoted):
                continue
            before: Raw = orjson.loads(entry.value)
            after = rename_fields(before, renames)
            if after != before:
                yield PutKey(entry.key, orjson.dumps(after), entry.mod_revision)


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
