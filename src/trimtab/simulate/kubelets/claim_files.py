"""The files of PersistentVolumeClaims, which outlive the pods that mount them."""

from trimtab.runtime.cache import Cache
from trimtab.simulate.containers.files import Directory

CLAIMS = "persistentvolumeclaims"


class ClaimFiles:
    """The files of the claims of one cluster."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._by_uid: dict[str, Directory] = {}

    def of_claim(self, namespace: str, name: str) -> Directory:
        """The files of this claim; those of deleted claims are forgotten. A missing claim has none."""
        table = self._cache.find_table(CLAIMS)
        entry = table.entries.get((namespace, name)) if table is not None else None
        if table is None or entry is None:
            return {}
        uid = entry.raw["metadata"]["uid"]
        if uid not in self._by_uid:
            existing = {one.raw["metadata"]["uid"] for one in table.entries.values()}
            self._by_uid = {one: files for one, files in self._by_uid.items() if one in existing}
            self._by_uid[uid] = {}
        return self._by_uid[uid]
