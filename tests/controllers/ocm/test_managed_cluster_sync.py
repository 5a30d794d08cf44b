from datetime import timedelta
from typing import Any

from views import NOON, FakeView

from trimtab.api.kinds.cluster import Cluster, ClusterSpec, ClusterStatus, ResourceSummary, Taint
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm import ManagedCluster, ManagedClusterTaint
from trimtab.api.value import Condition, Key, Meta, Object
from trimtab.controllers.clusters.health import NOT_READY
from trimtab.controllers.contract import Gone
from trimtab.controllers.ocm.managed_cluster_sync import FINALIZER, IMPORTED, mirror, unjoined
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


def beat(subject: Cluster, *others: Object) -> dict[type, Any]:
    return {type(wish): wish for wish in mirror(subject, FakeView([subject, *others]))}


def settled(subject: Cluster, managed: ManagedCluster | None = None) -> tuple[Cluster, ManagedCluster]:
    """Beat until nothing is wished for any more."""
    room = Namespace(metadata=Meta(name="m1"))
    for _ in range(5):
        others = [room] if managed is None else [room, managed]
        wishes = beat(subject, *others)
        if not wishes:
            break
        subject, managed = wishes.get(Cluster, subject), wishes.get(ManagedCluster, managed)
    else:
        raise AssertionError("the mirror never comes to rest")
    assert managed is not None
    return subject, managed


def test_a_cluster_has_an_image_in_the_other_vocabulary_and_a_namespace() -> None:
    wishes = beat(cluster(provider="aws", region="eu", zones=("a", "b")))
    image = wishes[ManagedCluster]
    assert wishes[Namespace].name == "m1"
    assert image.metadata.labels == {"env": "prod", SET_LABEL: "default"}
    assert image.spec.hub_accepts_client
    assert image.status.allocatable == image.status.capacity == {"cpu": "8"}
    assert {claim.name: claim.value for claim in image.status.cluster_claims} == {
        "platform.open-cluster-management.io": "aws",
        "region.open-cluster-management.io": "eu",
        "zones.trimtab.dev": "a,b",
        "kubeversion.open-cluster-management.io": "v1.31.0",
    }
    assert {c.type: c.status for c in image.status.conditions} == {
        "HubAcceptedManagedCluster": "True",
        "ManagedClusterJoined": "True",
        "ManagedClusterConditionAvailable": "True",
    }


def test_taints_of_the_cluster_repel_placements_under_the_name_they_have_there() -> None:
    early = NOON - timedelta(minutes=5)
    taints = (
        Taint(key="gpu", value="x", effect="NoExecute", time_added=NOON),
        Taint(key=NOT_READY, effect="NoSchedule", time_added=NOON),
        Taint(key=NOT_READY, effect="NoExecute", time_added=early),
    )
    _, image = settled(cluster(taints=taints))
    assert [(t.key, t.value, t.effect, t.time_added) for t in image.spec.taints] == [
        ("gpu", "x", "NoSelect", NOON),
        ("cluster.open-cluster-management.io/unavailable", "", "NoSelect", early),
    ]
    _, image = settled(cluster(), image)
    assert image.spec.taints == ()


def test_a_taint_that_a_user_sets_on_the_image_keeps_workloads_away_too_until_it_is_taken_off() -> None:
    subject, image = settled(cluster())
    users = (
        ManagedClusterTaint(key="drain", effect="NoSelect"),
        ManagedClusterTaint(key="soft", effect="PreferNoSelect"),
    )
    subject, image = settled(subject, image.but(spec=image.spec.but(taints=users)))
    assert [(t.key, t.effect) for t in image.spec.taints] == [("drain", "NoSelect"), ("soft", "PreferNoSelect")]
    assert [(t.key, t.effect, t.time_added) for t in subject.spec.taints] == [("drain", "NoSchedule", NOON)]
    assert IMPORTED in subject.metadata.annotations
    subject, image = settled(subject, image.but(spec=image.spec.but(taints=())))
    assert subject.spec.taints == image.spec.taints == ()
    assert IMPORTED not in subject.metadata.annotations


def labelled(thing: Any, **labels: str) -> Any:
    return thing.but(metadata=thing.metadata.but(labels={**thing.metadata.labels, **labels}))


def test_labels_of_the_other_vocabulary_live_only_there() -> None:
    subject, image = settled(cluster())
    subject, image = settled(subject, labelled(image, **{SET_LABEL: "prod"}))
    assert image.metadata.labels == {"env": "prod", SET_LABEL: "prod"}
    assert SET_LABEL not in subject.metadata.labels


def test_a_label_counts_on_both_sides_wherever_it_is_set_changed_or_taken_away() -> None:
    subject, image = settled(cluster())
    subject, image = settled(subject, labelled(image, tier="gold", env="test"))
    assert (subject.metadata.labels["tier"], subject.metadata.labels["env"]) == ("gold", "test")
    subject, image = settled(labelled(subject, tier="iron"), image)
    assert image.metadata.labels["tier"] == "iron"
    less = {key: value for key, value in image.metadata.labels.items() if key != "tier"}
    subject, image = settled(subject, image.but(metadata=image.metadata.but(labels=less)))
    assert "tier" not in subject.metadata.labels
    subject, image = settled(labelled(subject, both="here"), labelled(image, both="there"))
    assert (subject.metadata.labels["both"], image.metadata.labels["both"]) == ("here", "here")


def test_deleting_either_unjoins() -> None:
    subject, image = settled(cluster())
    leaving = image.but(metadata=image.metadata.but(deletion_timestamp=NOON))
    wishes = list(mirror(subject, FakeView([subject, leaving])))
    assert wishes[0] == Gone(subject)
    assert isinstance(wishes[1], ManagedCluster)
    assert FINALIZER not in wishes[1].metadata.finalizers
    gone = cluster().but(metadata=subject.metadata.but(deletion_timestamp=NOON))
    assert Gone(image) in list(mirror(gone, FakeView([gone, image])))
    assert Gone(image) in list(unjoined(Key("", "", "m1"), FakeView([image])))


def test_a_managed_cluster_that_is_nobodys_image_is_left_alone() -> None:
    foreign = ManagedCluster(metadata=Meta(name="m1"))
    assert list(unjoined(Key("", "", "m1"), FakeView([foreign]))) == []


def test_a_fleet_may_do_without_the_other_vocabulary() -> None:
    assert list(mirror(cluster(), FakeView([cluster()], settings={"mirror": False}))) == []
