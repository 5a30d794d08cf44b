"""Keeps `metadata.managedFields`: after every write, whoever changed a field owns it and nobody else does."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from trimtab.api.patch.field_ownership import Comparison, FieldSet, compare, difference, is_field_set, union
from trimtab.api.patch.merge_schema import Shape
from trimtab.api.value import Raw

UNTRACKED = frozenset(
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
"""Members of metadata that the server writes and nobody owns."""
_HEAD = frozenset({"apiVersion", "kind", "metadata"})
_WHOLE = frozenset({"manager", "operation", "apiVersion", "fieldsType", "fieldsV1"})
"""What an entry says at least."""
MOST_UPDATERS = 10
"""Beyond this many, the oldest Update entries are folded into one."""
_ANCIENT = "ancient-changes"


class Manager(Struct, frozen=True, order=True):
    """Who writes, how, in which version, through which subresource: one entry of managedFields each."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class Owned(Struct, frozen=True):
    fields: FieldSet
    time: str | None = None
    entry: Raw | None = None
    """As it stands in the list, if it does: most owners stay as they are."""


Owners = dict[Manager, Owned]


def read_owners(entries: Any) -> Owners:
    """The owners that a managedFields list names; entries that make no sense are passed over."""
    owners: Owners = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("operation") in ("Apply", "Update"):
            manager = Manager(
                entry.get("manager", ""),
                entry["operation"],
                entry.get("apiVersion", ""),
                entry.get("subresource", ""),
            )
            fields = entry.get("fieldsV1")
            whole = isinstance(fields, dict) and entry.keys() >= _WHOLE
            owners[manager] = Owned(
                fields if isinstance(fields, dict) else {}, entry.get("time"), entry if whole else None
            )
    return owners


def _read_sent(entries: Any) -> Owners:
    """The owners that a client names; none at all when one of its sets is no set of fields."""
    owners = read_owners(entries)
    return owners if all(is_field_set(owned.fields) for owned in owners.values()) else {}


def _sort_key(item: tuple[Manager, Owned]) -> tuple[str, str, str, str, str]:
    manager, owned = item
    return (manager.operation, owned.time or "", manager.name, manager.api_version, manager.subresource)


def _entry(manager: Manager, owned: Owned) -> Raw:
    if owned.entry is not None:
        return owned.entry
    entry: Raw = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version}
    if owned.time is not None:
        entry["time"] = owned.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": owned.fields}
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def write_owners(owners: Owners) -> list[Raw]:
    """The managedFields list of these owners, Apply entries first, then by time."""
    ordered = sorted(owners.items(), key=_sort_key) if len(owners) > 1 else owners.items()
    return [_entry(manager, owned) for manager, owned in ordered]


def with_owners(obj: Raw, owners: Owners) -> Raw:
    """The object with this managedFields list; without one when nobody owns anything."""
    metadata = {**obj.get("metadata", {})}
    metadata.pop("managedFields", None)
    if owners:
        metadata["managedFields"] = write_owners(owners)
    return {**obj, "metadata": metadata}


_FORGETTING: tuple[Any, ...] = ([{}], [_entry(Manager("", "", ""), Owned({}))])
"""One empty entry is how a client asks to forget all ownership."""


def owners_for_update(old: Raw | None, new: Raw, *, subresource: str = "") -> Owners:
    """Whose list counts: the one sent, unless it is absent or senseless, or came through a subresource."""
    live = (old or {}).get("metadata", {}).get("managedFields")
    sent = new.get("metadata", {}).get("managedFields")
    if subresource:
        return read_owners(live)
    if sent in _FORGETTING:
        return {}
    return read_owners(live) if sent == live else _read_sent(sent) or read_owners(live)


def trackable(obj: Raw, only: Sequence[str] = (), without: Sequence[str] = ()) -> Raw:
    """The part of an object that can be owned through a path."""
    if only:
        return {key: obj[key] for key in only if key in obj}
    part = {key: value for key, value in obj.items() if key not in _HEAD and key not in without}
    part["metadata"] = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in UNTRACKED}
    return part


def taken_from(owners: Owners, changes: Comparison, writer: Manager | None = None) -> Owners:
    """What the other owners keep after these changes; those who keep nothing are gone."""
    changed = union(changes.modified, changes.added)
    touched = changed.keys() | changes.removed.keys()
    kept: Owners = {}
    for manager, owned in owners.items():
        fields = owned.fields
        if manager != writer and not touched.isdisjoint(fields):
            fields = difference(difference(fields, changed), changes.removed)
        if fields:
            kept[manager] = owned if fields is owned.fields else Owned(fields, owned.time)
    return kept


def track_update(
    old: Raw | None,
    new: Raw,
    shape: Shape,
    manager: Manager,
    now: str | None,
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Raw:
    """`new` with its managedFields, after `manager` created or updated it.

    `new` is decoded and defaulted, but not yet touched by admission. `without` names top-level fields that this path
    ignores (`status` on the main path), `only` those it alone may change (`status` on the status path).
    """
    owners = owners_for_update(old, new, subresource=manager.subresource)
    if old is not None and not owners:
        return with_owners(new, owners)  # who has lost all ownership is not tracked again until somebody applies
    before = trackable(old if old is not None else shape.blank, only, without)
    changes = compare(before, trackable(new, only, without), shape)
    if owners and (changes.added or changes.modified or changes.removed):
        owners = taken_from(owners, changes)
    if gained := union(changes.modified, changes.added):
        previous = owners.get(manager)
        owners[manager] = Owned(union(gained, previous.fields) if previous else gained, now)
        if len(owners) > MOST_UPDATERS:
            owners = _capped(owners)
    return with_owners(new, owners)


def _capped(owners: Owners) -> Owners:
    """At most `MOST_UPDATERS` Update entries: the oldest of each version are folded together."""
    capped = dict(owners)
    updaters = sorted(
        ((m, o) for m, o in owners.items() if m.operation == "Update"), key=lambda item: (item[1].time or "", item[0])
    )
    excess = len(updaters) - MOST_UPDATERS
    first: dict[str, Manager] = {}
    for manager, owned in updaters:
        if excess <= 0:
            break
        version = manager.api_version
        if version not in first:
            first[version] = manager
            continue
        bucket = Manager(_ANCIENT, "Update", version)
        if bucket not in capped:
            capped[bucket] = capped.pop(first[version])
        capped[bucket] = Owned(union(owned.fields, capped[bucket].fields), owned.time)
        if manager != bucket:
            del capped[manager]
        excess -= 1
    return capped
