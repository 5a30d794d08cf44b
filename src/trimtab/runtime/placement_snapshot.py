"""Keeps the objects that Placement decisions read in step with the cache."""

from trimtab.decide.ocm.snapshot import PlacementSnapshotCache
from trimtab.runtime.cache import Cache, CacheEntry


def placement_snapshots_from(cache: Cache) -> PlacementSnapshotCache:
    """A source of placement snapshots that applies every change of the cache."""
    source = PlacementSnapshotCache()

    def on_change(old: CacheEntry | None, new: CacheEntry | None) -> None:
        source.update(old.typed if old else None, new.typed if new else None)

    for kind in source.kinds:
        cache.table_of(kind).add_listener(on_change)
    return source
