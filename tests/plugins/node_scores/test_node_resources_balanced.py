from pod_builders import node, pod

from plugins.node_scores.score_runs import scores_by_node


def test_balance_is_neutral_at_75_and_rises_where_it_improves() -> None:
    lopsided = [pod("r", on="a", cpu="2", memory="0")]
    found = scores_by_node(
        "NodeResourcesBalancedAllocation", pod("p", cpu="0", memory="4Gi"), [node("a"), node("b")], lopsided
    )
    assert found["a"] is not None
    assert found["b"] is not None
    assert found["a"] > 75 > found["b"]


def test_a_pod_that_requests_nothing_is_not_balanced() -> None:
    assert scores_by_node("NodeResourcesBalancedAllocation", pod("p", cpu="0", memory="0"), [node("a")]) == {"a": None}
