from pod_builders import node, pod

from plugins.node_scores.score_runs import marks


def test_prefer_no_schedule_taints_lower_the_score() -> None:
    nodes = [
        node("a"),
        node("b", taints=["x:PreferNoSchedule"]),
        node("c", taints=["x:PreferNoSchedule", "y:PreferNoSchedule"]),
    ]
    assert marks("TaintToleration", pod("p"), nodes) == {"a": 300, "b": 150, "c": 0}
