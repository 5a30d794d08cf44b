from pod_builders import HOSTNAME, node, pod, pod_affinity

from plugins.node_scores.score_runs import scores_by_node


def test_preferred_affinity_raises_and_anti_affinity_lowers_the_score() -> None:
    nodes = [node("a"), node("b")]
    assert scores_by_node(
        "InterPodAffinity", pod("p", **pod_affinity(HOSTNAME, weight=5)), nodes, [pod("r", on="a")]
    ) == {
        "a": 200,
        "b": 0,
    }
    away = pod("p", **pod_affinity(HOSTNAME, weight=5, anti=True))
    assert scores_by_node("InterPodAffinity", away, nodes, [pod("r", on="a")]) == {"a": 0, "b": 200}


def test_affinity_of_running_pods_counts() -> None:
    nodes = [node("a"), node("b")]
    fond = pod("fond", on="b", app="cache", **pod_affinity(HOSTNAME, "web"))
    assert scores_by_node("InterPodAffinity", pod("p"), nodes, [fond]) == {"a": 0, "b": 200}
