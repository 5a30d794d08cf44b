"""Propagates the namespaces of the host to every member, except those of the control plane."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of, to_wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work, WorkloadTemplate, WorkSpec
from trimtab.api.value import Key, Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Effect, Index, Ref, RequeueAfter, Trigger, View, controller
from trimtab.controllers.propagation.dispatch import merge_work
from trimtab.controllers.propagation.template_references import controller_reference
from trimtab.controllers.propagation.template_scope import is_reserved
from trimtab.controllers.propagation.work_rendering import (
    override_manifest,
    override_policies,
    with_tracking_metadata,
    work_id,
)
from trimtab.interpret.names import work_name
from trimtab.interpret.overrides.overrides import OverrideError
from trimtab.interpret.prune import prune


def role_of(namespace: Namespace) -> tuple[str, ...]:
    return () if well_known.cluster_of(namespace.name) else (NO_EXECUTION,)


NO_EXECUTION = "no execution"
NAMESPACES_BY_ROLE = Index("namespaces by their role", Namespace, role_of)
"""A large fleet has an execution namespace per cluster, which is not propagated, and few others."""


def namespaces_for_new_cluster(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """A cluster joined: it needs all namespaces."""
    if old is None and new is not None:
        yield from map(key_of, view.by_index(NAMESPACES_BY_ROLE, NO_EXECUTION))


def namespaces_for_new_execution_namespace(old: Namespace | None, new: Namespace | None, view: View) -> Iterable[Key]:
    """The execution namespace of a cluster was created: its Works can be created now."""
    if old is None and new is not None and well_known.cluster_of(new.name):
        yield from map(key_of, view.by_index(NAMESPACES_BY_ROLE, NO_EXECUTION))


@controller(
    Namespace,
    writes=["Work"],
    triggers=[Trigger(Cluster, namespaces_for_new_cluster), Trigger(Namespace, namespaces_for_new_execution_namespace)],
)
def namespaces(namespace: Namespace, view: View) -> Iterator[Effect]:
    if not is_propagated(namespace, view) or namespace.metadata.deletion_timestamp is not None:
        # Garbage collection deletes the Works with their owner; until then the members keep the namespace for objects
        # that are still being deleted.
        return
    name = work_name("Namespace", namespace.name)
    for cluster in view.all(Cluster):
        target = view.get(Namespace, "", well_known.execution_namespace(cluster.name))
        if target is None or target.metadata.deletion_timestamp or cluster.metadata.deletion_timestamp:
            continue
        seen = view.get(Work, target.name, name)
        try:
            work = work_for(namespace, cluster, name, view)
        except OverrideError:
            yield RequeueAfter(60)
            continue
        wanted = work if seen is None else merge_work(seen, work)
        if wanted != seen and (seen is None or seen.metadata.deletion_timestamp is None):
            yield wanted


def is_propagated(namespace: Namespace, view: View) -> bool:
    if namespace.name == "default" or is_reserved(namespace.name, view):
        return False
    return namespace.metadata.labels.get(well_known.SKIP_NAMESPACE) != "true"


def work_for(namespace: Namespace, cluster: Cluster, name: str, view: View) -> Work:
    ref = well_known.ref_of(namespace)
    template: Raw = view.raw(Ref("v1", "Namespace", "", namespace.name)) or to_wire(namespace)
    manifest = prune({key: value for key, value in template.items() if key != "spec"})
    manifest = override_manifest(manifest, cluster.name, override_policies(manifest, view), view).obj
    space = well_known.execution_namespace(cluster.name)
    metadata = Meta(
        namespace=space,
        name=name,
        labels={well_known.WORK_ID: work_id(space, name, view) or well_known.permanent_id(ref.uid, cluster.name)},
        finalizers=(well_known.WORK_FINALIZER,),
        owner_references=(controller_reference(ref),),
    )
    manifest = with_tracking_metadata(manifest, template, metadata)
    return Work(
        metadata=metadata,
        spec=WorkSpec(
            workload=WorkloadTemplate(manifests=(manifest,)),
            suspend_dispatching=False,
            preserve_resources_on_deletion=False,
        ),
    )
