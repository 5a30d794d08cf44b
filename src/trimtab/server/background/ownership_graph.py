"""Which stored objects own which: what has lost its owners, and what an owner in deletion still waits for."""

from collections.abc import Iterable

from trimtab.server.background.object_metadata import (
    Owner,
    decode_metadata,
    is_in_foreground_deletion,
)
from trimtab.server.request.options import DeleteOptions
from trimtab.server.resources import ObjectPath, ResourceCatalogue, ServedResource
from trimtab.store.store import Store

_MAX_OWNERS_IN_LOOP = 500
"""Owners of an object that are looked for in the event loop, about five microseconds each."""


class OwnershipGraph:
    """Owners and dependents by key and uid, as far as their changes were noted."""

    def __init__(self, store: Store, catalogue: ResourceCatalogue) -> None:
        self._store = store
        self._catalogue = catalogue
        self._dependents: dict[str, set[str]] = {}
        self._owners: dict[str, tuple[str, ...]] = {}

    def clear(self) -> None:
        self._dependents.clear()
        self._owners.clear()

    def note(self, key: str, owners: tuple[str, ...]) -> bool:
        """Note the uids of the owners of an object; whether they have changed."""
        if owners == self._owners.get(key, ()):
            return False
        self.forget(key)
        if owners:
            self._owners[key] = owners
        for uid in owners:
            self._dependents.setdefault(uid, set()).add(key)
        return True

    def forget(self, key: str) -> None:
        for uid in self._owners.pop(key, ()):
            dependents = self._dependents.get(uid)
            if dependents:
                dependents.discard(key)
                if not dependents:
                    del self._dependents[uid]

    def has_owners(self, key: str) -> bool:
        return key in self._owners

    def owners_of(self, key: str) -> Iterable[str]:
        """The uids of the owners of an object."""
        return self._owners.get(key, ())

    def dependents_of(self, uid: str) -> list[str]:
        """The keys of the dependents of an owner, sorted."""
        return sorted(self._dependents.get(uid, ()))

    def find_owner(self, owner: Owner, namespace: str) -> tuple[ObjectPath, bytes] | None:
        """The owner, if an object with its name and uid exists."""
        served = self._resource_of_owner(owner)
        if served is None:
            return None
        where = ObjectPath(served, namespace if served.kind.namespaced else "", owner.name)
        entry = self._store.get(where.key)
        if entry is None or decode_metadata(entry.value).uid != owner.uid:
            return None
        return where, entry.value

    def _resource_of_owner(self, owner: Owner) -> ServedResource | None:
        """The kind of an owner, in the version of the reference or in another."""
        if (found := self._catalogue.find_kind(owner.api_version, owner.kind)) is not None:
            return found
        group = owner.api_version.rpartition("/")[0]
        return self._catalogue.find_kind_in_any_version(group, owner.kind)

    def has_many_owners(self, key: str) -> bool:
        """Whether looking for the owners of an object takes long; a thread may do it, because it only reads."""
        return len(self._owners.get(key, ())) > _MAX_OWNERS_IN_LOOP

    def deletion_options(self, key: str) -> DeleteOptions | None:
        """The delete options for an object without owners; None if it has one."""
        entry = self._store.get(key)
        if entry is None:
            return None
        meta = decode_metadata(entry.value)
        if meta.deletion_timestamp or not meta.owner_references:
            return None
        if any(self._resource_of_owner(owner) is None for owner in meta.owner_references):
            return None  # an owner of a kind that is not served may still exist
        found = (self.find_owner(owner, meta.namespace) for owner in meta.owner_references)
        existing = [owner for owner in found if owner is not None]
        ending = [owner for owner in existing if is_in_foreground_deletion(owner[1])]
        if existing and len(ending) < len(existing):
            return None
        return DeleteOptions("Foreground" if ending and self._dependents.get(meta.uid) else "Background", uid=meta.uid)

    def lost_owners(self, key: str) -> frozenset[str]:
        """The uids of owners that no longer exist or wait for their dependents, of an object that has another one."""
        entry = self._store.get(key)
        meta = decode_metadata(entry.value) if entry is not None else None
        owners = (meta.owner_references or ()) if meta is not None and not meta.deletion_timestamp else ()
        if meta is None or len(owners) < 2 or any(self._resource_of_owner(owner) is None for owner in owners):
            return frozenset()
        found = {owner.uid: self.find_owner(owner, meta.namespace) for owner in owners}
        lost = {uid for uid, owner in found.items() if owner is None or is_in_foreground_deletion(owner[1])}
        return frozenset(lost) if len(lost) < len(found) else frozenset()

    def blocks_deletion(self, uid: str) -> bool:
        """Whether a dependent exists that the deletion of its owner has to wait for."""
        for key in self._dependents.get(uid, ()):
            entry = self._store.get(key)
            if entry is None:
                continue
            owners = decode_metadata(entry.value).owner_references or ()
            if any(owner.uid == uid and owner.block_owner_deletion for owner in owners):
                return True
        return False
