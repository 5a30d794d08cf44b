"""What a policy asks of clusters, in words."""

from console.fake_console import fill, new_console
from trimtab.api.kinds.policy import ClusterAffinity, Placement
from trimtab.api.kinds.work import Binding
from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement
from trimtab.console.why import affinity_text


def with_affinity(affinity: ClusterAffinity | None) -> Binding:
    console = new_console()
    fill(console)
    found = console.model.bindings["shop/Deployment/web"]
    return found.but(spec=found.spec.but(placement=Placement(cluster_affinity=affinity)))


def test_what_clusters_must_have_is_named() -> None:
    labels = LabelSelector(match_labels={"gpu": "l4"})
    several = LabelSelector(
        match_labels={"tier": "gold"},
        match_expressions=(LabelSelectorRequirement(key="env", operator="In", values=("prod", "test")),),
    )
    assert affinity_text(with_affinity(None)) == ""
    assert affinity_text(with_affinity(ClusterAffinity(label_selector=labels))) == "the label gpu=l4"
    assert affinity_text(with_affinity(ClusterAffinity(label_selector=several))) == (
        "the labels tier=gold, env In (prod, test)"
    )
    assert affinity_text(with_affinity(ClusterAffinity(cluster_names=("m1",)))) == "the name m1"
    assert affinity_text(with_affinity(ClusterAffinity(cluster_names=("m1", "m2")))) == "one of the names m1, m2"
