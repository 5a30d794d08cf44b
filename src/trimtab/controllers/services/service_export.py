"""ServiceExport: the EndpointSlices of an exported service, from all clusters that export it, as objects on the host."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import kind_of
from trimtab.api.kinds.networking import ServiceExport
from trimtab.api.kinds.work import Work
from trimtab.api.value import Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, Effect, Ensure, Trigger, View, controller
from trimtab.controllers.services import slices

WORK_NAMESPACE, WORK_NAME = "work.karmada.io/namespace", "work.karmada.io/name"


def exports_of_changed_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    names = {name for work in (old, new) if work is not None for name in slices.export_of_labels(work)}
    return [Key(kind_of(ServiceExport).id, *name.split("/")) for name in sorted(names)] if names else ()


def sync_imported(key: Key, view: View) -> Iterator[Effect]:
    """Make the imported slices of a service equal to the collected ones."""
    works = view.by_index(slices.WORKS_OF_EXPORT, f"{key.namespace}/{key.name}")
    wanted = {
        manifest["metadata"]["name"]: manifest
        for work in works
        if slices.is_collected_slice(work) and work.metadata.deletion_timestamp is None
        for manifest in [imported_slice(work, key.name)]
    }
    present = {raw["metadata"]["name"]: raw for raw in imported_slices(key, view)}
    for name, manifest in wanted.items():
        if not is_same(present.get(name), manifest):
            yield Ensure(merge_slice(present.get(name), manifest), seen=present.get(name))
    for name, raw in present.items():
        if name not in wanted:
            yield Delete(well_known.ref_of_raw(raw))


@controller(
    ServiceExport,
    writes=["EndpointSlice"],
    triggers=[Trigger(Work, exports_of_changed_work)],
    on_deleted=sync_imported,
)
def service_export(export: ServiceExport, view: View) -> Iterator[Effect]:
    yield from sync_imported(Key(kind_of(export).id, export.namespace, export.name), view)


def imported_slice(work: Work, service: str) -> Raw:
    source = work.spec.workload.manifests[0]
    cluster = well_known.cluster_of(work.namespace)
    return slices.slice_manifest(
        source,
        f"imported-{cluster}-{source['metadata']['name']}",
        labels={
            slices.SERVICE_LABEL: slices.derived_service_name(service),
            slices.MANAGED_BY: slices.IMPORTER,
            well_known.WORK_ID: work.metadata.labels.get(well_known.WORK_ID, ""),
        },
        annotations={WORK_NAMESPACE: work.namespace, WORK_NAME: work.name},
    )


def imported_slices(key: Key, view: View) -> Iterator[Raw]:
    derived = slices.derived_service_name(key.name)
    for raw in view.raws(slices.SLICE_VERSION, slices.SLICE_KIND, key.namespace):
        labels = well_known.labels_of(raw)
        if labels.get(slices.SERVICE_LABEL) == derived and labels.get(slices.MANAGED_BY) == slices.IMPORTER:
            yield raw


def is_same(seen: Raw | None, wanted: Raw) -> bool:
    return seen is not None and merge_slice(seen, wanted) == seen


def merge_slice(seen: Raw | None, wanted: Raw) -> Raw:
    """The existing slice with what the wanted one has; labels that others added stay."""
    if seen is None:
        return wanted
    metadata = dict(seen["metadata"])
    for part in ("labels", "annotations"):
        metadata[part] = {**(metadata.get(part) or {}), **wanted["metadata"].get(part, {})}
    return {**seen, **wanted, "metadata": metadata}
