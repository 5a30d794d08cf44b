from datetime import timedelta
from typing import Any

from views import NOON, FakeView

from trimtab.api.kinds.cluster import NOT_READY_TAINT, Cluster, ClusterSpec, ClusterStatus, ResourceSummary, Taint
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterTaint
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Condition, Key, Meta, Object
from trimtab.controllers.contract import Delete, ReconcileFault
from trimtab.controllers.ocm.managed_cluster_sync import (
    FINALIZER,
    IMPORTED_TAINTS_ANNOTATION,
    cluster_deleted,
    managed_cluster_sync,
)
from trimtab.decide.ocm.selectors import SET_LABEL


def cluster(**spec: Any) -> Cluster:
    return Cluster(
        metadata=Meta(name="m1", labels={"env": "prod", "cluster.open-cluster-management.io/odd": "x"}),
        spec=ClusterSpec(sync_mode="Push", api_endpoint="https://m1:6443", **spec),
        status=ClusterStatus(
            kubernetes_version="v1.31.0",
            conditions=(Condition(type="Ready", status="True", reason="ClusterReady", last_transition_time=NOON),),
            resource_summary=ResourceSummary(allocatable={"cpu": "8"}),
        ),
    )


def reconcile(subject: Cluster, *others: Object) -> dict[type, Any]:
    return {type(effect): effect for effect in managed_cluster_sync(subject, FakeView([subject, *others]))}


def reconcile_until_stable(subject: Cluster, managed: ManagedCluster | None = None) -> tuple[Cluster, ManagedCluster]:
    """Reconcile until there are no effects."""
    namespace = Namespace(metadata=Meta(name="m1"))
    for _ in range(5):
        others = [namespace] if managed is None else [namespace, managed]
        effects = reconcile(subject, *others)
        if not effects:
            break
        subject, managed = effects.get(Cluster, subject), effects.get(ManagedCluster, managed)
    else:
        raise AssertionError("the controllers never agree")
    assert managed is not None
    return subject, managed


def test_cluster_gets_a_managed_cluster_and_a_namespace() -> None:
    effects = reconcile(cluster(provider="aws", region="eu", zones=("a", "b")))
    managed = effects[ManagedCluster]
    assert effects[Namespace].name == "m1"
    assert managed.metadata.labels == {"env": "prod", SET_LABEL: "default"}
    assert managed.spec.hub_accepts_client
    assert managed.status.allocatable == managed.status.capacity == {"cpu": "8"}
    assert {claim.name: claim.value for claim in managed.status.cluster_claims} == {
        "platform.open-cluster-management.io": "aws",
        "region.open-cluster-management.io": "eu",
        "zones.trimtab.dev": "a,b",
        "kubeversion.open-cluster-management.io": "v1.31.0",
    }
    assert {c.type: c.status for c in managed.status.conditions} == {
        "HubAcceptedManagedCluster": "True",
        "ManagedClusterJoined": "True",
        "ManagedClusterConditionAvailable": "True",
    }


def test_cluster_taints_are_copied_with_ocm_keys_and_effects() -> None:
    early = NOON - timedelta(minutes=5)
    taints = (
        Taint(key="gpu", value="x", effect="NoExecute", time_added=NOON),
        Taint(key=NOT_READY_TAINT, effect="NoSchedule", time_added=NOON),
        Taint(key=NOT_READY_TAINT, effect="NoExecute", time_added=early),
    )
    _, managed = reconcile_until_stable(cluster(taints=taints))
    assert [(t.key, t.value, t.effect, t.time_added) for t in managed.spec.taints] == [
        ("gpu", "x", "NoSelect", NOON),
        ("cluster.open-cluster-management.io/unavailable", "", "NoSelect", early),
    ]
    _, managed = reconcile_until_stable(cluster(), managed)
    assert managed.spec.taints == ()


def test_time_that_admission_has_set_is_kept_and_a_refused_one_is_not_sent_again() -> None:
    tainted = cluster(taints=(Taint(key="gpu", effect="NoSchedule", time_added=NOON - timedelta(minutes=5)),))
    _, managed = reconcile_until_stable(tainted)
    stamped = managed.spec.taints[0].but(time_added=NOON)
    _, after = reconcile_until_stable(tainted, managed.but(spec=managed.spec.but(taints=(stamped,))))
    assert after.spec.taints == (stamped,)
    untainted = managed.but(spec=managed.spec.but(taints=()))
    refused = ReconcileFault(400, "BadRequest", "It is not allowed to set TimeAdded", "", 1)
    view = FakeView([tainted, untainted, Namespace(metadata=Meta(name="m1"))], fault=refused)
    (effect,) = managed_cluster_sync(tainted, view)
    assert isinstance(effect, ManagedCluster)
    assert [(taint.key, taint.time_added) for taint in effect.spec.taints] == [("gpu", None)]


def test_taint_set_on_the_managed_cluster_is_imported_until_it_is_removed() -> None:
    subject, managed = reconcile_until_stable(cluster())
    users = (
        ManagedClusterTaint(key="drain", effect="NoSelect"),
        ManagedClusterTaint(key="soft", effect="PreferNoSelect"),
    )
    subject, managed = reconcile_until_stable(subject, managed.but(spec=managed.spec.but(taints=users)))
    assert [(t.key, t.effect) for t in managed.spec.taints] == [("drain", "NoSelect"), ("soft", "PreferNoSelect")]
    assert [(t.key, t.effect, t.time_added) for t in subject.spec.taints] == [("drain", "NoSchedule", NOON)]
    assert IMPORTED_TAINTS_ANNOTATION in subject.metadata.annotations
    subject, managed = reconcile_until_stable(subject, managed.but(spec=managed.spec.but(taints=())))
    assert subject.spec.taints == managed.spec.taints == ()
    assert IMPORTED_TAINTS_ANNOTATION not in subject.metadata.annotations


def with_labels(thing: Any, **labels: str) -> Any:
    return thing.but(metadata=thing.metadata.but(labels={**thing.metadata.labels, **labels}))


def test_ocm_labels_stay_on_the_managed_cluster() -> None:
    subject, managed = reconcile_until_stable(cluster())
    subject, managed = reconcile_until_stable(subject, with_labels(managed, **{SET_LABEL: "prod"}))
    assert managed.metadata.labels == {"env": "prod", SET_LABEL: "prod"}
    assert SET_LABEL not in subject.metadata.labels


def test_label_changes_are_copied_in_both_directions() -> None:
    subject, managed = reconcile_until_stable(cluster())
    subject, managed = reconcile_until_stable(subject, with_labels(managed, tier="gold", env="test"))
    assert (subject.metadata.labels["tier"], subject.metadata.labels["env"]) == ("gold", "test")
    subject, managed = reconcile_until_stable(with_labels(subject, tier="iron"), managed)
    assert managed.metadata.labels["tier"] == "iron"
    less = {key: value for key, value in managed.metadata.labels.items() if key != "tier"}
    subject, managed = reconcile_until_stable(subject, managed.but(metadata=managed.metadata.but(labels=less)))
    assert "tier" not in subject.metadata.labels
    subject, managed = reconcile_until_stable(with_labels(subject, both="here"), with_labels(managed, both="there"))
    assert (subject.metadata.labels["both"], managed.metadata.labels["both"]) == ("here", "here")


def test_upstream_deleting_the_cluster_or_the_managed_cluster_unjoins() -> None:
    subject, managed = reconcile_until_stable(cluster())
    terminating = managed.but(metadata=managed.metadata.but(deletion_timestamp=NOON))
    effects = list(managed_cluster_sync(subject, FakeView([subject, terminating], profile=UPSTREAM)))
    assert effects[0] == Delete(subject)
    assert isinstance(effects[1], ManagedCluster)
    assert FINALIZER not in effects[1].metadata.finalizers
    gone = cluster().but(metadata=subject.metadata.but(deletion_timestamp=NOON))
    assert Delete(managed) in list(managed_cluster_sync(gone, FakeView([gone, managed], profile=UPSTREAM)))
    assert Delete(managed) in list(cluster_deleted(Key("", "", "m1"), FakeView([managed], profile=UPSTREAM)))


def test_managed_cluster_and_its_namespace_stay_until_the_cluster_has_left() -> None:
    subject, managed = reconcile_until_stable(cluster())
    namespace = Namespace(metadata=Meta(name="m1", labels={"open-cluster-management.io/cluster-name": "m1"}))
    terminating = managed.but(metadata=managed.metadata.but(deletion_timestamp=NOON))
    gone = cluster().but(metadata=subject.metadata.but(deletion_timestamp=NOON))
    assert list(managed_cluster_sync(subject, FakeView([subject, terminating, namespace]))) == [Delete(subject)]
    assert list(managed_cluster_sync(gone, FakeView([gone, managed, namespace]))) == [Delete(managed)]
    assert list(managed_cluster_sync(gone, FakeView([gone, terminating, namespace]))) == []
    removed = list(cluster_deleted(Key("", "", "m1"), FakeView([terminating, namespace])))
    assert removed[0] == Delete(namespace)
    assert FINALIZER not in removed[1].metadata.finalizers
    assert list(cluster_deleted(Key("", "", "m1"), FakeView([namespace]))) == [Delete(namespace)]


def test_managed_cluster_without_a_cluster_is_left_alone() -> None:
    unrelated = ManagedCluster(metadata=Meta(name="m1"))
    assert list(cluster_deleted(Key("", "", "m1"), FakeView([unrelated]))) == []


def test_sync_can_be_switched_off() -> None:
    assert list(managed_cluster_sync(cluster(), FakeView([cluster()], settings={"managed-cluster-sync": False}))) == []
