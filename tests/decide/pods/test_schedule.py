from typing import Any

import pytest
from pod_builders import ZONE, node, pod, pod_affinity, topology_spread

from trimtab.decide.pods.affinity.selector_groups import SelectorGroups
from trimtab.decide.pods.node_info import build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import apply_decision, explain, schedule, unschedulable_message


def test_first_name_wins_among_equal_nodes() -> None:
    decision = schedule(pod("p"), NodeSnapshot.of([node("b"), node("a"), node("c")]))
    assert (decision.node, decision.tied_count, decision.feasible_count) == ("a", 3, 3)


def test_equal_nodes_fill_evenly_while_scores_stay_equal() -> None:
    fleet = NodeSnapshot.of([node(name, cpu="96", memory="512Gi", pods=110) for name in "abc"])
    for i in range(6):
        fleet = apply_decision(schedule(pod(f"p{i}", cpu="0", memory="0"), fleet), fleet)
    assert [len(node_info.pods) for node_info in fleet.nodes] == [2, 2, 2]


def test_applied_decision_takes_the_capacity() -> None:
    fleet = NodeSnapshot.of([node("a", pods=1), node("b", pods=1)])
    found = []
    for name in ("p", "q", "r"):
        decision = schedule(pod(name), fleet)
        fleet = apply_decision(decision, fleet)
        found.append(decision.node)
    assert found == ["a", "b", None]


def test_nominated_node_is_not_given_to_a_pod_of_lower_priority() -> None:
    fleet = NodeSnapshot.of([node("a", pods=1)]).with_nominated({"a": (build_pod_info(pod("vip", priority=5)),)})
    assert schedule(pod("p", priority=4), fleet).node is None
    assert schedule(pod("q", priority=6), fleet).node == "a"
    assert schedule(pod("vip", priority=5), fleet).node == "a"


def test_every_rejected_node_has_a_message() -> None:
    fleet = NodeSnapshot.of([node("a"), node("b", cordoned=True)])
    best, refused = explain(pod("p"), fleet)
    assert best.node == "a"
    assert refused.rejection is not None
    assert refused.rejection.reason.message.endswith("the node is cordoned")


def test_avoided_node_is_chosen_only_when_no_other_is_feasible() -> None:
    fleet = NodeSnapshot.of([node("a"), node("b", cpu="1")], [pod("r", on="b", cpu="500m")])
    assert schedule(pod("p"), fleet, avoided={"a"}).node == "b"
    assert schedule(pod("p", cpu="2"), fleet, avoided={"a"}).node == "a"


def test_pods_of_one_service_spread_by_default() -> None:
    running = [pod("one", on="a"), pod("filler", on="b", app="other", cpu="200m")]
    fleet = NodeSnapshot.of([node("a", zone="east"), node("b", zone="west"), node("c")], running)
    grouped = fleet.with_groups(SelectorGroups(services={"default": [{"app": "web"}]}))
    marks = {opinion.node: opinion.scores["PodTopologySpread"] for opinion in explain(pod("p"), grouped)}
    assert marks["a"] < marks["b"] < marks["c"]  # a node outside every zone is ranked too, and is the emptiest
    assert all("PodTopologySpread" not in opinion.scores for opinion in explain(pod("p"), fleet))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        topology_spread(ZONE),
        topology_spread(ZONE, soft=True),
        pod_affinity(ZONE),
        pod_affinity(ZONE, weight=3),
        pod_affinity(ZONE, anti=True),
    ],
)
def test_cluster_without_nodes_or_labels_is_no_error(spec: dict[str, Any]) -> None:
    assert schedule(pod("p", **spec), NodeSnapshot.of([])).node is None
    assert len(explain(pod("p", **spec), NodeSnapshot.of([node("a")]))) == 1


def test_unschedulable_message_is_that_of_kube_scheduler() -> None:
    nodes = [node("a", cordoned=True), node("b", cpu="1"), node("c", cpu="1", memory="1Mi")]
    assert unschedulable_message(pod("p", cpu="2"), NodeSnapshot.of(nodes)) == (
        "0/3 nodes are available: 1 Insufficient memory, 1 node(s) were unschedulable, 2 Insufficient cpu."
    )
    assert unschedulable_message(pod("p"), NodeSnapshot.of([])) == "no nodes available to schedule pods"
