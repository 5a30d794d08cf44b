"""Keeps a ManagedCluster for every Cluster, and copies labels and taints that users set on it back to the Cluster.

The Cluster is the source. Annotations record what was copied in which direction: two on the ManagedCluster list the
taints and labels that came from the Cluster, one on the Cluster lists the taints that users set on the ManagedCluster.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import NOT_READY_TAINT, UNREACHABLE_TAINT, Cluster, Taint
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm_clusters import (
    CLUSTER_GROUP,
    ClientConfig,
    ManagedCluster,
    ManagedClusterClaim,
    ManagedClusterSpec,
    ManagedClusterStatus,
    ManagedClusterTaint,
    ManagedClusterVersion,
)
from trimtab.api.value import Condition, Key, Meta
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition, with_condition
from trimtab.controllers.contract import Delete, Effect, ReconcileFault, Trigger, View, controller
from trimtab.controllers.finalizers import without_finalizers
from trimtab.controllers.settings import setting
from trimtab.decide.ocm.selectors import SET_LABEL

FINALIZER = f"{CLUSTER_GROUP}/api-resource-cleanup"
MIRRORED_TAINTS_ANNOTATION = "trimtab.dev/mirrored-taints"
MIRRORED_LABELS_ANNOTATION = "trimtab.dev/mirrored-labels"
"""The labels when both sides were last equal: the side that differs from them has changed something."""
IMPORTED_TAINTS_ANNOTATION = "trimtab.dev/taints-from-managed-cluster"
CLUSTER_NAME = "open-cluster-management.io/cluster-name"
OCM_TAINT_KEYS = {NOT_READY_TAINT: f"{CLUSTER_GROUP}/unavailable", UNREACHABLE_TAINT: f"{CLUSTER_GROUP}/unreachable"}
NO_SELECT_EFFECTS = ("NoSelect", "NoSelectIfNew")
CLAIMS = (
    "platform.open-cluster-management.io",
    "region.open-cluster-management.io",
    "zones.trimtab.dev",
    "kubeversion.open-cluster-management.io",
    "id.k8s.io",
)


class TaintIdentity(NamedTuple):
    """The part of a taint that is the same on both sides: effects differ between Karmada and OCM."""

    key: str
    value: str


def cluster_key(old: ManagedCluster | None, new: ManagedCluster | None, view: View) -> Iterable[Key]:
    yield Key(kind_of(Cluster).id, "", (new or old or ManagedCluster()).name)


def cluster_of_namespace(old: Namespace | None, new: Namespace | None, view: View) -> Iterable[Key]:
    """The cluster whose namespace was deleted: the namespace is created again."""
    if new is None and old is not None and view.get(Cluster, "", old.name) is not None:
        yield Key(kind_of(Cluster).id, "", old.name)


def cluster_deleted(key: Key, view: View) -> Iterator[Effect]:
    """Remove the ManagedCluster of a deleted Cluster, if this controller created it."""
    managed = view.get(ManagedCluster, "", key.name)
    if managed is not None and MIRRORED_TAINTS_ANNOTATION in managed.metadata.annotations:
        yield from remove_managed_cluster(managed, view)
    elif managed is None and view.profile.drain_before_leaving and setting(view, "managed-cluster-sync"):
        yield from remove_namespace(key.name, view)


@controller(
    Cluster,
    writes=["spec.taints", "metadata.annotations", "metadata.labels", "ManagedCluster", "Namespace"],
    triggers=[Trigger(ManagedCluster, cluster_key), Trigger(Namespace, cluster_of_namespace)],
    on_deleted=cluster_deleted,
)
def managed_cluster_sync(cluster: Cluster, view: View) -> Iterator[Effect]:
    if not setting(view, "managed-cluster-sync"):
        return
    managed = view.get(ManagedCluster, "", cluster.name)
    if cluster.metadata.deletion_timestamp is not None:
        if managed is not None:
            yield from deselect_or_remove(managed, view)
        return
    if managed is not None and managed.metadata.deletion_timestamp is not None:
        yield Delete(cluster)
        yield from deselect_or_remove(managed, view)
        return
    if view.get(Namespace, "", cluster.name) is None:
        labels = {CLUSTER_NAME: cluster.name, well_known.SKIP_NAMESPACE: "true"}
        yield Namespace(metadata=Meta(name=cluster.name, labels=labels))
    user_set = user_taints(managed, view.now) if managed is not None else ()
    before = managed or ManagedCluster(metadata=Meta(name=cluster.name))
    labels = merge_labels(cluster, before)
    host = with_imported_taints(cluster, user_set)
    host = host.but(metadata=host.metadata.but(labels=labels | labels_by_owner(cluster, ocm=True)))
    if host != cluster:
        yield host  # first: the annotation on the ManagedCluster must never record what the Cluster does not have
    wanted = render_managed_cluster(cluster, before, user_set, labels, view)
    if wanted != managed:
        yield wanted


def deselect_or_remove(managed: ManagedCluster, view: View) -> Iterator[Effect]:
    """A cluster that is drained before it leaves keeps its ManagedCluster, which Placements no longer select."""
    if not view.profile.drain_before_leaving:
        yield from remove_managed_cluster(managed, view)
    elif managed.metadata.deletion_timestamp is None:
        yield Delete(managed)


def remove_managed_cluster(managed: ManagedCluster, view: View) -> Iterator[Effect]:
    if view.profile.drain_before_leaving:
        yield from remove_namespace(managed.name, view)  # first: after a crash only the ManagedCluster leads to it
    if FINALIZER in managed.metadata.finalizers:
        yield without_finalizers(managed, FINALIZER)
    if managed.metadata.deletion_timestamp is None:
        yield Delete(managed)
    if not view.profile.drain_before_leaving:
        yield from remove_namespace(managed.name, view)


def remove_namespace(name: str, view: View) -> Iterator[Effect]:
    """Remove the namespace of a ManagedCluster, if this controller created it."""
    namespace = view.get(Namespace, "", name)
    is_ours = namespace is not None and namespace.metadata.labels.get(CLUSTER_NAME) == name
    if namespace is not None and is_ours and not namespace.is_terminating:
        yield Delete(namespace)


def taints_in_annotation(annotations: dict[str, str], annotation: str) -> frozenset[TaintIdentity]:
    """The taints that an annotation lists; none if the annotation is malformed."""
    try:
        return frozenset(
            TaintIdentity(str(key), str(value)) for key, value in json.loads(annotations.get(annotation, "[]"))
        )
    except (ValueError, TypeError):
        return frozenset()


def format_taints(taints: Iterable[TaintIdentity]) -> str:
    return json.dumps(sorted(set(taints)), separators=(",", ":"))


def taint_identity(taint: Taint | ManagedClusterTaint) -> TaintIdentity:
    return TaintIdentity(taint.key, taint.value)


def user_taints(managed: ManagedCluster, now: datetime) -> tuple[ManagedClusterTaint, ...]:
    """The taints of a ManagedCluster that did not come from the Cluster, each with the time it was first seen."""
    ours = taints_in_annotation(managed.metadata.annotations, MIRRORED_TAINTS_ANNOTATION)
    return tuple(
        taint if taint.time_added is not None else taint.but(time_added=now.replace(microsecond=0))
        for taint in managed.spec.taints
        if taint_identity(taint) not in ours
    )


def mirrored_taints(cluster: Cluster) -> list[ManagedClusterTaint]:
    """The Cluster's own taints for the ManagedCluster; of several with one key and value, the earliest counts."""
    imported = taints_in_annotation(cluster.metadata.annotations, IMPORTED_TAINTS_ANNOTATION)
    found: dict[TaintIdentity, ManagedClusterTaint] = {}
    for taint in cluster.spec.taints:
        if taint_identity(taint) in imported:
            continue
        there = ManagedClusterTaint(
            key=OCM_TAINT_KEYS.get(taint.key, taint.key),
            value=taint.value,
            effect="NoSelect",
            time_added=taint.time_added,
        )
        before = found.setdefault(taint_identity(there), there)
        if before.time_added and there.time_added and there.time_added < before.time_added:
            found[taint_identity(there)] = there
    return list(found.values())


def with_imported_taints(cluster: Cluster, user_set: Iterable[ManagedClusterTaint]) -> Cluster:
    """The Cluster with the taints that users set on the ManagedCluster, and without those they removed."""
    before = taints_in_annotation(cluster.metadata.annotations, IMPORTED_TAINTS_ANNOTATION)
    repelling = {taint_identity(taint): taint for taint in user_set if taint.effect in NO_SELECT_EFFECTS}
    own = [taint for taint in cluster.spec.taints if taint_identity(taint) not in before]
    named = {taint_identity(taint) for taint in own}
    imported = {mark: taint for mark, taint in repelling.items() if mark not in named}
    taints = [
        *own,
        *(Taint(key=t.key, value=t.value, effect="NoSchedule", time_added=t.time_added) for t in imported.values()),
    ]
    if not imported and not before:
        return cluster
    annotation = {IMPORTED_TAINTS_ANNOTATION: format_taints(imported) if imported else None}
    metadata = cluster.metadata.but(annotations=well_known.with_changes(cluster.metadata.annotations, annotation))
    return cluster.but(metadata=metadata, spec=cluster.spec.but(taints=tuple(taints)))


def render_managed_cluster(
    cluster: Cluster,
    managed: ManagedCluster,
    user_set: Iterable[ManagedClusterTaint],
    labels: dict[str, str],
    view: View,
) -> ManagedCluster:
    taints = [with_admitted_time(taint, managed, view.fault) for taint in mirrored_taints(cluster)]
    own = {taint_identity(taint) for taint in taints}
    return managed.but(
        metadata=managed.metadata.but(
            labels={SET_LABEL: "default", **labels, **labels_by_owner(managed, ocm=True)},
            annotations={
                **managed.metadata.annotations,
                MIRRORED_TAINTS_ANNOTATION: format_taints(own),
                MIRRORED_LABELS_ANNOTATION: json.dumps(labels, sort_keys=True, separators=(",", ":")),
            },
            finalizers=tuple(dict.fromkeys((*managed.metadata.finalizers, FINALIZER))),
        ),
        spec=spec_of(cluster, managed.spec).but(
            taints=(*taints, *(taint for taint in user_set if taint_identity(taint) not in own))
        ),
        status=status_of(cluster, managed.status, view.now),
    )


def with_admitted_time(
    taint: ManagedClusterTaint, managed: ManagedCluster, fault: ReconcileFault | None
) -> ManagedClusterTaint:
    """The taint with a time that an admission webhook accepts, which sets the times of new taints itself.

    A taint that the ManagedCluster has keeps its time. If the last write was refused, a new one is sent without a time.
    """
    for there in managed.spec.taints:
        if (taint_identity(there), there.effect) == (taint_identity(taint), taint.effect) and there.time_added:
            return taint.but(time_added=there.time_added)
    return taint.but(time_added=None) if fault is not None and fault.code == HTTPStatus.BAD_REQUEST else taint


def labels_by_owner(cluster: Cluster | ManagedCluster, *, ocm: bool) -> dict[str, str]:
    """The labels that belong to OCM and are not copied (`ocm`), or those that both sides have."""
    return {key: value for key, value in cluster.metadata.labels.items() if is_ocm_label(key) == ocm}


def merge_labels(cluster: Cluster, managed: ManagedCluster) -> dict[str, str]:
    """The labels for both sides: the changed value of each label, the Cluster's if both sides changed it."""
    here, there = labels_by_owner(cluster, ocm=False), labels_by_owner(managed, ocm=False)
    before = last_merged_labels(managed.metadata.annotations)
    merged = {}
    for key in sorted({*here, *there, *before}):
        value = there.get(key) if here.get(key) == before.get(key) else here.get(key)
        if value is not None:
            merged[key] = value
    return merged


def last_merged_labels(annotations: dict[str, str]) -> dict[str, str]:
    """The labels recorded when both sides were last equal; none if the annotation is malformed."""
    try:
        found = json.loads(annotations.get(MIRRORED_LABELS_ANNOTATION, "{}"))
        return {str(key): str(value) for key, value in found.items()}
    except (ValueError, AttributeError):
        return {}


def is_ocm_label(label: str) -> bool:
    return label.startswith(f"{CLUSTER_GROUP}/")


def spec_of(cluster: Cluster, before: ManagedClusterSpec) -> ManagedClusterSpec:
    url = cluster.spec.api_endpoint
    configs = (ClientConfig(url=url),) if url.startswith("https://") else before.managed_cluster_client_configs
    if any(config.url == url for config in before.managed_cluster_client_configs):
        configs = before.managed_cluster_client_configs
    return before.but(
        hub_accepts_client=True,
        lease_duration_seconds=before.lease_duration_seconds or 60,
        managed_cluster_client_configs=configs,
    )


def status_of(cluster: Cluster, before: ManagedClusterStatus, now: datetime) -> ManagedClusterStatus:
    summary = cluster.status.resource_summary
    allocatable = dict(summary.allocatable) if summary is not None else {}
    conditions = before.conditions
    for condition in conditions_of(cluster, now):
        conditions = with_condition(conditions, condition)
    return before.but(
        conditions=conditions,
        allocatable=allocatable,
        capacity=allocatable,  # the Cluster status does not report what nodes reserve for themselves
        version=ManagedClusterVersion(kubernetes=cluster.status.kubernetes_version),
        cluster_claims=(
            *claims_of(cluster),
            *(claim for claim in before.cluster_claims if claim.name not in CLAIMS),
        ),
    )


def claims_of(cluster: Cluster) -> Iterator[ManagedClusterClaim]:
    spec = cluster.spec
    values = (
        spec.provider,
        spec.region,
        ",".join(spec.zones or ((spec.zone,) if spec.zone else ())),
        cluster.status.kubernetes_version,
        spec.id,
    )
    for name, value in zip(CLAIMS, values, strict=True):
        if value:
            yield ManagedClusterClaim(name=name, value=value)


def conditions_of(cluster: Cluster, now: datetime) -> Iterator[Condition]:
    """A joined cluster is accepted; Ready says whether it is available."""
    at = now.replace(microsecond=0)
    yield Condition(
        type="HubAcceptedManagedCluster",
        status="True",
        reason="HubClusterAdminAccepted",
        message="Accepted by hub cluster admin",
        last_transition_time=at,
    )
    yield Condition(
        type="ManagedClusterJoined",
        status="True",
        reason="ManagedClusterJoined",
        message="Managed cluster joined",
        last_transition_time=at,
    )
    ready = find_condition(cluster.status.conditions, "Ready")
    if ready is None:
        return
    available = ready.status == "True"
    yield Condition(
        type="ManagedClusterConditionAvailable",
        status=ready.status,
        reason="ManagedClusterAvailable" if available else ready.reason or "ManagedClusterUnavailable",
        message="Managed cluster is available" if available else ready.message,
        last_transition_time=ready.last_transition_time or at,
    )
