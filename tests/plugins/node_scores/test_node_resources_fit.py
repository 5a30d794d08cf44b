from pod_builders import node, pod

from plugins.node_scores.score_runs import scores_by_node


def test_the_emptier_node_scores_higher() -> None:
    found = scores_by_node(
        "NodeResourcesFit",
        pod("p", cpu="1", memory="2Gi"),
        [node("a"), node("b")],
        [pod("r", on="a", cpu="2", memory="4Gi")],
    )
    assert found == {"a": 25, "b": 75}
