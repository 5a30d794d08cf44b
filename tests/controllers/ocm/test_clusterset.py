from views import FakeView

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm_clusters import (
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
    BUILTIN_SETS,
    clusterset,
    clusterset_binding,
    missing_builtin_sets,
    recreate_builtin_set,
    sets_of_cluster,
)
from trimtab.decide.ocm.selectors import EXCLUSIVE, SET_LABEL


def cluster(name: str, **labels: str) -> ManagedCluster:
    return ManagedCluster(metadata=Meta(name=name, labels={key.replace("_", "/"): v for key, v in labels.items()}))


def in_set(name: str, which: str) -> ManagedCluster:
    return ManagedCluster(metadata=Meta(name=name, labels={SET_LABEL: which}))


def new_set(name: str, selector: ManagedClusterSelector, **annotations: str) -> ManagedClusterSet:
    return ManagedClusterSet(
        metadata=Meta(name=name, annotations=annotations), spec=ManagedClusterSetSpec(cluster_selector=selector)
    )


def empty_condition(subject: ManagedClusterSet, *others: ManagedCluster) -> tuple[str, str]:
    (after,) = clusterset(subject, FakeView([subject, *others]))
    (condition,) = after.status.conditions
    return condition.status, condition.message


def test_exclusive_set_counts_the_clusters_labelled_with_it() -> None:
    dev = new_set("dev", ManagedClusterSelector(selector_type=EXCLUSIVE))
    assert empty_condition(dev, in_set("a", "dev"), in_set("b", "prod")) == ("False", "1 ManagedClusters selected")
    assert empty_condition(dev, in_set("b", "prod")) == ("True", "No ManagedCluster selected")


def test_label_selector_counts_matching_clusters_and_a_missing_one_none() -> None:
    gold = ManagedClusterSelector(
        selector_type="LabelSelector", label_selector=LabelSelector(match_labels={"tier": "gold"})
    )
    assert (
        empty_condition(new_set("gold", gold), cluster("a", tier="gold"), cluster("b"))[1]
        == "1 ManagedClusters selected"
    )
    without_selector = new_set("none", ManagedClusterSelector(selector_type="LabelSelector"))
    assert empty_condition(without_selector, cluster("a"))[1] == "No ManagedCluster selected"


def test_set_with_current_status_is_not_written() -> None:
    dev = new_set("dev", ManagedClusterSelector(selector_type=EXCLUSIVE))
    (after,) = clusterset(dev, FakeView([dev, in_set("a", "dev")]))
    assert list(clusterset(after, FakeView([after, in_set("a", "dev")]))) == []


def test_builtin_set_is_reset_unless_autoupdate_is_off() -> None:
    changed = new_set("global", ManagedClusterSelector(selector_type=EXCLUSIVE))
    (after,) = clusterset(changed, FakeView([changed, cluster("a")]))
    assert after.spec.cluster_selector == BUILTIN_SETS["global"]
    own = new_set("global", ManagedClusterSelector(selector_type=EXCLUSIVE), **{AUTO_UPDATE: "false"})
    (after,) = clusterset(own, FakeView([own, cluster("a")]))
    assert after.spec == own.spec


def test_builtin_sets_are_created_with_the_first_cluster_and_again_after_deletion() -> None:
    view = FakeView([cluster("a")])
    keys = list(sets_of_cluster(None, cluster("a"), view))
    assert [key.name for key in keys] == ["default", "global"]
    created = [effect for key in keys for effect in recreate_builtin_set(key, view)]
    assert {one.name: one.spec.cluster_selector for one in created} == BUILTIN_SETS
    assert list(recreate_builtin_set(Key(keys[0].kind, "", "dev"), view)) == []
    assert list(recreate_builtin_set(keys[0], FakeView([Cluster(metadata=Meta(name="a"))]))) == []


def test_builtin_sets_exist_from_the_start_without_clusters() -> None:
    namespace = Namespace(metadata=Meta(name="default"))
    keys = list(missing_builtin_sets(None, namespace, FakeView([namespace])))
    created = [effect for key in keys for effect in recreate_builtin_set(key, FakeView())]
    assert {one.name for one in created if isinstance(one, ManagedClusterSet)} == {"default", "global"}
    assert list(missing_builtin_sets(None, namespace, FakeView(created))) == []
    assert list(missing_builtin_sets(namespace, namespace, FakeView())) == []
    joined = FakeView([Cluster(metadata=Meta(name="a"))], settings={"managed-cluster-sync": False})
    assert list(recreate_builtin_set(keys[0], joined)) != []


def test_binding_reports_whether_its_set_exists() -> None:
    binding = ManagedClusterSetBinding(
        metadata=Meta(name="dev", namespace="ns"), spec=ManagedClusterSetBindingSpec(cluster_set="dev")
    )
    (unbound,) = clusterset_binding(binding, FakeView([binding]))
    assert (unbound.status.conditions[0].status, unbound.status.conditions[0].reason) == ("False", "ClusterSetNotFound")
    existing = new_set("dev", ManagedClusterSelector(selector_type=EXCLUSIVE))
    (found,) = clusterset_binding(unbound, FakeView([unbound, existing]))
    assert (found.status.conditions[0].status, found.status.conditions[0].reason) == ("True", "ClusterSetBound")
    assert list(clusterset_binding(found, FakeView([found, existing]))) == []
