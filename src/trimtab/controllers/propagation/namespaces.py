"""Namespaces of the host exist in every member, unless they are the control plane's own."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of, wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work, WorkloadTemplate, WorkSpec
from trimtab.api.value import Key, Meta, OwnerReference, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Ref, View, Wake, Wish, controller
from trimtab.controllers.propagation.detect import RESERVED
from trimtab.controllers.propagation.dispatch import renewed
from trimtab.controllers.propagation.work_rendering import marked, overridden
from trimtab.interpret.names import work_name
from trimtab.interpret.overrides.overrides import OverrideFault
from trimtab.interpret.prune import prune


def when_a_cluster_joins(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    if old is None and new is not None:
        yield from map(key_of, view.all(Namespace))


def when_its_room_opens(old: Namespace | None, new: Namespace | None, view: View) -> Iterable[Key]:
    """A cluster's execution namespace has just been made: now its Works have somewhere to live."""
    if old is None and new is not None and well_known.cluster_of(new.name):
        yield from map(key_of, view.all(Namespace))


@controller(
    Namespace,
    writes=["Work"],
    wakes=[Wake(Cluster, when_a_cluster_joins), Wake(Namespace, when_its_room_opens)],
)
def namespaces(namespace: Namespace, view: View) -> Iterator[Wish]:
    if not is_shared(namespace) or namespace.metadata.deletion_timestamp is not None:
        return  # its Works are its own: they go when it is gone, and the members keep a room for what is still leaving
    name = work_name("Namespace", namespace.name)
    for cluster in view.all(Cluster):
        room = view.get(Namespace, "", well_known.execution_namespace(cluster.name))
        if room is None or room.metadata.deletion_timestamp or cluster.metadata.deletion_timestamp:
            continue
        seen = view.get(Work, room.name, name)
        try:
            work = work_for(namespace, cluster, name, view)
        except OverrideFault:
            yield Again(60)
            continue
        wanted = work if seen is None else renewed(seen, work)
        if wanted != seen and (seen is None or seen.metadata.deletion_timestamp is None):
            yield wanted


def is_shared(namespace: Namespace) -> bool:
    if namespace.name == "default" or RESERVED.fullmatch(namespace.name):
        return False
    return namespace.metadata.labels.get(well_known.SKIP_NAMESPACE) != "true"


def work_for(namespace: Namespace, cluster: Cluster, name: str, view: View) -> Work:
    ref = well_known.ref_of(namespace)
    template: Raw = view.raw(Ref("v1", "Namespace", "", namespace.name)) or wire(namespace)
    manifest = prune({key: value for key, value in template.items() if key != "spec"})
    manifest = overridden(manifest, cluster.name, view).obj
    envelope = Meta(
        namespace=well_known.execution_namespace(cluster.name),
        name=name,
        labels={well_known.WORK_ID: well_known.permanent_id(ref.uid, cluster.name)},
        finalizers=(well_known.WORK_FINALIZER,),
        owner_references=(
            OwnerReference(
                api_version="v1",
                kind="Namespace",
                name=namespace.name,
                uid=ref.uid,
                controller=True,
                block_owner_deletion=True,
            ),
        ),
    )
    manifest = marked(manifest, template, envelope)
    return Work(
        metadata=envelope,
        spec=WorkSpec(
            workload=WorkloadTemplate(manifests=(manifest,)),
            suspend_dispatching=False,
            preserve_resources_on_deletion=False,
        ),
    )
