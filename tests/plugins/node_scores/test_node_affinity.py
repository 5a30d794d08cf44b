from pod_builders import node, pod

from plugins.node_scores.score_runs import scores_by_node


def test_preferred_node_affinity_counts_by_weight() -> None:
    preferences = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
        for key, weight in (("x", 10), ("y", 30))
    ]
    request = pod("p", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferences}})
    nodes = [node("a"), node("b", labels={"x": ""}), node("c", labels={"x": "", "y": ""})]
    assert scores_by_node("NodeAffinity", request, nodes) == {"a": 0, "b": 50, "c": 200}
    assert scores_by_node("NodeAffinity", pod("p"), nodes)["c"] is None
