from pod_builders import node, pod

from plugins.node_scores.score_runs import scores_by_node


def test_a_node_with_the_image_scores_higher() -> None:
    nodes = [node("a"), node("b", images={"web:1": 2000 << 20})]
    found = scores_by_node("ImageLocality", pod("p"), nodes)
    assert found == {"a": 0, "b": 100}
