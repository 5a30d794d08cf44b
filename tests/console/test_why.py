"""What a policy asks of clusters, in words."""

from console.fake_console import NOW, fill, new_console
from trimtab.api.kinds.policy import ClusterAffinity, Placement
from trimtab.api.kinds.work import Binding, DecisionRecord, RejectedClusters
from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement
from trimtab.console.page import PageContext
from trimtab.console.why import affinity_text, help_for, short_reason, why_matrix
from trimtab.console.workload_facts import NOWHERE, WAITING
from trimtab.decide.explanation import ClusterExplanation, Explanation


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


def test_line_says_what_no_cluster_has_or_what_the_workload_waits_for() -> None:
    console = new_console()
    fill(console)
    context = PageContext(console.model, NOW)
    asks = with_affinity(ClusterAffinity(label_selector=LabelSelector(match_labels={"gpu": "l4"})))
    record = DecisionRecord(total_clusters=3, rejected=(RejectedClusters(filter="ClusterAffinity", count=3),))
    console.model.bindings["shop/Deployment/web"] = asks.but(status=asks.status.but(decision=record))
    one = console.model.workloads["shop/Deployment/web"]
    nowhere = one.but(state=NOWHERE, why="0/3 clusters are available: 3 cluster(s) did not match")
    assert short_reason(nowhere, context) == "no cluster of 3 has the label gpu=l4, as its policy asks."
    command = "trimtab approve deployment/web -n shop"
    waiting = one.but(state=WAITING, why=f"Drain: budget asked requires an approval: {command}")
    assert short_reason(waiting, context) == "drain: budget asked requires an approval"


def test_clusters_without_room_are_not_said_to_fit() -> None:
    console = new_console()
    fill(console)
    full = ClusterExplanation(name="web-c0", fits=0, selected=True)
    found = Explanation(
        ok=False, message="no room", strategy="", mode="Steady", clusters=(full, full.but(name="web-c1"))
    )
    matrix = why_matrix(found, is_remembered=True)
    assert (matrix.feasible, matrix.without_room) == (2, 2)
    assert {row.verdict for row in matrix.rows} == {"passes the filters, but has no room for a replica"}
    one = console.model.workloads["shop/Deployment/web"].but(state=NOWHERE, cpu_request=20.0)
    assert help_for(one, matrix) == (
        "Clusters with more free capacity would help, or replicas that request less: one requests 20 cpu."
    )
