from pod_builders import node, pod

from plugins.node_scores.score_runs import marks


def test_preferred_node_affinity_counts_by_weight() -> None:
    wishes = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
        for key, weight in (("x", 10), ("y", 30))
    ]
    request = pod("p", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}})
    nodes = [node("a"), node("b", labels={"x": ""}), node("c", labels={"x": "", "y": ""})]
    assert marks("NodeAffinity", request, nodes) == {"a": 0, "b": 50, "c": 200}
    assert marks("NodeAffinity", pod("p"), nodes)["c"] is None
