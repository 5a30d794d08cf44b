from pod_builders import node, pod

from plugins.node_scores.score_runs import scores_by_node


def test_prefer_no_schedule_taints_lower_the_score() -> None:
    nodes = [
        node("a"),
        node("b", taints=["x:PreferNoSchedule"]),
        node("c", taints=["x:PreferNoSchedule", "y:PreferNoSchedule"]),
    ]
    assert scores_by_node("TaintToleration", pod("p"), nodes) == {"a": 300, "b": 150, "c": 0}
