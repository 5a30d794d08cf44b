"""MultiClusterService of type CrossCluster: clients in consumer clusters reach the endpoints in provider clusters.

The Service is placed in all of these clusters. Each provider is asked for its EndpointSlices (`endpoint_slice_collection.py`),
and every consumer gets a copy of the slices of the others, under the name of the Service.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from datetime import datetime

from trimtab.api.kind import key_of, kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.network import Service
from trimtab.api.kinds.networking import ClusterSelectorByName, MultiClusterService
from trimtab.api.kinds.policy import ClusterAffinity, Placement
from trimtab.api.kinds.work import BindingSpec, ResourceBinding, Work
from trimtab.api.value import Condition, Key, Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.conditions import is_condition_true, with_condition
from trimtab.controllers.contract import Delete, Effect, Ensure, RecordEvent, Ref, Trigger, View, controller
from trimtab.controllers.finalizers import without_finalizers
from trimtab.controllers.propagation.template_references import controller_reference, object_reference
from trimtab.controllers.propagation.works.direct_works import can_hold_works, direct_work, sync_direct_works
from trimtab.controllers.services import slices
from trimtab.interpret.names import binding_name

FINALIZER = "karmada.io/multiclusterservice-controller"
SOURCE, DISPATCH_SOURCE = "multiclusterservice-controller", "endpointslice-dispatch-controller"
NO_CLAIM = {
    well_known.PP_ID: None,
    well_known.CPP_ID: None,
}


def all_services(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """A cluster joined or left, or became ready or not."""
    if old is None or new is None or is_ready(old) != is_ready(new):
        yield from map(key_of, view.all(MultiClusterService))


def service_of_same_name(old: Service | None, new: Service | None, view: View) -> Iterable[Key]:
    """The Service of that name was created, changed or deleted; a change of its status does not matter."""
    if old is not None and new is not None and (old.spec, old.metadata.labels) == (new.spec, new.metadata.labels):
        return
    changed = new or old
    if changed is not None and view.get(MultiClusterService, changed.namespace, changed.name) is not None:
        yield Key(kind_of(MultiClusterService).id, changed.namespace, changed.name)


def services_of_changed_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    """A slice was collected, changed, or is gone."""
    names = {name for work in (old, new) if work is not None for name in slices.service_of_labels(work)}
    if names and not (old is not None and new is not None and is_same_report(old, new)):
        yield from (Key(kind_of(MultiClusterService).id, *name.split("/")) for name in sorted(names))


def is_same_report(old: Work, new: Work) -> bool:
    """Whether only the status of a Work changed."""
    before, after = old.metadata, new.metadata
    return (old.spec, before.labels, before.annotations, before.deletion_timestamp) == (
        new.spec,
        after.labels,
        after.annotations,
        after.deletion_timestamp,
    )


def delete_works(key: Key, view: View) -> Iterator[Effect]:
    yield from map(Delete, view.by_index(slices.WORKS_OF_SERVICE, f"{key.namespace}/{key.name}"))


def is_ready(cluster: Cluster) -> bool:
    return is_condition_true(cluster.status.conditions, "Ready")


@controller(
    MultiClusterService,
    writes=[
        "Work",
        "ResourceBinding",
        "Service.metadata.labels",
        "Service.metadata.annotations",
        f"metadata.finalizers[{FINALIZER}]",
        "status.conditions[ServiceApplied]",
        "status.conditions[EndpointSliceDispatched]",
    ],
    triggers=[
        Trigger(Cluster, all_services),
        Trigger(Service, service_of_same_name),
        Trigger(Work, services_of_changed_work),
    ],
    on_deleted=delete_works,
)
def multi_cluster_service(service: MultiClusterService, view: View) -> Iterator[Effect]:
    works = view.by_index(slices.WORKS_OF_SERVICE, f"{service.namespace}/{service.name}")
    if service.metadata.deletion_timestamp is not None or "CrossCluster" not in service.spec.types:
        yield from release(service, works, view)
        return
    if FINALIZER not in service.metadata.finalizers:
        finalizers = (*service.metadata.finalizers, FINALIZER)
        yield service.but(metadata=service.metadata.but(finalizers=finalizers))
        return
    yield from report_missing_clusters(service, view)
    yield from request_slices(service, works, view)
    applied = yield from place_service(service, view)
    sources = [work for work in works if slices.is_collected_slice(work) and is_provider(service, work, view)]
    yield from dispatch_slices(service, sources, works, view)
    yield from report(service, applied, bool(sources), view)


def release(service: MultiClusterService, works: Sequence[Work], view: View) -> Iterator[Effect]:
    """Take back the slices and the claim; the Service stays where it is, as after the deletion of a policy."""
    for work in works:
        is_own = slices.is_dispatched_slice(work) or slices.SERVICE_KIND in slices.kinds_in(work)
        if is_own and work.metadata.deletion_timestamp is None:
            yield Delete(work)
    template = template_of(service, view)
    if template is not None and well_known.labels_of(template).get(slices.SERVICE_ID):
        labels = dict.fromkeys((well_known.CLAIMED_BY, slices.SERVICE_ID))
        yield Ensure(well_known.with_metadata(template, labels=labels, annotations={}), seen=template)
    binding = view.get(ResourceBinding, service.namespace, binding_name("Service", service.name))
    if binding is not None and slices.SERVICE_ID in binding.metadata.labels:
        gone = dict.fromkeys((well_known.BINDING_MANAGED_BY, slices.SERVICE_ID))
        annotations = dict.fromkeys((slices.SERVICE_NAME, slices.SERVICE_NAMESPACE))
        yield binding.but(
            metadata=binding.metadata.but(
                labels=well_known.with_changes(binding.metadata.labels, gone),
                annotations=well_known.with_changes(binding.metadata.annotations, annotations),
            )
        )
    if FINALIZER in service.metadata.finalizers:
        yield without_finalizers(service, FINALIZER)


def clusters_of(selected: Sequence[ClusterSelectorByName], view: View) -> list[str]:
    """The named clusters, or all."""
    names = {one.name for one in selected}
    return sorted(names or {cluster.name for cluster in view.all(Cluster)})


def report_missing_clusters(service: MultiClusterService, view: View) -> Iterator[Effect]:
    """Warn about named clusters that do not exist."""
    roles = (
        ("Provider", service.spec.provider_clusters, SOURCE),
        ("Consumer", service.spec.consumer_clusters, DISPATCH_SOURCE),
    )
    for role, selected, source in roles:
        for name in sorted(one.name for one in selected):
            if view.get(Cluster, "", name) is None:
                text = f"{role} cluster {name} is not found"
                yield RecordEvent(well_known.ref_of(service), "ClusterNotFound", text, source, "Warning")


def usable_clusters(selected: Sequence[ClusterSelectorByName], view: View) -> list[Cluster]:
    """The clusters that are ready and can hold Works."""
    found = (view.get(Cluster, "", name) for name in clusters_of(selected, view))
    return [
        cluster
        for cluster in found
        if cluster is not None
        and is_ready(cluster)
        and cluster.metadata.deletion_timestamp is None
        and can_hold_works(cluster.name, view)
    ]


def is_provider(service: MultiClusterService, work: Work, view: View) -> bool:
    return well_known.cluster_of(work.namespace) in clusters_of(service.spec.provider_clusters, view)


def labels_of_service(service: MultiClusterService) -> dict[str, str]:
    return {slices.SERVICE_NAMESPACE: service.namespace, slices.SERVICE_NAME: service.name}


def service_id(service: MultiClusterService) -> str:
    return well_known.permanent_id(service.metadata.uid, slices.SERVICE_KIND, service.name)


def request_slices(service: MultiClusterService, works: Sequence[Work], view: View) -> Iterator[Effect]:
    """Ask every provider for its slices; a provider that is not ready keeps what it was asked."""
    manifest = {
        "apiVersion": kind_of(service).api_version,
        "kind": slices.SERVICE_KIND,
        "metadata": {"namespace": service.namespace, "name": service.name},
    }
    labels = {**labels_of_service(service), slices.SERVICE_ID: service_id(service)}
    providers = usable_clusters(service.spec.provider_clusters, view)
    requests = {work.namespace: work for work in works if slices.SERVICE_KIND in slices.kinds_in(work)}
    for cluster in providers:
        wanted = slices.reporting_work(manifest, cluster.name, labels)
        before = requests.get(wanted.namespace)
        if before is None:
            yield wanted
        elif slices.with_exact_labels(before, wanted) != before:
            yield slices.with_exact_labels(before, wanted)
    named = {well_known.execution_namespace(name) for name in clusters_of(service.spec.provider_clusters, view)}
    for namespace, work in requests.items():
        if namespace not in named and work.metadata.deletion_timestamp is None:
            yield Delete(work)


def template_of(service: MultiClusterService, view: View) -> Raw | None:
    return view.raw(Ref("v1", "Service", service.namespace, service.name))


def place_service(service: MultiClusterService, view: View) -> Generator[Effect, None, str]:
    """Claim the Service and place it in all clusters; returns why that is not possible, or an empty text."""
    template = template_of(service, view)
    if template is None:
        return f'services "{service.name}" not found'
    claim = well_known.with_metadata(
        template,
        labels={well_known.CLAIMED_BY: slices.SERVICE_KIND, slices.SERVICE_ID: service_id(service), **NO_CLAIM},
        annotations={
            **labels_of_service(service),
            well_known.PP_NAME: None,
            well_known.PP_NAMESPACE: None,
            well_known.CPP_NAME: None,
        },
    )
    if claim != template:
        yield Ensure(claim, seen=template)
    wanted = binding_of(service, template, view)
    seen = view.get(ResourceBinding, wanted.namespace, wanted.name)
    if seen is None:
        yield wanted
    elif merge_binding(seen, wanted) != seen:
        yield merge_binding(seen, wanted)
    return ""


def binding_of(service: MultiClusterService, template: Raw, view: View) -> ResourceBinding:
    ref = well_known.ref_of_raw(template)
    name = binding_name("Service", service.name)
    selected = (service.spec.provider_clusters, service.spec.consumer_clusters)
    names = {cluster for one in selected for cluster in clusters_of(one, view)}
    return ResourceBinding(
        metadata=Meta(
            name=name,
            namespace=service.namespace,
            labels={
                well_known.BINDING_MANAGED_BY: slices.SERVICE_KIND,
                slices.SERVICE_ID: service_id(service),
                well_known.RB_ID: well_known.permanent_id(ref.uid, ref.kind, name),
            },
            annotations=labels_of_service(service),
            finalizers=(well_known.BINDING_FINALIZER,),
            owner_references=(controller_reference(ref),),
        ),
        spec=BindingSpec(
            resource=object_reference(template),
            placement=Placement(cluster_affinity=ClusterAffinity(cluster_names=tuple(sorted(names)))),
            conflict_resolution="Overwrite",
            scheduler_name="default-scheduler",
        ),
    )


def merge_binding(seen: ResourceBinding, wanted: ResourceBinding) -> ResourceBinding:
    """`seen` with the fields that the service determines; a change of the Service's status alone changes nothing."""
    resource = wanted.spec.resource
    if seen.spec.resource.uid == resource.uid:
        resource = seen.spec.resource.but(resource_version=seen.spec.resource.resource_version)
    labels = {key: value for key, value in wanted.metadata.labels.items() if key != well_known.RB_ID}
    claims = dict.fromkeys((well_known.PP_ID, well_known.CPP_ID))
    metadata = seen.metadata.but(
        labels=well_known.with_changes(seen.metadata.labels, claims) | labels,
        annotations=seen.metadata.annotations | wanted.metadata.annotations,
        owner_references=wanted.metadata.owner_references,
    )
    spec = seen.spec.but(
        placement=wanted.spec.placement, resource=resource, conflict_resolution=wanted.spec.conflict_resolution
    )
    return seen.but(metadata=metadata, spec=spec)


def dispatch_slices(
    service: MultiClusterService, sources: Sequence[Work], works: Sequence[Work], view: View
) -> Iterator[Effect]:
    """Give every consumer a copy of the slices of the other clusters, and take back what is no longer there."""
    consumers = [cluster.name for cluster in usable_clusters(service.spec.consumer_clusters, view)]
    wanted = [
        dispatched_work(service, work, provider, consumer)
        for work in sources
        for provider in [well_known.cluster_of(work.namespace)]
        for consumer in consumers
        if consumer != provider and work.metadata.deletion_timestamp is None
    ]
    named = {well_known.execution_namespace(name) for name in clusters_of(service.spec.consumer_clusters, view)}
    ready = {well_known.execution_namespace(name) for name in consumers}
    present = [
        work
        for work in works
        if slices.is_dispatched_slice(work) and (work.namespace in ready or work.namespace not in named)
    ]  # a consumer that is not ready keeps its copies until it is
    yield from sync_direct_works(wanted, present)


def dispatched_work(service: MultiClusterService, work: Work, provider: str, consumer: str) -> Work:
    source = work.spec.workload.manifests[0]
    manifest = slices.slice_manifest(
        source,
        f"{provider}-{source['metadata']['name']}",
        labels={slices.SERVICE_LABEL: service.name, slices.MANAGED_BY: slices.DISPATCHER},
        annotations={slices.PROVIDER_ANNOTATION: provider},
    )
    made = direct_work(manifest, consumer, labels_of_service(service), name=work.name)
    annotations = made.metadata.annotations | {slices.PROVIDER_ANNOTATION: provider}
    return made.but(metadata=made.metadata.but(annotations=annotations))


def report(service: MultiClusterService, fault: str, dispatched: bool, view: View) -> Iterator[Effect]:
    now = view.now.replace(microsecond=0)
    state = ("False", "ServiceAppliedFailed", fault)
    if not fault:
        state = ("True", "ServiceAppliedSucceed", "Service is propagated to target clusters.")
    conditions = with_condition(service.status.conditions, new_condition("ServiceApplied", state, now))
    if dispatched:
        state = ("True", "EndpointSliceDispatchedSucceed", "EndpointSlice are dispatched successfully")
        conditions = with_condition(conditions, new_condition("EndpointSliceDispatched", state, now))
    if conditions == service.status.conditions:
        return
    yield service.but(status=service.status.but(conditions=conditions))
    about = well_known.ref_of(service)
    if fault:
        yield RecordEvent(about, "SyncServiceFailed", fault, SOURCE, "Warning")
    else:
        yield RecordEvent(
            about, "SyncServiceSucceed", "Service is propagated to target clusters.", SOURCE, routine=True
        )
    if dispatched:
        yield RecordEvent(about, "DispatchEndpointSliceSucceed", state[2], DISPATCH_SOURCE, routine=True)


def new_condition(type_: str, state: tuple[str, str, str], now: datetime) -> Condition:
    status, reason, message = state
    return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=now)
