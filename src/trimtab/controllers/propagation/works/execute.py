"""Applies the manifests of a Work in its member cluster and reports their status in the Work."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work
from trimtab.api.value import Condition, Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.clusters.served import is_served, reports_only
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import (
    Effect,
    InCluster,
    MemberTrigger,
    NotFetched,
    RememberInProcess,
    RequeueAfter,
    Trigger,
    View,
    controller,
)
from trimtab.controllers.control_plane_identity import ID_NAMESPACE
from trimtab.controllers.propagation.works.executor_access import (
    ACCESS_CHECK_SECONDS,
    access_checks,
    cached_access,
    forbidden_delivery,
)
from trimtab.controllers.propagation.works.member_object import SENT, fingerprint
from trimtab.controllers.propagation.works.object_ownership import (
    identity_of_host,
    is_managed_here,
)
from trimtab.controllers.propagation.works.shared_objects import works_that_take_over
from trimtab.controllers.propagation.works.work_delivery import (
    READ_INTERVAL_SECONDS,
    READ_ONLY,
    ManifestDelivery,
    plan_delivery,
    strategy_of,
)
from trimtab.controllers.propagation.works.work_removal import (
    remove_dropped_manifests,
    remove_from_member,
    until_ready,
)
from trimtab.controllers.propagation.works.work_report import (
    SYNCED,
    is_unreported_generation,
    report_problems,
    report_status,
    success_events,
    update_status,
    with_dispatching,
)
from trimtab.interpret.prune import prune

CONFLICT_SECONDS = 10.0


def work_changed(old: Work | None, new: Work) -> bool:
    return old is None or (old.metadata.generation, old.metadata.deletion_timestamp) != (
        new.metadata.generation,
        new.metadata.deletion_timestamp,
    )


def works_of_cluster(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """A cluster became ready, is being deleted or is gone: its Works, except those that ask by themselves (`until_ready`)."""
    cluster = new or old
    if cluster is None:
        return
    is_deleted = new is not None and new.metadata.deletion_timestamp is not None
    ready_or_gone = new is None or (is_ready(new) and (old is None or not is_ready(old)))
    if ready_or_gone or is_deleted:
        for work in view.all(Work, well_known.execution_namespace(cluster.name)):
            if is_deleted or view.profile_in(well_known.profile_namespace_of(work)).recovery_cancels_eviction:
                yield Key(kind_of(Work).id, work.namespace, work.name)


def work_of_object(cluster: str, old: Raw | None, new: Raw | None, view: View) -> Iterable[Key]:
    """The Work named by the annotations of the member's object."""
    for raw in (new, old):
        if raw is not None:
            annotations = well_known.annotations_of(raw)
            namespace, name = annotations.get(well_known.WORK_NAMESPACE), annotations.get(well_known.WORK_NAME)
            if namespace == well_known.execution_namespace(cluster) and name:
                yield Key(kind_of(Work).id, namespace, name)
                return


def works_after_a_new_id(old: Namespace | None, new: Namespace | None, view: View) -> Iterable[Key]:
    """All Works when the control plane has another id than before: their objects get its mark."""
    if old is None or new is None or new.name != ID_NAMESPACE or not view.profile.mark_control_plane:
        return
    if identity_of_host(old) != identity_of_host(new):
        for work in view.all(Work):
            yield Key(kind_of(Work).id, work.namespace, work.name)


@controller(
    Work,
    writes=[
        "status.manifestStatuses",
        "status.conditions[Applied]",
        "status.conditions[Dispatching]",
        f"metadata.finalizers[{well_known.WORK_FINALIZER}]",
    ],
    predicate=work_changed,
    triggers=[
        Trigger(Cluster, works_of_cluster),
        Trigger(Namespace, works_after_a_new_id),
        Trigger(Work, works_that_take_over),
        MemberTrigger(work_of_object),
    ],
    resumes=True,
)
def execute(work: Work, view: View) -> Iterator[Effect]:
    name = well_known.cluster_of(work.namespace)
    cluster = view.get(Cluster, "", name)
    if not name or (reports_only(view) if cluster is None else not is_served(cluster, view)):
        return iter(())  # the Works of a cluster that does not exist are the business of the process that decides
    if work.metadata.deletion_timestamp is not None:
        return remove_from_member(work, cluster, view)
    return sync_to_member(work, cluster, view) if cluster is not None else iter(())


def sync_to_member(work: Work, cluster: Cluster, view: View) -> Iterator[Effect]:
    if work.spec.suspend_dispatching:
        now = view.now.replace(microsecond=0)
        yield from report_suspended(work, cluster, with_dispatching(work, now, suspended=True), view)
        return
    if not is_ready(cluster):
        now = view.now.replace(microsecond=0)
        yield from update_status(work, work.status.but(conditions=with_dispatching(work, now, suspended=False)), view)
        yield from until_ready(cluster, view)
        return
    checks = access_checks(work, cluster)
    if unknown := [check for check in checks.values() if cached_access(check, view) is None]:
        yield from unknown
        return
    deliveries = [
        forbidden_delivery(manifest, view)
        if ordinal in checks and not cached_access(checks[ordinal], view)
        else plan_delivery(work, manifest, cluster, view)
        for ordinal, manifest in enumerate(work.spec.workload.manifests)
    ]
    if unseen := [item for item in deliveries if item.fetch is not None]:
        yield from (effect for item in unseen for effect in (item.remember, item.fetch) if effect is not None)
        return
    yield from remove_dropped_manifests(work, deliveries, cluster, view)
    yield from report_problems(work, deliveries, cluster, view)
    yield from write_differences(work, deliveries, cluster, view)
    yield from requeues(deliveries, checked=bool(checks))
    if not [item for item in deliveries if item.write is not None or item.problem]:
        now = view.now.replace(microsecond=0)
        yield from report_status(work, deliveries, with_dispatching(work, now, suspended=False), view)


WRITTEN_FIRST = ("Namespace", "CustomResourceDefinition")
"""Kinds that other manifests of the same Work may need, whatever their order in it: the first failed write is the last."""


def write_differences(work: Work, deliveries: list[ManifestDelivery], cluster: Cluster, view: View) -> Iterator[Effect]:
    """Write the manifests that differ, and remember what was sent to recognise the member's defaults later."""
    fresh = is_unreported_generation(work, view)
    for item in sorted(deliveries, key=lambda item: item.ref.kind not in WRITTEN_FIRST):
        if item.remember is not None:
            yield item.remember
        if item.write is not None:
            yield InCluster(cluster.name, item.write)
            yield RememberInProcess(SENT, (cluster.name, item.ref), fingerprint(prune(item.write.wanted)))
        if item.write is not None or (fresh and not item.problem):
            yield from success_events(work, item, cluster, view)
    if fresh:
        yield RememberInProcess(SYNCED, well_known.ref_of(work), work.metadata.generation)


def requeues(deliveries: list[ManifestDelivery], *, checked: bool) -> Iterator[Effect]:
    """Requeues for what no watch reports: the end of a conflict, a revoked permission, a changed read-only object."""
    if [item for item in deliveries if item.problem]:
        yield RequeueAfter(CONFLICT_SECONDS)
    elif checked:
        yield RequeueAfter(ACCESS_CHECK_SECONDS)
    if [item for item in deliveries if strategy_of(item.manifest) == READ_ONLY]:
        yield RequeueAfter(READ_INTERVAL_SECONDS)


def report_suspended(work: Work, cluster: Cluster, conditions: tuple[Condition, ...], view: View) -> Iterator[Effect]:
    """A suspended Work writes nothing, but still reports the status of what was applied before."""
    refs = [well_known.ref_without_uid(manifest) for manifest in work.spec.workload.manifests]
    found = [view.member(cluster.name, ref) for ref in refs]
    there = [raw for raw in found if raw is not None and not isinstance(raw, NotFetched) and is_managed_here(raw, view)]
    applied = is_condition_true(work.status.conditions, "Applied")
    if not applied or not is_ready(cluster) or len(there) != len(refs):
        yield from update_status(work, work.status.but(conditions=conditions), view)
        return
    deliveries = [
        ManifestDelivery(ref, manifest, raw, None, "")
        for ref, manifest, raw in zip(refs, work.spec.workload.manifests, there, strict=True)
    ]
    yield from report_status(work, deliveries, conditions, view)
