"""Collects the EndpointSlices of exported services from a cluster, as Works that report them.

A Work with a MultiClusterService or an applied ServiceExport in the execution namespace of the cluster asks for the slices
of the service of that name. Runs in the process that serves the cluster: the control plane, or the agent of a Pull cluster.
"""

from collections.abc import Iterable, Iterator, Sequence

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Work
from trimtab.api.value import Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.clusters.served import is_served
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import (
    Delete,
    Effect,
    FollowKind,
    Index,
    MemberTrigger,
    NotFetched,
    Trigger,
    View,
    controller,
    never,
)
from trimtab.controllers.services import slices
from trimtab.controllers.services.slices import ServiceOfCluster


def cluster_of_request(work: Work) -> Iterable[str]:
    """The cluster of a Work that asks for the slices of a service."""
    if work.metadata.deletion_timestamp is None and requested_service(work) is not None:
        yield well_known.cluster_of(work.namespace)


def cluster_of_collected(work: Work) -> Iterable[str]:
    if slices.is_collected_slice(work):
        yield well_known.cluster_of(work.namespace)


REQUESTS = Index("works that ask for endpoint slices", Work, cluster_of_request)
COLLECTED = Index("collected endpoint slices", Work, cluster_of_collected)


def requested_service(work: Work) -> ServiceOfCluster | None:
    """The service whose slices a Work asks for."""
    for manifest in work.spec.workload.manifests:
        kind = manifest.get("kind")
        is_export = kind == slices.EXPORT_KIND and is_condition_true(work.status.conditions, "Applied")
        if is_export or (kind == slices.SERVICE_KIND and work.spec.suspend_dispatching):
            metadata = manifest["metadata"]
            return ServiceOfCluster(
                well_known.cluster_of(work.namespace), metadata.get("namespace", ""), metadata["name"]
            )
    return None


def clusters_of_changed_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    for work in (old, new):
        if work is not None and (slices.is_collected_slice(work) or requested_service(work) is not None):
            if old is not None and new is not None and not is_changed(old, new):
                return
            yield Key(kind_of(Cluster).id, "", well_known.cluster_of(work.namespace))
            return


def is_changed(old: Work, new: Work) -> bool:
    return (old.spec, old.metadata.labels, old.metadata.deletion_timestamp, requested_service(old)) != (
        new.spec,
        new.metadata.labels,
        new.metadata.deletion_timestamp,
        requested_service(new),
    )


def cluster_of_changed_slice(cluster: str, old: Raw | None, new: Raw | None, view: View) -> Iterable[Key]:
    changed = new or old or {}
    if changed.get("kind") == slices.SLICE_KIND and view.by_index(REQUESTS, cluster):
        yield Key(kind_of(Cluster).id, "", cluster)


@controller(
    Cluster,
    writes=["Work"],
    triggers=[Trigger(Work, clusters_of_changed_work), MemberTrigger(cluster_of_changed_slice)],
    predicate=never,
)
def endpoint_slice_collection(cluster: Cluster, view: View) -> Iterator[Effect]:
    requests, collected = view.by_index(REQUESTS, cluster.name), view.by_index(COLLECTED, cluster.name)
    if not (requests or collected) or not is_served(cluster, view):
        return
    found: Sequence[Raw] = ()
    if requests:
        listed = view.member_all(cluster.name, slices.SLICE_VERSION, slices.SLICE_KIND)
        if isinstance(listed, NotFetched):
            yield FollowKind(cluster.name, slices.SLICE_VERSION, slices.SLICE_KIND)
            return
        found = listed
    present = {work.name: work for work in collected}
    wanted = {work.name: work for work in wanted_works(cluster.name, requests, found)}
    for name, work in wanted.items():
        before = present.get(name)
        after = work if before is None else slices.with_exact_labels(before, work)
        if after != before and (before is None or before.metadata.deletion_timestamp is None):
            yield after
    for name, work in present.items():
        if name not in wanted and work.metadata.deletion_timestamp is None:
            yield Delete(work)


def wanted_works(cluster: str, requests: Iterable[Work], found: Iterable[Raw]) -> Iterator[Work]:
    """One Work for each slice of a requested service."""
    labels = labels_by_service(requests)
    for raw in found:
        metadata = raw["metadata"]
        own = metadata.get("labels") or {}
        service = ServiceOfCluster(cluster, metadata.get("namespace", ""), own.get(slices.SERVICE_LABEL, ""))
        if service in labels and own.get(slices.MANAGED_BY) not in (slices.DISPATCHER, slices.IMPORTER):
            yield slices.reporting_work(slices.slice_manifest(raw), cluster, labels[service])


def labels_by_service(requests: Iterable[Work]) -> dict[ServiceOfCluster, dict[str, str]]:
    """The labels of the collected slices of each service: they say who asked for them."""
    found: dict[ServiceOfCluster, dict[str, str]] = {}
    for work in requests:
        service = requested_service(work)
        if service is None:
            continue
        labels = found.setdefault(service, {})
        if slices.EXPORT_KIND in slices.kinds_in(work):
            labels |= {slices.EXPORT_NAMESPACE: service.namespace, slices.EXPORT_NAME: service.name}
        else:
            labels |= {slices.SERVICE_NAMESPACE: service.namespace, slices.SERVICE_NAME: service.name}
        kinds = {*labels.get(slices.COLLECTED_BY, "").split("."), *slices.kinds_in(work)} - {""}
        labels[slices.COLLECTED_BY] = ".".join(sorted(kinds))
    return found
