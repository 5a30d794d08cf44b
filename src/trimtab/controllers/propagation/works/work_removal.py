"""Removes the objects of a Work from its member: deletes them, or releases those that stay."""

from collections.abc import Iterator

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import is_drained_to_leave, is_leaving
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.contract import (
    FOREIGN_OBJECTS,
    Delete,
    Effect,
    Ensure,
    Fetch,
    FindForeignObjects,
    InCluster,
    NotFetched,
    Ref,
    RequeueAfter,
    View,
)
from trimtab.controllers.finalizers import without_finalizers
from trimtab.controllers.propagation.works.object_ownership import ORPHAN, is_managed_here
from trimtab.controllers.propagation.works.shared_objects import is_shared
from trimtab.controllers.propagation.works.work_delivery import READ_ONLY, ManifestDelivery, strategy_of

NOT_READY_SECONDS = 10.0
LISTING_SECONDS = 5.0
"""How long the list of the objects in a namespace is valid."""
ANNOTATIONS_TO_REMOVE = (
    well_known.RB_NAMESPACE,
    well_known.RB_NAME,
    well_known.CRB_NAME,
    well_known.WORK_NAMESPACE,
    well_known.WORK_NAME,
    well_known.TEMPLATE_UID,
    well_known.TEMPLATE_GENERATION,
    well_known.MANAGED_ANNOTATIONS,
    well_known.MANAGED_LABELS,
    well_known.PP_NAMESPACE,
    well_known.PP_NAME,
    well_known.CPP_NAME,
    well_known.UPDATE_STRATEGY,
    well_known.FIELD_MANAGER,
    well_known.IGNORE_FIELDS,
    well_known.CONFIG_HASH,
    well_known.ON_DELETION,
    well_known.CONTROL_PLANE,
    well_known.ADOPTED,
)


LABELS_TO_REMOVE = (
    well_known.MANAGED,
    well_known.RB_ID,
    well_known.CRB_ID,
    well_known.WORK_ID,
    well_known.PP_ID,
    well_known.CPP_ID,
)


def remove_from_member(work: Work, cluster: Cluster | None, view: View) -> Iterator[Effect]:
    """Delete the objects in the member, or release those to be kept, and then remove the finalizer of the Work."""
    if well_known.WORK_FINALIZER not in work.metadata.finalizers:
        return
    if cluster is not None and not is_ready(cluster) and awaits_recovery(cluster, view):
        yield from until_ready(cluster, view)
        return
    if cluster is not None and is_ready(cluster):
        for manifest in work.spec.workload.manifests:
            ref = well_known.ref_without_uid(manifest)
            seen = view.member(cluster.name, ref)
            if strategy_of(manifest) == READ_ONLY or is_shared(work, ref, view):
                continue
            if isinstance(seen, NotFetched):
                yield Fetch(cluster.name, ref)
                return
            if seen is not None and is_managed_here(seen, view):
                stays = work.spec.preserve_resources_on_deletion or is_orphaned_on_deletion(manifest)
                if not stays and is_leaving(cluster, view.profile):
                    others = objects_of_others(ref, seen, cluster, view)
                    if others is None:
                        yield FindForeignObjects(cluster.name, ref.name)
                        return
                    stays = others
                yield InCluster(cluster.name, release_object(seen) if stays else Delete(ref))
    yield without_finalizers(work, well_known.WORK_FINALIZER)


def until_ready(cluster: Cluster, view: View) -> Iterator[RequeueAfter]:
    """Ask again while the cluster is not ready, but not for each of its Works if the cluster wakes them when it is.

    In a cluster that is being deleted the end of its namespace matters as well, and nothing wakes them for that.
    """
    if cluster.metadata.deletion_timestamp is not None or not view.profile.recovery_cancels_eviction:
        yield RequeueAfter(NOT_READY_SECONDS)


def awaits_recovery(cluster: Cluster, view: View) -> bool:
    """Whether objects in a cluster that does not answer are deleted later; not in one that is removed now."""
    if not is_drained_to_leave(cluster, view.profile):
        return cluster.metadata.deletion_timestamp is None
    namespace = view.get(Namespace, "", well_known.execution_namespace(cluster.name))
    return namespace is not None and not namespace.is_terminating


def objects_of_others(ref: Ref, seen: Raw, cluster: Cluster, view: View) -> bool | None:
    """Whether the object existed before its Work, or is a namespace with objects of others; None if not known yet."""
    if well_known.ADOPTED in well_known.annotations_of(seen):
        return True
    if (ref.api_version, ref.kind) != ("v1", "Namespace"):
        return False
    known = view.recall(FOREIGN_OBJECTS, FindForeignObjects(cluster.name, ref.name))
    if known is None or (view.now - known.at).total_seconds() >= LISTING_SECONDS:
        return None
    return bool(known.names)


def is_orphaned_on_deletion(manifest: Raw) -> bool:
    return well_known.annotations_of(manifest).get(well_known.ON_DELETION) == ORPHAN


def release_object(seen: Raw) -> Ensure:
    """The member's object without the labels and annotations that mark it as managed."""
    return Ensure(
        well_known.with_metadata(
            seen, labels=dict.fromkeys(LABELS_TO_REMOVE), annotations=dict.fromkeys(ANNOTATIONS_TO_REMOVE)
        ),
        seen=seen,
    )


def without_version(ref: Ref) -> Ref:
    return ref._replace(api_version=ref.api_version.rpartition("/")[0])


def remove_dropped_manifests(
    work: Work, deliveries: list[ManifestDelivery], cluster: Cluster, view: View
) -> Iterator[Effect]:
    """Delete or release the objects whose manifests were removed from the Work.

    A manifest that has changed to another version of its group is still the same object.
    """
    if not work.status.manifest_statuses:
        return
    wanted = {without_version(item.ref) for item in deliveries}
    for status in work.status.manifest_statuses:
        known = status.identifier
        version = f"{known.group}/{known.version}" if known.group else known.version
        ref = Ref(version, known.kind, known.namespace, known.name)
        seen = view.member(cluster.name, ref) if without_version(ref) not in wanted else None
        if isinstance(seen, NotFetched) or seen is None or is_shared(work, ref, view):
            continue
        if well_known.annotations_of(seen).get(well_known.WORK_NAME) == work.name and is_managed_here(seen, view):
            stays = work.spec.preserve_resources_on_deletion or is_orphaned_on_deletion(seen)
            yield InCluster(cluster.name, release_object(seen) if stays else Delete(ref))
