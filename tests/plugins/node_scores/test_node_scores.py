from collections.abc import Mapping

import pytest
from pod_builders import HOSTNAME, ZONE, near, node, pod, spread

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.schedule import Taste, explain, schedule


def marks(plugin: str, asked: Pod, nodes: list[Node], running: list[Pod] | None = None) -> Mapping[str, int | None]:
    opinions = explain(asked, NodeFleet.of(nodes, running or []))
    return {opinion.node: opinion.marks.get(plugin) for opinion in opinions}


def test_taints_that_ask_to_be_avoided_lower_the_grade() -> None:
    nodes = [
        node("a"),
        node("b", taints=["x:PreferNoSchedule"]),
        node("c", taints=["x:PreferNoSchedule", "y:PreferNoSchedule"]),
    ]
    assert marks("TaintToleration", pod("p"), nodes) == {"a": 300, "b": 150, "c": 0}


def test_preferred_node_affinity_counts_by_weight() -> None:
    wishes = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
        for key, weight in (("x", 10), ("y", 30))
    ]
    asked = pod("p", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}})
    nodes = [node("a"), node("b", labels={"x": ""}), node("c", labels={"x": "", "y": ""})]
    assert marks("NodeAffinity", asked, nodes) == {"a": 0, "b": 50, "c": 200}
    assert marks("NodeAffinity", pod("p"), nodes)["c"] is None


def test_the_emptier_node_is_better() -> None:
    found = marks(
        "NodeResourcesFit",
        pod("p", cpu="1", memory="2Gi"),
        [node("a"), node("b")],
        [pod("r", on="a", cpu="2", memory="4Gi")],
    )
    assert found == {"a": 25, "b": 75}


def test_a_scheduler_may_prefer_the_fuller_node() -> None:
    fleet = NodeFleet.of([node("a"), node("b")], [pod("r", on="b", cpu="1")])
    packing = Taste(scores=(("NodeResourcesMostAllocated", 1),))
    assert schedule(pod("p"), fleet, packing).node == "b"
    assert schedule(pod("p"), fleet).node == "a"


def test_balance_is_neutral_at_75_and_rises_where_it_improves() -> None:
    lopsided = [pod("r", on="a", cpu="2", memory="0")]
    found = marks("NodeResourcesBalancedAllocation", pod("p", cpu="0", memory="4Gi"), [node("a"), node("b")], lopsided)
    assert found["a"] is not None
    assert found["b"] is not None
    assert found["a"] > 75 > found["b"]


def test_a_pod_that_requests_nothing_is_not_balanced() -> None:
    assert marks("NodeResourcesBalancedAllocation", pod("p", cpu="0", memory="0"), [node("a")]) == {"a": None}


def test_a_node_that_has_the_image_is_better() -> None:
    nodes = [node("a"), node("b", images={"web:1": 2000 << 20})]
    found = marks("ImageLocality", pod("p"), nodes)
    assert found == {"a": 0, "b": 100}


@pytest.mark.parametrize("key", [ZONE, HOSTNAME])
def test_domains_with_fewer_pods_of_a_kind_are_better(key: str) -> None:
    nodes = [node("a", zone="east"), node("b", zone="west")]
    found = marks("PodTopologySpread", pod("p", **spread(key, soft=True)), nodes, [pod("r", on="a")])
    assert found == {"a": 0, "b": 200}


def test_a_liked_neighbour_draws_and_a_disliked_one_repels() -> None:
    nodes = [node("a"), node("b")]
    assert marks("InterPodAffinity", pod("p", **near(HOSTNAME, weight=5)), nodes, [pod("r", on="a")]) == {
        "a": 200,
        "b": 0,
    }
    away = pod("p", **near(HOSTNAME, weight=5, repels=True))
    assert marks("InterPodAffinity", away, nodes, [pod("r", on="a")]) == {"a": 0, "b": 200}


def test_running_pods_have_wishes_too() -> None:
    nodes = [node("a"), node("b")]
    fond = pod("fond", on="b", app="cache", **near(HOSTNAME, "web"))
    assert marks("InterPodAffinity", pod("p"), nodes, [fond]) == {"a": 0, "b": 200}
