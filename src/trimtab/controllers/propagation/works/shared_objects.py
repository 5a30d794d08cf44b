"""Objects that several ManifestWorks of a cluster contain: they stay until the last of these is removed.

The annotations of an object name one Work, the one that wrote it last. When that Work is removed, another one with the
same object writes it, and its name, again.
"""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of
from trimtab.api.kinds.work import Work
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.contract import Index, Ref, View
from trimtab.controllers.propagation.works.work_delivery import READ_ONLY, strategy_of


def object_ids(work: Work) -> Iterable[str]:
    """The objects that a Work of a ManifestWork writes; other Works share none."""
    if well_known.MANIFEST_WORK not in work.metadata.annotations:
        return ()
    written = (manifest for manifest in work.spec.workload.manifests if strategy_of(manifest) != READ_ONLY)
    return [_object_id(work, well_known.ref_without_uid(manifest)) for manifest in written]


def _object_id(work: Work, ref: Ref) -> str:
    """The same in all versions of a group."""
    group = ref.api_version.rpartition("/")[0]
    return f"{work.namespace} {group} {ref.kind} {ref.namespace} {ref.name}"


WORKS_BY_OBJECT = Index("works of manifestworks by their objects", Work, object_ids)


def is_shared(work: Work, ref: Ref, view: View) -> bool:
    """Whether another ManifestWork of the cluster, one that stays, contains the object."""
    if well_known.MANIFEST_WORK not in work.metadata.annotations:
        return False
    found = view.by_index(WORKS_BY_OBJECT, _object_id(work, ref))
    return any(other.name != work.name and other.metadata.deletion_timestamp is None for other in found)


def works_that_take_over(old: Work | None, new: Work | None, view: View) -> Iterator[Key]:
    """The Works with an object that another one contained until now."""
    if old is None or (new is not None and new.metadata.generation == old.metadata.generation):
        return
    for one in sorted({*object_ids(old)} - {*(object_ids(new) if new is not None else ())}):
        yield from map(key_of, view.by_index(WORKS_BY_OBJECT, one))
