"""Works that a controller writes itself, for objects that no policy propagates."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work, WorkloadTemplate, WorkSpec
from trimtab.api.value import Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, Effect, RequeueAfter, View
from trimtab.controllers.propagation.dispatch import merge_work
from trimtab.controllers.propagation.work_rendering import with_tracking_metadata
from trimtab.interpret.names import work_name

REPLACEMENT_SECONDS = 0.5


def direct_work(
    manifest: Raw, cluster: str, labels: Mapping[str, str], *, name: str = "", source: Raw | None = None
) -> Work:
    """The Work that keeps one object in one cluster; `source` is the object that it was made from."""
    ref = well_known.ref_of_raw(manifest)
    metadata = Meta(
        namespace=well_known.execution_namespace(cluster),
        name=name or work_name(ref.kind, ref.name, ref.namespace),
        labels=dict(labels),
        finalizers=(well_known.WORK_FINALIZER,),
    )
    identity = {well_known.WORK_ID: well_known.permanent_id(cluster, metadata.name)}
    metadata = metadata.but(labels={**metadata.labels, **identity})
    tracked = with_tracking_metadata(manifest, source or manifest, metadata.but(labels=identity))
    return Work(metadata=metadata, spec=WorkSpec(workload=WorkloadTemplate(manifests=(tracked,))))


def can_hold_works(cluster: str, view: View) -> bool:
    """Whether the execution namespace of a cluster exists and is not being deleted."""
    namespace = view.get(Namespace, "", well_known.execution_namespace(cluster))
    return namespace is not None and namespace.metadata.deletion_timestamp is None


def sync_direct_works(wanted: Iterable[Work], seen: Sequence[Work]) -> Iterator[Effect]:
    """Write the Works that differ and delete the others. A Work that is being deleted must be gone before it is new."""
    present = {(work.namespace, work.name): work for work in seen}
    kept = set()
    for work in wanted:
        key = (work.namespace, work.name)
        kept.add(key)
        before = present.get(key)
        if before is not None and before.metadata.deletion_timestamp is not None:
            yield RequeueAfter(REPLACEMENT_SECONDS)
        elif before is None or merge_work(before, work) != before:
            yield work if before is None else merge_work(before, work)
    for key, work in present.items():
        if key not in kept and work.metadata.deletion_timestamp is None:
            yield Delete(work)
