from views import FakeView

from trimtab.api.kinds.ocm import (
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    ManagedClusterSetSpec,
)
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Key, Meta
from trimtab.controllers.ocm.clusterset import (
    AUTO_UPDATE,
    STANDING,
    cluster_set,
    cluster_set_binding,
    sets_of_cluster,
    standing_again,
)
from trimtab.decide.ocm.selectors import EXCLUSIVE, SET_LABEL


def cluster(name: str, **labels: str) -> ManagedCluster:
    return ManagedCluster(metadata=Meta(name=name, labels={key.replace("_", "/"): v for key, v in labels.items()}))


def in_set(name: str, which: str) -> ManagedCluster:
    return ManagedCluster(metadata=Meta(name=name, labels={SET_LABEL: which}))


def a_set(name: str, selector: ManagedClusterSelector, **annotations: str) -> ManagedClusterSet:
    return ManagedClusterSet(
        metadata=Meta(name=name, annotations=annotations), spec=ManagedClusterSetSpec(cluster_selector=selector)
    )


def said(subject: ManagedClusterSet, *others: ManagedCluster) -> tuple[str, str]:
    (after,) = cluster_set(subject, FakeView([subject, *others]))
    (condition,) = after.status.conditions
    return condition.status, condition.message


def test_an_exclusive_set_counts_the_clusters_that_name_it() -> None:
    dev = a_set("dev", ManagedClusterSelector(selector_type=EXCLUSIVE))
    assert said(dev, in_set("a", "dev"), in_set("b", "prod")) == ("False", "1 ManagedClusters selected")
    assert said(dev, in_set("b", "prod")) == ("True", "No ManagedCluster selected")


def test_a_selector_counts_whom_it_selects_and_a_missing_one_nobody() -> None:
    gold = ManagedClusterSelector(
        selector_type="LabelSelector", label_selector=LabelSelector(match_labels={"tier": "gold"})
    )
    assert said(a_set("gold", gold), cluster("a", tier="gold"), cluster("b"))[1] == "1 ManagedClusters selected"
    nobody = a_set("none", ManagedClusterSelector(selector_type="LabelSelector"))
    assert said(nobody, cluster("a"))[1] == "No ManagedCluster selected"


def test_a_set_that_says_the_truth_is_left_alone() -> None:
    dev = a_set("dev", ManagedClusterSelector(selector_type=EXCLUSIVE))
    (after,) = cluster_set(dev, FakeView([dev, in_set("a", "dev")]))
    assert list(cluster_set(after, FakeView([after, in_set("a", "dev")]))) == []


def test_a_standing_set_is_repaired_unless_somebody_asked_to_leave_it_alone() -> None:
    spoilt = a_set("global", ManagedClusterSelector(selector_type=EXCLUSIVE))
    (after,) = cluster_set(spoilt, FakeView([spoilt, cluster("a")]))
    assert after.spec.cluster_selector == STANDING["global"]
    own = a_set("global", ManagedClusterSelector(selector_type=EXCLUSIVE), **{AUTO_UPDATE: "false"})
    (after,) = cluster_set(own, FakeView([own, cluster("a")]))
    assert after.spec == own.spec


def test_standing_sets_come_with_the_first_cluster_and_come_again_when_deleted() -> None:
    view = FakeView([cluster("a")])
    keys = list(sets_of_cluster(None, cluster("a"), view))
    assert [key.name for key in keys] == ["default", "global"]
    made = [wish for key in keys for wish in standing_again(key, view)]
    assert {one.name: one.spec.cluster_selector for one in made} == STANDING
    assert list(standing_again(Key(keys[0].kind, "", "dev"), view)) == []
    assert list(standing_again(keys[0], FakeView())) == []


def test_a_binding_says_whether_its_set_exists() -> None:
    binding = ManagedClusterSetBinding(
        metadata=Meta(name="dev", namespace="ns"), spec=ManagedClusterSetBindingSpec(cluster_set="dev")
    )
    (lost,) = cluster_set_binding(binding, FakeView([binding]))
    assert (lost.status.conditions[0].status, lost.status.conditions[0].reason) == ("False", "ClusterSetNotFound")
    there = a_set("dev", ManagedClusterSelector(selector_type=EXCLUSIVE))
    (found,) = cluster_set_binding(lost, FakeView([lost, there]))
    assert (found.status.conditions[0].status, found.status.conditions[0].reason) == ("True", "ClusterSetBound")
    assert list(cluster_set_binding(found, FakeView([found, there]))) == []
