"""FederatedResourceQuota: keeps a ResourceQuota in every cluster with a static assignment, and reports what is used.

The scheduler and the detector enforce `overall` (`quota_usage.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trimtab.api.kind import key_of, kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.quota import ClusterQuotaStatus, FederatedResourceQuota
from trimtab.api.kinds.work import ResourceBinding, Work
from trimtab.api.quantity import add_quantities
from trimtab.api.value import Key, QuantityText, Raw
from trimtab.controllers import well_known
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import Effect, Index, RecordEvent, Trigger, View, controller
from trimtab.controllers.propagation.works.direct_works import can_hold_works, direct_work, sync_direct_works
from trimtab.controllers.quota.quota_usage import is_enforced, use_of, used_of_quota

NAMESPACE_LABEL = "federatedresourcequota.karmada.io/namespace"
NAME_LABEL = "federatedresourcequota.karmada.io/name"
SYNC_SOURCE = "federated-resource-quota-sync-controller"
STATUS_SOURCE = "federated-resource-quota-status-controller"
ENFORCEMENT_SOURCE = "federated-resource-quota-enforcement-controller"


def quota_of_work(work: Work) -> Iterable[str]:
    labels = work.metadata.labels
    if NAMESPACE_LABEL in labels and NAME_LABEL in labels:
        yield f"{labels[NAMESPACE_LABEL]}/{labels[NAME_LABEL]}"


WORKS_OF_QUOTA = Index("works of a federated quota", Work, quota_of_work)


def all_quotas(view: View) -> Iterable[Key]:
    return map(key_of, view.all(FederatedResourceQuota))


def quotas_for_new_cluster(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    if old is None and new is not None:
        yield from all_quotas(view)


def quotas_for_new_execution_namespace(old: Namespace | None, new: Namespace | None, view: View) -> Iterable[Key]:
    if old is None and new is not None and well_known.cluster_of(new.name):
        yield from all_quotas(view)


def quota_of_changed_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    """A Work was deleted, or its status changed."""
    if old is not None and (new is None or old.status != new.status):
        for name in quota_of_work(old):
            yield Key(kind_of(FederatedResourceQuota).id, *name.split("/"))


def quotas_of_changed_binding(old: ResourceBinding | None, new: ResourceBinding | None, view: View) -> Iterable[Key]:
    """What a binding uses changed."""
    binding = new or old
    quotas = view.all(FederatedResourceQuota, binding.namespace) if binding is not None else ()
    if not quotas or not is_enforced(view):
        return
    if (use_of(old) if old is not None else {}) != (use_of(new) if new is not None else {}):
        yield from map(key_of, quotas)


def delete_works(key: Key, view: View) -> Iterator[Effect]:
    """The quota no longer exists: so must its ResourceQuotas."""
    yield from sync_direct_works((), view.by_index(WORKS_OF_QUOTA, f"{key.namespace}/{key.name}"))


@controller(
    FederatedResourceQuota,
    writes=["Work", "status"],
    triggers=[
        Trigger(Cluster, quotas_for_new_cluster),
        Trigger(Namespace, quotas_for_new_execution_namespace),
        Trigger(Work, quota_of_changed_work),
        Trigger(ResourceBinding, quotas_of_changed_binding),
    ],
    on_deleted=delete_works,
)
def federated_quota(quota: FederatedResourceQuota, view: View) -> Iterator[Effect]:
    works = view.by_index(WORKS_OF_QUOTA, f"{quota.namespace}/{quota.name}")
    if quota.metadata.deletion_timestamp is not None:
        yield from sync_direct_works((), works)
        return
    changes = list(sync_direct_works(wanted_works(quota, view), works))
    yield from changes
    if changes or view.profile.record_routine_events:
        text = f"Sync works for FederatedResourceQuota({quota.namespace}/{quota.name}) succeed."
        yield RecordEvent(well_known.ref_of(quota), "SyncWorkSucceed", text, SYNC_SOURCE, routine=True)
    yield from report_use(quota, works, view)


def wanted_works(quota: FederatedResourceQuota, view: View) -> Iterator[Work]:
    labels = {NAMESPACE_LABEL: quota.namespace, NAME_LABEL: quota.name}
    for assignment in quota.spec.static_assignments:
        cluster = view.get(Cluster, "", assignment.cluster_name)
        if cluster is None or cluster.metadata.deletion_timestamp or not can_hold_works(cluster.name, view):
            continue
        manifest: Raw = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"namespace": quota.namespace, "name": quota.name},
            "spec": {"hard": dict(assignment.hard)},
        }
        yield direct_work(manifest, cluster.name, labels)


def report_use(quota: FederatedResourceQuota, works: Sequence[Work], view: View) -> Iterator[Effect]:
    """Write what the members report about their ResourceQuotas, and what is used of the quota over all clusters.

    With enforcement that is what the bindings of the namespace use, without it the sum over the members.
    """
    clusters = tuple(sorted(reported_quotas(works), key=lambda one: one.cluster_name))
    enforced = is_enforced(view)
    status = quota.status.but(
        overall=quota.spec.overall,
        overall_used=used_of_quota(quota, view) if enforced else add_resources([one.used for one in clusters]),
        aggregated_status=clusters,
    )
    if status != quota.status:
        yield quota.but(status=status)
        text = f"Collect status of FederatedResourceQuota({quota.namespace}/{quota.name}) succeed."
        about = well_known.ref_of(quota)
        yield RecordEvent(about, "AggregateStatusSucceed", text, STATUS_SOURCE, routine=True)
        if enforced:
            yield RecordEvent(about, "CollectOverallStatusSucceed", text, ENFORCEMENT_SOURCE, routine=True)


def reported_quotas(works: Sequence[Work]) -> Iterator[ClusterQuotaStatus]:
    for work in works:
        statuses = [one.status for one in work.status.manifest_statuses if one.status]
        if is_condition_true(work.status.conditions, "Applied") and statuses:
            found = statuses[0]
            yield ClusterQuotaStatus(
                cluster_name=well_known.cluster_of(work.namespace),
                hard=dict(found.get("hard") or {}),
                used=dict(found.get("used") or {}),
            )


def add_resources(amounts: Iterable[Mapping[str, QuantityText]]) -> dict[str, QuantityText]:
    """The sum per resource."""
    listed: dict[str, list[QuantityText]] = {}
    for one in amounts:
        for resource, amount in one.items():
            listed.setdefault(resource, []).append(amount)
    return {resource: add_quantities(found) for resource, found in sorted(listed.items())}
