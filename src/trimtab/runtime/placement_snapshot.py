"""The picture that Placements are decided on, told of every object as the cache hears of it."""

from trimtab.decide.ocm.snapshot import Atlas
from trimtab.runtime.cache import Cache, Entry


def following(cache: Cache) -> Atlas:
    """An atlas that is kept in step with the cache."""
    atlas = Atlas()

    def heard(old: Entry | None, new: Entry | None) -> None:
        atlas.learn(old.typed if old else None, new.typed if new else None)

    for kind in atlas.kinds:
        cache.table_of(kind).listen(heard)
    return atlas
