"""Maintains `metadata.managedFields`: after every write, the manager that changed a field is its only owner."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from trimtab.api.patch.field_ownership import (
    FieldSet,
    compare,
    difference,
    is_field_set,
    sort_fields,
    union,
)
from trimtab.api.patch.merge_schema import MergeSchema
from trimtab.api.value import Raw

UNTRACKED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "selfLink",
        "clusterName",
        "managedFields",
    }
)
"""Fields of metadata that the server writes and that have no owner."""
_OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_REQUIRED_KEYS = frozenset({"manager", "operation", "apiVersion", "fieldsType", "fieldsV1"})
"""The keys that every complete entry has."""
MAX_UPDATE_MANAGERS = 10
"""Beyond this many, the oldest Update entries are merged into one."""
_ANCIENT_CHANGES = "ancient-changes"


class FieldManager(Struct, frozen=True, order=True):
    """The key of an entry of managedFields: manager, operation, version and subresource."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class OwnedFields(Struct, frozen=True):
    fields: FieldSet
    time: str | None = None
    entry: Raw | None = None
    """The entry as it is in the list, if it is there: most owners do not change."""


Owners = dict[FieldManager, OwnedFields]


def read_owners(entries: Any) -> Owners:
    """The owners in a managedFields list; malformed entries are ignored."""
    owners: Owners = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("operation") in ("Apply", "Update"):
            manager = FieldManager(
                entry.get("manager", ""),
                entry["operation"],
                entry.get("apiVersion", ""),
                entry.get("subresource", ""),
            )
            fields, time = entry.get("fieldsV1"), entry.get("time")
            if isinstance(fields, dict):
                owners[manager] = OwnedFields(fields, time, entry if entry.keys() >= _REQUIRED_KEYS else None)
            else:
                owners[manager] = OwnedFields({}, time)
    return owners


def _read_client_owners(entries: Any) -> Owners:
    """The owners that a client sent; none at all when one of its field sets is malformed."""
    owners = read_owners(entries)
    return owners if all(is_field_set(owned.fields) for owned in owners.values()) else {}


def _sort_key(item: tuple[FieldManager, OwnedFields]) -> tuple[str, str, str, str, str]:
    manager, owned = item
    return (manager.operation, owned.time or "", manager.name, manager.api_version, manager.subresource)


def _managed_fields_entry(manager: FieldManager, owned: OwnedFields) -> Raw:
    entry: Raw = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version}
    if owned.time is not None:
        entry["time"] = owned.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": sort_fields(owned.fields)}
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def write_owners(owners: Owners) -> list[Raw]:
    """The managedFields list of these owners, Apply entries first, then by time."""
    ordered = sorted(owners.items(), key=_sort_key) if len(owners) > 1 else owners.items()
    return [owned.entry or _managed_fields_entry(manager, owned) for manager, owned in ordered]


def with_owners(obj: Raw, owners: Owners) -> Raw:
    """The object with this managedFields list; without the field when there are no owners."""
    metadata = {**obj.get("metadata", {})}
    metadata.pop("managedFields", None)
    if owners:
        metadata["managedFields"] = write_owners(owners)
    return {**obj, "metadata": metadata}


_RESET_LISTS: tuple[Any, ...] = ([{}], [_managed_fields_entry(FieldManager("", "", ""), OwnedFields({}))])
"""With one empty entry a client asks to reset all ownership."""


def owners_for_update(old: Raw | None, new: Raw, *, subresource: str = "") -> Owners:
    """The owners before an update: those sent, unless absent, malformed or sent through a subresource."""
    live = old.get("metadata", {}).get("managedFields") if old is not None else None
    if subresource:
        return read_owners(live)
    sent = new.get("metadata", {}).get("managedFields")
    if sent in _RESET_LISTS:
        return {}
    return read_owners(live) if sent == live else _read_client_owners(sent) or read_owners(live)


def trackable_fields(obj: Raw, only: Sequence[str] = (), without: Sequence[str] = ()) -> Raw:
    """The part of an object whose ownership is tracked on this path."""
    if only:
        return {key: obj[key] for key in only if key in obj}
    part = {key: value for key, value in obj.items() if key not in _OBJECT_FIELDS and key not in without}
    part["metadata"] = {
        key: value for key, value in (obj.get("metadata") or {}).items() if key not in UNTRACKED_METADATA
    }
    return part


def without_changed_fields(
    owners: Owners, changed: FieldSet, removed: FieldSet, writer: FieldManager | None = None
) -> Owners:
    """What the other owners keep after fields were set or removed; owners that keep nothing are removed."""
    touched = changed.keys() | removed.keys()
    kept: Owners = {}
    for manager, owned in owners.items():
        fields = owned.fields
        if manager != writer and not touched.isdisjoint(fields):
            fields = difference(difference(fields, changed), removed)
        if fields:
            kept[manager] = owned if fields is owned.fields else OwnedFields(fields, owned.time)
    return kept


def track_update(
    old: Raw | None,
    new: Raw,
    schema: MergeSchema,
    manager: FieldManager,
    now: str | None,
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Raw:
    """`new` with its managedFields, after `manager` created or updated it.

    `new` is decoded and defaulted, but admission has not changed it yet. `without` names top-level fields that this
    path ignores (`status` on the main path), `only` those that it alone may change (`status` on the status path).
    """
    owners = owners_for_update(old, new, subresource=manager.subresource)
    if old is not None and not owners:
        return with_owners(new, owners)  # an object without owners is not tracked again until something is applied
    before = trackable_fields(old if old is not None else schema.empty_object, only, without)
    changes = compare(before, trackable_fields(new, only, without), schema)
    gained = union(changes.modified, changes.added)
    if owners and (gained or changes.removed):
        owners = without_changed_fields(owners, gained, changes.removed)
    if gained:
        previous = owners.get(manager)
        owners[manager] = OwnedFields(union(gained, previous.fields) if previous else gained, now)
        if len(owners) > MAX_UPDATE_MANAGERS:
            owners = _cap_update_managers(owners)
    return with_owners(new, owners)


def _cap_update_managers(owners: Owners) -> Owners:
    """At most `MAX_UPDATE_MANAGERS` Update entries: the oldest of each version are merged."""
    capped = dict(owners)
    updaters = sorted(
        ((m, o) for m, o in owners.items() if m.operation == "Update"), key=lambda item: (item[1].time or "", item[0])
    )
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    first: dict[str, FieldManager] = {}
    for manager, owned in updaters:
        if excess <= 0:
            break
        version = manager.api_version
        if version not in first:
            first[version] = manager
            continue
        bucket = FieldManager(_ANCIENT_CHANGES, "Update", version)
        if bucket not in capped:
            capped[bucket] = capped.pop(first[version])
        capped[bucket] = OwnedFields(union(owned.fields, capped[bucket].fields), owned.time)
        if manager != bucket:
            del capped[manager]
        excess -= 1
    return capped
